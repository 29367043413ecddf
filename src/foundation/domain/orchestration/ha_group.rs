//! `orchestration` of an HA group.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::health_policy::{HealthPolicy, Target};
use crate::object::{Members, MembersError, Object};

/// Largest number of members and longest time that a document may name.
const MAX_MEMBERS: u64 = 100_000;
const MAX_SECONDS: u64 = 604_800;

const GROUP: Members = Members {
    known: &["exclusiveDisruption", "maxUnavailable", "lockStaleSeconds", HEALTH_POLICY],
    unsupported: &[],
};
const HEALTH_POLICY: &str = "healthPolicy";

/// Number of members of an HA group that may be disrupted at once, and how failures of members are detected.
///
/// # Source
/// Orchestration 1.4, C1, E5.4, E6.5.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "Value", deny_unknown_fields)]
pub struct HaGroupOrchestration {
    /// True if only one member may be disrupted at a time, for any cause.
    #[schema(required = false)]
    pub exclusive_disruption: bool,
    /// Number of members that may be disrupted at once if the group is not exclusive.
    #[schema(required = false, minimum = 1, maximum = 100_000)]
    pub max_unavailable: u32,
    /// Time after which the claim of a silent member is released, in seconds.
    #[schema(required = false, minimum = 60, maximum = 604_800)]
    pub lock_stale_seconds: u64,
    /// Detection of failures of members, and recovery from them; none disables both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub health_policy: Option<Box<HealthPolicy>>,
}

impl Default for HaGroupOrchestration {
    fn default() -> Self {
        Self {
            exclusive_disruption: true,
            max_unavailable: 1,
            lock_stale_seconds: 1_800,
            health_policy: None,
        }
    }
}

impl TryFrom<Value> for HaGroupOrchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let default = Self::default();
        let mut root = Object::open("orchestration".to_owned(), value, &GROUP)?;
        let health_policy = root.take(HEALTH_POLICY).map(|document| {
            HealthPolicy::read("orchestration.healthPolicy", document, Target::Group).map(Box::new)
        });
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
            health_policy: health_policy.transpose()?,
        })
    }
}

impl HaGroupOrchestration {
    /// Checks the health policy against the agents of the members, of which `capable` read tasks and carry out commands.
    ///
    /// # Errors
    /// When peers are to examine each other and there are fewer than two of them, or when no agent could carry out an action.
    ///
    /// # Source
    /// Orchestration C3, C6.
    pub fn check_agents(&self, capable: usize, members: usize) -> Result<(), MembersError> {
        let Some(policy) = &self.health_policy else { return Ok(()) };
        let refused = |member: &str, rule: String| {
            Err(MembersError { path: format!("orchestration.healthPolicy.{member}"), rule })
        };
        if let Some(mode) = policy.peer_mode().filter(|_| capable < 2) {
            let mode = mode.kind.word();
            let rule = format!(
                "must not have {mode}: members examine each other, and {capable} of {members} agents can do that"
            );
            return refused("detection.detection_modes", rule);
        }
        policy.check_commands("orchestration.healthPolicy", capable, members)
    }

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
            (json!({"healthPolicy": {}}), ".healthPolicy.detection must be an object"),
            (
                json!({"healthPolicy": {"detection": {"type": "NODE_STATUS_POLLING"}, "recovery": {"actions": [{"name": "MIGRATE"}]}}}),
                ".healthPolicy.recovery.actions[0].name must not be MIGRATE: it needs a deployment policy",
            ),
        ] {
            let error = read(document.clone()).unwrap_err().to_string();
            assert_eq!(error, format!("orchestration{expected}"), "{document}");
        }
    }

    #[test]
    fn health_policy_of_a_group_is_stored_with_its_defaults_and_refused_where_nobody_carries_it_out() {
        let group = |policy: Value| HaGroupOrchestration::try_from(json!({"healthPolicy": policy})).unwrap();
        let read = group(json!({"detection": {"type": "NODE_STATUS_POLLING"}}));
        let shown = json!(read);
        assert_eq!(shown["healthPolicy"]["detection"]["interval"], 60);
        assert_eq!(HaGroupOrchestration::try_from(shown).unwrap(), read);
        for (policy, expected) in [
            (
                json!({"detection": {"type": "LB_STATUS_POLLING"}}),
                "detection.detection_modes must not have LB_STATUS_POLLING: members examine each other, and 1 of 2 agents can do that",
            ),
            (
                json!({"detection": {"type": "LIFECYCLE_EVENTS"}, "recovery": {"actions": [{"name": "REBOOT"}]}}),
                "recovery.actions must not be REBOOT: no agent of a member accepts commands",
            ),
        ] {
            let read = group(policy);
            assert_eq!(read.check_agents(2, 2), Ok(()));
            let few = usize::from(expected.contains("LB"));
            let error = read.check_agents(few, 2).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
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
