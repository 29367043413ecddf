//! Reconciles one workload unit: compares goal and slots, and yields the changes of tasks that may be made now.
//!
//! [`plan_unit`] reads everything; [`plan_slot`] reads one slot and is what a task's event needs. Both are functions of their
//! arguments: the rows that are true now, the time, and a seed for new ids. Source: engine 4; orchestration B4 to B9.

mod dry_run;
mod lost;
mod pending;
mod rebalance;
mod returns;
mod scale;
mod slot;

use std::collections::BTreeSet;

use evenkeel_planner_model::plan::UnitPlan;
use evenkeel_planner_record::workload::Slot;
use jiff::Timestamp;

use crate::{
    supervise,
    unit_pass::{UnitFacts, UnitPass},
    user_action,
};

pub use dry_run::{DryRun, ExpectedChange, ExpectedKind, dry_removal, dry_run};

/// Reconciles a workload unit as a whole.
///
/// # Shape
/// `seed` must differ from call to call; the same seed gives the same ids.
pub fn plan_unit(facts: &UnitFacts<'_>, now: Timestamp, seed: u64) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, seed);
    scale::remove_other_forms(&mut pass);
    user_action::plan(&mut pass);
    for slot in &pass.all_slots() {
        slot::settle(&mut pass, slot);
    }
    // A user's action is over the automatic goals that would undo it (P7).
    if pass.action_goal.is_none_or(|goal| !goal.holds_count()) {
        scale::plan(&mut pass);
        supervise::update::plan(&mut pass);
        returns::plan(&mut pass);
        rebalance::plan(&mut pass);
    }
    user_action::end_marks(&mut pass);
    finish_all(pass)
}

/// Reconciles one slot; no other one is read, except where there must never be a second instance.
pub fn plan_slot(facts: &UnitFacts<'_>, slot: &Slot, now: Timestamp, seed: u64) -> UnitPlan {
    plan_slots(facts, &BTreeSet::from([slot.clone()]), now, seed)
}

/// Reconciles some slots; see [`plan_slot`].
pub fn plan_slots(facts: &UnitFacts<'_>, slots: &BTreeSet<Slot>, now: Timestamp, seed: u64) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, seed);
    for slot in slots {
        slot::settle(&mut pass, slot);
    }
    finish_slots(pass, slots)
}

/// Places what waits, starts what may start, and deletes what is over, in these slots.
fn finish_slots(mut pass: UnitPass<'_>, slots: &BTreeSet<Slot>) -> UnitPlan {
    pending::place(&mut pass);
    for slot in slots {
        slot::start(&mut pass, slot);
        slot::reap(&mut pass, slot);
    }
    pass.finish()
}

/// See [`finish_slots`]; in all slots.
fn finish_all(mut pass: UnitPass<'_>) -> UnitPlan {
    pending::place(&mut pass);
    for slot in std::mem::take(&mut pass.starting) {
        slot::start(&mut pass, &slot);
    }
    for slot in pass.all_slots() {
        slot::reap(&mut pass, &slot);
    }
    pass.finish()
}

/// Removes all tasks of a workload unit that no longer exists.
///
/// # Source
/// Orchestration B1-S4, 1.3.
pub fn plan_removal(facts: &UnitFacts<'_>, now: Timestamp) -> UnitPlan {
    let mut pass = UnitPass::new(facts, now, 0);
    let slots: Vec<_> = facts.slots.keys().cloned().collect();
    for slot in slots {
        if scale::may_withdraw(&mut pass, &slot) {
            pass.remove_slot(&slot);
        }
        lost::give_up_orphans(&mut pass, &slot);
        slot::reap(&mut pass, &slot);
    }
    pass.finish()
}

#[cfg(test)]
mod tests;
