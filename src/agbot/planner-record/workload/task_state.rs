//! The desired and the observed state of a task.
//!
//! Source: orchestration B3; engine 6 (a failed instance that may recover is impaired, not ended).

use serde::{Deserialize, Serialize};

/// The state that the engine wants a task to have.
///
/// # Shape
/// Never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesiredState {
    /// Prepared, and not started.
    Ready,
    /// Running.
    Running,
    /// Stopped; the record is kept as history.
    Shutdown,
    /// Stopped; the record is deleted after that.
    Remove,
}

/// A defect of a running instance from which it may recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impairment {
    /// Some of its containers do not run.
    PartlyRunning,
    /// It runs with health `Error`.
    Unhealthy,
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "end")]
pub enum Ending {
    /// It exited with code 0.
    Complete,
    /// It was stopped on request.
    Shutdown,
    /// It ended with an error.
    Failed {
        /// The exit code, if there is one.
        exit_code: Option<i32>,
        /// The error, in words.
        error: String,
    },
    /// It never ran.
    Rejected {
        /// The reason, in words.
        error: String,
    },
    /// Its node has been down for too long.
    Orphaned,
}

/// The one that makes a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The engine, when it creates the task.
    Orchestrator,
    /// The engine, when the version and its inputs are known.
    Allocator,
    /// The engine, when the node is chosen.
    Scheduler,
    /// The node.
    Agent,
    /// The engine, when the node is lost.
    NodeMonitor,
}

/// The observed state of a task.
///
/// # Shape
/// Ordered by [`TaskState::rank`]; a state never goes back, and an ended task never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum TaskState {
    /// Created.
    New,
    /// Version and inputs are known; waits for a node.
    Pending,
    /// The node is chosen.
    Assigned,
    /// The node accepted.
    Accepted,
    /// The node fetches what is needed.
    Preparing,
    /// Could start; waits for the desired state `running`.
    Ready,
    /// Containers are being created.
    Starting,
    /// All containers run, apart from the impairment.
    Running {
        /// Impairment of the instance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        impaired: Option<Impairment>,
    },
    /// Ended.
    Ended(Ending),
}

impl TaskState {
    /// A task that runs without a defect.
    pub const RUNNING: Self = Self::Running { impaired: None };

    /// The names that the API shows, by rank.
    pub const NAMES: [&str; 13] = [
        "new",
        "pending",
        "assigned",
        "accepted",
        "preparing",
        "ready",
        "starting",
        "running",
        "complete",
        "shutdown",
        "failed",
        "rejected",
        "orphaned",
    ];

    /// Returns the rank, which grows with every transition except between defects of a running instance.
    pub fn rank(&self) -> u16 {
        match self {
            Self::New => 0,
            Self::Pending => 64,
            Self::Assigned => 192,
            Self::Accepted => 256,
            Self::Preparing => 320,
            Self::Ready => 384,
            Self::Starting => 448,
            Self::Running { .. } => 512,
            Self::Ended(Ending::Complete) => 576,
            Self::Ended(Ending::Shutdown) => 640,
            Self::Ended(Ending::Failed { .. }) => 704,
            Self::Ended(Ending::Rejected { .. }) => 768,
            Self::Ended(Ending::Orphaned) => 832,
        }
    }

    /// Returns the name that the API shows.
    pub fn name(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Accepted => "accepted",
            Self::Preparing => "preparing",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Running { .. } => "running",
            Self::Ended(Ending::Complete) => "complete",
            Self::Ended(Ending::Shutdown) => "shutdown",
            Self::Ended(Ending::Failed { .. }) => "failed",
            Self::Ended(Ending::Rejected { .. }) => "rejected",
            Self::Ended(Ending::Orphaned) => "orphaned",
        }
    }

    /// Returns the only writer of transitions to this state.
    pub fn writer(&self) -> Writer {
        match self {
            Self::New => Writer::Orchestrator,
            Self::Pending => Writer::Allocator,
            Self::Assigned => Writer::Scheduler,
            Self::Ended(Ending::Orphaned) => Writer::NodeMonitor,
            _ => Writer::Agent,
        }
    }

    /// Returns whether a task in this state may change to `next`.
    pub fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Ended(_), _) => false,
            (Self::Running { impaired: from }, Self::Running { impaired: to }) => from != to,
            _ => next.rank() > self.rank(),
        }
    }

    /// Returns whether the task ended.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Returns whether the task ended with an error.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Ended(Ending::Failed { .. } | Ending::Rejected { .. }))
    }

    /// Returns whether the instance is seen running, impaired or not.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}
