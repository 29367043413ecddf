//! Workloads, their workload units, slots and tasks: data and state machines.
//!
//! Nothing here decides. A *workload* is one deployment policy; a *workload unit* is a part of it that is counted and placed by
//! itself; a *slot* is a stable position in it; a *task* is one attempt to run an instance in a slot. Source: orchestration 0.2, 1.2, 1.3, B2, B3.

mod action;
mod adoption;
mod affinity;
mod dependency;
mod document;
mod group_order;
mod instance;
mod priority;
mod record;
mod slot;
mod spec;
mod step;
mod supervision;
mod task;
mod task_state;
mod update_status;
mod versions;
mod workload_unit;

pub use action::{
    ActionEnd, ActionGoal, ActionGoals, InstanceSummary, LastingAction, Requester, RolloutAction, UserAction,
    WorkloadAction,
};
pub use adoption::{LiveAgreement, adopt};
pub use affinity::{AffinityRules, Partner};
pub use dependency::Dependency;
pub use document::HubDefaults;
pub use group_order::GroupOrder;
pub use instance::{Failure, Instance};
pub use priority::{CONFIGURABLE, position};
pub use priority::{Priorities, Priority};
pub use record::{TaskSpec, WorkloadRecord};
pub use slot::{Slot, SlotTasks, Slots, by_slot};
pub use spec::{NodeOrder, PlacementRules, Workload};
pub use step::{Cause, CauseKind, Change, Step};
pub use supervision::{
    EndedCommand, EndedOrder, HubReport, LifecycleEvent, Peer, PeerVotes, PeerWatch, PreparedAction, Probe,
    Recovery, RecoveryCommand, ReportedHealth, RestartRule, Supervision, TaskHealth, Workflow, WorkflowCall,
};
pub use task::{NodeRestarts, RefusedReport, Task, TaskReport};
pub use task_state::{DesiredState, Ending, Impairment, TaskState, Writer};
pub use update_status::{
    Ticket, UnitProgress, UpdateBlocked, UpdateConflict, UpdateEvent, UpdateState, UpdateStatus, next_state,
};
pub use versions::{SpecVersion, Versions};
pub use workload_unit::{NodeScope, Part, UnitId, WorkloadUnit, workload_units};

#[cfg(test)]
mod tests;
