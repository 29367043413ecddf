//! Limits of recoveries: not too many at once, and none for a cause that lies outside of the members.
//!
//! Both are only about members that run: recovering one that has ended takes nothing away. Source: orchestration C6.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::health_policy::DetectionType;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    health::detect,
    report::Blocked,
    workload::{Part, ReportedHealth, Slot, SlotTasks, Step, Task},
};
use jiff::Timestamp;

use super::UnitPass;

/// Access to the known health of tasks. It is read on demand, so that an event of one task does not read the
/// health of others.
pub trait HealthSurvey {
    /// Returns what is known of the health of a task.
    fn health_of(&self, task: &Task) -> Option<ReportedHealth>;
}

/// Nothing is known of the health of any task.
#[derive(Debug, Clone, Copy)]
pub struct NoSurvey;

impl HealthSurvey for NoSurvey {
    fn health_of(&self, _: &Task) -> Option<ReportedHealth> {
        None
    }
}

/// The model, at a time.
#[derive(Clone, Copy)]
pub struct ModelSurvey<'m> {
    pub model: &'m Model,
    pub now: Timestamp,
}

impl HealthSurvey for ModelSurvey<'_> {
    fn health_of(&self, task: &Task) -> Option<ReportedHealth> {
        self.model.found_health(task, self.now)
    }
}

/// Returns why most running members fail at once; none for a member that has ended, or whose recovery a user ordered.
pub fn common_cause(pass: &UnitPass<'_>, step: &Step) -> Option<Blocked> {
    let task = running_member(pass, &step.slot)?;
    let is_ordered = task.health.recovery.as_ref().is_some_and(|recovery| recovery.order.is_some());
    let policy = pass.facts.workload.health.as_ref().filter(|policy| policy.enabled && !is_ordered)?;
    let (mut running, mut failures) = (0, BTreeMap::<(DetectionType, String), usize>::new());
    for slot in pass.all_slots() {
        let Some(member) = running_member(pass, &slot) else { continue };
        running += 1;
        let reported = pass.facts.survey.health_of(&member);
        if let Some(failure) = detect::failed_check(policy, &member, reported.as_ref(), pass.now) {
            *failures.entry(failure).or_default() += 1;
        }
    }
    let failing = failures.values().sum::<usize>();
    if !policy.recovery.is_common_cause(failing, running) {
        return None;
    }
    let ((mode, message), count) = failures.iter().max_by_key(|(_, count)| **count)?;
    let others = if *count < failing { format!(" and {} others", failing - count) } else { String::new() };
    let what = policy.poll_options().filter(|_| *mode == DetectionType::NodeStatusPollUrl);
    let what = what.map(|options| format!(" ({})", options.poll_url.as_str())).unwrap_or_default();
    Some(Blocked::CommonCause {
        failing: u32::try_from(failing).unwrap_or(u32::MAX),
        running: u32::try_from(running).unwrap_or(u32::MAX),
        cause: format!("{count} of {}{what}: {message}{others}", mode.word()),
    })
}

/// Returns how many running members may be recovered at once, if that is used up. In an HA group one is recovered at a time anyway.
pub fn exhausted_recoveries(pass: &UnitPass<'_>, step: &Step) -> Option<Blocked> {
    running_member(pass, &step.slot)?;
    if pass.facts.unit_id.part != Part::All {
        return None;
    }
    let update = pass.facts.workload.update.parallelism;
    let limit = pass.facts.workload.health.as_ref().map_or(1, |policy| policy.recovery.limit(update));
    // What a recovery has replaced is down until the next instance runs.
    let is_recreated = |task: &Task| task.is_recreated() && task.node.is_some() && !task.is_running();
    let is_recovering =
        |tasks: &SlotTasks| tasks.wanted().any(|task| task.health.is_recovering() || is_recreated(task));
    let slots = pass.all_slots();
    let own = slots.iter().filter(|slot| **slot != step.slot && is_recovering(pass.tasks(slot))).count();
    let others = pass.facts.other_units.iter().flat_map(|(_, slots)| slots.values());
    let count = own + others.filter(|tasks| is_recovering(tasks)).count();
    (count >= limit as usize).then_some(Blocked::RecoveryBudget { limit })
}

/// Returns the member of a slot, if it runs.
pub fn running_member(pass: &UnitPass<'_>, slot: &Slot) -> Option<Task> {
    let task = pass.tasks(slot).wanted().find(|task| task.is_running())?;
    let reported = pass.facts.survey.health_of(task);
    let is_up = !pass.is_node_lost(task) && !detect::is_known_down(task, reported.as_ref());
    is_up.then(|| task.clone())
}
