//! Agreements of the agbot with nodes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What the agbot has agreed to with the nodes of an organization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgreementsAnswer {
    /// By whether they are alive.
    pub agreements: Agreements,
}

/// Agreements by whether they are alive: the agbot's records as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agreements {
    /// Alive.
    #[schema(value_type = Vec<Object>)]
    pub active: Vec<Value>,
    /// Ended, newest first.
    #[schema(value_type = Vec<Object>)]
    pub archived: Vec<Value>,
}
