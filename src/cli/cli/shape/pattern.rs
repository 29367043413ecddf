//! Patterns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{NodeHealthFile, SecretBindingFile, VersionFile};
use super::{Ignored, UserInputFile};

/// A pattern.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct PatternFile {
    /// Taken out before it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Taken out before it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<String>,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    public: bool,
    services: Vec<ServiceOfPattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_input: Option<Vec<UserInputFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_binding: Option<Vec<SecretBindingFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement_protocols: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_namespace: Option<String>,
    #[serde(skip_serializing)]
    owner: Ignored,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct ServiceOfPattern {
    service_url: String,
    service_orgid: String,
    service_arch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement_less: Option<bool>,
    service_versions: Vec<VersionFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_verification: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_health: Option<NodeHealthFile>,
}
