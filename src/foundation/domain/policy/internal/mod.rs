//! The internal policy: the common form into which node, deployment policy and pattern are converted to be compared, and which
//! is sent in proposals.
//!
//! Conversion: [`super::deployment_policy`], [`super::pattern`], [`InternalPolicy::from_node`]. Merging: [`super::terms`].
//! Source: agreement-protocol 3.2.

mod api_spec;
mod data_verification;
mod protocol;
mod same;
mod self_consistent;
mod workload;

use serde::{Deserialize, Serialize};

pub(crate) use api_spec::merge_api_specs;
pub use api_spec::{ApiSpec, support_required_specs};
pub use data_verification::{DataVerification, DataVerificationError, Metering};
pub use protocol::{AgreementProtocol, BASIC_PROTOCOL, Blockchain, NoCommonProtocol, common_protocols};
pub use same::PolicyDifference;
pub(crate) use same::is_same_set;
pub use self_consistent::SelfConsistencyError;
pub(crate) use workload::is_any_arch;
pub use workload::{Workload, WorkloadPriority};

use super::constraint::ConstraintList;
use super::external::{ExternalPolicy, PolicyError};
use super::node_policy::NodePolicy;
use super::property::{PropertyError, PropertyList, builtin};
use super::reference_json::{self, DecodeError};
use super::secret_binding::SecretBinding;
use super::user_input::UserInput;

/// The schema version that both sides of an agreement must name.
pub const SCHEMA_VERSION: &str = "2.0";

/// Maximum number of entries of a list of a received policy, so that comparing two stays quick.
pub const MAX_ENTRIES: usize = 4_000;

/// The reason why a node's policy cannot be converted into the internal form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeConversionError {
    /// Properties or constraints are invalid.
    #[error("the node policy is not valid")]
    Invalid(#[from] PolicyError),
    /// A property is a duplicate.
    #[error("the node policy cannot be converted")]
    Property(#[from] PropertyError),
    /// The namespace of a cluster agent is not text.
    #[error("the property \"{}\" must be text", builtin::KUBERNETES_NAMESPACE)]
    NamespaceNotText,
}

/// Name and schema version of an internal policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyHeader {
    /// The name; of a node's policy always `Policy for org/node`.
    pub name: String,
    /// The schema version, [`SCHEMA_VERSION`].
    pub version: String,
}

/// An internal policy.
///
/// # Shape
/// Empty lists and texts are not written; `valueExchange`, `dataVerification`, `proposalRejection` and `nodeHealth` always
/// are, as objects. Reading accepts the absence of everything.
/// # Source
/// Agreement-protocol 3.2.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InternalPolicy {
    /// Name and schema version.
    pub header: PolicyHeader,
    /// The pattern's qualified id; empty for deployment policies and nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pattern_id: String,
    /// Required or offered dependencies (pattern case only).
    #[serde(rename = "apiSpec", skip_serializing_if = "Vec::is_empty")]
    pub api_specs: Vec<ApiSpec>,
    /// The acceptable agreement protocols; none means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreement_protocols: Vec<AgreementProtocol>,
    /// The versions of the service that may be deployed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Workload>,
    /// Unused, kept when passed on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_type: String,
    /// Unused, kept when passed on.
    pub value_exchange: ValueExchange,
    /// Settings of data verification (obsolete).
    pub data_verification: DataVerification,
    /// Unused, kept when passed on.
    pub proposal_rejection: ProposalRejection,
    /// Maximum number of agreements of a producer; 0 means no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_agreements: i64,
    /// The properties of this side.
    #[serde(skip_serializing_if = "is_empty_properties", serialize_with = "reference_json::properties")]
    pub properties: PropertyList,
    /// Its constraints on the properties of the other side.
    #[serde(skip_serializing_if = "is_empty_constraints")]
    pub constraints: ConstraintList,
    /// Unused, kept when passed on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_workload: String,
    /// The condition under which a node counts as lost.
    pub node_health: NodeHealth,
    /// Values for the variables of services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_input: Vec<UserInput>,
    /// The stored secrets bound to secrets of a service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_binding: Vec<SecretBinding>,
    /// The secrets' values, in proposals only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_details: Vec<SecretBinding>,
    /// The cluster namespace of the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_namespace: String,
}

impl InternalPolicy {
    /// Creates an empty policy of that name.
    pub fn named(name: impl Into<String>) -> Self {
        let header = PolicyHeader { name: name.into(), version: SCHEMA_VERSION.to_owned() };
        Self { header, ..Self::default() }
    }

    /// Creates the producer policy of a node from its effective deployment policy.
    ///
    /// # Shape
    /// `node_id` is qualified; the name becomes `Policy for org/node`, by which the agent finds its own policy.
    /// # Errors
    /// [`NodeConversionError`] for the first error.
    pub fn from_node(node_id: &str, policy: &NodePolicy) -> Result<Self, NodeConversionError> {
        let effective = policy.deployment_policy();
        // The namespace is checked before later properties, as in the reference.
        Self::from_external(&producer_name(node_id), effective)
    }

    /// Creates an internal policy from properties and constraints.
    ///
    /// # Errors
    /// [`NodeConversionError`] for the first error.
    pub fn from_external(name: &str, mut policy: ExternalPolicy) -> Result<Self, NodeConversionError> {
        policy.validate_and_normalize()?;
        let mut internal = Self::named(name);
        for property in policy.properties.iter() {
            internal.properties.add(property.clone())?;
            if property.name == builtin::KUBERNETES_NAMESPACE {
                let namespace = property.value.as_str().ok_or(NodeConversionError::NamespaceNotText)?;
                internal.cluster_namespace = namespace.to_owned();
            }
        }
        internal.constraints = policy.constraints;
        Ok(internal)
    }

    /// Parses the text of a policy in a proposal.
    ///
    /// # Errors
    /// [`DecodeError`] when the text is not the JSON of a policy, or one of its lists has more than [`MAX_ENTRIES`] entries.
    pub fn from_text(text: &str) -> Result<Self, DecodeError> {
        let policy: Self = reference_json::from_text(text)?;
        let lengths = [
            policy.api_specs.len(),
            policy.agreement_protocols.len(),
            policy.workloads.len(),
            policy.properties.len(),
            policy.constraints.len(),
            policy.user_input.len(),
            policy.secret_binding.len(),
            policy.secret_details.len(),
        ];
        if lengths.into_iter().any(|length| length > MAX_ENTRIES) {
            return Err(DecodeError::custom("a list has too many entries"));
        }
        Ok(policy)
    }

    /// Returns the text of the policy in a proposal, byte by byte as the reference writes it.
    pub fn to_text(&self) -> String {
        reference_json::to_text(self)
    }

    /// Returns the policy as a pair of properties and constraints.
    pub fn external(&self) -> ExternalPolicy {
        ExternalPolicy { properties: self.properties.clone(), constraints: self.constraints.clone() }
    }

    /// Merges properties and constraints: own properties win, constraints are added.
    ///
    /// # Source
    /// Agreement-protocol 3.7 (step 3).
    pub fn merge_external(&self, addition: &ExternalPolicy) -> Self {
        let mut merged = self.clone();
        merged.properties.merge(&addition.properties, false);
        merged.constraints.merge(&addition.constraints);
        merged
    }
}

/// Returns the name of a node's producer policy.
pub fn producer_name(node_id: &str) -> String {
    format!("Policy for {node_id}")
}

/// The condition under which a node counts as lost, in seconds; 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealth {
    /// Maximum age of the last heartbeat.
    #[serde(rename = "missing_heartbeat_interval", skip_serializing_if = "is_zero")]
    pub missing_heartbeat_secs: i64,
    /// Interval between checks of the node's record of the agreement.
    #[serde(rename = "check_agreement_status", skip_serializing_if = "is_zero")]
    pub check_agreement_secs: i64,
}

/// The payment for the service; unused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ValueExchange {
    /// The kind of payment.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Seconds between payments.
    #[serde(rename = "paymentRate", skip_serializing_if = "is_zero")]
    pub payment_secs: i64,
    /// The currency or unit of the value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
}

/// The limit on repeated proposals; unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProposalRejection {
    /// Maximum number of rejections.
    #[serde(rename = "number", skip_serializing_if = "is_zero")]
    pub count: i64,
    /// Seconds until the next attempt.
    #[serde(rename = "duration", skip_serializing_if = "is_zero")]
    pub pause_secs: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_empty_properties(properties: &PropertyList) -> bool {
    properties.is_empty()
}

fn is_empty_constraints(constraints: &ConstraintList) -> bool {
    constraints.is_empty()
}

#[cfg(test)]
mod tests;
