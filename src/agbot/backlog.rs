//! What waits to be done, for monitoring.

use std::time::Duration;

use jiff::Timestamp;

/// How much waits in a queue, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Number of entries.
    pub count: u64,
    /// Age of the oldest entry; zero when there is none.
    pub age: Duration,
}

/// A queue as it was when it was counted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub count: u64,
    pub oldest_at: Option<Timestamp>,
}

impl Counted {
    pub(crate) fn at(self, now: Timestamp) -> Backlog {
        let age = self.oldest_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
        Backlog { count: self.count, age: age.unwrap_or_default() }
    }
}
