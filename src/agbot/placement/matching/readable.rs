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
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, NodeFacts, ServiceFacts, ServicePolicyFacts},
    report::Blocked,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Name of the values that a node gives to variables.
pub(super) const NODE_INPUT: &str = "userInput of the node";

/// Reads the entries of a member.
///
/// # Errors
/// [`Blocked::Unreadable`] for the first entry of another shape.
pub fn read<T: DeserializeOwned>(member: &str, entries: &[Value]) -> Result<Vec<T>, Blocked> {
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
    use serde_json::json;

    use super::*;

    fn input(arch: Value) -> Value {
        json!({"serviceOrgid": "o", "serviceUrl": "s", "serviceArch": arch, "inputs": null})
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
}
