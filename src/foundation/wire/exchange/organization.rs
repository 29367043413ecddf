//! Organizations on the wire. Source: exchange-api 4.2.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::lenient;
use super::node::HeartbeatIntervals;

/// Creates or replaces an organization.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutOrganization {
    /// Kind; `IBM` marks an organization whose patterns may be public.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub org_type: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Description of the organization.
    #[serde(deserialize_with = "lenient::text")]
    pub description: String,
    /// Tags by name.
    #[serde(default, deserialize_with = "tags", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub tags: Option<Map<String, Value>>,
    /// Limits of its own.
    #[serde(default, deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub limits: Option<OrganizationLimits>,
    /// Heartbeat intervals of its nodes.
    #[serde(default, deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub heartbeat_intervals: Option<HeartbeatIntervals>,
}

/// Changes one attribute of an organization: the first given one counts.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchOrganization {
    /// Kind.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub org_type: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Description of the organization.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Heartbeat intervals of its nodes.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub heartbeat_intervals: Option<HeartbeatIntervals>,
    /// Tags by name.
    #[serde(deserialize_with = "tags")]
    #[schema(value_type = Option<Object>)]
    pub tags: Option<Map<String, Value>>,
    /// Limits of its own.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub limits: Option<OrganizationLimits>,
}

/// Limits of one organization.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OrganizationLimits {
    /// Maximum number of nodes; 0 for no limit of its own.
    #[serde(deserialize_with = "lenient::int")]
    pub max_nodes: i64,
}

response! {
    /// An organization.
    pub struct OrganizationResponse {
        /// Kind.
        org_type: String,
        /// Display name.
        label: String,
        /// Description of the organization.
        description: String,
        /// Last change.
        last_updated: String,
        /// Tags by name; none when never set.
        #[schema(value_type = Option<Object>)]
        tags: Option<Value>,
        /// Limits of its own.
        limits: part OrganizationLimits,
        /// Heartbeat intervals of its nodes.
        heartbeat_intervals: part HeartbeatIntervals,
    }
}

response! {
    /// Organizations by id.
    pub struct OrganizationsResponse {
        /// The organizations.
        orgs: BTreeMap<String, OrganizationResponse>,
        /// Always 0.
        last_index: i32,
        paged
    }
}

/// Filters of the list; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct OrganizationsQuery {
    /// Only organizations of this type; only `IBM` is supported.
    pub orgtype: Option<String>,
    /// Pattern of the id.
    pub organization: Option<String>,
    /// Pattern of the label.
    pub label: Option<String>,
    /// Pattern of the description.
    pub description: Option<String>,
}

/// One account of a cloud, for finding the organizations that belong to it.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudAccount {
    /// Id of the account, as organizations carry it in the tag `ibmcloud_id` or `group`.
    #[serde(deserialize_with = "lenient::text")]
    pub id: String,
    /// Name, unused.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub name: Option<String>,
    /// Description, unused.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Time of its creation, unused.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub created_on: Option<String>,
}

/// Texts by name; a name with `null` is left out.
fn tags<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Map<String, Value>>, D::Error> {
    let Some(members) = Option::<Map<String, Value>>::deserialize(input)? else { return Ok(None) };
    let given: Map<String, Value> = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
    lenient::optional_text_map(Value::Object(given)).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_without_value_is_left_out_and_numbers_become_texts() {
        let patch: PatchOrganization = serde_json::from_str(r#"{"tags":{"c":null,"d":4}}"#).expect("valid");
        assert_eq!(Value::Object(patch.tags.expect("given")).to_string(), r#"{"d":"4"}"#);
        assert!(serde_json::from_str::<PatchOrganization>(r#"{"tags":["a"]}"#).is_err());
    }
}
