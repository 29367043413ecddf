//! Services that run on the node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ByAge;

/// Services of the node, of which each instance is an `I` and each definition a `D`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalServices<I, D> {
    /// Always empty.
    #[serde(default)]
    pub config: Vec<String>,
    /// Instances.
    #[serde(default = "ByAge::default")]
    pub instances: ByAge<I>,
    /// Definitions.
    #[serde(default = "ByAge::default")]
    pub definitions: ByAge<D>,
}

/// An instance of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceInstance {
    /// Name of the service.
    pub ref_url: String,
    /// Organization of the service.
    pub organization: String,
    /// Version of the service.
    pub version: String,
    /// Architecture of the service.
    pub arch: String,
    /// Id of the instance.
    pub instance_id: String,
    /// True if the service is kept as history.
    pub archived: bool,
    /// Time of its creation.
    pub instance_creation_time: u64,
    /// When it was started.
    pub execution_start_time: u64,
    /// Always 0.
    pub execution_failure_code: u64,
    /// Always empty.
    pub execution_failure_desc: String,
    /// When its end began.
    pub cleanup_start_time: u64,
    /// Agreements that it runs for.
    pub associated_agreements: Vec<String>,
    /// Id of the service definition.
    pub microservicedef_id: String,
    /// Paths from a top-level service to this one.
    pub service_instance_path: Vec<Vec<InstancePathElement>>,
    /// Always false.
    pub agreement_less: bool,
    /// Always 0.
    pub max_retries: u32,
    /// Always 0.
    pub max_retry_duration: u64,
    /// Always 0.
    pub current_retry_count: u32,
    /// Always 0.
    pub retry_start_time: u64,
    /// Always empty.
    pub env_vars: BTreeMap<String, String>,
    /// True if the service has an agreement; false for a service that others require.
    pub top_level_service: bool,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// One service on the path to an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstancePathElement {
    /// Name of the service.
    pub url: String,
    /// Its organization.
    pub org: String,
    /// Its version.
    pub version: String,
}

/// A container of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Container {
    /// Its names, each with a slash in front.
    pub names: Vec<String>,
    /// Its image.
    pub image: String,
    /// Time of its creation.
    pub created: u64,
    /// State as the engine names it.
    pub state: String,
}

/// Definition of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceDefinition {
    /// Id of the definition.
    pub record_id: String,
    /// Name of the service.
    #[serde(rename = "specRef")]
    pub spec_ref: String,
    /// Organization of the service.
    pub organization: String,
    /// Version of the service.
    pub version: String,
    /// Architecture of the service.
    pub arch: String,
    /// Deployment as text.
    pub deployment: String,
    /// True if the service is kept as history.
    pub archived: bool,
    /// Always empty.
    pub name: String,
    /// Always empty.
    #[serde(rename = "userInput")]
    pub user_input: Vec<String>,
    /// Services that it needs.
    #[serde(rename = "requiredServices")]
    pub required_services: Vec<NeededService>,
}

/// A service that another one requires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NeededService {
    /// Name of the service.
    pub url: String,
    /// Its organization.
    pub org: String,
    /// Its versions.
    pub version_range: String,
    /// Its architecture.
    pub arch: String,
}

/// Configurations of the node's services, which agents of this contract do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceConfigurations {
    /// Always empty.
    pub config: Vec<String>,
}

/// Configuration states of the node's services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigStates {
    /// The states.
    pub configstates: Vec<ServiceConfigState>,
}

/// Configuration state of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceConfigState {
    /// Name of the service.
    pub url: String,
    /// Its organization.
    pub org: String,
    /// Its version.
    pub version: String,
    /// `active` or `suspended`.
    pub config_state: String,
}
