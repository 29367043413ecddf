//! The deployment policy ("business policy" on the wire): the service to deploy, and its target nodes.
//!
//! Source: agreement-protocol 3.1.

use serde::{Deserialize, Serialize};

use super::constraint::{ConstraintError, ConstraintList};
use super::internal::{
    AgreementProtocol, BASIC_PROTOCOL, InternalPolicy, NodeHealth, Workload, WorkloadPriority,
};
use super::property::{Property, PropertyError, PropertyList, builtin};
use super::secret_binding::SecretBinding;
use super::user_input::UserInput;

/// Maximum number of versions, user input entries and secret bindings of a deployment policy or a service of a pattern.
pub const MAX_ENTRIES: usize = 1_000;

/// The reason why a deployment policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentPolicyError {
    /// The service has no name or no organization.
    #[error("the service needs a name and an organization")]
    IncompleteService,
    /// No version is named.
    #[error("the service has no versions")]
    NoVersions,
    /// A version has no text.
    #[error("a version of service \"{service}\" is empty")]
    EmptyVersion { service: String },
    /// Rank, tries and window of a version are inconsistent.
    #[error(
        "version \"{version}\": a priority needs retries and retry_durations, and without one all of them must be absent"
    )]
    IncompletePriority { version: String },
    /// A list is too long.
    #[error("{count} {list} are more than the {MAX_ENTRIES} allowed")]
    TooMany { list: &'static str, count: usize },
    /// A property is invalid or a duplicate.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A constraint is invalid.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
}

/// A deployment policy as the exchange stores it.
///
/// # Shape
/// The id, owner and timestamps are not part of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentPolicy {
    /// The user that created it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// A short display name.
    pub label: String,
    /// A human-readable description.
    pub description: String,
    /// The deployed service.
    pub service: ServiceReference,
    /// The properties of the policy.
    #[serde(skip_serializing_if = "<[Property]>::is_empty")]
    pub properties: PropertyList,
    /// Its constraints on the properties of nodes.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub constraints: ConstraintList,
    /// Values for the variables of services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_input: Vec<UserInput>,
    /// The stored secrets bound to secrets of a service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_binding: Vec<SecretBinding>,
}

/// The service that a deployment policy deploys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceReference {
    /// Its name.
    pub name: String,
    /// Its organization.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub org: String,
    /// The architecture; empty or `*` for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// The cluster namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_namespace: String,
    /// The versions, with their ranks.
    #[serde(rename = "serviceVersions", skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<ServiceVersion>,
    /// The condition under which a node counts as lost.
    pub node_health: NodeHealth,
}

/// A version of a service and its rank.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceVersion {
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its rank.
    pub priority: WorkloadPriority,
    /// Obsolete, kept when passed on.
    pub upgrade_policy: UpgradePolicy,
}

/// When to upgrade; without effect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpgradePolicy {
    /// `immediate`, `never` or `agreement`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lifecycle: String,
    /// The time of day.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
}

impl DeploymentPolicy {
    /// Tests the policy and turns the texts "true" and "false" of the property that allows privileged services into
    /// booleans.
    ///
    /// # Errors
    /// [`DeploymentPolicyError`] for the first error.
    pub fn validate_and_normalize(&mut self) -> Result<(), DeploymentPolicyError> {
        self.check_size()?;
        self.service.validate()?;
        self.properties.validate()?;
        self.normalize_allow_privileged()?;
        Ok(self.constraints.validate()?)
    }

    /// Returns whether the policy has no constraints on nodes.
    pub fn has_no_constraints(&self) -> bool {
        self.constraints.iter().all(|constraint| constraint.trim().is_empty())
    }

    /// Converts the policy into the internal form.
    ///
    /// # Shape
    /// `id` is qualified and becomes the name. Versions equal to an earlier one are left out.
    /// # Errors
    /// [`DeploymentPolicyError`] for the first error.
    pub fn to_internal(&self, id: &str) -> Result<InternalPolicy, DeploymentPolicyError> {
        let mut policy = self.clone();
        policy.validate_and_normalize()?;
        let Self { service, properties, constraints, user_input, secret_binding, .. } = policy;
        let mut internal = InternalPolicy::named(id);
        internal.workloads = service.workloads()?;
        for property in properties.iter() {
            internal.properties.add(property.clone())?;
        }
        internal.constraints = constraints;
        internal.node_health = service.node_health;
        internal.agreement_protocols = vec![AgreementProtocol::named(BASIC_PROTOCOL)];
        internal.user_input = user_input;
        internal.secret_binding = secret_binding;
        internal.cluster_namespace = service.cluster_namespace;
        Ok(internal)
    }

    fn check_size(&self) -> Result<(), DeploymentPolicyError> {
        let lists = [
            ("service versions", self.service.versions.len()),
            ("entries of user input", self.user_input.len()),
            ("secret bindings", self.secret_binding.len()),
        ];
        match lists.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
            Some((list, count)) => Err(DeploymentPolicyError::TooMany { list, count }),
            None => Ok(()),
        }
    }

    /// The type is kept here, unlike elsewhere; a value declared as text therefore stays text.
    fn normalize_allow_privileged(&mut self) -> Result<(), PropertyError> {
        match self.properties.get(builtin::ALLOW_PRIVILEGED) {
            Some(property) if !property.declared.is_undeclared() => match property.value.as_str() {
                None | Some("true" | "false") if !property.value.is_number() => Ok(()),
                _ => Err(PropertyError::NotABoolean { name: builtin::ALLOW_PRIVILEGED.to_owned() }),
            },
            _ => self.properties.normalize_allow_privileged(),
        }
    }
}

impl ServiceReference {
    fn validate(&self) -> Result<(), DeploymentPolicyError> {
        if self.name.is_empty() || self.org.is_empty() {
            return Err(DeploymentPolicyError::IncompleteService);
        }
        if self.versions.is_empty() {
            return Err(DeploymentPolicyError::NoVersions);
        }
        match self.versions.iter().find(|version| !version.priority.is_complete()) {
            Some(bad) => Err(DeploymentPolicyError::IncompletePriority { version: bad.version.clone() }),
            None => Ok(()),
        }
    }

    fn workloads(&self) -> Result<Vec<Workload>, DeploymentPolicyError> {
        let mut workloads = Vec::new();
        for version in &self.versions {
            if version.version.is_empty() {
                return Err(DeploymentPolicyError::EmptyVersion { service: self.name.clone() });
            }
            let workload = Workload {
                url: self.name.clone(),
                org: self.org.clone(),
                version: version.version.clone(),
                arch: self.arch.clone(),
                priority: version.priority,
                ..Workload::default()
            };
            push_new(&mut workloads, workload);
        }
        Ok(workloads)
    }
}

/// Appends an element unless an equal one exists.
pub(crate) fn push_new(workloads: &mut Vec<Workload>, workload: Workload) {
    if !workloads.iter().any(|existing| existing.is_same(&workload)) {
        workloads.push(workload);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(properties: serde_json::Value) -> DeploymentPolicy {
        serde_json::from_value(json!({
            "service": {"name": "cam", "org": "acme", "serviceVersions": [{"version": "1.0.0"}]},
            "properties": properties,
        }))
        .unwrap()
    }

    #[test]
    fn text_that_allows_privileges_becomes_boolean_unless_declared_as_text() {
        let name = builtin::ALLOW_PRIVILEGED;
        let value =
            |policy: DeploymentPolicy| policy.to_internal("acme/p").unwrap().properties[0].value.clone();
        assert_eq!(value(policy(json!([{"name": name, "value": "true"}]))), json!(true));
        assert_eq!(value(policy(json!([{"name": name, "value": "true", "type": "string"}]))), json!("true"));
        for bad in [json!("maybe"), json!(1)] {
            assert!(policy(json!([{"name": name, "value": bad}])).to_internal("acme/p").is_err());
        }
        assert!(
            policy(json!([{"name": name, "value": "yes", "type": "string"}])).to_internal("acme/p").is_err()
        );
        assert!(policy(json!([{"name": name, "value": 1, "type": "int"}])).to_internal("acme/p").is_err());
    }

    #[test]
    fn oversized_policy_is_refused_before_any_work_is_done_on_it() {
        let mut policy = policy(json!([]));
        policy.service.versions = vec![policy.service.versions[0].clone(); 50_000];
        let refused = policy.to_internal("acme/p").unwrap_err();
        assert_eq!(refused, DeploymentPolicyError::TooMany { list: "service versions", count: 50_000 });
        policy.service.versions.truncate(1);
        policy.constraints = vec!["a == b"; 10_000].into_iter().collect();
        assert!(matches!(policy.to_internal("acme/p"), Err(DeploymentPolicyError::Constraint(_))));
    }

    #[test]
    fn equal_versions_are_kept_once() {
        let mut policy = policy(json!([]));
        policy.service.versions.push(policy.service.versions[0].clone());
        assert_eq!(policy.to_internal("acme/p").unwrap().workloads.len(), 1);
    }
}
