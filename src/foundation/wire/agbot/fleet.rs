//! The nodes and deployment policies of an organization at a glance, page by page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::attention::Acknowledgement;
use super::orchestration::UpdateProgress;

/// Selection of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(rename_all = "camelCase")]
pub struct FleetNodesQuery {
    /// Only nodes in this state: `up`, `away`, `down` or `never-heard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only nodes with this availability: `active`, `pause` or `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<String>,
    /// Only members of this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only nodes whose properties satisfy this constraint, in the language of policies, such as `site == "north"`. A node without a policy
    /// satisfies none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// Only nodes after this one: the value of `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Nodes of a page, 1 to 1000; 100 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// True to count the selected nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// A page of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetNodes {
    /// The nodes, by name.
    pub nodes: Vec<FleetNode>,
    /// Value of `after` for the next page; left out on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of selected nodes on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetNode {
    /// `org/node`.
    #[schema(required = true)]
    pub node: String,
    /// `up`, `away`, `down` or `never-heard`.
    #[schema(required = true)]
    pub state: String,
    /// Last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<String>,
    /// Activity of its agent: `idle`, `init`, `maintenance`, `upgrade` or `shutting`.
    #[schema(required = true)]
    pub monitor_state: String,
    /// `active`, `pause` or `drain`.
    #[schema(required = true)]
    pub availability: String,
    /// True if a user froze it.
    #[schema(required = true)]
    pub frozen: bool,
    /// Its HA group, without the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its architecture.
    #[schema(required = true)]
    pub arch: String,
    /// Version of its agent.
    #[schema(required = true)]
    pub agent_version: String,
    /// The pattern that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Live agreements.
    #[schema(required = true)]
    pub instances: u32,
    /// Those whose service is seen running.
    #[schema(required = true)]
    pub running: u32,
}

/// An organization at a glance. Only nodes that the caller may read are counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetOverview {
    /// Its nodes.
    #[schema(required = true)]
    pub nodes: FleetNodeCounts,
    /// Its instances.
    #[schema(required = true)]
    pub instances: FleetInstanceCounts,
    /// Its deployment policies that the agbot serves.
    #[schema(required = true)]
    pub policies: u64,
    /// Its HA groups.
    #[schema(required = true)]
    pub groups: u64,
    /// Its HA groups by the state of their members.
    #[schema(required = true)]
    pub group_states: FleetGroupCounts,
    /// The tasks of its deployment policies by state, from `new` to `orphaned`: the newest of each slot, and those that have not ended. States
    /// without a task are left out.
    #[schema(required = true)]
    pub tasks: BTreeMap<String, u64>,
    /// Rollouts and updates that have not ended.
    #[schema(required = true)]
    pub rollouts: FleetRolloutCounts,
    /// Problems that a person has to resolve, those of administrators first, then those of owners and of operators, and at last those that
    /// somebody has acknowledged; at most 100.
    #[schema(required = true)]
    pub attention: Vec<FleetMatter>,
}

/// Numbers of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetNodeCounts {
    /// All.
    #[schema(required = true)]
    pub total: u64,
    /// Those whose heartbeats arrive.
    #[schema(required = true)]
    pub up: u64,
    /// Those that announced an absence, or could not be heard for a while.
    #[schema(required = true)]
    pub away: u64,
    /// Those whose heartbeats are missing.
    #[schema(required = true)]
    pub down: u64,
    /// Those that never sent a heartbeat.
    #[schema(required = true)]
    pub never_heard: u64,
    /// Those that are being drained.
    #[schema(required = true)]
    pub draining: u64,
    /// Those on which nothing is placed or updated.
    #[schema(required = true)]
    pub paused: u64,
    /// Those that a user froze.
    #[schema(required = true)]
    pub frozen: u64,
}

/// Numbers of HA groups by the state of those members that the caller may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetGroupCounts {
    /// Those whose members are all up.
    #[schema(required = true)]
    pub up: u64,
    /// Those of which some members are up.
    #[schema(required = true)]
    pub degraded: u64,
    /// Those of which no member is up.
    #[schema(required = true)]
    pub down: u64,
    /// Those without members.
    #[schema(required = true)]
    pub empty: u64,
}

/// Numbers of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetInstanceCounts {
    /// Live agreements.
    #[schema(required = true)]
    pub total: u64,
    /// Those whose service is seen running.
    #[schema(required = true)]
    pub running: u64,
}

/// Numbers of rollouts and updates that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetRolloutCounts {
    /// Those that replace instances.
    #[schema(required = true)]
    pub updating: u64,
    /// Those that are paused.
    #[schema(required = true)]
    pub paused: u64,
}

/// A problem that a person has to resolve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetMatter {
    /// Identifies the problem and its cause: another one when the cause changes.
    #[schema(required = true)]
    pub id: String,
    /// `rollout-paused`, `update-paused`, `rollout-blocked`, `version-rolled-back`, `instances-missing`, `policy-without-effect`,
    /// `policy-questionable` or `node-down`.
    #[schema(required = true)]
    pub kind: String,
    /// Node, policy or document that it is about, `org/name`.
    #[schema(required = true)]
    pub subject: String,
    /// HA group of a rollout, without the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Human-readable reason.
    #[schema(required = true)]
    pub text: String,
    /// Account that can resolve it: `administrator`, `owner` or `operator` (of the node).
    #[schema(required = true)]
    pub role: String,
    /// Since when, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Acknowledgement of it; left out while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

/// Selection of deployment policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct FleetPoliciesQuery {
    /// Only policies whose members satisfy this constraint, in the language of policies, such as `avail != up`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// Only policies after this one: the value of `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Policies of a page, 1 to 100; 25 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<u16>,
    /// True to count the policies of all pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// A page of deployment policies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetPolicies {
    /// The policies, by name.
    pub policies: Vec<FleetPolicy>,
    /// Value of `after` for the next page; left out on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of policies on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if there may be more policies than `count`, because not all were examined for the filter.
    #[serde(rename = "countIsMinimum", default, skip_serializing_if = "std::ops::Not::not")]
    pub count_is_minimum: bool,
}

/// A deployment policy that the agbot serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetPolicy {
    /// `org/policy`.
    #[schema(required = true)]
    pub policy: String,
    /// Its service, `org/url`.
    #[schema(required = true)]
    pub service: String,
    /// Its service versions, the preferred one first.
    #[schema(required = true)]
    pub versions: Vec<String>,
    /// `global`, `replicated`, `failover` or `flex`.
    #[schema(required = true)]
    pub mode: String,
    /// True if the policy has `orchestration`.
    #[schema(required = true)]
    pub orchestrated: bool,
    /// `up`, `warn`, `down` or `n/a`.
    #[schema(required = true)]
    pub avail: String,
    /// `avail`, degraded by the warnings.
    #[schema(required = true)]
    pub overall: String,
    /// `frozen`, `thawed`, `mixed` or `n/a`.
    #[schema(required = true)]
    pub frozen: String,
    /// Wanted instances.
    #[schema(required = true)]
    pub target: u64,
    /// Running instances.
    #[schema(required = true)]
    pub up: u64,
    /// Its update; of a policy without `orchestration` the sum of its rollouts.
    #[schema(required = true)]
    pub update: UpdateProgress,
    /// Human-readable warnings.
    #[schema(required = true)]
    pub warnings: Vec<String>,
}
