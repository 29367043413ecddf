//! The check that a recovery begins with when a user asks for it: the node makes it now, whatever it reported last.
//!
//! Source: orchestration C7.

use evenkeel_domain::orchestration::{HealthPolicy, health_policy::ActionKind};
use evenkeel_planner_record::{
    time::later,
    workload::{EndedCommand, EndedOrder, PreparedAction, Probe, Recovery, Task, TaskHealth},
};
use jiff::Timestamp;

use super::recover;
use crate::unit_pass::UnitPass;

/// Time in which a node learns of a check and its result is reported, in seconds.
pub(crate) const REPORT_SECS: u64 = 30;

/// Begins an ordered recovery with a check. It is no recovery before the check has failed.
pub(super) fn begin(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task, mut recovery: Recovery) {
    recovery.actions.insert(0, PreparedAction::new(ActionKind::Check));
    recover::act(pass, policy, task, recovery);
}

/// Goes on when the check has ended. One without a result says nothing about the instance, which is left alone.
pub(super) fn go_on(
    pass: &mut UnitPass<'_>,
    policy: &HealthPolicy,
    task: &Task,
    mut recovery: Recovery,
    (ended, since): (Option<&EndedCommand>, Timestamp),
) {
    match ended {
        Some(ended) if ended.is_ok => {
            let message = ended.message.clone().unwrap_or_else(|| "it is healthy".to_owned());
            pass.emit("health.checked", Some(&task.slot), task.node.as_ref(), message);
            finish(pass, task, &recovery, None);
        }
        Some(ended) => {
            let message = ended.message.clone().unwrap_or_else(|| "the check failed".to_owned());
            pass.emit("health.check-failed", Some(&task.slot), task.node.as_ref(), message.clone());
            recovery.actions.remove(0);
            recovery.reason = format!("{}: {message}", recovery.reason);
            (recovery.action_since, recovery.command) = (None, None);
            recover::start(pass, policy, task, recovery);
        }
        None => {
            let secs = policy.recovery.action_timeout.max(longest_secs(task));
            let until = later(since, secs);
            if pass.now < until {
                return pass.wake(until);
            }
            let failure = format!("its check came to no result within {secs} s");
            finish(pass, task, &recovery, Some(failure));
        }
    }
}

/// Returns the time in which a check with all its attempts has a result, in seconds.
fn longest_secs(task: &Task) -> u64 {
    task.health.supervision.probe.as_deref().map_or(REPORT_SECS, attempt_secs)
}

/// Returns the time in which a URL has been polled with all attempts and the result is reported, in seconds.
pub(crate) fn attempt_secs(probe: &Probe) -> u64 {
    let (retries, pause) = (u64::from(probe.retry_limit), u64::from(probe.retry_interval_secs));
    let attempts = (retries + 1).saturating_mul(u64::from(probe.timeout_secs));
    attempts.saturating_add(retries.saturating_mul(pause)).saturating_add(REPORT_SECS)
}

fn finish(pass: &mut UnitPass<'_>, task: &Task, recovery: &Recovery, failure: Option<String>) {
    let is_checked = failure.is_none();
    let health = TaskHealth { recovery: None, ..task.health.clone() };
    let mut health = recover::with_order_ended(health, recovery, failure);
    if let Some(ended) = health.ended_order.take() {
        health.ended_order = Some(Box::new(EndedOrder { is_checked, ..*ended }));
    }
    pass.set_health(&task.slot, &task.id, health);
}
