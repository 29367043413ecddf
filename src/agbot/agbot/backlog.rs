//! Queue lengths, for monitoring.

use std::time::Duration;

use jiff::Timestamp;

/// The length of a queue and the age of its oldest entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Number of entries.
    pub count: u64,
    /// Age of the oldest entry; zero when there is none.
    pub age: Duration,
}

/// The backlog of a queue when it was last counted.
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
