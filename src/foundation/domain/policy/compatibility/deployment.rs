//! Requirements of a service's deployment on devices: whether it exists, is valid, and needs privileges.
//!
//! Source: agreement-protocol 4.1, 3.7 (step 2).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::policy::reference_json::{DecodeError, from_text, from_value};

/// The error of an invalid deployment, for which the need for privileges is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the deployment of {service} cannot be read: {reason}")]
pub struct UnreadableDeployment {
    /// The service's qualified id.
    pub service: String,
    /// The error.
    pub reason: String,
}

/// Returns whether there is no deployment: absent, null, an empty text or an empty object.
pub fn is_empty(deployment: &Value) -> bool {
    match deployment {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns whether a deployment has a container that is privileged or uses the host's network.
///
/// # Shape
/// `deployment` is the text or the object; nothing, null and the empty text need no privileges.
/// # Errors
/// [`UnreadableDeployment`] when it is not JSON or any part of it has another type than the contract defines.
pub fn needs_privileges(service: &str, deployment: &Value) -> Result<bool, UnreadableDeployment> {
    let description = Description::read(service, deployment)?;
    let mut containers = description.services.values().flatten();
    Ok(containers.any(|container| container.privileged || container.network == "host"))
}

/// Returns the names of all secrets that the containers of a deployment use.
///
/// # Shape
/// See [`needs_privileges`].
/// # Errors
/// See [`needs_privileges`].
pub fn declared_secrets(service: &str, deployment: &Value) -> Result<BTreeSet<String>, UnreadableDeployment> {
    let description = Description::read(service, deployment)?;
    let containers = description.services.into_values().flatten();
    Ok(containers.flat_map(|container| container.secrets.into_keys()).collect())
}

impl Description {
    fn read(service: &str, deployment: &Value) -> Result<Self, UnreadableDeployment> {
        let read: Result<Self, DecodeError> = match deployment {
            Value::String(text) if text.is_empty() => return Ok(Self::default()),
            Value::String(text) => from_text(text),
            object => from_value(object),
        };
        read.map_err(|error| UnreadableDeployment { service: service.to_owned(), reason: error.reason() })
    }
}

/// The whole deployment, because a wrong type anywhere in it makes it invalid.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Description {
    services: BTreeMap<String, Option<Container>>,
    service_pattern: SharedPattern,
    infrastructure: bool,
    overrides: BTreeMap<String, Option<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SharedPattern {
    shared: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
    variation_label: String,
    privileged: bool,
    network: String,
    environment: Vec<String>,
    cap_add: Vec<String>,
    command: Vec<String>,
    devices: Vec<String>,
    network_isolation: NetworkIsolation,
    binds: Vec<String>,
    tmpfs: BTreeMap<String, String>,
    ports: Vec<PortBinding>,
    ephemeral_ports: Vec<EphemeralPort>,
    specific_ports: Vec<PortBinding>,
    entrypoint: Vec<String>,
    max_memory_mb: i64,
    max_cpus: f32,
    log_driver: String,
    secrets: BTreeMap<String, ServiceSecret>,
    security_opt: Vec<String>,
    pid: String,
    user: String,
    sysctls: BTreeMap<String, String>,
    ipc: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NetworkIsolation {
    outbound_permit_only_ignore: String,
    outbound_permit_only: Vec<Option<OutboundPermit>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "reading the members checks their kinds")]
enum OutboundPermit {
    Static(String),
    Dynamic {
        #[serde(default)]
        dd_key: String,
        #[serde(default)]
        encoding: String,
        #[serde(default)]
        path: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PortBinding {
    #[serde(rename = "HostIp")]
    host_ip: String,
    #[serde(rename = "HostPort")]
    host_port: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EphemeralPort {
    localhost_only: bool,
    port_and_protocol: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServiceSecret {
    description: String,
    svc_org: String,
    svc_url: String,
    svc_version_range: String,
    format: String,
}
