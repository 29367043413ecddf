//! The end of claims under which tasks were changed.
//!
//! Source: orchestration E5.2.

use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    claims::{Claim, ReleaseReason, Scope},
    time::later,
    workload::Task,
};
use jiff::Timestamp;

/// Returns why a claim of a policy with tasks is no longer needed: its node runs what it is to run for as long as it is monitored, or has
/// nothing of the policy left, or is down, or failed, and the update is paused.
pub(crate) fn reason_to_release(model: &Model, claim: &Claim, now: Timestamp) -> Option<ReleaseReason> {
    let Scope::Policy(policy) = &claim.scope else { return None };
    let workload = model.workload_of(policy)?;
    if now >= claim.deadline {
        return Some(ReleaseReason::DeadlinePassed);
    }
    let open = || model.engine.tasks_on(&claim.node, policy).filter(|task| !task.state.is_ended());
    let grace_secs = model.unit_settings(policy.org()).report_grace_on(model.is_capable(&claim.node));
    let monitor_secs = workload.update.monitor_secs + grace_secs;
    let is_settled = |task: &Task| {
        task.is_wanted()
            && task.is_running()
            && task.running_at.is_some_and(|at| now >= later(at, monitor_secs))
    };
    if open().next().is_none() {
        return Some(ReleaseReason::NotWanted);
    }
    // An instance that is recovered in place continues as the same task.
    if open().any(|task| task.health.is_recovering()) {
        return None;
    }
    // No other member waits for one that is down. It counts as missing in the minimum available.
    if model.is_down(&claim.node, now) {
        return Some(ReleaseReason::NodeSilent);
    }
    // Whether the member runs or not, its part in the update is over; the minimum available counts it as what it is.
    let has_failed =
        |task: &Task| task.ended_by_itself() && task.ended_at.is_some_and(|at| at >= claim.since);
    let is_paused = model.workload(policy).is_some_and(|record| record.update.is_paused());
    if is_paused && model.engine.tasks_on(&claim.node, policy).any(has_failed) {
        return Some(ReleaseReason::Failed);
    }
    open().all(is_settled).then_some(ReleaseReason::Done)
}
