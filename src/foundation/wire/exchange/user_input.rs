//! Values that a node, pattern or policy gives to the variables of a service. Source: exchange-api 4.0.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::lenient;
use super::shared::free_value;

/// Values for one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserInputService {
    /// Organization of the service.
    #[serde(deserialize_with = "lenient::text")]
    pub service_orgid: String,
    /// URL of the service.
    #[serde(deserialize_with = "lenient::text")]
    pub service_url: String,
    /// Architecture; none, empty or `*` is any.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_arch: Option<String>,
    /// Versions; none is any.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_version_range: Option<String>,
    /// The values.
    #[serde(default, deserialize_with = "lenient::objects")]
    pub inputs: Vec<UserInputValue>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserInputValue {
    /// Name of the variable.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Any JSON.
    #[serde(default, deserialize_with = "free_value")]
    pub value: Value,
}
