//! Which stored secret stands for which secret of a service.
//!
//! Source: agreement protocol, "Secrets".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::internal::is_same_set;

/// A service's secret name and the store's name for it; one entry by custom.
pub type BoundSecret = BTreeMap<String, String>;

/// The bindings for the secrets of one service.
///
/// # Shape
/// In terms and conditions the same form carries values instead of names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretBinding {
    /// The service's organisation.
    pub service_orgid: String,
    /// The service's name.
    pub service_url: String,
    /// The architecture; empty for every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_arch: String,
    /// The versions; empty for every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_version_range: String,
    /// Whether a secret of the node goes before that of the organisation or user.
    pub enable_node_level_secrets: bool,
    /// The bindings.
    pub secrets: Vec<BoundSecret>,
}

impl SecretBinding {
    /// Answers whether two bindings mean the same; an architecture that is not given equals every other.
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

/// Answers whether two lists are of one length and everything in the first is in the second.
pub(crate) fn is_same_list(left: &[SecretBinding], right: &[SecretBinding]) -> bool {
    is_same_set(left, right, SecretBinding::is_same)
}
