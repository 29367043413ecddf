//! The orchestration settings of a deployment policy, converted for the planner.
//!
//! Source: orchestration 1.2.

use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_ids::PolicyId;
use evenkeel_planner::facts::PolicyOrchestration;
use serde_json::Value;

/// Converts the object `orchestration`; an invalid one (an exchange of another version) is ignored, and the hub's settings apply.
pub fn orchestration(policy: &PolicyId, document: &Value) -> PolicyOrchestration {
    match supported_orchestration(policy, document.clone()) {
        Ok(read) => PolicyOrchestration::of(policy, &read),
        Err(error) => {
            tracing::warn!(
                policy = policy.as_str(),
                error = &error as &dyn std::error::Error,
                "the hub's settings are used"
            );
            PolicyOrchestration::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::GroupId;
    use evenkeel_planner::facts::{Mode, PolicyScope};
    use evenkeel_planner::settings::UpdateOverrides;
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_belong_to_the_policys_organization_unless_they_name_one() {
        let policy = PolicyId::new("o", "p");
        let of = |groups: Value| {
            orchestration(&policy, &json!({"scope": {"type": "hagroups", "haGroups": groups}})).scope
        };
        let named = [GroupId::new("o", "g"), GroupId::new("other", "h")];
        assert_eq!(of(json!(["g", "other/h"])), PolicyScope::HaGroups(named.into()));
        assert_eq!(of(json!(["*"])), PolicyScope::EveryHaGroup);
    }

    #[test]
    fn what_is_left_out_stays_the_hubs() {
        let policy = PolicyId::new("o", "p");
        let read = orchestration(&policy, &json!({"update": {"monitorSeconds": 7}, "ha": {"minRunning": 3}}));
        let expected =
            UpdateOverrides { monitor_secs: Some(7), min_running: Some(3), ..UpdateOverrides::default() };
        assert_eq!((read.update, read.scope), (expected, PolicyScope::Eligible));
    }

    #[test]
    fn document_that_cannot_be_carried_out_changes_nothing() {
        let policy = PolicyId::new("o", "p");
        for document in [
            json!({"mode": "later"}),
            json!({"mode": "replicated", "placement": {"rebalance": 1}}),
            json!([]),
        ] {
            assert_eq!(orchestration(&policy, &document), PolicyOrchestration::default(), "{document}");
        }
        let failover = json!({"mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": ["g"]}});
        assert_eq!(orchestration(&policy, &failover).mode(), Mode::Failover);
    }
}
