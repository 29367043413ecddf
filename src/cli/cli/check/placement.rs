//! Exclusions of a node by the scope of the deployment policy or by the operator of the node, regardless of policies
//! and properties.
//!
//! Source: orchestration 1.3, 1.7.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::report::Blocked;
use evenkeel_wire::exchange::node_orchestration::Availability;

use super::definitions::PolicyInput;
use super::node_input::NodeInput;

/// Returns the reason why nothing of the policy is placed on the node, in the agbot's words.
pub fn obstacle(node: &NodeInput, policy: &PolicyInput) -> Option<Blocked> {
    let (org, id) = crate::context::split_name(&node.id, "");
    if !policy.scope.holds(&NodeId::new(&org, &id), node.ha_group.as_deref()) {
        return Some(Blocked::OutsideScope { scope: policy.scope.clone() });
    }
    match node.availability {
        Availability::Active => None,
        Availability::Pause => Some(Blocked::NodePaused),
        Availability::Drain => Some(Blocked::NodeDraining),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::GroupId;
    use evenkeel_planner_record::facts::PolicyScope;

    use super::*;

    fn shown(group: Option<&str>, availability: Availability) -> Option<String> {
        let scope = PolicyScope::HaGroups([GroupId::new("o", "pair")].into());
        let policy = PolicyInput { scope, ..PolicyInput::default() };
        let ha_group = group.map(str::to_owned);
        let node = NodeInput { id: "o/n".to_owned(), ha_group, availability, ..NodeInput::default() };
        obstacle(&node, &policy).map(|blocked| blocked.to_string())
    }

    #[test]
    fn scope_and_availability_keep_a_service_away() {
        assert_eq!(shown(Some("pair"), Availability::Active), None);
        for group in [None, Some("other")] {
            let why = shown(group, Availability::Active).expect("outside");
            assert!(why.contains("members of o/pair only"), "{why}");
        }
        assert!(shown(Some("pair"), Availability::Pause).is_some_and(|why| why.contains("paused")));
        assert!(shown(Some("pair"), Availability::Drain).is_some_and(|why| why.contains("drained")));
    }
}
