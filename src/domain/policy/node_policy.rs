//! The policy of a node, in its flat first form and its present form with parts for deployment and management.
//!
//! Source: agreement protocol, "External forms".

use serde::{Deserialize, Serialize};

use super::external::{ExternalPolicy, PolicyChange, PolicyError};
use super::property::{builtin, null_as_default};

/// The policy of a node.
///
/// # Shape
/// The top level holds for deployment and management alike; the parts refine it, see [`NodePolicy::deployment_policy`].
/// Empty label and description are not written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodePolicy {
    /// A short name for people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// A text for people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The top level.
    #[serde(flatten)]
    pub common: ExternalPolicy,
    /// What holds for the deployment of services only.
    #[serde(default, deserialize_with = "null_as_default")]
    pub deployment: ExternalPolicy,
    /// What holds for the management of the node only.
    #[serde(default, deserialize_with = "null_as_default")]
    pub management: ExternalPolicy,
}

impl NodePolicy {
    /// Converts the flat first form: what the agent reports of its node stays on the top level, everything else moves to the
    /// deployment part; invalid and repeated properties are left out.
    pub fn from_v1(flat: &ExternalPolicy) -> Self {
        let mut policy = Self::default();
        for property in flat.properties.iter() {
            let part = if builtin::is_node_property(&property.name) {
                &mut policy.common
            } else {
                &mut policy.deployment
            };
            // Leaving out is the rule of the reference for both reasons that this can fail for.
            let _left_out = part.properties.add(property.clone());
        }
        policy.deployment.constraints = flat.constraints.clone();
        policy
    }

    /// Returns what holds for the deployment of services: the properties of the top level overlaid by those of the
    /// deployment part, and the constraints of that part if it has any, else those of the top level.
    pub fn deployment_policy(&self) -> ExternalPolicy {
        effective(&self.common, &self.deployment)
    }

    /// Returns what holds for the management of the node, by the rule of [`NodePolicy::deployment_policy`].
    pub fn management_policy(&self) -> ExternalPolicy {
        effective(&self.common, &self.management)
    }

    /// Tests and normalises the three levels.
    ///
    /// # Errors
    /// [`PolicyError`] for the first thing that is wrong.
    pub fn validate_and_normalize(&mut self) -> Result<(), PolicyError> {
        self.common.validate_and_normalize()?;
        self.deployment.validate_and_normalize()?;
        self.management.validate_and_normalize()
    }

    /// Returns what changes for deployment and for management when `new` takes the place of this policy; `None` means that
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

/// What a change of a node's policy means for each of its two uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodePolicyChange {
    /// For the deployment of services.
    pub deployment: PolicyChange,
    /// For the management of the node.
    pub management: PolicyChange,
}

fn effective(common: &ExternalPolicy, part: &ExternalPolicy) -> ExternalPolicy {
    let properties = if common.properties.is_empty() {
        // The reference copies here instead of merging, so that repeated and invalid properties survive.
        part.properties.clone()
    } else {
        let mut properties = common.properties.clone();
        properties.merge(&part.properties, true);
        properties
    };
    let constraints = if part.constraints.is_empty() { &common.constraints } else { &part.constraints };
    ExternalPolicy { properties, constraints: constraints.clone() }
}
