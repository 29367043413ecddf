//! Users and their API keys on the wire. Source: exchange-api 4.3.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lenient;

/// Creates or replaces a user.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutUser {
    /// Secret, required.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Any text, required.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Administrator of the organization.
    #[serde(deserialize_with = "lenient::flag")]
    pub admin: bool,
    /// Administrator of the hub.
    #[serde(deserialize_with = "lenient::json_flag")]
    pub hub_admin: bool,
}

/// Changes one attribute of a user: exactly one member must be given.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchUser {
    /// Secret; empty disables the login.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub password: Option<String>,
    /// Any text but the empty one.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub email: Option<String>,
    /// Administrator of the organization.
    #[serde(deserialize_with = "lenient::optional_json_flag")]
    pub admin: Option<bool>,
    /// Administrator of the hub.
    #[serde(deserialize_with = "lenient::optional_json_flag")]
    pub hub_admin: Option<bool>,
}

/// Changes a password.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangePassword {
    /// The new one.
    #[serde(deserialize_with = "lenient::text")]
    pub new_password: String,
}

response! {
    /// A user.
    pub struct UserResponse {
        /// Administrator of the organization.
        admin: bool,
        /// Keys, without their values.
        apikeys: Vec<ApiKeySummary>,
        /// As given.
        email: String,
        /// Administrator of the hub.
        hub_admin: bool,
        /// Last change.
        last_updated: String,
        /// Masked; empty when the login is disabled.
        password: FixedText,
        /// User who made the last change, as `org/user`, if that user still exists.
        updated_by: String,
    }
}

response! {
    /// Users by `org/name`.
    pub struct UsersResponse {
        /// The users.
        users: BTreeMap<String, UserResponse>,
        /// Always 0.
        last_index: i32,
    }
}

/// Describes a new API key.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewApiKey {
    /// Description of the API key.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
}

response! {
    /// An API key inside its user.
    pub struct ApiKeySummary {
        /// Account that created the key, as `org/user`, if it is another one than the owner and was recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        created_by: Option<String>,
        /// Description of the API key.
        description: String,
        /// Id of the key.
        id: String,
        /// Display name.
        label: String,
        /// Last change.
        last_updated: String,
    }
}

response! {
    /// An API key.
    pub struct ApiKeyResponse {
        /// Account that created the key, as `org/user`, if it is another one than the owner and was recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        created_by: Option<String>,
        /// Description of the API key.
        description: String,
        /// Id of the key.
        id: String,
        /// Display name.
        label: String,
        /// Last change.
        last_updated: String,
        /// Owner of the key, as `org/user`.
        owner: String,
        /// The key itself, only in the response to its creation.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    }
}
