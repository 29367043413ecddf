//! Descriptions of stored members that cannot be read.
//!
//! The exchange keeps members as they were written. They are read like in the reference: null counts as
//! absent. Members that cannot be read match nothing; these functions name them, so that they do not go
//! unnoticed.

use evenkeel_domain::policy::{
    compatibility::{ServiceDependency, deployment::needs_privileges},
    reference_json,
    secret_binding::SecretBinding,
    user_input::{UserInput, Variable},
};
use evenkeel_ids::ServiceKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    facts::{DeploymentPolicyFacts, NodeFacts, ServiceFacts, ServicePolicyFacts},
    report::Blocked,
};

/// Name of the values that a node gives to variables.
pub(super) const NODE_INPUT: &str = "userInput of the node";

/// Reads the entries of a member.
///
/// # Errors
/// [`Blocked::Unreadable`] for the first entry of another shape.
pub(crate) fn read<T: DeserializeOwned>(member: &str, entries: &[Value]) -> Result<Vec<T>, Blocked> {
    let read = |(index, entry)| {
        reference_json::from_value(entry)
            .map_err(|error| Blocked::Unreadable { detail: format!("{member}[{index}]: {}", error.reason()) })
    };
    entries.iter().enumerate().map(read).collect()
}

/// Returns the services that a service needs.
///
/// # Errors
/// [`Blocked::Unreadable`] for the first entry of another shape.
pub(super) fn dependencies(service: &ServiceFacts) -> Result<Vec<ServiceDependency>, Blocked> {
    read("requiredServices of the service", &service.required_services)
}

/// Returns the keys of the services that a service needs, as far as they can be read.
pub fn needed_services(service: &ServiceFacts) -> Vec<ServiceKey> {
    let read = |need| reference_json::from_value::<ServiceDependency>(need).ok();
    service.required_services.iter().filter_map(read).map(|need| need.key()).collect()
}

/// Returns the variables of a service.
///
/// # Errors
/// As those of [`dependencies`].
pub(super) fn variables(service: &ServiceFacts) -> Result<Vec<Variable>, Blocked> {
    read("userInput of the service", &service.user_input)
}

/// Returns what cannot be read of a deployment policy, or of the service of a pattern.
pub fn policy_errors(policy: &DeploymentPolicyFacts) -> Vec<String> {
    let constraints = policy.policy.constraints.errors().into_iter().map(|error| error.to_string());
    let members = [
        read::<UserInput>("userInput", &policy.user_input).map(drop),
        read::<SecretBinding>("secretBinding", &policy.secret_binding).map(drop),
    ];
    constraints.chain(members.into_iter().filter_map(detail)).collect()
}

/// Returns what cannot be read of a service definition.
pub fn service_errors(service: &ServiceFacts) -> Vec<String> {
    let deployment = Value::String(service.deployment.clone());
    let deployment = needs_privileges(service.id.as_str(), &deployment).err().map(|error| error.to_string());
    let members = [dependencies(service).map(drop), variables(service).map(drop)];
    members.into_iter().filter_map(detail).chain(deployment).collect()
}

/// Returns what cannot be read of the policy of a service.
pub fn service_policy_errors(policy: &ServicePolicyFacts) -> Vec<String> {
    let constraints = policy.policy.constraints.errors().into_iter().map(|error| error.to_string());
    policy.unreadable.iter().cloned().chain(constraints).collect()
}

/// Returns what cannot be read of the values that a node gives to variables.
pub fn node_input_errors(node: &NodeFacts) -> Vec<String> {
    detail(read::<UserInput>(NODE_INPUT, &node.user_input).map(drop)).into_iter().collect()
}

fn detail(read: Result<(), Blocked>) -> Option<String> {
    match read {
        Err(Blocked::Unreadable { detail }) => Some(detail),
        Err(other) => Some(other.to_string()),
        Ok(()) => None,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::{ConstraintList, ExternalPolicy};
    use evenkeel_ids::{NodeId, PolicyId};
    use serde_json::json;

    use super::*;
    use crate::{
        event::Event,
        explain::explain,
        facts::NodePolicyFacts,
        fixture::{agreement, at, deployment_policy, running_group, service},
        matching::Fit,
        model::{
            Model,
            selection::{fit, select},
        },
    };

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
    fn null_members_are_as_absent_ones_and_others_are_named() {
        let read_one = |value: &Value| read::<UserInput>("userInput", std::slice::from_ref(value));
        let absent = json!({"serviceOrgid": "o", "serviceUrl": "s"});
        for same in [Value::Null, json!("")] {
            assert_eq!(read_one(&input(same)), read_one(&absent));
        }
        let Err(Blocked::Unreadable { detail }) = read_one(&input(json!(5))) else { panic!("a number") };
        assert!(detail.starts_with("userInput[0]: "), "{detail}");
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
            Event::ServicePolicyChanged {
                service: service("s", "1.0.0").id,
                policy: Some(Box::new(of_service)),
            },
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
            Event::ServicePolicyChanged {
                service: service("s", "1.0.0").id,
                policy: Some(Box::new(of_service)),
            },
        ] {
            let mut model = model(DeploymentPolicyFacts { policy: policy.clone(), ..deployment_policy() });
            model.apply(&event, at(100));
            let found = fit(&model, &agreement("a"), at(100));
            assert!(matches!(found, Fit::Unclear(_)), "{found:?}");
            let refused = select(&model, &node, &policy_id, at(100)).unwrap_err();
            assert!(refused.to_string().contains("odd"), "{refused}");
        }
    }
}
