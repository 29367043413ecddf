//! Slots: stable positions of a workload unit's instances.
//!
//! Source: orchestration B2.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use evenkeel_ids::NodeId;
use serde::{Deserialize, Serialize};

use super::Task;

/// A slot: the node, if there is one instance on every node; else a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slot {
    /// A positive number; replacements keep it.
    Number(u32),
    /// The node.
    Node(NodeId),
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Node(node) => write!(formatter, "{node}"),
        }
    }
}

/// The tasks of one slot.
///
/// # Shape
/// Newest first, by generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotTasks(Vec<Task>);

impl SlotTasks {
    /// No tasks.
    pub const EMPTY: Self = Self(Vec::new());

    /// Orders the tasks of one slot.
    pub fn new(mut tasks: Vec<Task>) -> Self {
        tasks.sort_by_cached_key(|task| Reverse((task.generation, task.id.clone())));
        Self(tasks)
    }

    /// Adds a task, or replaces the one with the same id.
    pub fn put(&mut self, task: Task) {
        self.0.retain(|one| one.id != task.id);
        let is_newer = |one: &Task| (one.generation, &one.id) > (task.generation, &task.id);
        let position = self.0.iter().take_while(|one| is_newer(one)).count();
        self.0.insert(position, task);
    }

    /// Returns all tasks, newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Task> {
        self.0.iter()
    }

    /// Returns the newest task.
    pub fn newest(&self) -> Option<&Task> {
        self.0.first()
    }

    /// Returns the tasks that the engine wants, newest first.
    pub fn wanted(&self) -> impl Iterator<Item = &Task> {
        self.iter().filter(|task| task.is_wanted())
    }

    /// Returns whether one of the wanted tasks is seen running.
    pub fn is_running(&self) -> bool {
        self.wanted().any(Task::is_running)
    }

    /// Returns the generation of the next task.
    pub fn next_generation(&self) -> u64 {
        self.newest().map_or(1, |newest| newest.generation + 1)
    }

    /// Returns how many tasks there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The tasks of a workload unit, by slot.
pub type Slots = BTreeMap<Slot, SlotTasks>;

/// Groups tasks by their slots.
pub fn by_slot(tasks: impl IntoIterator<Item = Task>) -> Slots {
    let mut slots: BTreeMap<Slot, Vec<Task>> = BTreeMap::new();
    for task in tasks {
        slots.entry(task.slot.clone()).or_default().push(task);
    }
    slots.into_iter().map(|(slot, tasks)| (slot, SlotTasks::new(tasks))).collect()
}
