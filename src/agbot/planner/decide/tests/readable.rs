//! Policies of which a part cannot be read.

use evenkeel_domain::policy::{ConstraintList, ExternalPolicy};
use evenkeel_explain::explain::explain;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::matching::{Fit, policy_errors};
use evenkeel_planner_model::{
    event::Event,
    group_fixture::running_group,
    model::{
        Model,
        selection::{fit, select},
    },
};
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, NodePolicyFacts, ServicePolicyFacts},
    fixture::{agreement, at, deployment_policy, service},
};
use serde_json::{Value, json};

fn input(arch: Value) -> Value {
    json!({"serviceOrgid": "o", "serviceUrl": "s", "serviceArch": arch, "inputs": null})
}

/// Returns a model with node `o/a`, whose policy is empty, and a deployment policy.
fn model(policy: DeploymentPolicyFacts) -> Model {
    let (mut model, now) = running_group(&["a"]);
    let facts = NodePolicyFacts::default();
    for event in [
        Event::NodePolicyChanged { node: NodeId::new("o", "a"), policy: Some(Box::new(facts)) },
        Event::ServiceChanged { service: Box::new(service("s", "1.0.0")) },
        Event::DeploymentPolicyChanged { policy: Box::new(policy) },
    ] {
        model.apply(&event, now);
    }
    model
}

fn pair() -> (NodeId, PolicyId) {
    (NodeId::new("o", "a"), PolicyId::new("o", "p"))
}

#[test]
fn policy_with_null_members_is_matched() {
    let policy = DeploymentPolicyFacts {
        user_input: vec![input(Value::Null)],
        secret_binding: vec![
            json!({"serviceOrgid": "o", "serviceUrl": "s", "serviceVersionRange": null, "secrets": null}),
        ],
        ..deployment_policy()
    };
    assert_eq!(policy_errors(&policy), Vec::<String>::new());
    let (node, policy_id) = pair();
    assert!(select(&model(policy), &node, &policy_id, at(100)).is_ok());
}

#[test]
fn every_selected_node_has_a_reason_when_a_policy_is_not_carried_out() {
    let (node, policy_id) = pair();
    let versions = |version: &str| {
        let mut policy = deployment_policy();
        policy.versions[0].version = version.to_owned();
        policy
    };
    let broken = DeploymentPolicyFacts { user_input: vec![input(json!(5))], ..deployment_policy() };
    for (policy, expected) in [(broken, "userInput[0]"), (versions("9.0.0"), "9.0.0")] {
        let model = model(policy);
        assert!(
            model.nodes_for(&policy_id).contains(&node) && model.policies_for(&node).contains(&policy_id)
        );
        let text = explain(&model, &node, &policy_id, at(100)).text();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn stored_policy_with_too_many_comparisons_is_not_evaluated_and_stops_nothing() {
    let (node, policy_id) = pair();
    let constraints: ConstraintList =
        (0..900).map(|first| vec![format!("p{first} == v"); 45].join(" || ")).collect();
    let large = ExternalPolicy { constraints, ..ExternalPolicy::default() };
    let of_deployment = DeploymentPolicyFacts { policy: large.clone(), ..deployment_policy() };
    let of_node = NodePolicyFacts { policy: large.clone(), ..NodePolicyFacts::default() };
    let of_service = ServicePolicyFacts { policy: large, ..ServicePolicyFacts::default() };
    assert_eq!(policy_errors(&of_deployment).len(), 1);
    for event in [
        Event::DeploymentPolicyChanged { policy: Box::new(of_deployment) },
        Event::NodePolicyChanged { node: node.clone(), policy: Some(Box::new(of_node)) },
        Event::ServicePolicyChanged { service: service("s", "1.0.0").id, policy: Some(Box::new(of_service)) },
    ] {
        let mut model = model(deployment_policy());
        model.apply(&event, at(100));
        let found = fit(&model, &agreement("a"), at(100));
        assert!(matches!(found, Fit::Unclear(_)), "{found:?}");
        let refused = select(&model, &node, &policy_id, at(100)).unwrap_err().to_string();
        assert!(refused.contains("constraint 22 exceeds the 1000 comparisons"), "{refused}");
    }
}

#[test]
fn unreadable_policy_of_a_node_or_service_starts_nothing_and_stops_nothing() {
    let (node, policy_id) = pair();
    let unreadable = || Some("odd".to_owned());
    let of_node = NodePolicyFacts { unreadable: unreadable(), ..NodePolicyFacts::default() };
    let of_service = ServicePolicyFacts { unreadable: unreadable(), ..ServicePolicyFacts::default() };
    let constraints = ["zone == z1"].into_iter().collect();
    let policy = ExternalPolicy { constraints, ..ExternalPolicy::default() };
    for event in [
        Event::NodePolicyChanged { node: node.clone(), policy: Some(Box::new(of_node)) },
        Event::ServicePolicyChanged { service: service("s", "1.0.0").id, policy: Some(Box::new(of_service)) },
    ] {
        let mut model = model(DeploymentPolicyFacts { policy: policy.clone(), ..deployment_policy() });
        model.apply(&event, at(100));
        let found = fit(&model, &agreement("a"), at(100));
        assert!(matches!(found, Fit::Unclear(_)), "{found:?}");
        let refused = select(&model, &node, &policy_id, at(100)).unwrap_err();
        assert!(refused.to_string().contains("odd"), "{refused}");
    }
}
