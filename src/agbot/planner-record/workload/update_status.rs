//! The status of a workload's update: one row for all of its workload units and all agbots.
//!
//! Source: orchestration B11, B12; engine 6.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Part, Slot, SpecVersion};
use crate::{
    report::Blocked,
    settings::FailureAction,
    time::{later, secs_since},
};

/// The state of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateState {
    /// There was none since a client last wrote the policy.
    #[default]
    None,
    /// Slots are being replaced.
    Updating,
    /// No further slot is replaced.
    Paused,
    /// Every slot runs the version.
    Completed,
    /// Slots are being returned to the previous version.
    RollbackStarted,
    /// No further slot is returned.
    RollbackPaused,
    /// Every slot runs the previous version again.
    RollbackCompleted,
}

impl UpdateState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Updating,
        Self::Paused,
        Self::Completed,
        Self::RollbackStarted,
        Self::RollbackPaused,
        Self::RollbackCompleted,
    ];

    /// Returns how much attention a policy needs whose updates have this state in one of its HA groups: more for one that waits for a user.
    pub fn weight(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Completed | Self::RollbackCompleted => 1,
            Self::Updating | Self::RollbackStarted => 2,
            Self::Paused | Self::RollbackPaused => 3,
        }
    }

    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Updating => "updating",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::RollbackStarted => "rollback-started",
            Self::RollbackPaused => "rollback-paused",
            Self::RollbackCompleted => "rollback-completed",
        }
    }
}

/// An event that changes the state of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateEvent {
    /// Slots run another version than the workload's.
    Dirty,
    /// Every slot runs the workload's version and the monitoring time is over.
    AllDone,
    /// More tasks failed than tolerated.
    Failed(FailureAction),
    /// A client wrote the policy.
    Written,
    /// A user requested a rollback.
    RollbackRequested,
    /// A user paused it.
    Pause,
    /// A user resumed it.
    Resume,
}

/// A user's action that the state of the update does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the update is {state:?}, so that {event:?} is not possible")]
pub struct UpdateConflict {
    /// The state.
    pub state: UpdateState,
    /// The action.
    pub event: UpdateEvent,
}

/// Returns the state after an event; the same when the event changes nothing.
///
/// A rollback is never rolled back. A policy that a client writes starts from [`UpdateState::None`]; dirty
/// slots then start the update.
/// # Errors
/// [`UpdateConflict`] for a user's action that the state does not allow.
pub fn next_state(state: UpdateState, event: UpdateEvent) -> Result<UpdateState, UpdateConflict> {
    use UpdateEvent as Event;
    use UpdateState as State;
    Ok(match (state, event) {
        (_, Event::Written) => State::None,
        (State::None | State::Completed | State::RollbackCompleted, Event::Dirty) => State::Updating,
        (State::None | State::Completed | State::RollbackCompleted, Event::RollbackRequested) => {
            State::RollbackStarted
        }
        (State::Updating | State::Paused, Event::RollbackRequested) => State::RollbackStarted,
        (State::Updating, Event::AllDone) => State::Completed,
        (State::Updating, Event::Failed(FailureAction::Pause) | Event::Pause) => State::Paused,
        (State::Updating, Event::Failed(FailureAction::Rollback)) => State::RollbackStarted,
        (State::Paused, Event::Resume) => State::Updating,
        (State::RollbackStarted, Event::AllDone) => State::RollbackCompleted,
        (
            State::RollbackStarted,
            Event::Failed(FailureAction::Pause | FailureAction::Rollback) | Event::Pause,
        ) => State::RollbackPaused,
        (State::RollbackPaused, Event::Resume) => State::RollbackStarted,
        (_, Event::Pause | Event::Resume | Event::RollbackRequested) => {
            return Err(UpdateConflict { state, event });
        }
        (_, Event::Dirty | Event::AllDone | Event::Failed(_)) => state,
    })
}

/// A slot that is being updated. As long as it exists, the slot counts toward the update parallelism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// When the slot was taken.
    pub since: Timestamp,
    /// The task that replaces the one before; none until it is created.
    pub task: Option<TaskId>,
    /// When the slot was finished; the ticket stays until the delay after it is over.
    pub done_at: Option<Timestamp>,
}

impl Ticket {
    /// Creates the ticket of a slot that is being updated.
    pub fn new(since: Timestamp, task: Option<TaskId>) -> Self {
        Self { since, task, done_at: None }
    }
}

/// The share of one workload unit in an update.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnitProgress {
    /// Slots to be replaced at the start, those without a node included.
    pub total: u32,
    /// Slots that are done.
    pub done: u32,
    /// Slots without a node, which are neither in work nor failed: they follow when they get one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_aside: u32,
    /// Slots that count as done because their failure is tolerated, and that do not run the version.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failing: u32,
    /// Slots in which the version has failed, and has not run since for as long as it is judged.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failing_slots: BTreeSet<Slot>,
    /// The slots in work.
    pub tickets: BTreeMap<Slot, Ticket>,
    /// Tasks of the update that failed.
    pub failed: BTreeSet<TaskId>,
    /// Instances, and what holds them, that were reported to be in error since the update began, each with the report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unhealthy: BTreeMap<String, String>,
}

/// Serde calls it with a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl UnitProgress {
    /// Returns whether every slot with a node is done.
    pub fn is_done(&self) -> bool {
        self.done >= self.reachable() && self.tickets.is_empty()
    }

    fn reachable(&self) -> u32 {
        self.total.saturating_sub(self.set_aside)
    }
}

/// Common reason for which all remaining slots of an update wait.
///
/// # Source
/// Orchestration D11.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateBlocked {
    /// Since when no slot could proceed.
    pub since: Timestamp,
    /// Some of the slots, each with its reason.
    pub slots: Vec<(Slot, Blocked)>,
    /// The nodes of numbered slots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<Slot, NodeId>,
    /// True if an event about it was emitted.
    #[serde(default)]
    pub is_announced: bool,
}

impl UpdateBlocked {
    /// Returns the node of a slot; none while it has none.
    pub fn node_of<'s>(&'s self, slot: &'s Slot) -> Option<&'s NodeId> {
        match slot {
            Slot::Node(node) => Some(node),
            Slot::Number(_) => self.nodes.get(slot),
        }
    }

    /// Returns whether it lasts long enough to be shown.
    pub fn is_shown(&self, now: Timestamp) -> bool {
        secs_since(self.since, now) >= BLOCKED_AFTER_SECS
    }

    /// Returns when it will have lasted long enough.
    pub fn shown_at(&self) -> Timestamp {
        later(self.since, BLOCKED_AFTER_SECS)
    }
}

/// An update counts as blocked when no slot could proceed for this time.
const BLOCKED_AFTER_SECS: u64 = 10;

/// The status of a workload's update.
///
/// # Shape
/// `target` is the version that the update works toward; an update with another target is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UpdateStatus {
    /// Its state.
    pub state: UpdateState,
    /// Why, in words.
    pub message: String,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it completed.
    pub completed_at: Option<Timestamp>,
    /// The version.
    pub target: Option<SpecVersion>,
    /// Tasks created before do not count: when it started, or was last resumed.
    pub counts_from: Option<Timestamp>,
    /// When the last slot was finished.
    pub last_step_at: Option<Timestamp>,
    /// True if a user lifted the gates that may be lifted, until the update is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_forced: bool,
    /// True if a user paused the update; false if a failure did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused_by_user: bool,
    /// Reason for which every remaining slot waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<UpdateBlocked>,
    /// The workload units.
    pub parts: Vec<(Part, UnitProgress)>,
}

impl UpdateStatus {
    /// Returns slots to be replaced at the start, apart from those without a node.
    pub fn total(&self) -> u32 {
        self.parts.iter().map(|(_, part)| part.reachable()).sum()
    }

    /// Returns slots that are done: those that failed are not, whether that is tolerated or not.
    pub fn done(&self) -> u32 {
        let done = |part: &UnitProgress| part.done.min(part.reachable()).saturating_sub(part.failing);
        self.parts.iter().map(|(_, part)| done(part)).sum()
    }

    /// Returns which slots of a workload unit do not count as done because the version failed in them, in words.
    pub fn failing_text(&self, part: &Part) -> Option<String> {
        match self.part(part)?.failing {
            0 => None,
            1 => Some(
                "1 slot is not updated: its instance failed, and none has run there for long enough since"
                    .to_owned(),
            ),
            count => Some(format!(
                "{count} slots are not updated: their instances failed, and none has run there for long enough since"
            )),
        }
    }

    /// Returns slots without a node, which follow when they get one.
    pub fn set_aside(&self) -> u32 {
        self.parts.iter().map(|(_, part)| part.set_aside).sum()
    }

    /// Returns tasks that failed.
    pub fn failed(&self) -> u32 {
        self.parts.iter().map(|(_, part)| (part.failed.len() + part.unhealthy.len()) as u32).sum()
    }

    /// Returns the slots in work of all workload units.
    pub fn tickets(&self) -> impl Iterator<Item = (&Part, &Slot, &Ticket)> {
        self.parts
            .iter()
            .flat_map(|(name, part)| part.tickets.iter().map(move |(slot, one)| (name, slot, one)))
    }

    /// Returns the share of a workload unit.
    pub fn part(&self, name: &Part) -> Option<&UnitProgress> {
        self.parts.iter().find(|(one, _)| one == name).map(|(_, part)| part)
    }

    /// Returns the share of a workload unit to be changed; an empty one is added.
    pub fn part_mut(&mut self, name: &Part) -> &mut UnitProgress {
        let position = self.parts.iter().position(|(one, _)| one == name).unwrap_or_else(|| {
            self.parts.push((name.clone(), UnitProgress::default()));
            self.parts.len() - 1
        });
        &mut self.parts[position].1
    }

    /// Returns whether slots are being replaced.
    pub fn is_rolling(&self) -> bool {
        matches!(self.state, UpdateState::Updating | UpdateState::RollbackStarted)
    }

    /// Returns whether a user or a failure paused it.
    pub fn is_paused(&self) -> bool {
        matches!(self.state, UpdateState::Paused | UpdateState::RollbackPaused)
    }

    /// Returns whether slots are being, or were being, returned to the previous version.
    pub fn is_rollback(&self) -> bool {
        matches!(
            self.state,
            UpdateState::RollbackStarted | UpdateState::RollbackPaused | UpdateState::RollbackCompleted
        )
    }

    /// Applies a user's action, or what a client wrote.
    ///
    /// # Errors
    /// [`UpdateConflict`] when the state does not allow the action.
    pub fn request(
        &mut self,
        event: UpdateEvent,
        message: &str,
        now: Timestamp,
    ) -> Result<(), UpdateConflict> {
        let state = next_state(self.state, event)?;
        match event {
            UpdateEvent::Written => {
                // Slots in work are still down, and count until they are finished.
                let mut parts = std::mem::take(&mut self.parts);
                parts.iter_mut().for_each(|(_, part)| part.restart(0));
                *self = Self { parts, ..Self::default() };
            }
            UpdateEvent::Resume => {
                // Earlier failures do not count again.
                for (_, part) in &mut self.parts {
                    part.failed.clear();
                    part.unhealthy.clear();
                    part.reopen_failing();
                }
                self.counts_from = Some(now);
                // Running instances are monitored again.
                self.last_step_at = Some(now);
            }
            UpdateEvent::RollbackRequested => self.start(now),
            _ => {}
        }
        self.is_paused_by_user = event == UpdateEvent::Pause;
        self.state = state;
        message.clone_into(&mut self.message);
        Ok(())
    }

    /// Begins again; slots in work stay in work.
    pub fn start(&mut self, now: Timestamp) {
        self.started_at = Some(now);
        self.counts_from = Some(now);
        self.completed_at = None;
        self.target = None;
        self.blocked = None;
        self.is_forced = false;
        self.is_paused_by_user = false;
        self.last_step_at = None;
        self.parts.iter_mut().for_each(|(_, part)| part.restart(0));
        self.parts.retain(|(_, part)| !part.tickets.is_empty());
    }
}

impl UnitProgress {
    /// Counts the slots that failed as open again: what they run has to show itself.
    fn reopen_failing(&mut self) {
        self.done = self.done.saturating_sub(std::mem::take(&mut self.failing));
        self.failing_slots.clear();
    }

    fn restart(&mut self, total: u32) {
        self.tickets.retain(|_, ticket| ticket.done_at.is_none());
        self.tickets.values_mut().for_each(|ticket| ticket.task = None);
        *self = Self { total, tickets: std::mem::take(&mut self.tickets), ..Self::default() };
    }
}

#[cfg(test)]
#[path = "update_status_tests.rs"]
mod tests;
