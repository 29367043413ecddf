//! Parts of a node on the wire: policy, status, errors, agreements, management status.
//!
//! Source: exchange-api 4.4.1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::shared::{OneProperty, free_map, free_value};
use super::{lenient, response};

/// Changes the configuration state of registered services; empty texts match any.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
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

response! {
    /// The policy of a node.
    pub struct NodePolicyResponse {
        /// Display name.
        label: String,
        /// Description.
        description: String,
        /// Properties for every purpose.
        #[schema(value_type = Vec<OneProperty>)]
        properties: Box<RawValue>,
        /// Constraints for every purpose.
        #[schema(value_type = Vec<String>)]
        constraints: Box<RawValue>,
        /// For deployments only.
        #[schema(value_type = PolicyPart)]
        deployment: Box<RawValue>,
        /// For management only.
        #[schema(value_type = PolicyPart)]
        management: Box<RawValue>,
        /// Version of the policy's format.
        node_policy_version: String,
        /// Last change.
        last_updated: String,
    }
}

/// A service that runs on a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
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
    /// Status reported by the operator of the service: any JSON.
    #[serde(default, deserialize_with = "free_value")]
    #[schema(value_type = Option<Value>)]
    pub operator_status: Value,
    /// `active` or `suspended`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub config_state: Option<String>,
}

/// A container of a running service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerStatus {
    /// Name.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub name: Option<String>,
    /// Image.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub image: Option<String>,
    /// Time of its creation, in seconds since 1970.
    #[serde(default, deserialize_with = "lenient::int")]
    pub created: i64,
    /// State as the engine names it.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub state: Option<String>,
}

/// Number and causes of the exits of a container or process of a service.
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

impl ServiceFailure {
    /// Returns the failure as human-readable text: `exit code 1, 3 exits; last output: …`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.exits > 0 {
            let last = match (self.exit_code, self.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => "exit code unknown".to_owned(),
            };
            let count = if self.exits == 1 { "1 exit".to_owned() } else { format!("{} exits", self.exits) };
            parts.push(format!("{last}, {count}"));
        }
        parts.extend(self.error.clone());
        if !self.output.is_empty() {
            parts.push(format!("last output: {}", self.output.join(" | ")));
        }
        let text = parts.join("; ");
        if self.container.is_empty() { text } else { format!("{}: {text}", self.container) }
    }
}

/// Replaces the status of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutNodeStatus {
    /// Reachable hosts.
    #[serde(deserialize_with = "free_map", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub connectivity: Option<Map<String, Value>>,
    /// Running services.
    #[serde(deserialize_with = "lenient::objects")]
    pub services: Vec<RunningService>,
    /// Failures of services, as only some agents report them.
    #[serde(deserialize_with = "lenient::objects", skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ServiceFailure>,
}

response! {
    /// The status of a node.
    pub struct NodeStatusResponse {
        /// Reachable hosts.
        #[schema(value_type = Object)]
        connectivity: Box<RawValue>,
        /// Running services.
        #[schema(value_type = Vec<RunningService>)]
        services: Box<RawValue>,
        /// The running services as `|org/url_version_arch|…|`.
        running_services: String,
        /// Failures of services; only when there are some.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<ServiceFailure>>)]
        failures: Option<Box<RawValue>>,
        /// Last change.
        last_updated: String,
    }
}

impl Default for PutNodeStatus {
    fn default() -> Self {
        Self { connectivity: Some(Map::new()), services: Vec::new(), failures: Vec::new() }
    }
}

impl NodeStatusResponse {
    /// Returns the running services.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn services(&self) -> Result<Vec<RunningService>, serde_json::Error> {
        response::part(&self.services)
    }

    /// Returns the failures of services.
    ///
    /// # Errors
    /// As those of [`NodeStatusResponse::services`].
    pub fn failures(&self) -> Result<Vec<ServiceFailure>, serde_json::Error> {
        self.failures.as_deref().map(response::part).transpose().map(Option::unwrap_or_default)
    }
}

/// Replaces the errors of a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutNodeErrors {
    /// Errors: any JSON.
    #[serde(deserialize_with = "free_list")]
    pub errors: Vec<Value>,
}

fn free_list<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Value>, D::Error> {
    Ok(lenient::list::<D, Value>(input)?.into_iter().map(super::map_order::reorder).collect())
}

response! {
    /// The errors of a node.
    pub struct NodeErrorsResponse {
        /// Errors: any JSON.
        #[schema(value_type = Vec<Value>)]
        errors: Box<RawValue>,
        /// Last change.
        last_updated: String,
    }
}

impl NodeErrorsResponse {
    /// Returns the errors.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn errors(&self) -> Result<Vec<Value>, serde_json::Error> {
        response::part(&self.errors)
    }
}

/// A service that an agreement of a node is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreedService {
    /// Organization.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub orgid: Option<String>,
    /// URL.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub url: Option<String>,
}

/// The workload that an agreement is about, as a node or as an agbot records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreementWorkload {
    /// Organization.
    #[serde(deserialize_with = "lenient::text")]
    pub orgid: String,
    /// `org/pattern` or empty.
    #[serde(deserialize_with = "lenient::text")]
    pub pattern: String,
    /// `org/url` of a node, the bare URL of an agbot.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
}

/// Records an agreement of a node; services or agreementService must be given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeAgreement {
    /// Services.
    #[serde(
        default,
        deserialize_with = "lenient::optional_objects",
        skip_serializing_if = "Option::is_none"
    )]
    pub services: Option<Vec<AgreedService>>,
    /// The workload.
    #[serde(default, deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub agreement_service: Option<AgreementWorkload>,
    /// State as the agent names it; empty is not active.
    #[serde(deserialize_with = "lenient::text")]
    pub state: String,
}

response! {
    /// An agreement of a node.
    pub struct NodeAgreement {
        /// Services.
        #[schema(value_type = Vec<AgreedService>)]
        services: Box<RawValue>,
        /// The workload.
        #[schema(value_type = AgreementWorkload)]
        agr_service: Box<RawValue>,
        /// State.
        state: String,
        /// Last change.
        last_updated: String,
    }
}

response! {
    /// Agreements of a node by id.
    pub struct NodeAgreementsResponse {
        /// The agreements.
        agreements: BTreeMap<String, NodeAgreement>,
        /// Always 0.
        last_index: i32,
        paged
    }
}

/// Replaces the status of a management policy on a node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutManagementStatus {
    /// Status of the agent upgrade.
    #[serde(deserialize_with = "lenient::object")]
    pub agent_upgrade_policy_status: PutUpgradeStatus,
}

/// Status of an agent upgrade.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutUpgradeStatus {
    /// When it shall start.
    #[serde(deserialize_with = "lenient::text")]
    pub scheduled_time: String,
    /// When it started.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When it ended.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    /// Versions after it.
    #[serde(default, deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub upgraded_versions: Option<UpgradedVersions>,
    /// State as the agent names it.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Reason of the failure.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// Versions of the parts of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpgradedVersions {
    /// Of the software.
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub software_version: String,
    /// Of the certificate.
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub cert_version: String,
    /// Of the configuration.
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub config_version: String,
}

response! {
    /// Status of an agent upgrade.
    pub struct UpgradeStatus {
        /// When it shall start.
        scheduled_time: String,
        /// When it started.
        start_time: String,
        /// When it ended.
        end_time: String,
        /// Versions after it.
        upgraded_versions: part UpgradedVersions,
        /// State as the agent names it.
        status: String,
        /// Reason of the failure.
        error_message: String,
        /// Last change.
        last_updated: String,
    }
}

response! {
    /// The status of one management policy on a node.
    pub struct ManagementStatus {
        /// Status of the agent upgrade.
        #[schema(value_type = UpgradeStatus)]
        agent_upgrade_policy_status: Box<RawValue>,
    }
}

impl ManagementStatus {
    /// Returns the status of the upgrade of the agent.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn agent_upgrade_policy_status(&self) -> Result<UpgradeStatus, serde_json::Error> {
        response::part(&self.agent_upgrade_policy_status)
    }
}

response! {
    /// Statuses of management policies on a node, by `org/policy`.
    pub struct ManagementStatusResponse {
        /// The statuses.
        management_status: BTreeMap<String, ManagementStatus>,
        /// Always 0.
        last_index: i32,
    }
}
