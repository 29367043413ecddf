//! HA groups on the wire. Source: exchange-api 6; requirements 004 ("Exchange APIs").

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::HaGroupOrchestration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::lenient;
use super::node_orchestration::Availability;

/// Creates or changes a group whose name is in the path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutHaGroup {
    /// Description of the group.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Ids of all nodes that shall be in it; none leaves the members as they are.
    #[serde(deserialize_with = "lenient::optional_texts", skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Number of members that may be disrupted at once, and recovery of failed members; none keeps the current value, `null`
    /// removes it, `{}` sets the defaults.
    #[serde(deserialize_with = "lenient::given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HaGroupOrchestration>)]
    pub orchestration: Option<Option<HaGroupOrchestration>>,
}

/// A group as one document, for creating or replacing it. Members that only the exchange sets are accepted and ignored, so that a
/// document that was read can be sent back.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HaGroupDocument {
    /// Name of the group.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Description of the group; none leaves it as it is.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Ids of all nodes that shall be in it.
    #[serde(deserialize_with = "members")]
    pub members: Vec<String>,
    /// Number of members that may be disrupted at once, and recovery of failed members; none keeps the current value, `null`
    /// removes it, `{}` sets the defaults.
    #[serde(default, deserialize_with = "lenient::given")]
    #[schema(value_type = Option<HaGroupOrchestration>)]
    pub orchestration: Option<Option<HaGroupOrchestration>>,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub updated: Option<Value>,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub last_updated: Option<Value>,
    /// Ignored.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    pub admin: Option<Value>,
}

response! {
    /// An HA group.
    // The store writes this shape: `ha_group::list_groups`.
    #[derive(PartialEq, Eq)]
    pub struct HaGroupResponse {
        /// Its name.
        name: String,
        /// Description of the group; empty when the caller may not read it.
        description: String,
        /// Ids of its members that the caller may see, sorted.
        members: Vec<String>,
        /// True if an administrator created the group.
        admin: bool,
        /// Number of members that may be disrupted at once, and recovery of failed members; left out when it was never set.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<HaGroupOrchestration>)]
        orchestration: Option<HaGroupOrchestration>,
        /// Last change.
        last_updated: String,
        /// Same as `lastUpdated`, in documents.
        #[serde(skip_serializing_if = "Option::is_none")]
        updated: Option<String>,
    }
}

response! {
    /// HA groups, sorted by name.
    #[derive(PartialEq, Eq)]
    pub struct HaGroupsResponse {
        /// The groups.
        node_groups: Vec<HaGroupResponse>,
        paged
    }
}

/// Status of a management policy on a member of an HA group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HaGroupMemberStatus {
    /// Availability that the operator of the node set.
    #[serde(default)]
    pub availability: Availability,
    /// Status that the node reported last; absent when it has not reported one for the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

response! {
    /// Statuses of a management policy on the members of an HA group.
    #[derive(PartialEq, Eq)]
    pub struct HaGroupStatusResponse {
        /// The members, by `organization/node`.
        members: BTreeMap<String, HaGroupMemberStatus>,
    }
}

/// Format of groups in a response.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct HaGroupForm {
    /// `document` adds the member `updated`.
    pub form: Option<String>,
}

/// A required list of texts.
fn members<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    lenient::optional_texts(input)?
        .ok_or_else(|| serde::de::Error::custom("members must be a list of node ids"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_needs_name_and_members_and_accepts_what_a_read_gave() {
        let read =
            r#"{"name":"g","description":"d","members":["n"],"admin":true,"lastUpdated":"x","updated":"x"}"#;
        let document: HaGroupDocument = serde_json::from_str(read).expect("valid");
        assert_eq!((document.name.as_str(), document.members.len()), ("g", 1));
        for refused in [
            r#"{"name":"g"}"#,
            r#"{"members":[]}"#,
            r#"{"name":"g","members":null}"#,
            r#"{"name":"g","members":[null]}"#,
        ] {
            assert!(serde_json::from_str::<HaGroupDocument>(refused).is_err(), "{refused}");
        }
    }
}
