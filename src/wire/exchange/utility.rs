//! Small answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of the liveness test.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TestAnswer {
    /// `OK`.
    pub result: String,
}

/// Outcome of a write: a symbol for programs and a text for people.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ApiResponse {
    /// Symbol.
    pub code: String,
    /// Text.
    pub msg: String,
}

/// Answer to a read of one attribute; structured values come as JSON text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttributeAnswer {
    /// Name as asked for.
    pub attribute: String,
    /// Value as text.
    pub value: String,
}
