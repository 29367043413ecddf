//! When a running instance is replaced by a newer version: `upgradePolicy.lifecycle` of a version of a deployment policy.
//!
//! It applies to policies with tasks. Source: orchestration B11.10.

use serde_json::Value;

use crate::object::{MembersError, one_of};

const WORDS: [(&str, UpgradeLifecycle); 3] = [
    ("immediate", UpgradeLifecycle::Immediate),
    ("never", UpgradeLifecycle::Never),
    ("agreement", UpgradeLifecycle::Agreement),
];

/// When a running instance is replaced by a newer version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradeLifecycle {
    /// By the update, as soon as its gates allow.
    #[default]
    Immediate,
    /// Not by an update. Only the replacement of an instance that ended has the newer version.
    Never,
    /// With the next agreement.
    Agreement,
}

impl UpgradeLifecycle {
    /// Reads the lifecycle of an entry of `serviceVersions`; none if it is not one of the words.
    #[must_use]
    pub fn of_version(entry: &Value) -> Option<Self> {
        match entry.pointer("/upgradePolicy/lifecycle").filter(|given| !given.is_null()) {
            // The clients of Open Horizon write an empty text.
            None => Some(Self::default()),
            Some(Value::String(given)) if given.is_empty() => Some(Self::default()),
            Some(given) => WORDS.iter().find(|(word, _)| given == word).map(|(_, meaning)| *meaning),
        }
    }

    /// Returns whether an update leaves running instances unchanged.
    #[must_use]
    pub fn keeps_running(self) -> bool {
        self != Self::Immediate
    }
}

/// Checks the lifecycle of every version of a deployed service (`service` of a policy).
///
/// # Errors
/// The first member that is not one of the words.
pub fn check_lifecycles(service: &Value) -> Result<(), MembersError> {
    let entries = service.get("serviceVersions").and_then(Value::as_array).into_iter().flatten();
    let unknown = entries.enumerate().find(|(_, entry)| UpgradeLifecycle::of_version(entry).is_none());
    let Some((index, _)) = unknown else { return Ok(()) };
    let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
    Err(MembersError {
        path: format!("service.serviceVersions[{index}].upgradePolicy.lifecycle"),
        rule: format!("must be {}", one_of(&words)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_three_words_and_none_are_known() {
        let of = |lifecycle: Value| {
            let entry = json!({"version": "1.0.0", "upgradePolicy": {"lifecycle": lifecycle, "time": "any"}});
            UpgradeLifecycle::of_version(&entry).map(UpgradeLifecycle::keeps_running)
        };
        assert_eq!(of(json!("immediate")), Some(false));
        assert_eq!([of(json!("never")), of(json!("agreement"))], [Some(true); 2]);
        assert_eq!([of(json!("")), of(Value::Null)], [Some(false); 2]);
        assert_eq!([of(json!("Never")), of(json!(1))], [None; 2]);
        assert_eq!(UpgradeLifecycle::of_version(&json!({})), Some(UpgradeLifecycle::Immediate));
        let service = json!({"serviceVersions": [{}, {"upgradePolicy": {"lifecycle": "later"}}]});
        let refused = check_lifecycles(&service).expect_err("there is no such word");
        assert_eq!(
            refused.to_string(),
            "service.serviceVersions[1].upgradePolicy.lifecycle must be immediate, never or agreement"
        );
    }
}
