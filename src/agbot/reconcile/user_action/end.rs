//! The end of a user's action: when every workload unit has reached its goal or cannot reach it.
//!
//! Source: orchestration A6.

use evenkeel_planner_model::pass::Pass;
use evenkeel_planner_record::workload::{ActionEnd, SlotTasks, WorkloadRecord};

use super::progress::{Progress, UnitView, progress};

/// Returns the end of a workload's action, when every workload unit has reached its goal or cannot reach it.
pub fn end(pass: &mut Pass<'_>, record: &WorkloadRecord) -> Option<ActionEnd> {
    let action = record.action.as_ref()?;
    let (model, now) = (pass.model, pass.now);
    let workload = model.workload_of(&record.policy)?;
    let (mut failures, mut open) = (Vec::new(), None);
    for (unit_id, unit) in model.workload_units_of(&record.policy).filter(|(_, unit)| unit.is_wanted) {
        let Some(goal) = action.goal_of(&unit_id.part) else { continue };
        let tasks = unit.slots.values().flat_map(SlotTasks::iter).collect();
        match progress(action, goal, &UnitView { workload, table: &unit.table, tasks }, now) {
            Progress::Done => {}
            Progress::Failed(why) => failures.push(why),
            Progress::Open { until } => {
                open = Some((unit_id.clone(), until));
                break;
            }
        }
    }
    if let Some((unit_id, until)) = open {
        until.into_iter().for_each(|until| pass.watch_unit(&unit_id, None, until));
        return None;
    }
    let workload_units = model.workload_units_of(&record.policy);
    let tasks = workload_units.flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter));
    Some(ActionEnd { action: action.without_healthy(tasks), failure: summed(&failures) })
}

fn summed(failures: &[String]) -> Option<String> {
    let first = failures.first()?;
    Some(match failures.len() {
        1 => first.clone(),
        count => format!("{first}; and {} more", count - 1),
    })
}
