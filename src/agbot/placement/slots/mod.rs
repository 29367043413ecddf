//! Slots as to the goal of their workload unit: which count, the numbers of new ones, and the order in which surplus ones are removed.
//!
//! Source: orchestration B2.

mod removal;

pub use removal::removal_order;

use std::collections::BTreeSet;

use evenkeel_planner_record::workload::{Slot, SlotTasks};

/// Contribution of a slot to the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotCondition {
    /// One of its tasks is wanted.
    Runnable,
    /// Its newest task ended by itself and is not started again; only an update or a user changes that.
    GivenUp,
    /// It does not count.
    Dead,
}

/// Returns whether a slot counts; `may_restart`: whether the restart policy lets its newest task be started again.
pub fn condition(tasks: &SlotTasks, may_restart: impl FnOnce(&SlotTasks) -> bool) -> SlotCondition {
    if tasks.wanted().next().is_some() {
        return SlotCondition::Runnable;
    }
    match tasks.newest() {
        Some(newest) if newest.ended_by_itself() && !may_restart(tasks) => SlotCondition::GivenUp,
        _ => SlotCondition::Dead,
    }
}

/// Returns the smallest numbers that no slot in use has.
///
/// # Shape
/// `count` numbers, ascending from 1.
pub fn new_numbers<'a>(used: impl IntoIterator<Item = &'a Slot>, count: u32) -> Vec<u32> {
    let used: BTreeSet<&Slot> = used.into_iter().collect();
    let is_free = |number: &u32| !used.contains(&Slot::Number(*number));
    (1..=u32::MAX).filter(is_free).take(count as usize).collect()
}

#[cfg(test)]
mod tests;
