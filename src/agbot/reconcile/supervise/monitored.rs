//! Health policies during the monitoring of an update's instances.
//!
//! Source: orchestration B11.5, B11.6.

use evenkeel_planner_record::{
    time::later,
    workload::{Slot, Task},
};
use jiff::Timestamp;

use crate::unit_pass::{InstanceHealth, UnitPass, instance_health};

/// Returns why the health policy finds that an instance has failed.
pub(super) fn failure(pass: &UnitPass<'_>, task: &Task) -> Option<String> {
    match instance_health(pass, task) {
        InstanceHealth::Failed(why) => Some(why),
        InstanceHealth::Healthy | InstanceHealth::Failing { .. } | InstanceHealth::Unknown => None,
    }
}

/// Returns whether an instance that runs need not be waited for: it is healthy, or the update has failed by it.
///
/// Before the first outcome of a check it is waited for, but no longer than for a start.
pub(super) fn is_examined(pass: &mut UnitPass<'_>, task: &Task, timeout_secs: u64) -> bool {
    let until = match instance_health(pass, task) {
        InstanceHealth::Healthy | InstanceHealth::Failed(_) => return true,
        InstanceHealth::Failing { until } => until,
        InstanceHealth::Unknown => later(task.running_at.unwrap_or(task.state_at), timeout_secs),
    };
    pass.wake(until);
    pass.now >= until
}

/// Returns until when instances of the version that fail their checks now are not yet judged.
pub(super) fn failing_until(pass: &UnitPass<'_>) -> Option<Timestamp> {
    failing(pass).into_iter().max()
}

/// Reconciles again when an instance that fails its checks now counts as failed.
pub(super) fn wake_for_failing(pass: &mut UnitPass<'_>) {
    failing(pass).into_iter().for_each(|until| pass.wake(until));
}

fn failing(pass: &UnitPass<'_>) -> Vec<Timestamp> {
    let slots: Vec<Slot> = pass.all_slots();
    let tasks = slots.iter().flat_map(|slot| pass.tasks(slot).wanted());
    let of_version = tasks.filter(|task| task.spec == pass.versions.current);
    let failing = of_version.filter_map(|task| match instance_health(pass, task) {
        InstanceHealth::Failing { until } => Some(until),
        InstanceHealth::Healthy | InstanceHealth::Failed(_) | InstanceHealth::Unknown => None,
    });
    failing.collect()
}
