//! The policy of a node, in its flat first format and its current format with parts for deployment and management.
//!
//! Source: agreement-protocol 3.1.

use serde::{Deserialize, Serialize};

use super::constraint::ConstraintList;
use super::external::{ExternalPolicy, PolicyChange, PolicyError};
use super::property::{PropertyList, builtin, null_as_default};

/// The policy of a node.
///
/// # Shape
/// The top level applies to deployment and management alike; the parts refine it, see [`NodePolicy::deployment_policy`].
/// Empty label and description are not written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Members")]
pub struct NodePolicy {
    /// A short display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// A human-readable description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The top level.
    #[serde(flatten)]
    pub common: ExternalPolicy,
    /// The part for the deployment of services.
    pub deployment: ExternalPolicy,
    /// The part for the management of the node.
    pub management: ExternalPolicy,
    /// True if the top level has a list of properties, even an empty one: then duplicate properties of the
    /// parts are merged.
    #[serde(skip)]
    pub names_common_properties: bool,
}

/// The members as read: one by one, because a flattened struct cannot be read leniently.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Members {
    #[serde(deserialize_with = "null_as_default")]
    label: String,
    #[serde(deserialize_with = "null_as_default")]
    description: String,
    properties: Option<PropertyList>,
    #[serde(deserialize_with = "null_as_default")]
    constraints: ConstraintList,
    #[serde(deserialize_with = "null_as_default")]
    deployment: ExternalPolicy,
    #[serde(deserialize_with = "null_as_default")]
    management: ExternalPolicy,
}

impl From<Members> for NodePolicy {
    fn from(members: Members) -> Self {
        let Members { label, description, properties, constraints, deployment, management } = members;
        let names_common_properties = properties.is_some();
        let common = ExternalPolicy { properties: properties.unwrap_or_default(), constraints };
        Self { label, description, common, deployment, management, names_common_properties }
    }
}

/// The value of `nodePolicyVersion` of a policy in the current format.
pub const PRESENT_VERSION: &str = "v2";

impl NodePolicy {
    /// Converts a stored policy into the current format: without a version it is flat, see
    /// [`NodePolicy::from_v1`].
    ///
    /// # Errors
    /// [`PolicyError::UnknownVersion`] when the version is neither empty nor [`PRESENT_VERSION`].
    pub fn from_stored(stored: Self, version: &str) -> Result<Self, PolicyError> {
        match version {
            "" => Ok(Self::from_v1(&stored.common)),
            PRESENT_VERSION => Ok(stored),
            other => Err(PolicyError::UnknownVersion { version: other.to_owned() }),
        }
    }

    /// Converts the flat first format: properties reported by the agent stay on the top level, everything else moves to the
    /// deployment part; invalid and duplicate properties are left out.
    pub fn from_v1(flat: &ExternalPolicy) -> Self {
        let mut policy = Self::default();
        for property in flat.properties.iter() {
            let part = if builtin::is_node_property(&property.name) {
                &mut policy.common
            } else {
                &mut policy.deployment
            };
            // The reference leaves the property out for both possible errors.
            let _left_out = part.properties.add(property.clone());
        }
        policy.deployment.constraints = flat.constraints.clone();
        policy
    }

    /// Returns the effective policy for the deployment of services: the properties of the top level overlaid by those of the
    /// deployment part, and the constraints of that part if it has any, else those of the top level.
    pub fn deployment_policy(&self) -> ExternalPolicy {
        self.effective(&self.deployment)
    }

    /// Returns the effective policy for the management of the node, by the rule of [`NodePolicy::deployment_policy`].
    pub fn management_policy(&self) -> ExternalPolicy {
        self.effective(&self.management)
    }

    fn effective(&self, part: &ExternalPolicy) -> ExternalPolicy {
        let properties = if self.common.properties.is_empty() && !self.names_common_properties {
            // The reference copies here instead of merging, so that duplicate and invalid properties survive.
            part.properties.clone()
        } else {
            let mut properties = self.common.properties.clone();
            properties.merge(&part.properties, true);
            properties
        };
        let constraints =
            if part.constraints.is_empty() { &self.common.constraints } else { &part.constraints };
        ExternalPolicy { properties, constraints: constraints.clone() }
    }

    /// Validates and normalizes the three levels.
    ///
    /// # Errors
    /// [`PolicyError`] for the first error.
    pub fn validate_and_normalize(&mut self) -> Result<(), PolicyError> {
        self.common.validate_and_normalize()?;
        self.deployment.validate_and_normalize()?;
        self.management.validate_and_normalize()
    }

    /// Returns the differences for deployment and for management between this policy and its replacement; `None` means that
    /// the policy is deleted.
    pub fn compare(&self, new: Option<&Self>) -> NodePolicyChange {
        match new {
            None => NodePolicyChange { deployment: PolicyChange::DELETED, management: PolicyChange::DELETED },
            Some(new) => NodePolicyChange {
                deployment: self.deployment_policy().compare(&new.deployment_policy()),
                management: self.management_policy().compare(&new.management_policy()),
            },
        }
    }
}

/// The differences for each of the two uses of a node's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodePolicyChange {
    /// For the deployment of services.
    pub deployment: PolicyChange,
    /// For the management of the node.
    pub management: PolicyChange,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(value: serde_json::Value) -> NodePolicy {
        serde_json::from_value(value).unwrap()
    }

    fn two_levels() -> NodePolicy {
        policy(json!({
            "label": "pump house",
            "properties": [{"name": "site", "value": "north"}, {"name": "role", "value": "none"}],
            "constraints": ["a == b"],
            "deployment": {"properties": [{"name": "role", "value": "camera"}], "constraints": ["c == d"]},
            "management": null,
        }))
    }

    #[test]
    fn parts_overlay_the_top_level() {
        let deployment = two_levels().deployment_policy();
        assert_eq!(deployment.properties.get("role").unwrap().value, "camera");
        assert_eq!(deployment.properties.len(), 2);
        assert_eq!(*deployment.constraints, ["c == d"]);
        let management = two_levels().management_policy();
        assert_eq!(management.properties.get("role").unwrap().value, "none");
        assert_eq!(*management.constraints, ["a == b"]);
    }

    #[test]
    fn flat_form_keeps_what_the_agent_reports_on_the_top_level() {
        let flat = serde_json::from_value(json!({
            "properties": [{"name": "openhorizon.cpu", "value": 4}, {"name": "x", "value": 1}, {"name": "x", "value": 2}],
            "constraints": ["a == b"],
        }))
        .unwrap();
        let converted = NodePolicy::from_v1(&flat);
        assert_eq!((converted.common.properties.len(), converted.deployment.properties.len()), (1, 1));
        assert_eq!(converted.deployment.properties[0].value, 1);
        assert_eq!(*converted.deployment.constraints, ["a == b"]);
        assert!(converted.management.is_empty());
    }

    #[test]
    fn stored_version_decides_about_the_form() {
        let present = NodePolicy::from_stored(two_levels(), PRESENT_VERSION).unwrap();
        assert_eq!(present, two_levels());
        let converted = NodePolicy::from_stored(two_levels(), "").unwrap();
        assert_eq!(*converted.deployment.constraints, ["a == b"]);
        let unknown = NodePolicy::from_stored(two_levels(), "v3");
        assert_eq!(unknown, Err(PolicyError::UnknownVersion { version: "v3".into() }));
    }

    #[test]
    fn change_of_one_part_leaves_the_other_use_alone() {
        let mut new = two_levels();
        new.management.constraints.push("e == f");
        let change = two_levels().compare(Some(&new));
        assert_eq!((change.deployment, change.management), (PolicyChange::NONE, PolicyChange::CONSTRAINTS));
        assert_eq!(two_levels().compare(None).management, PolicyChange::DELETED);
    }

    #[test]
    fn every_level_is_validated() {
        for level in ["deployment", "management"] {
            let mut wrong = policy(json!({level: {"constraints": ["a =="]}}));
            assert!(wrong.validate_and_normalize().is_err(), "{level}");
        }
        assert_eq!(two_levels().validate_and_normalize(), Ok(()));
    }

    #[test]
    fn empty_texts_are_not_written() {
        let text = serde_json::to_string(&policy(json!({"label": null, "nodePolicyVersion": "v2"}))).unwrap();
        let expected = r#"{"properties":[],"constraints":[],"deployment":{"properties":[],"constraints":[]},"management":{"properties":[],"constraints":[]}}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn repeated_properties_of_a_part_become_one_only_beside_a_top_level_list() {
        let twice = json!([{"name": "a", "value": 1}, {"name": "a", "value": 2}]);
        let length = |value| policy(value).deployment_policy().properties.len();
        assert_eq!(length(json!({"deployment": {"properties": twice}})), 2);
        assert_eq!(length(json!({"properties": null, "deployment": {"properties": twice}})), 2);
        assert_eq!(length(json!({"properties": [], "deployment": {"properties": twice}})), 1);
    }
}
