//! The policy of a service, its built-in properties, and its merge into a deployment policy.
//!
//! Source: agreement-protocol 3.1, 3.7.

use serde::{Deserialize, Serialize};

use super::constraint::ConstraintList;
use super::external::{ExternalPolicy, PolicyError};
use super::property::{Property, PropertyError, PropertyList, builtin, null_as_default};

/// The policy of a service.
///
/// # Shape
/// Empty label and description are not written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Members")]
pub struct ServicePolicy {
    /// A short display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// A human-readable description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Properties and constraints.
    #[serde(flatten)]
    pub policy: ExternalPolicy,
}

/// The members as read: one by one, because a flattened struct cannot be read leniently.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Members {
    #[serde(deserialize_with = "null_as_default")]
    label: String,
    #[serde(deserialize_with = "null_as_default")]
    description: String,
    properties: PropertyList,
    #[serde(deserialize_with = "null_as_default")]
    constraints: ConstraintList,
}

impl From<Members> for ServicePolicy {
    fn from(members: Members) -> Self {
        let Members { label, description, properties, constraints } = members;
        Self { label, description, policy: ExternalPolicy { properties, constraints } }
    }
}

impl ServicePolicy {
    /// Validates and normalizes the policy.
    ///
    /// # Errors
    /// [`PolicyError`] for the first error.
    pub fn validate_and_normalize(&mut self) -> Result<(), PolicyError> {
        self.policy.validate_and_normalize()
    }
}

/// The identity of a service, from which its built-in properties are derived.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct ServiceIdentity {
    /// The service's name, `url` on the wire.
    pub name: String,
    /// Its organization.
    pub org: String,
    /// Its version.
    pub version: String,
    /// Its hardware architecture, `*` for any.
    pub arch: String,
}

impl ServiceIdentity {
    /// Returns the five properties that describe the service.
    pub fn builtin_policy(&self) -> ExternalPolicy {
        let properties = [
            (builtin::SERVICE_URL, &self.name),
            (builtin::SERVICE_NAME, &self.name),
            (builtin::SERVICE_ORG, &self.org),
            (builtin::SERVICE_VERSION, &self.version),
            (builtin::SERVICE_ARCH, &self.arch),
        ];
        ExternalPolicy {
            properties: properties
                .into_iter()
                .map(|(name, value)| Property::new(name, value.as_str()))
                .collect(),
            ..ExternalPolicy::default()
        }
    }
}

/// Returns the policy of a service with its built-in properties, unless it sets them itself.
pub fn with_builtin_properties(policy: Option<&ExternalPolicy>, service: &ServiceIdentity) -> ExternalPolicy {
    let builtin = service.builtin_policy();
    match policy {
        None => builtin,
        Some(policy) => {
            let mut merged = policy.clone();
            merged.merge(&builtin, false);
            merged
        }
    }
}

/// Records whether the service or one of its dependencies needs privileges: always as a property, and as a constraint on the
/// node when it does.
///
/// # Errors
/// None that a boolean can cause; the signature is that of [`super::PropertyList::replace`].
/// # Source
/// Agreement-protocol 3.7 (step 2).
pub fn set_privileged(policy: &mut ExternalPolicy, needs_privileges: bool) -> Result<(), PropertyError> {
    policy.properties.replace(Property::new(builtin::ALLOW_PRIVILEGED, needs_privileges))?;
    if needs_privileges {
        policy.constraints.push(format!("{} = true", builtin::ALLOW_PRIVILEGED));
    }
    Ok(())
}

/// Merges the policy of a service (with its built-in properties) into the properties and constraints of a deployment
/// policy: the deployment policy's own properties win, constraints are added.
///
/// # Source
/// Agreement-protocol 3.7 (step 3).
pub fn merge_service_policy(deployment: &ExternalPolicy, service: &ExternalPolicy) -> ExternalPolicy {
    let mut merged = deployment.clone();
    merged.merge(service, false);
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> ServiceIdentity {
        ServiceIdentity {
            name: "cam-ingest".into(),
            org: "acme".into(),
            version: "2.1.0".into(),
            arch: "amd64".into(),
        }
    }

    #[test]
    fn service_without_policy_is_described_by_the_system() {
        let policy = with_builtin_properties(None, &service());
        assert_eq!(policy.properties.len(), 5);
        assert_eq!(policy.properties.get(builtin::SERVICE_NAME).unwrap().value, "cam-ingest");
    }

    #[test]
    fn own_properties_win_over_builtin_ones_and_the_deployment_policy_over_both() {
        let own: ServicePolicy = serde_json::from_value(json!({
            "label": "camera",
            "properties": [{"name": builtin::SERVICE_ORG, "value": "other"}],
            "constraints": ["a == b"],
        }))
        .unwrap();
        let full = with_builtin_properties(Some(&own.policy), &service());
        assert_eq!(full.properties.get(builtin::SERVICE_ORG).unwrap().value, "other");
        let deployment = serde_json::from_value(json!({
            "properties": [{"name": builtin::SERVICE_ARCH, "value": "arm"}],
            "constraints": ["c == d", "a == b"],
        }))
        .unwrap();
        let merged = merge_service_policy(&deployment, &full);
        assert_eq!(merged.properties.get(builtin::SERVICE_ARCH).unwrap().value, "arm");
        assert_eq!(*merged.constraints, ["c == d", "a == b"]);
    }

    #[test]
    fn needed_privileges_become_a_property_and_a_constraint() {
        let mut policy = with_builtin_properties(None, &service());
        set_privileged(&mut policy, false).unwrap();
        assert!(!policy.properties.allows_privileged() && policy.constraints.is_empty());
        set_privileged(&mut policy, true).unwrap();
        assert!(policy.properties.allows_privileged());
        assert_eq!(*policy.constraints, ["openhorizon.allowPrivileged = true"]);
    }
}
