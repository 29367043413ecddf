//! Reconciles one workload unit: compares goal and slots, and yields the changes of tasks that may be made now.
//!
//! [`plan_unit`] reads everything; [`plan_slot`] reads one slot and is what a task's event needs. Both are functions of their
//! arguments: the rows that are true now, the time, and a seed for new ids. Source: engine 4; orchestration B4 to B9.

mod dry_run;
mod gate_facts;
mod leaders;
mod lost;
mod pass;
mod placing;
mod plan;
mod restart;
mod scale;
mod slot;
mod unit_nodes;
mod version_loads;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use jiff::Timestamp;

use crate::{
    blocklist::BlocklistNews,
    change::{DependencyFacts, GroupState},
    health::{Entity, HealthSurvey, RecoveryFacts},
    model::Departures,
    place::NodeTable,
    supervise::UpdateStatus,
    workload::{Part, ReportedHealth, Slot, Slots, UnitId, Workload},
};

pub use dry_run::{DryRun, ExpectedChange, ExpectedKind, dry_removal, dry_run};
pub(crate) use leaders::leaders_of;
pub(crate) use pass::UnitPass;
pub(crate) use placing::has_stayed;
pub use plan::{InstanceFailure, TaskChange, UnitEvent, UnitPlan};
pub(crate) use slot::relocate_to;
pub use unit_nodes::{Instances, unit_node, unit_nodes};

/// An error that was reported about a workload, one of its units, or an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedError {
    /// The entity.
    pub entity: Entity,
    /// Source of the report.
    pub source: String,
    /// About what.
    pub property: String,
    /// Since when it is so.
    pub since: Timestamp,
}

/// The times and limits of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitSettings {
    /// Time after which a task that was to stop no longer keeps its successor waiting.
    pub old_task_timeout_secs: u64,
    /// Silence of a node after which its tasks are given up.
    pub orphan_after_secs: u64,
    /// Silence of a node after which it counts as down.
    pub node_down_after_secs: u64,
    /// Longest time between two checks of an instance.
    pub health_interval_max_secs: u64,
    /// Tasks kept for each slot; negative keeps all.
    pub task_history_limit: i32,
    /// True if the replacement of an instance on a lost node may use the buffer of the capacities.
    pub opens_buffer_on_failure: bool,
    /// Time between two moves to nodes that rank better.
    pub rebalance_interval_secs: u64,
    /// Additional monitoring time of an update if an agent does not read tasks, and so reports later.
    pub report_grace_secs: u64,
}

impl Default for UnitSettings {
    fn default() -> Self {
        Self {
            old_task_timeout_secs: 60,
            orphan_after_secs: 86_400,
            node_down_after_secs: 180,
            health_interval_max_secs: 3600,
            task_history_limit: 5,
            opens_buffer_on_failure: false,
            rebalance_interval_secs: 300,
            report_grace_secs: 60,
        }
    }
}

impl UnitSettings {
    /// Returns how much longer an instance is monitored on a node: agents that read no tasks check their instances only from time to time.
    ///
    /// # Source
    /// Orchestration B11.8.
    pub(crate) fn report_grace_on(&self, is_capable: bool) -> u64 {
        if is_capable { 0 } else { self.report_grace_secs }
    }
}

/// Facts about a workload unit.
#[derive(Clone, Copy)]
pub struct UnitFacts<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The workload unit.
    pub unit_id: &'a UnitId,
    /// Its nodes.
    pub table: &'a NodeTable,
    /// Its tasks, as they are stored.
    pub slots: &'a Slots,
    /// The slots with tasks that were seen in other states since.
    pub observed: &'a Slots,
    /// The HA groups of its nodes.
    pub groups: &'a BTreeMap<GroupId, GroupState>,
    /// The status of the workload's update.
    pub update: &'a UpdateStatus,
    /// Deleted nodes whose agents may still run what they ran.
    pub departures: &'a Departures,
    /// Its HA group, if that does not exist: what runs stays, and nothing new starts.
    pub gone_group: Option<&'a GroupId>,
    /// Number of workload units of the workload.
    pub part_count: usize,
    /// The slots of its other workload units that have nodes.
    pub other_units: &'a [(&'a Part, &'a Slots)],
    /// Parts that the update's status names and that the workload no longer has.
    pub gone_parts: &'a [Part],
    /// Nodes with tasks of this workload unit, which the policy no longer has, that another one of the policy takes over; sorted.
    pub taken_over: &'a [NodeId],
    /// Workloads that should share its nodes and have an instance that starts or stops on nodes like its own.
    pub unsettled_partners: &'a [PolicyId],
    /// True if a workload that must, or must not, share its nodes is being upgraded and may be away from its
    /// nodes for a while.
    pub are_partners_in_upgrade: bool,
    /// Changes of the blocklist that follow from its tasks.
    pub blocklist: &'a BlocklistNews,
    /// Its parents and children.
    pub dependencies: &'a dyn DependencyFacts,
    /// Errors of the workload that others than the engine reported since its update began, if it is in error
    /// for them.
    pub errors: &'a [ReportedError],
    /// Health of its tasks, as nodes reported it.
    pub health: &'a BTreeMap<TaskId, ReportedHealth>,
    /// Access to the known health of all of its tasks.
    pub survey: &'a dyn HealthSurvey,
    /// Context of the recoveries of its tasks.
    pub recovery: &'a RecoveryFacts,
    /// Until when what is known may be out of date after a start of the agbot.
    pub grace_until: Option<Timestamp>,
    /// Until when automatic starts wait for nodes that were not heard since.
    pub unheard_until: Option<Timestamp>,
    /// The compatibility versions of its agents, if they differ and that suspends automatic decisions.
    pub incompatible: &'a [i64],
    /// Times and limits.
    pub settings: UnitSettings,
}

/// Reconciles a workload unit as a whole.
///
/// # Shape
/// `seed` must differ from call to call; the same seed gives the same ids.
pub fn plan_unit(facts: &UnitFacts<'_>, now: Timestamp, seed: u64) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, seed);
    scale::remove_other_forms(&mut pass);
    crate::supervise::action::plan(&mut pass);
    for slot in &pass.all_slots() {
        slot::settle(&mut pass, slot);
    }
    // A user's action is over the automatic goals that would undo it (P7).
    if pass.action_goal.is_none_or(|goal| !goal.holds_count()) {
        scale::plan(&mut pass);
        crate::supervise::update::plan(&mut pass);
        crate::supervise::snapshot::plan(&mut pass);
        crate::supervise::rebalance::plan(&mut pass);
    }
    crate::supervise::action::end_marks(&mut pass);
    pass.finish_all()
}

/// Reconciles one slot; no other one is read, except where there must never be a second instance.
pub fn plan_slot(facts: &UnitFacts<'_>, slot: &Slot, now: Timestamp, seed: u64) -> UnitPlan {
    plan_slots(facts, &BTreeSet::from([slot.clone()]), now, seed)
}

/// Reconciles some slots; see [`plan_slot`].
pub fn plan_slots(facts: &UnitFacts<'_>, slots: &BTreeSet<Slot>, now: Timestamp, seed: u64) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, seed);
    for slot in slots {
        slot::settle(&mut pass, slot);
    }
    pass.finish_slots(slots)
}

/// Removes all tasks of a workload unit that no longer exists.
///
/// # Source
/// Orchestration B1-S4, 1.3.
pub fn plan_removal(facts: &UnitFacts<'_>, now: Timestamp) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, 0);
    let slots: Vec<_> = facts.slots.keys().cloned().collect();
    for slot in slots {
        if scale::may_withdraw(&mut pass, &slot) {
            pass.remove_slot(&slot);
        }
        lost::give_up_orphans(&mut pass, &slot);
        slot::reap(&mut pass, &slot);
    }
    pass.finish()
}

#[cfg(test)]
mod tests;
