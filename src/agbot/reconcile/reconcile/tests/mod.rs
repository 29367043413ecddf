//! Scenarios of the orchestration specification, on one workload unit with simulated nodes.

mod actions;
mod compatibility;
mod contest;
mod dry_runs;
mod failover;
mod groups;
mod health;
mod health_actions;
mod health_gates;
mod health_updates;
mod lost;
mod nodes;
mod paces;
mod random;
mod restarts;
mod scaling;
mod simulated;
mod speed;
mod state_tables;
mod unproven;
mod updates;

use evenkeel_planner_record::workload::{Slot, Task};
use simulated::World;

/// Returns the slots with a wanted task, in order.
fn wanted_slots(world: &World) -> Vec<String> {
    let mut slots: Vec<&Slot> =
        world.tasks.values().filter(|task| task.is_wanted()).map(|task| &task.slot).collect();
    slots.sort();
    slots.into_iter().map(ToString::to_string).collect()
}

/// Returns all tasks that a slot ever had, oldest first.
fn history_of(world: &World, slot: u32) -> Vec<Task> {
    let slot = Slot::Number(slot);
    let mut tasks: Vec<Task> = world.history.values().filter(|task| task.slot == slot).cloned().collect();
    tasks.sort_by_key(|task| task.generation);
    tasks
}
