//! Agreements of the agbot with nodes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::RawJson;

/// Selection of live agreements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct AgreementsQuery {
    /// Only live agreements after this one: the value of `next` of the page before. No ended ones are listed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Live agreements of a page, 1 to 1000; 100 if left out and a filter or a count is wanted. Without any of them, the list is sent whole, and with the
    /// newest ended agreements.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Only agreements whose members satisfy this constraint, in the language of policies, such as `version == 1.0.0`. One request examines at most 2000
    /// of them: a page may have fewer than its limit although `next` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// True to count the live agreements of all pages: at most 100000, or those among the first 2000 that satisfy the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// Agreements of the agbot with the nodes of an organization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgreementsResponse {
    /// By whether they are alive.
    pub agreements: Agreements,
    /// Value of `after` for the next page; left out on the last one, and in a list that is sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of live agreements on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if there may be more than `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_is_minimum: Option<bool>,
}

/// Agreements by whether they are alive: the agbot's records as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agreements {
    /// Alive.
    #[schema(value_type = Vec<Object>)]
    pub active: Vec<RawJson>,
    /// Ended, newest first; none in a page.
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
