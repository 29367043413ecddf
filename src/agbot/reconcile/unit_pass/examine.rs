//! Examination of the members of a workload unit by their health policies.
//!
//! Source: orchestration C3 to C5.

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy};
use evenkeel_planner_record::{
    facts::Availability,
    health::detect::{self, Failure, Verdict, failed_engine},
    workload::{LifecycleEvent, Task},
};
use jiff::Timestamp;

use super::UnitPass;

/// Returns whether a member is examined now: it is neither being created nor frozen, and its node is neither lost nor paused.
pub(crate) fn is_examined(pass: &UnitPass<'_>, task: &Task) -> bool {
    let Some(node) = pass.node_of(task) else { return false };
    let is_created = task.is_live() && task.running_at.is_none();
    !is_created
        && !pass.facts.workload.is_frozen
        && node.frozen.is_none()
        && node.availability == Availability::Active
        && !pass.is_node_lost(task)
}

/// Examines the node of a member, by the health policy of its HA group.
pub(crate) fn examine_node_of(pass: &UnitPass<'_>, task: &Task) -> Verdict {
    let covered = task.node.as_ref().and_then(|node| pass.facts.recovery.nodes.get(node));
    match covered.and_then(|covered| covered.failure.clone()) {
        Some(reason) => Verdict::Failed(Failure::Node(reason)),
        None => Verdict::Healthy,
    }
}

/// Examines a member that runs, or that ended and that nothing starts again.
pub(crate) fn examine(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> Verdict {
    // The restart policy comes first where instances are polled (P15).
    if task.state.is_ended() && task.is_wanted() {
        return Verdict::Healthy;
    }
    detect::examine(policy, task, pass.facts.health.get(&task.id), pass.now)
}

/// Health of an instance by the health policy of its workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstanceHealth {
    /// It is healthy, or nothing examines it.
    Healthy,
    /// It fails its checks, but has changed too recently to count as failed.
    Failing {
        /// When it counts as failed.
        until: Timestamp,
    },
    /// It has failed, for this reason.
    Failed(String),
    /// No check has come to a result yet.
    Unknown,
}

/// Examines an instance that runs, also while no recovery would begin.
pub(crate) fn instance_health(pass: &UnitPass<'_>, task: &Task) -> InstanceHealth {
    let policy = pass.facts.workload.health.as_ref().filter(|policy| policy.enabled);
    let Some(policy) = policy.filter(|_| task.is_running() && is_examined(pass, task)) else {
        return InstanceHealth::Healthy;
    };
    let reported = pass.facts.health.get(&task.id);
    let awaits_check = policy.has_mode(DetectionType::NodeStatusPollUrl)
        && pass.node_of(task).is_some_and(|node| node.is_capable)
        && reported.is_none_or(|reported| reported.healthy.is_none() && reported.check_error.is_none());
    match examine(pass, policy, task) {
        Verdict::Failed(failure) => InstanceHealth::Failed(failure.text()),
        Verdict::NotBefore(until) => InstanceHealth::Failing { until },
        Verdict::Healthy if awaits_check => InstanceHealth::Unknown,
        Verdict::Healthy => InstanceHealth::Healthy,
    }
}

/// Returns whether the container engine of the node of a member cannot be used, and that is examined.
pub(crate) fn is_engine_failed(pass: &UnitPass<'_>, task: &Task) -> bool {
    let policy = pass.facts.workload.health.as_ref();
    let policy = policy.filter(|policy| policy.has_mode(DetectionType::HypervisorStatusPolling));
    let engine = pass.facts.health.get(&task.id).and_then(|reported| reported.engine);
    policy.is_some_and(|policy| failed_engine(policy, engine, pass.now).is_some())
}

/// Returns whether the last life-cycle event of a member was a failure.
pub(crate) fn is_reported_down(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> bool {
    let reported = pass.facts.health.get(&task.id);
    let event = reported.and_then(|reported| reported.lifecycle.as_ref());
    policy.has_mode(DetectionType::LifecycleEvents) && event.is_some_and(LifecycleEvent::is_failure)
}

/// Returns whether a member is seen healthy: checks have succeeded, not only not failed, and what was reported down is reported to run again.
pub(crate) fn is_seen_healthy(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> bool {
    let reported = pass.facts.health.get(&task.id);
    let is_checked = policy.has_mode(DetectionType::NodeStatusPollUrl);
    task.is_running()
        && !is_reported_down(pass, policy, task)
        && (!is_checked
            // A check that is broken is no reason to continue with a recovery.
            || reported.is_some_and(|one| one.healthy == Some(true) || one.check_error.is_some()))
}
