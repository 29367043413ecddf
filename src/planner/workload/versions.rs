//! Versions of a workload's task spec.

use serde::{Deserialize, Serialize};

/// One version of a workload's task spec: service reference, version list, user input, secret binding, loads.
///
/// # Shape
/// A task is out of date when its version is not equal to the workload's, in number or digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpecVersion {
    /// Its number.
    pub number: u64,
    /// Digest of what the task runs.
    pub digest: u64,
}

/// The versions of a workload's task spec.
///
/// # Shape
/// Numbers only grow: a rollback makes an earlier version current again, and the next write takes a number never used before.
/// # Source
/// Orchestration 1.10, B11.7, B11.9; engine 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    next: u64,
    /// The version that tasks are to run.
    pub current: SpecVersion,
    /// The version before it, if a rollback to it is possible.
    pub previous: Option<SpecVersion>,
    /// The version that was given up by a rollback.
    pub rolled_back_from: Option<SpecVersion>,
}

impl Versions {
    /// Creates the versions of a new workload.
    pub fn new(digest: u64) -> Self {
        let current = SpecVersion { number: 1, digest };
        Self { next: 2, current, previous: None, rolled_back_from: None }
    }

    /// Takes note of what a client wrote; nothing changes when the task spec is the same as that of the last write.
    ///
    /// A workload that was rolled back stays so until a client writes another task spec.
    #[must_use]
    pub fn write(self, digest: u64) -> Self {
        let written = self.rolled_back_from.unwrap_or(self.current);
        if written.digest == digest {
            return self;
        }
        if self.current.digest == digest {
            return Self { rolled_back_from: None, ..self };
        }
        Self {
            next: self.next + 1,
            current: SpecVersion { number: self.next, digest },
            previous: Some(self.current),
            rolled_back_from: None,
        }
    }

    /// Makes the version that was given up by a rollback current again; none when there is none.
    pub fn retry(self) -> Option<Self> {
        let current = self.rolled_back_from?;
        Some(Self { current, previous: Some(self.current), rolled_back_from: None, ..self })
    }

    /// Exchanges the current and the previous version, as a user requests it; none when there is none.
    pub fn swap(self) -> Option<Self> {
        let current = self.previous?;
        let written = self.rolled_back_from.unwrap_or(self.current);
        let rolled_back_from = (current != written).then_some(written);
        Some(Self { current, previous: Some(self.current), rolled_back_from, ..self })
    }

    /// Makes the previous version current again after a failure, which is not undone; none when there is none.
    pub fn roll_back(self) -> Option<Self> {
        let current = self.previous?;
        Some(Self { current, previous: None, rolled_back_from: Some(self.current), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_even_after_a_rollback() {
        let first = Versions::new(10);
        let second = first.write(20);
        assert_eq!((second.current.number, second.previous), (2, Some(first.current)));
        let back = second.roll_back().unwrap();
        assert_eq!((back.current, back.previous), (first.current, None));
        assert_eq!(back.rolled_back_from, Some(second.current));
        assert_eq!(back.roll_back(), None);
        assert_eq!(back.retry(), Some(second));
        assert_eq!(second.retry(), None);
        assert_eq!(back.write(30).current, SpecVersion { number: 3, digest: 30 });
    }

    #[test]
    fn second_rollback_of_a_user_returns_to_what_the_document_says() {
        let second = Versions::new(10).write(20);
        let back = second.swap().unwrap();
        assert_eq!((back.current, back.previous), (second.previous.unwrap(), Some(second.current)));
        assert_eq!(back.rolled_back_from, Some(second.current));
        assert_eq!(back.write(20), back, "the document still holds it");
        let again = back.swap().unwrap();
        assert_eq!((again.current, again.previous), (second.current, second.previous));
        assert_eq!((again.rolled_back_from, again.write(20)), (None, again));
        assert_eq!(Versions::new(10).swap(), None);
    }

    #[test]
    fn write_of_the_same_task_spec_changes_nothing() {
        let second = Versions::new(10).write(20);
        assert_eq!(second.write(20), second);
        // The document still holds what was rolled back.
        let back = second.roll_back().unwrap();
        assert_eq!(back.write(20), back);
        // The client now writes what runs already.
        let settled = back.write(10);
        assert_eq!((settled.current, settled.rolled_back_from), (back.current, None));
    }
}
