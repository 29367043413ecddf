//! State of each pair of node and deployment policy, with the reason.

use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, PolicyId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Selection of pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct ReasonsQuery {
    /// Only pairs of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only pairs of this deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Only pairs after this one: the value of `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Pairs of a page, 1 to 1000; 100 if left out and a filter or a count is wanted. Without any of them, the list is sent whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Only pairs whose members satisfy this constraint, in the language of policies, such as `state.placement == waiting`. One request examines at most 2000
    /// of them: a page may have fewer than its limit although `next` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// True to count the pairs of all pages: at most 100000, or those among the first 2000 that satisfy the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// States of the pairs of nodes and policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonsResponse {
    /// Time of the last write of each deployment policy of the organization, as far as the agbot has read it.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub policies: Option<BTreeMap<String, String>>,
    /// Policies, patterns, services and inputs without effect, because a part of them cannot be parsed.
    #[serde(default)]
    pub inert_policies: Vec<InertPolicy>,
    /// Policies and patterns with parts that can never work, or are probably mistakes.
    #[serde(default)]
    pub questionable_policies: Vec<InertPolicy>,
    /// The pairs.
    pub reasons: Vec<Reason>,
    /// Value of `after` for the next page; left out on the last one, and in a list that is sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of pairs on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if there may be more than `count`.
    #[serde(default, rename = "countIsMinimum", skip_serializing_if = "Option::is_none")]
    pub count_is_minimum: Option<bool>,
}

/// State of one pair of node and policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// `org/node`.
    #[schema(value_type = String)]
    pub node: NodeId,
    /// `org/policy`.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// For programs.
    #[schema(value_type = Object)]
    pub state: Value,
    /// For people.
    pub text: String,
}

impl Reason {
    /// Returns the machine-readable part of the state; empty if it cannot be parsed.
    #[must_use]
    pub fn placement(&self) -> PairPlacement {
        PairPlacement::deserialize(&self.state).unwrap_or_default()
    }
}

/// The machine-readable part of a pair's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PairPlacement {
    /// `placed`, `waiting`, `acting` or `not-placed`.
    pub placement: String,
    /// Version of the agreement of a placed pair.
    pub version: String,
    /// True if the service of a placed pair was seen running.
    pub is_running: bool,
    /// Obstacle to the placement.
    pub blocked: Blocked,
}

/// Kind of obstacle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Blocked {
    /// The kind, such as `node-down`.
    #[serde(rename = "blocked")]
    pub kind: String,
}

/// A document without effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InertPolicy {
    /// `deployment`, `node`, `service` or `management` for policies; `pattern`, `service-definition`, `node-input`, `node-status`.
    pub kind: String,
    /// Its id, `org/name`; of the node or service that has it.
    pub id: String,
    /// Problem of each invalid member and constraint.
    pub errors: Vec<String>,
}

impl InertPolicy {
    /// Returns whether it belongs to a node.
    #[must_use]
    pub fn is_of_node(&self) -> bool {
        matches!(self.kind.as_str(), "node" | "node-input" | "node-status")
    }

    /// Returns the parts without effect, with human-readable reasons.
    #[must_use]
    pub fn text(&self) -> String {
        let effect = match self.kind.as_str() {
            "deployment" | "management" | "node" | "service" => "selects nothing",
            "pattern" | "service-definition" => "is not deployed",
            _ => "cannot be used",
        };
        format!("{} {effect}: {}", self.name(), self.errors.join("; "))
    }

    /// Returns human-readable descriptions of the parts that can never work in a document that has an effect.
    #[must_use]
    pub fn questionable_text(&self) -> String {
        format!("{}: {}", self.name(), self.errors.join("; "))
    }

    fn name(&self) -> String {
        let Self { kind, id, .. } = self;
        match kind.as_str() {
            "deployment" => format!("deployment policy {id}"),
            "management" => format!("management policy {id}"),
            "node" => format!("the policy of node {id}"),
            "service" => format!("the policy of service {id}"),
            "service-definition" => format!("service {id}"),
            "node-input" => format!("the user input of node {id}"),
            "node-status" => format!("the status of node {id}"),
            other => format!("{other} {id}"),
        }
    }
}
