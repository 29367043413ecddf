//! The orchestration settings of a deployment policy, converted for the planner.
//!
//! Source: orchestration 1.2.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::Scope;
use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_ids::{OrgId, PolicyId};
use evenkeel_planner_record::facts::PolicyOrchestration;
use serde_json::Value;

/// Converts the object `orchestration` of a policy that may have none, and is served to nodes of some organizations.
///
/// # Errors
/// The unreadable members, in words, if an exchange of another version wrote them. Ignoring them would run the
/// policy on every node that it selects.
pub fn orchestration(
    policy: &PolicyId,
    document: Option<&Value>,
    node_orgs: &BTreeSet<OrgId>,
) -> Result<PolicyOrchestration, String> {
    let Some(document) = document.filter(|document| !document.is_null()) else {
        return Ok(PolicyOrchestration::default());
    };
    let mut read = supported_orchestration(policy, document.clone()).map_err(|error| error.to_string())?;
    drop_unserved(&mut read.scope, policy, node_orgs);
    Ok(PolicyOrchestration::of(policy, &read))
}

/// Drops what a scope names in organizations to whose nodes the policy is not served: it would start nothing there, and its status would show
/// which nodes and groups there are.
fn drop_unserved(scope: &mut Scope, policy: &PolicyId, node_orgs: &BTreeSet<OrgId>) {
    let (Scope::Nodes { nodes: names } | Scope::HaGroups { ha_groups: names }) = scope else { return };
    names.retain(|name| {
        let org = name.split_once('/').map_or(policy.org(), |(org, _)| org);
        org == policy.org() || node_orgs.iter().any(|one| one.as_str() == org)
    });
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::GroupId;
    use evenkeel_planner_record::facts::{Mode, PolicyScope};
    use evenkeel_planner_record::settings::UpdateOverrides;
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_belong_to_the_policys_organization_unless_they_name_one() {
        let policy = PolicyId::new("o", "p");
        let node_orgs = ["o", "other"].map(|org| org.parse().unwrap()).into();
        let of = |groups: Value| {
            let document = json!({"scope": {"type": "hagroups", "haGroups": groups}});
            orchestration(&policy, Some(&document), &node_orgs).unwrap().scope
        };
        let named = [GroupId::new("o", "g"), GroupId::new("other", "h")];
        assert_eq!(of(json!(["g", "other/h"])), PolicyScope::HaGroups(named.into()));
        assert_eq!(of(json!(["*"])), PolicyScope::EveryHaGroup);
    }

    #[test]
    fn scope_holds_nothing_of_organizations_that_are_not_served() {
        let policy = PolicyId::new("o", "p");
        let of = |scope: Value| {
            orchestration(&policy, Some(&json!({"scope": scope})), &BTreeSet::new()).unwrap().scope
        };
        let groups = of(json!({"type": "hagroups", "haGroups": ["foreign/g", "g", "o/h"]}));
        let own = [GroupId::new("o", "g"), GroupId::new("o", "h")];
        assert_eq!(groups, PolicyScope::HaGroups(own.into()));
        let nodes = of(json!({"type": "nodes", "nodes": ["foreign/n"]}));
        assert_eq!(nodes, PolicyScope::Nodes(BTreeSet::new()));
    }

    #[test]
    fn what_is_left_out_stays_the_hubs() {
        let policy = PolicyId::new("o", "p");
        let document = json!({"update": {"monitorSeconds": 7}, "ha": {"minRunning": 3}});
        let read = orchestration(&policy, Some(&document), &BTreeSet::new()).unwrap();
        let expected =
            UpdateOverrides { monitor_secs: Some(7), min_running: Some(3), ..UpdateOverrides::default() };
        assert_eq!((read.update, read.scope), (expected, PolicyScope::Eligible));
    }

    #[test]
    fn document_that_cannot_be_carried_out_is_refused_and_none_is_the_usual_one() {
        let policy = PolicyId::new("o", "p");
        for document in [
            json!({"mode": "later"}),
            json!({"mode": "replicated", "placement": {"rebalance": 1}}),
            json!([]),
        ] {
            assert!(orchestration(&policy, Some(&document), &BTreeSet::new()).is_err(), "{document}");
        }
        for none in [None, Some(&Value::Null)] {
            assert_eq!(orchestration(&policy, none, &BTreeSet::new()), Ok(PolicyOrchestration::default()));
        }
        let failover = json!({"mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": ["g"]}});
        assert_eq!(orchestration(&policy, Some(&failover), &BTreeSet::new()).unwrap().mode(), Mode::Failover);
    }
}
