//! Slots: stable positions of a workload unit's instances.
//!
//! Source: orchestration B2.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use evenkeel_ids::{NodeId, TaskId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Task;
use crate::goal::Goal;

/// A slot: the node, if there is one instance on every node; else a number.
///
/// # Shape
/// Written as text, `3` or `org/node`, so that it can be a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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

impl Slot {
    /// Reads the text of a slot.
    pub fn from_text(text: &str) -> Self {
        // A node's id holds a slash, so that it is not a number.
        text.parse().map_or_else(|_| Self::Node(NodeId::from_text(text)), Self::Number)
    }

    /// Returns whether it is of the kind that a goal counts: nodes, or numbers.
    pub fn is_of(&self, goal: &Goal) -> bool {
        matches!(self, Self::Node(_)) == goal.is_per_node()
    }
}

impl Serialize for Slot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Slot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_text(&String::deserialize(deserializer)?))
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
        // Most slots have one task, and there are very many.
        self.0.reserve_exact(1);
        self.0.insert(position, task);
    }

    /// Removes a task.
    pub fn remove(&mut self, id: &TaskId) -> Option<Task> {
        let position = self.0.iter().position(|task| task.id == *id)?;
        Some(self.0.remove(position))
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
