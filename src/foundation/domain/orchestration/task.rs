//! The states of tasks, with the words by which hub and nodes exchange them.
//!
//! Source: orchestration B3.

use serde::{Deserialize, Serialize};

/// The state that the engine wants a task to have.
///
/// # Shape
/// Ordered; it never decreases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DesiredState {
    /// Prepared, and not started.
    #[default]
    Ready,
    /// Running.
    Running,
    /// Stopped; the record is kept as history.
    Shutdown,
    /// Stopped; the record is deleted after that.
    Remove,
}

/// The state of a task that has a node.
///
/// # Shape
/// Ordered; a report never reverts it, and an ended task never changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The node has been chosen, and has not reported anything yet.
    #[default]
    Assigned,
    /// The node accepted.
    Accepted,
    /// The node fetches what is needed.
    Preparing,
    /// It is ready to start, and waits for the desired state `running`.
    Ready,
    /// Its containers are being created.
    Starting,
    /// All its containers run.
    Running,
    /// It exited with code 0.
    Complete,
    /// It was stopped on request.
    Shutdown,
    /// It ended with an error.
    Failed,
    /// It never ran.
    Rejected,
}

impl DesiredState {
    /// Every state, in order.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Running, Self::Shutdown, Self::Remove];

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Shutdown => "shutdown",
            Self::Remove => "remove",
        }
    }

    /// Returns the state with a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns whether the task is to be stopped.
    #[must_use]
    pub fn is_stop(self) -> bool {
        self >= Self::Shutdown
    }
}

impl TaskState {
    /// Every state, in order.
    pub const ALL: [Self; 10] = [
        Self::Assigned,
        Self::Accepted,
        Self::Preparing,
        Self::Ready,
        Self::Starting,
        Self::Running,
        Self::Complete,
        Self::Shutdown,
        Self::Failed,
        Self::Rejected,
    ];

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Accepted => "accepted",
            Self::Preparing => "preparing",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Shutdown => "shutdown",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }

    /// Returns the state with a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns whether the task ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        self > Self::Running
    }

    /// Returns whether a report may change the state to `next`.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        !self.is_ended() && next > self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_are_written() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::of_word(state.word()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
        for desired in DesiredState::ALL {
            assert_eq!(DesiredState::of_word(desired.word()), Some(desired));
            assert_eq!(serde_json::to_value(desired).unwrap(), desired.word());
        }
        assert_eq!((TaskState::of_word("new"), DesiredState::of_word("")), (None, None));
    }

    #[test]
    fn states_only_go_forward_and_end_once() {
        assert!(TaskState::Assigned.may_become(TaskState::Running));
        assert!(!TaskState::Running.may_become(TaskState::Preparing));
        assert!(!TaskState::Running.may_become(TaskState::Running));
        assert!(!TaskState::Complete.may_become(TaskState::Failed));
    }
}
