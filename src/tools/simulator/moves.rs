//! Number of moves of an instance by upgrades: away from its node and back to it, and no third time.
//!
//! Source: orchestration D9; engine 8.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::workload::{Cause, Slot, Task, UnitId};

use super::world::World;

/// Moves of an instance in one upgrade: away, and back.
const MOST_MOVES: u32 = 2;

/// The moves of each slot.
#[derive(Debug, Default)]
pub(crate) struct MoveWatch {
    slots: BTreeMap<(UnitId, Slot), Moves>,
}

/// The moves of a slot in the upgrade in progress.
#[derive(Debug, Default)]
struct Moves {
    version: u64,
    count: u32,
    /// The node that it has just left because it must not be there.
    cured_from: Option<NodeId>,
}

impl MoveWatch {
    /// Counts a task that has begun to run, and returns the violation of its move. A task that never ran has
    /// not moved.
    pub fn check(&mut self, world: &World, task: &Task) -> Option<String> {
        let ran = predecessor(world, task, |one| one.running_at.is_some())?;
        let placed = predecessor(world, task, |one| one.node.is_some())?;
        self.count((ran, placed), task)
    }

    /// Counts a task after the one that ran last in its slot, and after the one that had a node last.
    fn count(&mut self, (before, placed): (&Task, &Task), task: &Task) -> Option<String> {
        if before.node == task.node {
            return None;
        }
        let moves = self.slots.entry((task.unit_id.clone(), task.slot.clone())).or_default();
        let left = placed.node.clone().filter(|_| task.cause == Cause::Cure);
        let cured_from = std::mem::replace(&mut moves.cured_from, left);
        if task.cause == Cause::Return && cured_from == task.node {
            return Some("returns to a node that it must not be on".to_owned());
        }
        // Everything else that moves an instance is a disturbance of its own.
        let is_of_upgrade = matches!(task.cause, Cause::Update | Cause::Rollback | Cause::Return);
        if !is_of_upgrade || moves.version != task.spec.number {
            (moves.version, moves.count) = (task.spec.number, 0);
        }
        moves.count += u32::from(is_of_upgrade);
        let Moves { version, count, .. } = *moves;
        let (from, to, cause) = (&before.node, &task.node, task.cause);
        (count > MOST_MOVES)
            .then(|| format!("is move {count} of version {version}, from {from:?} to {to:?} for {cause:?}"))
    }
}

/// Returns the newest task of a kind before this one, in its slot.
fn predecessor<'w>(world: &'w World, task: &Task, is_it: impl Fn(&Task) -> bool) -> Option<&'w Task> {
    let is_earlier = |one: &&Task| {
        one.unit_id == task.unit_id && one.slot == task.slot && one.generation < task.generation
    };
    let earlier = world.database.tasks.values().filter(|one| is_it(one) && is_earlier(one));
    earlier.max_by_key(|one| one.generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chaos, deliberate::DeliberateFaults, world};

    /// Counts moves of the slot of a task, each with its cause and the node; returns the last complaint.
    fn moved(first: &Task, moves: &[(Cause, &str)]) -> Option<String> {
        let (mut before, mut watch) = (first.clone(), MoveWatch::default());
        let mut found = None;
        for (cause, node) in moves {
            let task = Task { cause: *cause, node: Some(NodeId::new("o", node)), ..before.clone() };
            found = watch.count((&before, &before), &task);
            before = task;
        }
        found
    }

    #[test]
    fn third_move_of_an_upgrade_and_the_return_of_what_was_cured_are_detected() {
        use Cause::{Cure, Drain, Return, Scale, Update};
        let mut world = world::World::new(3, DeliberateFaults::default());
        chaos::run(&mut world, 600);
        let task = world.database.tasks.values().next().expect("a seed with tasks");
        let moved = |moves: &[(Cause, &str)]| moved(task, moves);
        let out = [(Scale, "a"), (Update, "b"), (Return, "a")];
        assert_eq!(moved(&out), None);
        let third = moved(&[&out[..], &[(Update, "c")]].concat());
        assert!(third.is_some_and(|text| text.contains("is move 3")));
        let drained = [&out[..], &[(Drain, "b"), (Return, "a")]].concat();
        assert_eq!(moved(&drained), None, "the drain is another upgrade");
        let cured = [(Scale, "a"), (Cure, "b"), (Return, "a")];
        assert!(moved(&cured).is_some_and(|text| text.contains("must not be on")));
        assert_eq!(moved(&[(Scale, "a"), (Update, "b"), (Cure, "c"), (Return, "a")]), None);
    }
}
