//! The results of the check: human-readable reasons and machine-readable classes.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_ids::ServiceId;

use super::deployment::UnreadableDeployment;
use super::resolve::ResolveError;
use crate::policy::constraint::ConstraintError;
use crate::policy::deployment_policy::DeploymentPolicyError;
use crate::policy::external::PolicyError;
use crate::policy::internal::NodeConversionError;
use crate::policy::secret_binding::SecretBindingProblem;
use crate::policy::terms::PolicyMismatch;
use crate::policy::user_input::UserInputProblem;

/// The reason why the check itself failed.
///
/// # Shape
/// [`CheckError::code`] is the number that the compatible API returns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The node type is invalid.
    #[error("the node type \"{given}\" is neither device nor cluster")]
    NodeType { given: String },
    /// The node has no policy.
    #[error("the node has no policy")]
    NoNodePolicy,
    /// The node's policy is not valid.
    #[error("the node policy is not valid: {0}")]
    NodePolicy(PolicyError),
    /// The policy of a service is not valid.
    #[error("the policy of service {service} is not valid: {reason}")]
    ServicePolicy { service: ServiceId, reason: PolicyError },
    /// The node's policy cannot be converted into the internal form.
    #[error("the node policy cannot be converted: {0}")]
    NodeConversion(NodeConversionError),
    /// The deployment policy is not valid.
    #[error("the deployment policy is not valid: {0}")]
    DeploymentPolicy(DeploymentPolicyError),
    /// The cluster deployment of a service names a namespace that is not text.
    #[error("the cluster deployment of {service} names a namespace that is not text")]
    NamespaceNotText { service: ServiceId },
    /// A service of the exchange has an invalid deployment.
    #[error(transparent)]
    Deployment(UnreadableDeployment),
    /// A service or dependency is missing in the exchange.
    #[error(transparent)]
    Service(ResolveError),
    /// The constraints about the cluster namespace are invalid.
    #[error("the constraints about the cluster namespace cannot be read: {0}")]
    NamespaceConstraint(ConstraintError),
}

impl CheckError {
    /// Returns the code of the compatible API: 10 input, 11 validation, 12 conversion, 13 merging, 14 exchange,
    /// 15 general, 0 other.
    pub fn code(&self) -> u8 {
        match self {
            Self::NodeType { .. } | Self::NoNodePolicy => 10,
            Self::NodePolicy(_) | Self::ServicePolicy { .. } | Self::NamespaceNotText { .. } => 11,
            Self::NodeConversion(_) | Self::DeploymentPolicy(_) | Self::Deployment(_) => 12,
            Self::Service(_) => 14,
            Self::NamespaceConstraint(_) => 0,
        }
    }
}

/// The reason why a service cannot run on a node.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Incompatibility {
    /// The policy requires another architecture than that of the node.
    #[error("the policy requires architecture {policy}, the node has {node}")]
    Architecture { policy: String, node: String },
    /// The service cannot run on devices.
    #[error("the service has no deployment for nodes of type device")]
    NoDeviceDeployment,
    /// The service cannot run on clusters.
    #[error("the service has no deployment for nodes of type cluster")]
    NoClusterDeployment,
    /// The policies are incompatible.
    #[error(transparent)]
    Policies(#[from] PolicyMismatch),
    /// The policy names another namespace than the agent is confined to.
    #[error("the policy names the namespace \"{policy}\", but the agent is confined to \"{agent}\"")]
    PolicyNamespace { policy: String, agent: String },
    /// The service names another namespace than the agent is confined to.
    #[error(
        "the service names the namespace \"{service}\", but the agent is confined to \"{agent}\"; a deployment policy can \
         name another one"
    )]
    ServiceNamespace { service: String, agent: String },
    /// The pattern names another namespace than the agent accepts patterns of.
    #[error(
        "the pattern names the namespace \"{pattern}\", but the agent accepts patterns of \"{wanted}\" only"
    )]
    PatternNamespace { pattern: String, wanted: String },
    /// The policy's constraints exclude the namespace that it names.
    #[error("the deployment policy names the namespace \"{namespace}\" and excludes it by its constraints")]
    NamespaceConstraint { namespace: String },
    /// The cluster deployment cannot be read.
    #[error("the cluster deployment of the service cannot be read: {reason}")]
    ClusterDeploymentUnreadable { reason: String },
    /// A deployment cannot be read.
    #[error(transparent)]
    DeploymentUnreadable(#[from] UnreadableDeployment),
    /// The service or one of its dependencies is not defined.
    #[error(transparent)]
    ServiceMissing(#[from] ResolveError),
    /// A variable of the service or of a dependency cannot be set.
    #[error(transparent)]
    UserInput(#[from] UserInputProblem),
    /// A secret of the service or of a dependency is not bound.
    #[error(transparent)]
    SecretBinding(#[from] SecretBindingProblem),
    /// No version of the policy is for the node's architecture.
    #[error("no service of the deployment policy is for architecture {arch}")]
    NoServiceForArchitecture { arch: String },
    /// There is no matching service.
    #[error("no service of the deployment policy is defined")]
    NoServices,
}

impl Incompatibility {
    /// Returns the machine-readable class of the reason.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Architecture { .. } => "arch_mismatch",
            Self::NoDeviceDeployment => "no_device_deployment",
            Self::NoClusterDeployment => "no_cluster_deployment",
            Self::Policies(mismatch) => policy_class(mismatch),
            Self::PolicyNamespace { .. } => "policy_namespace_mismatch",
            Self::ServiceNamespace { .. } => "service_namespace_mismatch",
            Self::PatternNamespace { .. } => "pattern_namespace_mismatch",
            Self::NamespaceConstraint { .. } => "namespace_constraint_conflict",
            Self::ClusterDeploymentUnreadable { .. } => "cluster_deployment_unreadable",
            Self::DeploymentUnreadable(_) => "deployment_unreadable",
            Self::ServiceMissing(_) => "service_definition_missing",
            Self::UserInput(_) => "user_input",
            Self::SecretBinding(_) => "secret_binding",
            Self::NoServiceForArchitecture { .. } => "no_service_for_node_arch",
            Self::NoServices => "no_services",
        }
    }
}

fn policy_class(mismatch: &PolicyMismatch) -> &'static str {
    use PolicyMismatch as M;
    match mismatch {
        M::NodeProperties(_) | M::ConsumerConstraintsUnreadable(_) => "node_properties_fail_constraints",
        M::ConsumerProperties(_) | M::NodeConstraintsUnreadable(_) => "properties_fail_node_constraints",
        M::SchemaVersion { .. } => "schema_version_mismatch",
        M::AgreementProtocol(_) => "no_common_agreement_protocol",
        M::DataVerification => "data_verification_mismatch",
    }
}

/// The result for one version of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceVerdict {
    /// The service; its architecture is empty where neither policy nor node names one.
    pub service_id: ServiceId,
    /// All obstacles, in the order of the tests; empty when the service can run.
    pub obstacles: Vec<Incompatibility>,
}

impl ServiceVerdict {
    /// Returns whether the service can run on the node.
    pub fn is_compatible(&self) -> bool {
        self.obstacles.is_empty()
    }

    /// Returns `compatible` or the class of the first obstacle.
    pub fn class(&self) -> &'static str {
        self.obstacles.first().map_or("compatible", Incompatibility::class)
    }
}

/// Formats every obstacle, in the form that the compatible command line uses.
impl fmt::Display for ServiceVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_compatible() {
            return formatter.write_str("Compatible");
        }
        let obstacles: Vec<_> = self.obstacles.iter().map(Incompatibility::to_string).collect();
        let subject = match self.obstacles.first() {
            Some(Incompatibility::UserInput(_)) => "User Input",
            Some(Incompatibility::SecretBinding(_)) => "Secret Binding",
            _ => "Policy",
        };
        write!(formatter, "{subject} Incompatible: {}", obstacles.join(". "))
    }
}

/// The result of the check.
#[derive(Debug, Clone, PartialEq)]
pub struct CompatibilityReport {
    /// True if at least one version can run.
    pub is_compatible: bool,
    /// One verdict per version and architecture that was checked, in the order of the policy, each id once.
    pub services: Vec<ServiceVerdict>,
    /// The obstacle of all versions alike; then `services` is empty.
    pub general: Option<Incompatibility>,
}

impl CompatibilityReport {
    pub(super) fn of_general(general: Incompatibility) -> Self {
        Self { is_compatible: false, services: Vec::new(), general: Some(general) }
    }

    /// Adds a verdict; of two with one id the later stays, but the overall result stays compatible once it was.
    pub(super) fn push(&mut self, verdict: ServiceVerdict) {
        self.is_compatible |= verdict.is_compatible();
        match self.services.iter_mut().find(|existing| existing.service_id == verdict.service_id) {
            Some(existing) => *existing = verdict,
            None => self.services.push(verdict),
        }
    }

    /// Returns the human-readable reasons by service id, or under `general`.
    pub fn reasons(&self) -> BTreeMap<String, String> {
        let general = self
            .general
            .iter()
            .map(|reason| ("general".to_owned(), format!("Policy Incompatible: {reason}")));
        general.chain(self.services.iter().map(|one| (one.service_id.to_string(), one.to_string()))).collect()
    }

    /// Returns the classes of the reasons by service id, or under `general`.
    pub fn classes(&self) -> BTreeMap<&str, &'static str> {
        let general = self.general.iter().map(|reason| ("general", reason.class()));
        general.chain(self.services.iter().map(|one| (one.service_id.as_str(), one.class()))).collect()
    }

    /// Returns the report of a check that stops at the first version that can run and skips other architectures.
    pub fn brief(&self, node_arch: &str) -> Self {
        if let Some(first) = self.services.iter().find(|one| one.is_compatible()) {
            return Self { services: vec![first.clone()], ..self.clone() };
        }
        let is_other_arch =
            |one: &&ServiceVerdict| !matches!(one.obstacles[..], [Incompatibility::Architecture { .. }]);
        let services: Vec<_> = self.services.iter().filter(is_other_arch).cloned().collect();
        if services.is_empty() && self.general.is_none() {
            return Self::of_general(Incompatibility::NoServiceForArchitecture {
                arch: node_arch.to_owned(),
            });
        }
        Self { services, ..self.clone() }
    }
}
