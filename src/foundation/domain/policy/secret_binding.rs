//! Bindings of stored secrets to the secrets of a service.
//!
//! Source: agreement-protocol 4.6.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::internal::is_same_set;
use super::user_input::ServiceVersion;
use crate::version::{Version, VersionError, VersionRange};

/// A service's secret name and the store's name for it; conventionally one entry.
pub type BoundSecret = BTreeMap<String, String>;

/// The bindings for the secrets of one service.
///
/// # Shape
/// In terms and conditions the same form carries values instead of names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretBinding {
    /// The service's organization.
    pub service_orgid: String,
    /// The service's name.
    pub service_url: String,
    /// The architecture; empty matches every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_arch: String,
    /// The versions; empty matches every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_version_range: String,
    /// True if a secret of the node takes precedence over that of the organization or user.
    pub enable_node_level_secrets: bool,
    /// The bindings.
    pub secrets: Vec<BoundSecret>,
}

impl SecretBinding {
    /// Returns whether two bindings are equal; a missing architecture equals every other.
    pub fn is_same(&self, other: &Self) -> bool {
        let arches_agree = self.service_arch.is_empty()
            || other.service_arch.is_empty()
            || self.service_arch == other.service_arch;
        self.service_orgid == other.service_orgid
            && self.service_url == other.service_url
            && self.service_version_range == other.service_version_range
            && arches_agree
            && self.enable_node_level_secrets == other.enable_node_level_secrets
            && is_same_set(&self.secrets, &other.secrets, |one, two| one == two)
    }
}

/// A service's secret with the name under which its value is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeededSecret {
    /// The secret's name in the service.
    pub secret: String,
    /// Its name in the store.
    pub stored_as: String,
    /// True if a secret of the node of that name takes precedence.
    pub prefers_node_level: bool,
}

/// The reason why a service's secrets cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretBindingProblem {
    /// Secrets have no binding.
    #[error("no stored secret is bound to {} of service {service}", secrets.join(", "))]
    Unbound {
        /// The service.
        service: String,
        /// The secrets, sorted.
        secrets: Vec<String>,
    },
    /// The versions of a binding are invalid.
    #[error("a version range in the secret binding for service {service} cannot be read: {reason}")]
    Unreadable {
        /// The service.
        service: String,
        /// The error.
        reason: VersionError,
    },
}

/// Finds the stored name of each secret that one service declares, in the first binding that applies to the service.
///
/// # Shape
/// In the order of `declared`. A secret bound twice takes the first one.
/// # Errors
/// [`SecretBindingProblem`].
/// # Source
/// Agreement-protocol 4.6.
pub fn needed_secrets<'a>(
    service: ServiceVersion<'_>,
    declared: impl IntoIterator<Item = &'a String>,
    bindings: &[SecretBinding],
) -> Result<Vec<NeededSecret>, SecretBindingProblem> {
    let unreadable = |reason| SecretBindingProblem::Unreadable { service: service.to_string(), reason };
    let mut declared = declared.into_iter().peekable();
    if declared.peek().is_none() {
        return Ok(Vec::new());
    }
    let binding = find_binding(bindings, service).map_err(unreadable)?;
    let stored_as =
        |secret: &String| binding.and_then(|binding| binding.secrets.iter().find_map(|one| one.get(secret)));
    let (mut needed, mut unbound) = (Vec::new(), Vec::new());
    for secret in declared {
        match stored_as(secret) {
            None => unbound.push(secret.clone()),
            Some(stored_as) => needed.push(NeededSecret {
                secret: secret.clone(),
                stored_as: stored_as.clone(),
                prefers_node_level: binding.is_some_and(|binding| binding.enable_node_level_secrets),
            }),
        }
    }
    if unbound.is_empty() {
        return Ok(needed);
    }
    unbound.sort();
    Err(SecretBindingProblem::Unbound { service: service.to_string(), secrets: unbound })
}

fn find_binding<'a>(
    bindings: &'a [SecretBinding],
    service: ServiceVersion<'_>,
) -> Result<Option<&'a SecretBinding>, VersionError> {
    for binding in bindings {
        let arch = binding.service_arch.as_str();
        let is_named = binding.service_url == service.url && binding.service_orgid == service.org;
        if !is_named || !(matches!(arch, "" | "*") || arch == service.arch) {
            continue;
        }
        let range = binding.service_version_range.as_str();
        let is_in_range = range.is_empty()
            || range == service.version
            || VersionRange::parse(range)?.contains(&Version::parse(service.version)?);
        if is_in_range {
            return Ok(Some(binding));
        }
    }
    Ok(None)
}

/// Returns whether two lists are of one length and every element of the first has an equal in the second.
pub(crate) fn is_same_list(left: &[SecretBinding], right: &[SecretBinding]) -> bool {
    is_same_set(left, right, SecretBinding::is_same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SERVICE: ServiceVersion<'_> =
        ServiceVersion { org: "acme", url: "cam", version: "1.2.0", arch: "amd64" };

    fn bindings() -> Vec<SecretBinding> {
        serde_json::from_value(json!([
            {"serviceOrgid": "acme", "serviceUrl": "cam", "serviceVersionRange": "[2.0.0,3.0.0)", "secrets": [{"pw": "no"}]},
            {"serviceOrgid": "acme", "serviceUrl": "cam", "serviceArch": "*", "enableNodeLevelSecrets": true,
             "secrets": [{"pw": "prod/pw"}, {"token": "user/ann/t"}]},
        ]))
        .unwrap()
    }

    #[test]
    fn secrets_take_their_names_from_the_first_binding_that_applies() {
        let needed = needed_secrets(SERVICE, [&"token".to_owned()], &bindings()).unwrap();
        let expected =
            NeededSecret { secret: "token".into(), stored_as: "user/ann/t".into(), prefers_node_level: true };
        assert_eq!(needed, [expected]);
    }

    #[test]
    fn unbound_secrets_and_unreadable_ranges_are_named() {
        let declared = ["z".to_owned(), "pw".to_owned(), "a".to_owned()];
        let problem = needed_secrets(SERVICE, &declared, &bindings()).unwrap_err();
        assert_eq!(problem.to_string(), "no stored secret is bound to a, z of service acme/cam 1.2.0 amd64");
        let mut broken = bindings();
        broken[0].service_version_range = "[2".into();
        let problem = needed_secrets(SERVICE, &declared, &broken).unwrap_err();
        assert!(matches!(problem, SecretBindingProblem::Unreadable { .. }));
        assert_eq!(needed_secrets(SERVICE, [], &broken), Ok(Vec::new()));
    }
}
