//! Bodies of the agent's local API (agbot 5.7), one module for each resource.
//!
//! Instants are seconds since 1970, 0 for none. Reading is tolerant: an agent of another version may leave members out.

pub mod agreement;
pub mod event_log;
pub mod maintenance;
pub mod management;
pub mod node;
pub mod refusal;
pub mod service;
pub mod service_log;
pub mod status;
pub mod trust;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::RawJson;
use crate::exchange::response::part_of;

/// Reads a body of an agent of any version: members that are missing, null or unknown are not errors.
///
/// # Errors
/// When a member has a value of another kind.
pub fn read<T: DeserializeOwned + Default>(body: RawJson) -> Result<T, serde_json::Error> {
    part_of(body.into_value())
}

/// A list in two parts: active entries, and ended ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByAge<T> {
    /// Alive.
    #[serde(default = "Vec::new")]
    pub active: Vec<T>,
    /// Ended.
    #[serde(default = "Vec::new")]
    pub archived: Vec<T>,
}

impl<T> Default for ByAge<T> {
    fn default() -> Self {
        Self { active: Vec::new(), archived: Vec::new() }
    }
}

/// Name of a service in one version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceName {
    /// Name of the service.
    pub url: String,
    /// Its organization.
    pub org: String,
    /// Its version.
    pub version: String,
    /// Its architecture.
    pub arch: String,
}
