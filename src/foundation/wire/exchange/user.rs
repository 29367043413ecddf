//! Users and their API keys on the wire. Source: exchange-api 4.3.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lenient;

/// Label of the API keys that are sessions of the console. Those of them that expire end when the password of their user changes.
pub const SESSION_LABEL: &str = "console session";

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
    /// Role that limits the user: `viewer` reads, `deployer` also writes the deployment policies of `policies`; `user` for an ordinary user. When
    /// a user is replaced without it, its role stays.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Deployment policies of a deployer: names, and beginnings of names that end in `*`.
    #[serde(deserialize_with = "lenient::optional_texts", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub policies: Option<Vec<String>>,
}

/// Changes one attribute of a user: exactly one member must be given; `role` and `policies` together are one.
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
    /// Role that limits the user: `viewer` reads, `deployer` also writes the deployment policies of `policies`; `user` for an ordinary user.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub role: Option<String>,
    /// Deployment policies of a deployer: names, and beginnings of names that end in `*`. Only with `role`.
    #[serde(deserialize_with = "lenient::optional_texts")]
    #[schema(max_items = 32)]
    pub policies: Option<Vec<String>>,
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
        /// The caller is an ordinary user who logged in with an API key that has a role: it may do what both the user and the role may, of the
        /// deployment policies in `policies` only change those that it owns.
        #[serde(skip_serializing_if = "Option::is_none")]
        ordinary_user: Option<bool>,
        /// Masked; empty when the login is disabled.
        password: FixedText,
        /// Role that limits the user; in the response about the caller itself, what limits its login: `viewer` or `deployer`.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Deployment policies that a deployer may write: names, and beginnings of names that end in `*`.
        #[serde(skip_serializing_if = "Option::is_none")]
        policies: Option<Vec<String>>,
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
        paged
    }
}

/// Describes a new API key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewApiKey {
    /// Description of the API key.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Seconds until the key expires, 60 to 31536000; without it the key does not expire. A key that is created with an expiring key expires
    /// no later than that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 31_536_000)]
    pub expires_in: Option<i64>,
    /// Role that limits the key: `viewer` reads, `deployer` also writes the deployment policies of `policies`. Logins with the key may what both the
    /// user and the role may. Without it, the key has the rights of the user, or the role of the key that it is created with.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Deployment policies of a deployer: names, and beginnings of names that end in `*`.
    #[serde(deserialize_with = "lenient::optional_texts", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub policies: Option<Vec<String>>,
}

response! {
    /// An API key inside its user.
    pub struct ApiKeySummary {
        /// Account that created the key, as `org/user`, if it is another one than the owner and was recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        created_by: Option<String>,
        /// Description of the API key.
        description: String,
        /// When the key expires, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
        /// Id of the key.
        id: String,
        /// Display name.
        label: String,
        /// Last change.
        last_updated: String,
        /// Role that limits the key: `viewer` or `deployer`.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Deployment policies that a deployer may write: names, and beginnings of names that end in `*`.
        #[serde(skip_serializing_if = "Option::is_none")]
        policies: Option<Vec<String>>,
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
        /// When the key expires, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
        /// Id of the key.
        id: String,
        /// Display name.
        label: String,
        /// Last change.
        last_updated: String,
        /// Role that limits the key: `viewer` or `deployer`.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Deployment policies that a deployer may write: names, and beginnings of names that end in `*`.
        #[serde(skip_serializing_if = "Option::is_none")]
        policies: Option<Vec<String>>,
        /// Owner of the key, as `org/user`.
        owner: String,
        /// The key itself, only in the response to its creation.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    }
}
