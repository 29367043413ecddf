//! What belongs to a node, on the wire: policy, status, errors, agreements, management status; see the exchange contract 4.4.1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::lenient;
use super::shared::{OneProperty, free_map, free_value};

/// Changes the configuration state of registered services; empty texts stand for any.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostConfigState {
    /// Organization of the services.
    #[serde(deserialize_with = "lenient::text")]
    pub org: String,
    /// URL of the services.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
    /// `active` or `suspended`.
    #[serde(deserialize_with = "lenient::text")]
    pub config_state: String,
    /// Version of the services.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub version: Option<String>,
}

/// Properties and constraints for one purpose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyPart {
    /// Properties.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub properties: Option<Vec<OneProperty>>,
    /// Constraints.
    #[serde(deserialize_with = "lenient::optional_texts")]
    pub constraints: Option<Vec<String>>,
}

/// Replaces the policy of a node.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutNodePolicy {
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Description; without it the label.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Properties for every purpose.
    #[serde(deserialize_with = "lenient::objects")]
    pub properties: Vec<OneProperty>,
    /// Constraints for every purpose.
    #[serde(deserialize_with = "lenient::texts")]
    pub constraints: Vec<String>,
    /// For deployments only.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub deployment: Option<PolicyPart>,
    /// For management only.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub management: Option<PolicyPart>,
    /// Version of the policy's format.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub node_policy_version: Option<String>,
}

/// The policy of a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePolicyAnswer {
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// Properties for every purpose.
    #[schema(value_type = Vec<OneProperty>)]
    pub properties: Box<RawValue>,
    /// Constraints for every purpose.
    #[schema(value_type = Vec<String>)]
    pub constraints: Box<RawValue>,
    /// For deployments only.
    #[schema(value_type = PolicyPart)]
    pub deployment: Box<RawValue>,
    /// For management only.
    #[schema(value_type = PolicyPart)]
    pub management: Box<RawValue>,
    /// Version of the policy's format.
    pub node_policy_version: String,
    /// Last change.
    pub last_updated: String,
}

/// A service that runs on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunningService {
    /// Agreement it runs for.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub agreement_id: Option<String>,
    /// URL.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_url: Option<String>,
    /// Organization.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub orgid: Option<String>,
    /// Version.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub version: Option<String>,
    /// Architecture.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub arch: Option<String>,
    /// Its containers.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub container_status: Option<Vec<ContainerStatus>>,
    /// What its operator reports: any JSON.
    #[serde(default, deserialize_with = "free_value")]
    #[schema(value_type = Option<Value>)]
    pub operator_status: Value,
    /// `active` or `suspended`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub config_state: Option<String>,
}

/// A container of a running service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerStatus {
    /// Name.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub name: Option<String>,
    /// Image.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub image: Option<String>,
    /// When it was made, in seconds since 1970.
    #[serde(default, deserialize_with = "lenient::int")]
    pub created: i64,
    /// State in the words of the engine.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub state: Option<String>,
}

/// How often and why a container or process of a service ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceFailure {
    /// Agreement of a top-level service, else empty.
    pub agreement_id: String,
    /// URL of the service.
    pub service_url: String,
    /// Organization of the service.
    pub orgid: String,
    /// Version of the service.
    pub version: String,
    /// Architecture of the service.
    pub arch: String,
    /// Name in the deployment; empty when the service as a whole could not be started.
    pub container: String,
    /// Exits since the service was started.
    pub exits: i64,
    /// Times of the latest exits in seconds since 1970, newest last.
    pub recent_exits: Vec<i64>,
    /// Exit code of the last one.
    pub exit_code: Option<i64>,
    /// Signal that ended it last.
    pub signal: Option<i64>,
    /// Last lines of its output.
    pub output: Vec<String>,
    /// Error of the driver, when it cannot be started.
    pub error: Option<String>,
}

/// Replaces the status of a node.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutNodeStatus {
    /// Reachable hosts.
    #[serde(deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub connectivity: Option<Map<String, Value>>,
    /// Running services.
    #[serde(deserialize_with = "lenient::objects")]
    pub services: Vec<RunningService>,
    /// Failures of services, as only some agents report them.
    #[serde(deserialize_with = "lenient::objects")]
    pub failures: Vec<ServiceFailure>,
}

/// The status of a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatusAnswer {
    /// Reachable hosts.
    #[schema(value_type = Object)]
    pub connectivity: Box<RawValue>,
    /// Running services.
    #[schema(value_type = Vec<RunningService>)]
    pub services: Box<RawValue>,
    /// The running services as `|org/url_version_arch|…|`.
    pub running_services: String,
    /// Failures of services; only when there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ServiceFailure>>)]
    pub failures: Option<Box<RawValue>>,
    /// Last change.
    pub last_updated: String,
}

/// Replaces the errors of a node.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutNodeErrors {
    /// Errors: any JSON.
    #[serde(deserialize_with = "free_list")]
    pub errors: Vec<Value>,
}

fn free_list<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Value>, D::Error> {
    Ok(lenient::list::<D, Value>(input)?.into_iter().map(super::map_order::reorder).collect())
}

/// The errors of a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeErrorsAnswer {
    /// Errors: any JSON.
    #[schema(value_type = Vec<Value>)]
    pub errors: Box<RawValue>,
    /// Last change.
    pub last_updated: String,
}

/// A service that an agreement of a node is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreedService {
    /// Organization.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub orgid: Option<String>,
    /// URL.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub url: Option<String>,
}

/// The workload that an agreement of a node is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreementWorkload {
    /// Organization.
    #[serde(deserialize_with = "lenient::text")]
    pub orgid: String,
    /// `org/pattern` or empty.
    #[serde(deserialize_with = "lenient::text")]
    pub pattern: String,
    /// `org/url`, as agents send it.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
}

/// Records an agreement of a node; services or agreementService must be given.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeAgreement {
    /// Services.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub services: Option<Vec<AgreedService>>,
    /// The workload.
    #[serde(default, deserialize_with = "lenient::optional_object")]
    pub agreement_service: Option<AgreementWorkload>,
    /// State in the agent's words; empty is not active.
    #[serde(deserialize_with = "lenient::text")]
    pub state: String,
}

/// An agreement of a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAgreement {
    /// Services.
    #[schema(value_type = Vec<AgreedService>)]
    pub services: Box<RawValue>,
    /// The workload.
    #[schema(value_type = AgreementWorkload)]
    pub agr_service: Box<RawValue>,
    /// State.
    pub state: String,
    /// Last change.
    pub last_updated: String,
}

/// Agreements of a node by id.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAgreementsAnswer {
    /// The agreements.
    pub agreements: BTreeMap<String, NodeAgreement>,
    /// Always 0.
    pub last_index: i32,
}

/// Replaces the status of a management policy on a node.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutManagementStatus {
    /// Where the upgrade of the agent stands.
    #[serde(deserialize_with = "lenient::object")]
    pub agent_upgrade_policy_status: PutUpgradeStatus,
}

/// Where the upgrade of an agent stands.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutUpgradeStatus {
    /// When it shall start.
    #[serde(deserialize_with = "lenient::text")]
    pub scheduled_time: String,
    /// When it started.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub start_time: Option<String>,
    /// When it ended.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub end_time: Option<String>,
    /// Versions after it.
    #[serde(default, deserialize_with = "lenient::optional_object")]
    pub upgraded_versions: Option<UpgradedVersions>,
    /// State in the agent's words.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub status: Option<String>,
    /// Why it failed.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub error_message: Option<String>,
}

/// Versions of the parts of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpgradedVersions {
    /// Of the software.
    #[serde(deserialize_with = "text_or_empty")]
    pub software_version: String,
    /// Of the certificate.
    #[serde(deserialize_with = "text_or_empty")]
    pub cert_version: String,
    /// Of the configuration.
    #[serde(deserialize_with = "text_or_empty")]
    pub config_version: String,
}

fn text_or_empty<'de, D: serde::Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    Ok(lenient::optional_text(input)?.unwrap_or_default())
}

/// Where the upgrade of an agent stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStatus {
    /// When it shall start.
    pub scheduled_time: String,
    /// When it started.
    pub start_time: String,
    /// When it ended.
    pub end_time: String,
    /// Versions after it.
    pub upgraded_versions: UpgradedVersions,
    /// State in the agent's words.
    pub status: String,
    /// Why it failed.
    pub error_message: String,
    /// Last change.
    pub last_updated: String,
}

/// The status of one management policy on a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementStatus {
    /// Where the upgrade of the agent stands.
    #[schema(value_type = UpgradeStatus)]
    pub agent_upgrade_policy_status: Box<RawValue>,
}

/// Statuses of management policies on a node, by `org/policy`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementStatusAnswer {
    /// The statuses.
    pub management_status: BTreeMap<String, ManagementStatus>,
    /// Always 0.
    pub last_index: i32,
}
