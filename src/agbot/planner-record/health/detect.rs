//! Detection of failed members.
//!
//! Source: orchestration C3 to C5.

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy, RecoveryConditional};
use jiff::Timestamp;

use crate::{
    statistics::EngineReport,
    time::later,
    workload::{LifecycleEvent, ReportedHealth, Task},
};

/// Silence of a node about its container engine that is not a failure, whatever the interval: agents repeat a
/// report that has not changed after 90 s, and may be late.
const LEAST_ENGINE_SILENCE_SECS: u64 = 180;

/// Message for an engine that is reported not to work.
pub const ENGINE_DOWN: &str = "the container engine of the node is down or disabled";

/// A member as its health policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No known problem.
    Healthy,
    /// It is not examined before this time.
    NotBefore(Timestamp),
    /// It has failed.
    Failed(Failure),
}

/// Reason why a member has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A check failed.
    Check {
        /// The mode.
        mode: DetectionType,
        /// Message of the check.
        message: String,
    },
    /// The container engine reported it.
    Event(LifecycleEvent),
    /// The policy of the HA group finds that the node has failed.
    Node(String),
}

impl Failure {
    /// Returns the reason, in words.
    pub fn text(&self) -> String {
        match self {
            Self::Check { mode, message } => format!("{}: {message}", mode.word()),
            Self::Node(reason) => reason.clone(),
            Self::Event(event) => format!("LIFECYCLE_EVENTS: {} by {}", event.event, event.publisher),
        }
    }
}

/// Examines a member of which this is reported.
pub fn examine(
    policy: &HealthPolicy,
    task: &Task,
    reported: Option<&ReportedHealth>,
    now: Timestamp,
) -> Verdict {
    Member { task, reported }.examine(policy, now)
}

/// Returns whether a member of which the model knows this is unhealthy by its policy.
pub fn is_unhealthy_member(
    policy: &HealthPolicy,
    task: &Task,
    reported: Option<&ReportedHealth>,
    now: Timestamp,
) -> bool {
    matches!(examine(policy, task, reported, now), Verdict::Failed(_))
}

/// Returns the check that a member fails, whether or not it has changed recently.
pub fn failed_check(
    policy: &HealthPolicy,
    task: &Task,
    reported: Option<&ReportedHealth>,
    now: Timestamp,
) -> Option<(DetectionType, String)> {
    match (Member { task, reported }).failed_check(policy, now)? {
        Failure::Check { mode, message } => Some((mode, message)),
        Failure::Event(_) | Failure::Node(_) => None,
    }
}

/// Returns whether the node of a member reported last that it has ended or was paused.
pub fn is_known_down(task: &Task, reported: Option<&ReportedHealth>) -> bool {
    let event = reported.and_then(|reported| reported.lifecycle.as_ref());
    task.health.supervision.lifecycle && event.is_some_and(LifecycleEvent::is_failure)
}

/// A member with the report about its health.
struct Member<'a> {
    task: &'a Task,
    reported: Option<&'a ReportedHealth>,
}

impl Member<'_> {
    fn examine(&self, policy: &HealthPolicy, now: Timestamp) -> Verdict {
        let event = self.new_event().filter(|_| policy.has_mode(DetectionType::LifecycleEvents));
        if let Some(event) = event.filter(|_| !self.task.state.is_ended()) {
            // An event means that something has happened now: no time has to pass first.
            return Verdict::Failed(Failure::Event(event.clone()));
        }
        let Some(failure) = self.failed_check(policy, now) else { return Verdict::Healthy };
        let until = later(self.task.state_at, policy.detection.node_update_timeout);
        if now < until { Verdict::NotBefore(until) } else { Verdict::Failed(failure) }
    }

    /// Returns the life-cycle event of a failure that was not examined before, or only while recovery was suspended.
    fn new_event(&self) -> Option<&LifecycleEvent> {
        let health = &self.task.health;
        let is_new = |reported: &&ReportedHealth| reported.events > health.events_seen || health.is_missed;
        let reported = self.reported.filter(is_new)?;
        reported.lifecycle.as_ref().filter(|event| event.is_failure())
    }

    /// Combines the modes. Unknown results count as healthy.
    fn failed_check(&self, policy: &HealthPolicy, now: Timestamp) -> Option<Failure> {
        let of_mode = |kind: DetectionType| match kind {
            DetectionType::NodeStatusPolling => self.failed_state(),
            DetectionType::NodeStatusPollUrl => self.failed_url(policy),
            DetectionType::HypervisorStatusPolling => {
                failed_engine(policy, self.reported.and_then(|reported| reported.engine), now)
            }
            DetectionType::LbStatusPolling | DetectionType::LbStatusEvents => self.failed_peers(),
            DetectionType::LifecycleEvents => None,
        };
        combine(policy, of_mode).map(|(mode, message)| Failure::Check { mode, message })
    }

    fn failed_state(&self) -> Option<String> {
        let state = &self.task.state;
        state.is_ended().then(|| format!("the instance is {}", state.name()))
    }

    fn failed_peers(&self) -> Option<String> {
        let votes = self.reported?.votes;
        votes.is_offline().then(|| format!("{} of {} peers do not reach it", votes.offline, votes.reports))
    }

    fn failed_url(&self, policy: &HealthPolicy) -> Option<String> {
        if self.task.state.is_ended() {
            // Nothing responds.
            let counts =
                policy.poll_options().is_some_and(|options| options.poll_url_conn_error_as_unhealthy);
            return counts.then(|| "the instance has ended".to_owned());
        }
        let reported = self.reported.filter(|reported| reported.healthy == Some(false))?;
        Some(reported.message.clone().unwrap_or_else(|| "the check failed".to_owned()))
    }
}

/// Combines what the modes of a policy find: the first failure, or none when the member counts as healthy.
pub fn combine(
    policy: &HealthPolicy,
    of_mode: impl Fn(DetectionType) -> Option<String>,
) -> Option<(DetectionType, String)> {
    let kinds = policy.detection.detection_modes.iter().map(|mode| mode.kind);
    let failures = kinds.map(|kind| Some((kind, of_mode(kind)?)));
    match policy.detection.recovery_conditional {
        RecoveryConditional::AnyFailed => failures.flatten().next(),
        RecoveryConditional::AllFailed => {
            let all: Option<Vec<(DetectionType, String)>> = failures.collect();
            all?.into_iter().next()
        }
    }
}

/// Returns what is wrong with the container engine of a node. A node that never reported one has an agent
/// that does not know any: that is not a failure (1.9).
pub fn failed_engine(policy: &HealthPolicy, engine: Option<EngineReport>, now: Timestamp) -> Option<String> {
    let engine = engine?;
    if !engine.is_usable {
        return Some(ENGINE_DOWN.to_owned());
    }
    let is_silent = now >= engine_silent_at(policy, engine);
    is_silent.then(|| format!("the node reported its container engine last at {}", engine.at))
}

/// Returns when the silence of a node about its container engine counts as a failure.
pub fn engine_silent_at(policy: &HealthPolicy, engine: EngineReport) -> Timestamp {
    let silence = policy.detection.interval.saturating_mul(3).max(LEAST_ENGINE_SILENCE_SECS);
    later(engine.at, silence)
}
