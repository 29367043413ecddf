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
/// Numbers only grow: a rollback, or a write of what the version before ran, makes that one current again, and any other write takes a
/// number never used before.
/// # Source
/// Orchestration 1.10, B11.7, B11.9; engine 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    next: u64,
    /// The version that tasks are to run.
    pub current: SpecVersion,
    /// The last version before it whose update completed, if a rollback to it is possible.
    pub previous: Option<SpecVersion>,
    /// The version that was given up by a rollback.
    pub rolled_back_from: Option<SpecVersion>,
    /// True if the update to the current version has not completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unproven: bool,
}

impl Versions {
    /// Creates the versions of a new workload.
    pub fn new(digest: u64) -> Self {
        let current = SpecVersion { number: 1, digest };
        Self { next: 2, current, previous: None, rolled_back_from: None, is_unproven: false }
    }

    /// Takes note of what a client wrote; nothing changes when the task spec is the same as that of the last write.
    ///
    /// A workload that was rolled back stays so until a client writes another task spec. A version whose update has not completed is none to
    /// return to.
    #[must_use]
    pub fn write(self, digest: u64) -> Self {
        let written = self.rolled_back_from.unwrap_or(self.current);
        if written.digest == digest {
            return self;
        }
        if self.current.digest == digest {
            return Self { rolled_back_from: None, ..self };
        }
        if let Some(current) = self.previous.filter(|previous| previous.digest == digest) {
            // What runs it still is up to date.
            let previous = if self.is_unproven { None } else { Some(self.current) };
            return Self {
                current,
                previous,
                rolled_back_from: None,
                is_unproven: !self.is_unproven,
                ..self
            };
        }
        Self {
            next: self.next + 1,
            current: SpecVersion { number: self.next, digest },
            previous: if self.is_unproven { self.previous } else { Some(self.current) },
            rolled_back_from: None,
            is_unproven: true,
        }
    }

    /// Takes note of the end of the update to the current version.
    #[must_use]
    pub fn completed(self) -> Self {
        Self { is_unproven: false, ..self }
    }

    /// Makes the version that was given up by a rollback current again; none when there is none.
    pub fn retry(self) -> Option<Self> {
        let current = self.rolled_back_from?;
        let previous = if self.is_unproven { self.previous } else { Some(self.current) };
        Some(Self { current, previous, rolled_back_from: None, is_unproven: true, ..self })
    }

    /// Makes the version current again that worked last, after a failure or as a user requests it; none when there is none. There is none to
    /// return to after that.
    pub fn roll_back(self) -> Option<Self> {
        let current = self.previous?;
        let rolled_back_from = Some(self.current);
        Some(Self { current, previous: None, rolled_back_from, is_unproven: false, ..self })
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
        assert_eq!(back.roll_back(), None, "there is no version to return to");
        assert_eq!(back.retry(), Some(second));
        assert_eq!(second.retry(), None);
        assert_eq!(back.write(30).current, SpecVersion { number: 3, digest: 30 });
        assert_eq!(back.write(30).previous, Some(first.current));
        assert_eq!(Versions::new(10).roll_back(), None);
    }

    #[test]
    fn rollback_returns_to_the_last_version_whose_update_completed() {
        let first = Versions::new(10);
        // The second one failed, and was replaced by a third one before anything was rolled back.
        let third = first.write(20).write(30);
        assert_eq!(third.previous, Some(first.current));
        assert_eq!(third.roll_back().unwrap().current, first.current);
        let fourth = third.completed().write(40);
        assert_eq!(fourth.previous, Some(third.current));
        // A version that was written repeatedly is one to return to as soon as it has worked.
        assert_eq!(first.write(20).write(10).write(20).previous, Some(first.current));
    }

    #[test]
    fn write_of_what_the_version_before_ran_makes_it_current_again() {
        let first = Versions::new(10);
        let failed = first.write(20);
        let back = failed.write(10);
        assert_eq!((back.current, back.previous), (first.current, None));
        assert_eq!(back.write(30).current, SpecVersion { number: 3, digest: 30 });
        let worked = failed.completed();
        let back = worked.write(10);
        assert_eq!((back.current, back.previous), (first.current, Some(failed.current)));
        assert_eq!(back.write(30).previous, Some(failed.current), "the return to it has not completed");
        assert_eq!(back.completed().write(30).previous, Some(first.current));
    }

    #[test]
    fn versions_are_written_and_read_without_loss() {
        let fourth = Versions::new(10).write(20).write(30).completed().write(40);
        let text = serde_json::to_string(&fourth).unwrap();
        assert_eq!(serde_json::from_str::<Versions>(&text).unwrap(), fourth);
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
