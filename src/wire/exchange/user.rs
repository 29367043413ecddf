//! Users and their API keys on the wire; see the exchange contract 4.3.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lenient;

/// Creates or replaces a user.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutUser {
    /// Secret, required.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub password: Option<String>,
    /// Any text, required.
    #[serde(deserialize_with = "lenient::optional_text")]
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

/// A user.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserAnswer {
    /// Administrator of the organization.
    pub admin: bool,
    /// Keys, without their values.
    pub apikeys: Vec<ApiKeySummary>,
    /// As given.
    pub email: String,
    /// Administrator of the hub.
    pub hub_admin: bool,
    /// Last change.
    pub last_updated: String,
    /// Masked; empty when the login is disabled.
    pub password: &'static str,
    /// `org/user` of who made the last change, as far as that user still exists.
    pub updated_by: String,
}

/// Users by `org/name`.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsersAnswer {
    /// The users.
    pub users: BTreeMap<String, UserAnswer>,
    /// Always 0.
    pub last_index: i32,
}

/// Describes a new API key.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewApiKey {
    /// What it is for.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
}

/// An API key inside its user.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeySummary {
    /// What it is for.
    pub description: String,
    /// Id of the key.
    pub id: String,
    /// Display name.
    pub label: String,
    /// Last change.
    pub last_updated: String,
}

/// An API key.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAnswer {
    /// What it is for.
    pub description: String,
    /// Id of the key.
    pub id: String,
    /// Display name.
    pub label: String,
    /// Last change.
    pub last_updated: String,
    /// `org/user` whom it belongs to.
    pub owner: String,
    /// The key itself, only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}
