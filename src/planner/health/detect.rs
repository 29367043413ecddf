//! Which members have failed.
//!
//! Source: orchestration C3 to C5.

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy, RecoveryConditional};
use jiff::Timestamp;

use crate::{
    facts::Availability,
    reconcile::UnitPass,
    usage::later,
    workload::{LifecycleEvent, ReportedHealth, Task},
};

/// A member as its health policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well, or nothing is known that says otherwise.
    Healthy,
    /// It is not examined before this time.
    NotBefore(Timestamp),
    /// It has failed.
    Failed(Failure),
}

/// Why a member has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A check failed.
    Check {
        /// The mode.
        mode: DetectionType,
        /// What the check found.
        message: String,
    },
    /// The container engine reported it.
    Event(LifecycleEvent),
}

impl Failure {
    /// Returns the reason, in words.
    pub fn text(&self) -> String {
        match self {
            Self::Check { mode, message } => format!("{}: {message}", mode.word()),
            Self::Event(event) => format!("LIFECYCLE_EVENTS: {} by {}", event.event, event.publisher),
        }
    }
}

/// Returns whether a member is examined now: it is neither being created nor frozen, and its node is neither lost nor paused.
pub(crate) fn is_examined(pass: &UnitPass<'_>, task: &Task) -> bool {
    let Some(node) = pass.node_of(task) else { return false };
    task.is_live()
        && task.running_at.is_some()
        && !pass.facts.workload.is_frozen
        && node.frozen.is_none()
        && node.availability == Availability::Active
        && !pass.is_node_lost(task)
}

/// Examines a member that is running.
pub(crate) fn examine(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> Verdict {
    let reported = pass.facts.health.get(&task.id);
    if let Some(event) = new_event(reported, task).filter(|_| policy.has_mode(DetectionType::LifecycleEvents))
    {
        // An event says that something has happened now: no time has to pass first.
        return Verdict::Failed(Failure::Event(event.clone()));
    }
    let Some(failure) = failed_check(policy, reported) else { return Verdict::Healthy };
    let until = later(task.state_at, policy.detection.node_update_timeout);
    if pass.now < until { Verdict::NotBefore(until) } else { Verdict::Failed(failure) }
}

/// Returns the life-cycle event of a failure that was not examined before.
fn new_event<'r>(reported: Option<&'r ReportedHealth>, task: &Task) -> Option<&'r LifecycleEvent> {
    let reported = reported.filter(|reported| reported.events > task.health.events_seen)?;
    reported.lifecycle.as_ref().filter(|event| event.is_failure())
}

/// Combines the modes. The state of a running task is fine, and what is not known counts as healthy.
fn failed_check(policy: &HealthPolicy, reported: Option<&ReportedHealth>) -> Option<Failure> {
    let of_mode = |kind: DetectionType| match kind {
        DetectionType::NodeStatusPollUrl => {
            let reported = reported.filter(|reported| reported.healthy == Some(false))?;
            let message = reported.message.clone().unwrap_or_else(|| "the check failed".to_owned());
            Some(Failure::Check { mode: kind, message })
        }
        _ => None,
    };
    let mut failures = policy.detection.detection_modes.iter().map(|mode| of_mode(mode.kind));
    match policy.detection.recovery_conditional {
        RecoveryConditional::AnyFailed => failures.flatten().next(),
        RecoveryConditional::AllFailed => {
            let all: Option<Vec<Failure>> = failures.by_ref().collect();
            all?.into_iter().next()
        }
    }
}

/// Returns whether a member is seen healthy: checks have succeeded, not only not failed.
pub(crate) fn is_seen_healthy(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> bool {
    let reported = pass.facts.health.get(&task.id);
    let is_checked = policy.has_mode(DetectionType::NodeStatusPollUrl);
    task.is_running() && (!is_checked || reported.is_some_and(|reported| reported.healthy == Some(true)))
}
