//! Agreements of the agbot with nodes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::RawJson;

/// Agreements of the agbot with the nodes of an organization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgreementsResponse {
    /// By whether they are alive.
    pub agreements: Agreements,
}

/// Agreements by whether they are alive: the agbot's records as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agreements {
    /// Alive.
    #[schema(value_type = Vec<Object>)]
    pub active: Vec<RawJson>,
    /// Ended, newest first.
    #[schema(value_type = Vec<Object>)]
    pub archived: Vec<RawJson>,
}

/// The members of an agreement's record by which programs decide.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AgreementRecord {
    /// Its id.
    pub id: String,
    /// `org/node`.
    pub node: String,
    /// `org/policy`.
    pub policy: String,
    /// `org/service`.
    pub service: String,
    /// Version of the service.
    pub version: String,
    /// `proposed`, `finalized` or `ended`.
    pub state: String,
    /// When the agreement was proposed.
    pub created_at: String,
    /// When the state was entered; absent while it is proposed.
    pub at: Option<String>,
    /// When the node last confirmed it.
    pub verified_at: Option<String>,
    /// Code of the reason why it ended.
    pub reason: Option<Value>,
}
