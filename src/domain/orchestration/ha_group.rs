//! `orchestration` of an HA group.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::{Members, MembersError, Object};

/// Largest number of members and longest time that a document may name.
const MAX_MEMBERS: u64 = 100_000;
const MAX_SECONDS: u64 = 604_800;

const GROUP: Members = Members {
    known: &["exclusiveDisruption", "maxUnavailable", "lockStaleSeconds"],
    unsupported: &["healthPolicy"],
};

/// How many members of an HA group may be disrupted at once.
///
/// # Source
/// Orchestration 1.4, E5.4, E6.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Value")]
pub struct HaGroupOrchestration {
    /// Whether only one member may be disrupted at a time, whatever the cause.
    pub exclusive_disruption: bool,
    /// Members that may be disrupted at once when the group is not exclusive.
    pub max_unavailable: u32,
    /// Time after which the claim of a silent member is released, in seconds.
    pub lock_stale_seconds: u64,
}

impl Default for HaGroupOrchestration {
    fn default() -> Self {
        Self { exclusive_disruption: true, max_unavailable: 1, lock_stale_seconds: 1_800 }
    }
}

impl TryFrom<Value> for HaGroupOrchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let default = Self::default();
        let mut root = Object::open("orchestration".to_owned(), value, &GROUP)?;
        Ok(Self {
            exclusive_disruption: root
                .boolean("exclusiveDisruption")?
                .unwrap_or(default.exclusive_disruption),
            max_unavailable: root
                .number("maxUnavailable", 1..=MAX_MEMBERS)?
                .unwrap_or(default.max_unavailable),
            lock_stale_seconds: root
                .number("lockStaleSeconds", 60..=MAX_SECONDS)?
                .unwrap_or(default.lock_stale_seconds),
        })
    }
}

impl HaGroupOrchestration {
    /// Checks the document against the number of members.
    ///
    /// # Errors
    /// When a group of two or more could lose all of them at once.
    pub fn check_members(&self, count: usize) -> Result<(), MembersError> {
        if count < 2 || (self.max_unavailable as usize) < count {
            return Ok(());
        }
        Err(MembersError {
            path: "orchestration.maxUnavailable".to_owned(),
            rule: format!("must be less than the number of members, {count}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn group_keeps_its_rules_and_has_its_defaults() {
        let read = |document: Value| HaGroupOrchestration::try_from(document);
        assert_eq!(read(json!({})).unwrap(), HaGroupOrchestration::default());
        for (document, expected) in [
            (json!([]), " must be an object"),
            (json!({"exclusiveDisruption": 1}), ".exclusiveDisruption must be true or false"),
            (json!({"maxUnavailable": 0}), ".maxUnavailable must be an integer from 1 to 100000"),
            (json!({"lockStaleSeconds": 59}), ".lockStaleSeconds must be an integer from 60 to 604800"),
            (json!({"maxUnavailabel": 1}), ".maxUnavailabel is not known; maxUnavailable was probably meant"),
            (json!({"healthPolicy": {}}), ".healthPolicy is not supported"),
        ] {
            let error = read(document.clone()).unwrap_err().to_string();
            assert_eq!(error, format!("orchestration{expected}"), "{document}");
        }
    }

    #[test]
    fn group_never_loses_all_of_its_members() {
        let group = HaGroupOrchestration { max_unavailable: 2, ..HaGroupOrchestration::default() };
        assert!(group.check_members(1).is_ok() && group.check_members(3).is_ok());
        let error = group.check_members(2).unwrap_err().to_string();
        assert_eq!(error, "orchestration.maxUnavailable must be less than the number of members, 2");
    }
}
