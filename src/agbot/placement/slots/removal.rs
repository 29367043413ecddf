//! Order in which surplus slots are removed.
//!
//! Source: orchestration B7, A2.

use std::{cmp::Reverse, collections::BTreeMap};

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    goal::Surplus,
    workload::{Slot, SlotTasks, Task},
};

/// A slot without a node that is there, or with several tasks, comes before all others.
const UNSETTLED: usize = usize::MAX;

/// Returns the slots in the order in which they are removed, the first one first.
///
/// # Shape
/// `rank`: the position of a node among all nodes of the workload unit, the best one first; used only for
/// [`Surplus::LowestRank`]. `is_lost`: whether the node of a task is down. `is_first`: slots that go before all others. Empty for
/// [`Surplus::Keep`].
pub fn removal_order<'a>(
    surplus: Surplus,
    slots: impl IntoIterator<Item = (&'a Slot, &'a SlotTasks)>,
    rank: impl Fn(&NodeId) -> usize,
    is_lost: impl Fn(&Task) -> bool,
    is_first: impl Fn(&Slot) -> bool,
) -> Vec<Slot> {
    let candidates = slots.into_iter().map(|(slot, tasks)| Candidate::new(slot, tasks, &is_lost));
    let mut slots: Vec<Candidate<'_>> = candidates.collect();
    match surplus {
        Surplus::Keep => return Vec::new(),
        Surplus::Balance => {
            slots.sort_by_key(|one| (!one.is_running, one.slot));
            let mut counts: BTreeMap<&NodeId, usize> = BTreeMap::new();
            let position = |node| {
                let count = counts.entry(node).or_default();
                *count += 1;
                *count
            };
            let positions: Vec<usize> =
                slots.iter().map(|one| one.node).map(option_or(UNSETTLED, position)).collect();
            slots.iter_mut().zip(positions).for_each(|(one, position)| one.position = position);
            slots.sort_by_key(|one| (Reverse(one.position), one.is_running, Reverse(one.slot)));
        }
        Surplus::LowestRank => {
            for one in &mut slots {
                one.position = one.node.map_or(UNSETTLED, &rank);
            }
            let is_settled = |one: &Candidate<'_>| one.position != UNSETTLED;
            slots.sort_by_key(|one| {
                (is_settled(one), one.is_running, Reverse(one.position), Reverse(one.slot))
            });
        }
    }
    slots.sort_by_key(|one| !is_first(one.slot));
    slots.into_iter().map(|one| one.slot.clone()).collect()
}

fn option_or<'a>(
    otherwise: usize,
    mut position: impl FnMut(&'a NodeId) -> usize,
) -> impl FnMut(Option<&'a NodeId>) -> usize {
    move |node| node.map_or(otherwise, &mut position)
}

struct Candidate<'a> {
    slot: &'a Slot,
    /// The node of its only wanted task, if that is there.
    node: Option<&'a NodeId>,
    is_running: bool,
    position: usize,
}

impl<'a> Candidate<'a> {
    fn new(slot: &'a Slot, tasks: &'a SlotTasks, is_lost: impl Fn(&Task) -> bool) -> Self {
        let mut wanted = tasks.wanted();
        let node = match (wanted.next(), wanted.next()) {
            (Some(only), None) if !is_lost(only) => only.node.as_ref(),
            _ => None,
        };
        let is_running = tasks.wanted().any(|task| task.is_running() && !is_lost(task));
        Self { slot, node, is_running, position: 0 }
    }
}
