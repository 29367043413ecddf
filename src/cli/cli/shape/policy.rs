//! Deployment policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Ignored, UserInputFile};
use crate::exit::{CliError, Exit, Outcome};

/// A deployment policy, or attributes of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct DeploymentPolicyFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<DeployedService>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<PropertyFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_input: Option<Vec<UserInputFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_binding: Option<Vec<SecretBindingFile>>,
    /// Not in the reference; its members have rules of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestration: Option<Value>,
    #[serde(skip_serializing)]
    owner: Ignored,
    #[serde(skip_serializing)]
    created: Ignored,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct DeployedService {
    name: String,
    org: String,
    arch: String,
    service_versions: Vec<VersionFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_health: Option<NodeHealthFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_namespace: Option<String>,
}

/// A version of a service with its rank, in a deployment policy or a pattern.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct VersionFile {
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<PriorityFile>,
    #[serde(rename = "upgradePolicy", skip_serializing_if = "Option::is_none")]
    upgrade_policy: Option<UpgradePolicyFile>,
    /// An object or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_overrides: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_overrides_signature: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
struct PriorityFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_value: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_durations: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_durations: Option<i64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
struct UpgradePolicyFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    lifecycle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

/// When a silent node counts as lost.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeHealthFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_heartbeat_interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check_agreement_status: Option<i64>,
}

/// A property of any policy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct PropertyFile {
    name: String,
    value: Value,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// Sources of the secrets of one service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct SecretBindingFile {
    service_orgid: String,
    service_url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    service_arch: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    service_version_range: String,
    enable_node_level_secrets: bool,
    secrets: Vec<BTreeMap<String, String>>,
}

/// Adds the members that the exchange requires and the existing tool always sends to a whole policy.
///
/// # Errors
/// With status 1 when it does not name what it deploys.
pub fn complete_policy(name: &str, document: &mut Value) -> Outcome {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let has_versions = document
        .pointer("/service/serviceVersions")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    let missing = [
        ("service", document.get("service").is_none()),
        ("service.name", text("/service/name").is_empty()),
        ("service.org", text("/service/org").is_empty()),
        ("service.serviceVersions", !has_versions),
    ];
    if let Some((member, _)) = missing.iter().find(|(_, is_missing)| *is_missing) {
        return Err(CliError::new(
            Exit::Input,
            format!("deployment policy {name} was not sent"),
            format!("{member} is missing or empty"),
            "name the service that it deploys; `hzn exchange deployment new` prints a template",
        ));
    }
    super::fill_label(document);
    Ok(())
}
