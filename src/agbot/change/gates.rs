//! The gate table: which conditions a step with a given cause must meet.
//!
//! Source: orchestration P; engine 3.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    report::Blocked,
    workload::{CauseKind, Change, Step},
};
use jiff::Timestamp;

use super::{GroupState, Permit, claim, group};

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
    /// Instances on lost nodes are fenced, where that is requested (P1).
    Fenced,
    /// The service version does not keep failing on the node (P2).
    Blocklist,
    /// The node of the instance that stops is up, so that it obeys now and not unsupervised later (P3).
    Reachable,
    /// The failure is not one that most members share (C6).
    CommonCause,
    /// Not too many running members are being recovered (C6).
    Recoveries,
    /// No other member of the HA group is being disrupted (P3).
    Exclusive,
    /// Enough other members of the HA group run the service (P3).
    Minimum,
    /// The member that takes the service over runs it (P3).
    Successor,
    /// The parents are up (P5).
    Parents,
    /// The children are down (P5).
    Children,
    /// The facts are not outdated after a start (P6).
    Grace,
    /// The agents of the nodes have one compatibility version (P6).
    Compatibility,
    /// The delay before the step is over (P8).
    Delay,
    /// The update parallelism leaves room (P8).
    Budget,
}

/// The gates of a change that could as well happen later.
const PLANNED: &[Gate] = &[
    Gate::Frozen,
    Gate::Confirmed,
    Gate::Fenced,
    Gate::Blocklist,
    Gate::Reachable,
    Gate::Exclusive,
    Gate::Minimum,
    Gate::Parents,
    Gate::Grace,
    Gate::Delay,
];

/// The gates of a change with which the engine brings a workload unit to its goal by itself.
const AUTOMATIC: &[Gate] = &[
    Gate::Frozen,
    Gate::Confirmed,
    Gate::Fenced,
    Gate::Blocklist,
    Gate::Reachable,
    Gate::Exclusive,
    Gate::Minimum,
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
    Gate::Fenced,
    Gate::Blocklist,
    Gate::Reachable,
    Gate::Exclusive,
    Gate::Minimum,
    Gate::Parents,
    Gate::Grace,
    Gate::Delay,
    Gate::Budget,
];

/// The gates of a recovery, whatever its action.
const OF_RECOVERY: &[Gate] = &[
    Gate::Frozen,
    Gate::Confirmed,
    Gate::Fenced,
    Gate::CommonCause,
    Gate::Recoveries,
    Gate::Exclusive,
    Gate::Minimum,
    Gate::Parents,
    Gate::Delay,
];

/// The gates of each cause.
///
/// # Shape
/// One row for each cause; the gates of a row are in order of precedence.
pub const GATES: &[(CauseKind, &[Gate])] = &[
    (
        CauseKind::User,
        &[
            Gate::Confirmed,
            Gate::Fenced,
            Gate::Exclusive,
            Gate::Minimum,
            Gate::Parents,
            Gate::Children,
            Gate::Delay,
        ],
    ),
    (
        CauseKind::NodeLost,
        &[
            Gate::Frozen,
            Gate::Confirmed,
            Gate::Fenced,
            Gate::Blocklist,
            Gate::Parents,
            Gate::Grace,
            Gate::Compatibility,
            Gate::Delay,
        ],
    ),
    (
        CauseKind::TaskFailed,
        &[Gate::Frozen, Gate::Confirmed, Gate::Fenced, Gate::Blocklist, Gate::Parents, Gate::Delay],
    ),
    (
        CauseKind::Incompatible,
        &[
            Gate::Frozen,
            Gate::Confirmed,
            Gate::Fenced,
            Gate::Blocklist,
            Gate::Successor,
            Gate::Parents,
            Gate::Delay,
        ],
    ),
    (CauseKind::Drain, PLANNED),
    (CauseKind::Update, OF_UPDATE),
    (CauseKind::Rollback, OF_UPDATE),
    (CauseKind::Cure, AUTOMATIC),
    (CauseKind::Return, PLANNED),
    (CauseKind::Rebalance, AUTOMATIC),
    // A member that failed and runs is counted as what it is; one that has ended is no loss.
    (CauseKind::Health, OF_RECOVERY),
    (CauseKind::NodeHealth, OF_RECOVERY),
    (CauseKind::Scale, AUTOMATIC),
    // A withdrawal, where no instance is wanted, takes precedence over the minimum of a group (P-S16).
    (CauseKind::Withdrawn, &[Gate::Children]),
];

/// The gates that a user may lift.
pub const FORCED: &[Gate] = &[
    Gate::Confirmed,
    Gate::Fenced,
    Gate::Exclusive,
    Gate::Minimum,
    Gate::Parents,
    Gate::Children,
    Gate::Delay,
];

/// Returns the gates of a cause.
pub fn gates_of(kind: CauseKind) -> &'static [Gate] {
    GATES.iter().find(|(one, _)| *one == kind).map_or(&[], |(_, gates)| gates)
}

/// Facts for the gates. A gate without facts is open.
pub trait GateFacts {
    /// Returns why a frozen object blocks the step.
    fn frozen(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns why a paused update or node blocks the step.
    fn paused(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns the instance whose stop must be confirmed before the step.
    fn unconfirmed_stop(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns an instance on a lost node that is to be fenced before the step.
    fn unfenced_instance(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns why a node gets no start.
    fn blocklisted(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns why a node cannot obey now. There is no reason where the tasks of a node that is down have been given up before.
    fn unreachable(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns why most running members fail at once, so that recovering them would make it worse.
    fn common_cause(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns how many running members may be recovered at once, if that is used up.
    fn exhausted_recoveries(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns what else on a node must not be away now.
    fn host_minimum(&self, _node: &NodeId) -> Option<Blocked> {
        None
    }
    /// Returns the HA group of a node, as to the service of the workload.
    fn group_of(&self, _node: &NodeId) -> Option<&GroupState> {
        None
    }
    /// Returns how many instances must stay up in a group; before it is limited to the other intended members.
    fn min_running(&self) -> u32 {
        0
    }
    /// Returns whether a group loses nothing when the instance on a member stops.
    fn loses_nothing(&self, group: &GroupState, node: &NodeId) -> bool {
        !group.running.contains(node) && !group.down.contains(node)
    }
    /// Returns the wait for the member that is to take over what the step stops.
    fn missing_successor(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns the parent for which an instance that would start has to wait.
    fn unready_parent(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns a child that is up, and of which a stop has to wait.
    fn running_child(&self, _step: &Step) -> Option<Blocked> {
        None
    }
    /// Returns until when the step waits after a start of the agbot.
    fn grace_until(&self, _step: &Step) -> Option<Timestamp> {
        None
    }
    /// Returns the compatibility versions of the agents that suspend automatic decisions.
    fn incompatible(&self) -> Option<Blocked> {
        None
    }
    /// Returns until when the step is delayed.
    fn delayed_until(&self, _step: &Step) -> Option<Timestamp> {
        None
    }
    /// Returns the update parallelism, if it is used up.
    fn exhausted_budget(&self, _step: &Step) -> Option<Blocked> {
        None
    }
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
    permit_by(facts, step, |_| true)
}

/// Tests those of the gates of a step that are named.
///
/// # Errors
/// The reason of the first one that blocks the step.
pub fn check_gates(facts: &dyn GateFacts, step: &Step, named: &[Gate]) -> Result<(), Blocked> {
    permit_by(facts, step, |gate| named.contains(&gate)).map(|_| ())
}

fn permit_by(
    facts: &dyn GateFacts,
    step: &Step,
    is_tested: impl Fn(Gate) -> bool,
) -> Result<Permit, Blocked> {
    let mut permit = Permit::new(step);
    for gate in gates_of(step.cause.kind()).iter().filter(|gate| is_tested(**gate)) {
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
        Gate::Fenced => facts.unfenced_instance(step),
        Gate::Blocklist => facts.blocklisted(step),
        Gate::Reachable => facts.unreachable(step),
        Gate::CommonCause => facts.common_cause(step),
        Gate::Recoveries => facts.exhausted_recoveries(step),
        Gate::Exclusive => {
            if let Some((node, group)) = group() {
                claim::may_claim(&group.facts, &group.claims, node, &step.unit_id.policy)?;
                permit.take_claim(&group.facts, node);
            }
            None
        }
        Gate::Minimum => {
            if let Some((node, group)) = group() {
                let minimum = if facts.loses_nothing(group, node) { 0 } else { facts.min_running() };
                let is_recovery = matches!(step.cause.kind(), CauseKind::Health | CauseKind::NodeHealth);
                permit.counted_on = group::may_stop(group, node, (minimum, is_recovery))?;
            }
            match &step.change {
                Change::Repair { node, is_of_host: true } => facts.host_minimum(node),
                _ => None,
            }
        }
        Gate::Successor => facts.missing_successor(step),
        Gate::Parents if step.starts_instance() => facts.unready_parent(step),
        Gate::Children if step.is_stop_order() => facts.running_child(step),
        Gate::Parents | Gate::Children => None,
        Gate::Grace => facts.grace_until(step).map(|until| Blocked::JustStarted { until }),
        Gate::Compatibility => facts.incompatible(),
        Gate::Delay => facts.delayed_until(step).map(|until| match step.change {
            Change::Start { .. } => Blocked::StartDelayed { until },
            _ => Blocked::Delay { until },
        }),
        Gate::Budget => facts.exhausted_budget(step),
    };
    blocked.map_or(Ok(()), Err)
}
