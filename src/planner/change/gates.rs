//! The gate table: which conditions a step with a given cause must meet.
//!
//! Source: orchestration P; engine 3.

use jiff::Timestamp;

use super::{CauseKind, GroupState, Permit, Step, group};
use crate::report::Blocked;
use evenkeel_ids::NodeId;

/// A condition that a step must meet.
///
/// # Shape
/// In order of precedence: a step that several gates block shows the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Neither instance, workload nor node is frozen (P0).
    Frozen,
    /// Neither the update nor the node is paused (P0).
    Paused,
    /// Instances that must have stopped are confirmed to have (P1).
    Confirmed,
    /// Enough other members of the HA group run the service (P3).
    Minimum,
    /// No other member of the HA group is being disrupted (P3).
    Exclusive,
    /// The parents are up (P5).
    Parents,
    /// The children are down (P5).
    Children,
    /// What is known is not out of date after a start (P6).
    Grace,
    /// The agents of the nodes have one compatibility version (P6).
    Compatibility,
    /// The update parallelism leaves room (P8).
    Budget,
    /// The delay before the step is over (P8).
    Delay,
}

/// The gates of a change that could as well happen later.
const PLANNED: &[Gate] =
    &[Gate::Frozen, Gate::Confirmed, Gate::Minimum, Gate::Exclusive, Gate::Parents, Gate::Grace, Gate::Delay];

/// The gates of a change with which the engine brings a workload unit to its goal by itself.
const AUTOMATIC: &[Gate] = &[
    Gate::Frozen,
    Gate::Confirmed,
    Gate::Minimum,
    Gate::Exclusive,
    Gate::Parents,
    Gate::Grace,
    Gate::Compatibility,
    Gate::Delay,
];

/// The gates of a change of version.
const OF_UPDATE: &[Gate] = &[
    Gate::Frozen,
    Gate::Paused,
    Gate::Confirmed,
    Gate::Minimum,
    Gate::Exclusive,
    Gate::Parents,
    Gate::Grace,
    Gate::Budget,
    Gate::Delay,
];

/// The gates of each cause.
///
/// # Shape
/// One row for each cause; the gates of a row are in order of precedence.
pub const GATES: &[(CauseKind, &[Gate])] = &[
    (
        CauseKind::User,
        &[Gate::Confirmed, Gate::Minimum, Gate::Exclusive, Gate::Parents, Gate::Children, Gate::Delay],
    ),
    (
        CauseKind::NodeLost,
        &[Gate::Frozen, Gate::Confirmed, Gate::Parents, Gate::Grace, Gate::Compatibility, Gate::Delay],
    ),
    (CauseKind::TaskFailed, &[Gate::Frozen, Gate::Confirmed, Gate::Parents, Gate::Delay]),
    (CauseKind::Incompatible, &[Gate::Frozen, Gate::Confirmed, Gate::Parents, Gate::Delay]),
    (CauseKind::Drain, PLANNED),
    (CauseKind::Update, OF_UPDATE),
    (CauseKind::Rollback, OF_UPDATE),
    (CauseKind::Cure, AUTOMATIC),
    (CauseKind::Scale, AUTOMATIC),
    // That nothing is wanted any more is above the minimum of a group (P-S16).
    (CauseKind::Withdrawn, &[Gate::Children]),
];

/// The gates that a user may lift.
pub const FORCED: &[Gate] =
    &[Gate::Confirmed, Gate::Minimum, Gate::Exclusive, Gate::Parents, Gate::Children, Gate::Delay];

/// Returns the gates of a cause.
pub fn gates_of(kind: CauseKind) -> &'static [Gate] {
    GATES.iter().find(|(one, _)| *one == kind).map_or(&[], |(_, gates)| gates)
}

/// What the gates must know.
pub trait GateFacts {
    /// Returns why a frozen object blocks the step.
    fn frozen(&self, step: &Step) -> Option<Blocked>;
    /// Returns why a paused update or node blocks the step.
    fn paused(&self, step: &Step) -> Option<Blocked>;
    /// Returns the instance whose stop must be confirmed before the step.
    fn unconfirmed_stop(&self, step: &Step) -> Option<Blocked>;
    /// Returns the HA group of a node, as to the service of the workload.
    fn group_of(&self, node: &NodeId) -> Option<&GroupState>;
    /// Returns how many instances must stay up in a group; before it is limited to the other intended members.
    fn min_running(&self) -> u32;
    /// Returns the parent for which an instance that would start has to wait.
    fn unready_parent(&self, step: &Step) -> Option<Blocked>;
    /// Returns a child that is up, and of which a stop has to wait.
    fn running_child(&self, step: &Step) -> Option<Blocked>;
    /// Returns until when the step waits after a start of the agbot.
    fn grace_until(&self, step: &Step) -> Option<Timestamp>;
    /// Returns the compatibility versions of the agents that suspend automatic decisions.
    fn incompatible(&self) -> Option<Blocked>;
    /// Returns the update parallelism, if it is used up.
    fn exhausted_budget(&self, step: &Step) -> Option<Blocked>;
    /// Returns until when the step is delayed.
    fn delayed_until(&self, step: &Step) -> Option<Timestamp>;
    /// Returns whether a user lifted the gates that may be lifted.
    fn is_forced(&self, step: &Step) -> bool {
        step.cause.is_forced()
    }
}

/// Returns the permit for a step.
///
/// The facts are those of now; who carries the step out tests the permit again, in the transaction that changes the tasks.
/// # Errors
/// The reason of the first gate that blocks the step.
pub fn permit(facts: &dyn GateFacts, step: &Step) -> Result<Permit, Blocked> {
    let mut permit = Permit::new(step);
    for gate in gates_of(step.cause.kind()) {
        if facts.is_forced(step) && FORCED.contains(gate) {
            continue;
        }
        test(facts, *gate, step, &mut permit)?;
    }
    Ok(permit)
}

fn test(facts: &dyn GateFacts, gate: Gate, step: &Step, permit: &mut Permit) -> Result<(), Blocked> {
    let group = || step.disrupted_node().and_then(|node| Some((node, facts.group_of(node)?)));
    let blocked = match gate {
        Gate::Frozen => facts.frozen(step),
        Gate::Paused => facts.paused(step),
        Gate::Confirmed => facts.unconfirmed_stop(step),
        Gate::Minimum => {
            if let Some((node, group)) = group() {
                permit.counted_on = group::may_stop(group, node, facts.min_running())?;
            }
            None
        }
        Gate::Exclusive => {
            if let Some((node, group)) = group() {
                group::may_disrupt(group, node, &step.unit_id.policy)?;
                permit.take_claim(&group.facts, node);
            }
            None
        }
        Gate::Parents if step.starts_instance() => facts.unready_parent(step),
        Gate::Children if step.is_stop_order() => facts.running_child(step),
        Gate::Parents | Gate::Children => None,
        Gate::Grace => facts.grace_until(step).map(|until| Blocked::JustStarted { until }),
        Gate::Compatibility => facts.incompatible(),
        Gate::Budget => facts.exhausted_budget(step),
        Gate::Delay => facts.delayed_until(step).map(|until| Blocked::StartDelayed { until }),
    };
    blocked.map_or(Ok(()), Err)
}
