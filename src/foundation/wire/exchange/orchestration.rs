//! The schema of the optional object `orchestration` of a deployment policy: where its service runs and how it is updated.
//!
//! Bodies carry the object as it was written; `evenkeel_domain::orchestration` reads it. Only the members that are supported are
//! documented. Source: orchestration 0.3, 0.6, 1.2, 1.3.

use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Most HA groups, or nodes, of a scope.
const MOST_NAMES: usize = 1_000;

/// Placement and update of the service of a deployment policy; members that are left out have the hub's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "mode": "global",
    "scope": {"type": "hagroups", "haGroups": ["cameras"]},
    "update": {"delaySeconds": 30, "monitorSeconds": 20, "failureAction": "rollback"},
    "ha": {"minRunning": 2, "offlinePeerPolicy": "wait"},
}))]
pub struct Orchestration {
    /// Version of this object, 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1)]
    pub version: Option<u32>,
    /// Rule for the number of instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Degree to which instances are started and moved automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrate: Option<Orchestrate>,
    /// Nodes on which instances may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Number of instances, with the mode `replicated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Limits of the number of instances, with the mode `flex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flex: Option<Flex>,
    /// Instances that one node may run, with the mode `replicated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_per_node: Option<u32>,
    /// Preferred and excluded nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Policies, as `policy`, `org/policy` or `policy@node`, or services, as `svc:org/url`, that must be up before an instance starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<String>>,
    /// Workloads in the same form that must be down before a user's stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<String>>,
    /// Restart of an instance that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Update of instances to another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// Rollback to the previous version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Update>,
    /// Conditions in an HA group for stopping an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ha: Option<Ha>,
    /// Times to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timers: Option<Timers>,
    /// Priority among workloads that are planned at the same time; the smaller number comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub priority: Option<u8>,
}

/// Rule for the number of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One on every node of the scope that the policy selects.
    Global,
    /// A number of instances on the best nodes.
    Replicated,
    /// One instance, never two; in each HA group of the scope if there are groups.
    Failover,
    /// A number of instances between limits.
    Flex,
}

/// Limits of the number of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flex {
    /// Fewer raise a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// More raise a warning; 0 is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The number that is kept by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
}

/// Preferred and excluded nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// The order in which nodes are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// Nodes that come first; the others follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_order: Option<Vec<String>>,
    /// By how many places the order is rotated, with the policy `shift`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<u32>,
    /// Expression that must be true on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub expression: Option<String>,
    /// Workloads on the same node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Action for an instance whose node no longer satisfies its placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_violation: Option<OnViolation>,
}

/// The order in which nodes are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// That of the document.
    NodesOrder,
    /// The smallest load over 15 minutes first.
    LoadAvg,
    /// The best score of load, free memory and free swap space first.
    Score,
    /// A static, pseudo-random order.
    Spread,
    /// The node of the last start first.
    LastStart,
    /// The order of the document, rotated.
    Shift,
    /// The fewest instances first.
    LeastInstances,
    /// No node is chosen by itself.
    None,
}

/// Workloads on the same node: policies, as `policy` or `org/policy`, or services, as `svc:org/url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Affinity {
    /// Each must run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Vec<String>>,
    /// None may run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_anti: Option<Vec<String>>,
    /// Each should run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<Vec<String>>,
    /// None should run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_anti: Option<Vec<String>>,
}

/// Action for an instance whose node no longer satisfies its placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnViolation {
    /// It stays, and is reported.
    Report,
    /// It moves.
    Move,
}

/// Restart of an instance that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restart {
    /// Condition of a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<RestartCondition>,
    /// Pause before a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub delay_seconds: Option<u64>,
    /// Maximum number of restarts of a slot; 0 is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Time window in which restarts count; 0 counts all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub window_seconds: Option<u64>,
    /// Action after the last restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
}

/// Condition for restarting an instance that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartCondition {
    /// Never.
    None,
    /// Unless it ended without an error.
    OnFailure,
    /// Always.
    Any,
}

/// Action after the last restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnExhausted {
    /// The slot stays down.
    None,
    /// Another node is tried.
    Switch,
}

/// Times to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timers {
    /// Time that a node must stay ready before an instance starts there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3_600)]
    pub ready_period_seconds: Option<u64>,
    /// Time that an instance which a user stops or moves has to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub stop_timeout_seconds: Option<u64>,
    /// Longest wait for workloads that soft affinity names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub affinity_wait_seconds: Option<u64>,
}

/// Degree to which instances are started and moved automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Orchestrate {
    /// Only users start them.
    No,
    /// They start on natural leaders only, with the modes `failover` and `flex`.
    Start,
    /// They start and move to the best available nodes.
    Ha,
}

/// Nodes on which the service may run, besides properties and constraints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Scope {
    /// On every node that the policy selects.
    Eligible,
    /// On these nodes only.
    Nodes {
        /// Names of the nodes, `org/name` outside the organization of the policy, in the order of preference.
        nodes: Vec<String>,
    },
    /// On members of these HA groups only.
    HaGroups {
        /// Names of the groups, `org/name` outside the organization of the policy; `*` alone is every group.
        #[serde(rename = "haGroups")]
        ha_groups: Vec<String>,
    },
}

// By hand, because the type may be left out of the first form.
impl PartialSchema for Scope {
    fn schema() -> RefOr<Schema> {
        let kind = |name: &str| ObjectBuilder::new().schema_type(Type::String).enum_values(Some([name]));
        let groups = ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String))
            .min_items(Some(1))
            .max_items(Some(MOST_NAMES))
            .description(Some(
                "Names of the groups, `org/name` outside the organization of the policy; `*` alone is every group.",
            ));
        let eligible = ObjectBuilder::new()
            .property("type", kind("eligible"))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On every node that the policy selects."));
        let names = ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String))
            .min_items(Some(1))
            .max_items(Some(MOST_NAMES))
            .unique_items(true)
            .description(Some(
                "Names of the nodes, `org/name` outside the organization of the policy, in the order of preference.",
            ));
        let nodes = ObjectBuilder::new()
            .property("type", kind("nodes"))
            .required("type")
            .property("nodes", names)
            .required("nodes")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On these nodes only."));
        let members = ObjectBuilder::new()
            .property("type", kind("hagroups"))
            .required("type")
            .property("haGroups", groups)
            .required("haGroups")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On members of these HA groups only."));
        OneOfBuilder::new()
            .item(eligible)
            .item(nodes)
            .item(members)
            .description(Some("Nodes on which the service may run, besides properties and constraints."))
            .into()
    }
}

impl ToSchema for Scope {}

/// Update of instances to another version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Update {
    /// Number of HA groups in progress at once; 0 is all of them. Inside a group it is always one member at a
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100_000)]
    pub parallelism: Option<u32>,
    /// Wait between two members of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub delay_seconds: Option<u64>,
    /// Order of stop and start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// When the next slot follows; `monitored` unless named. Members of HA groups without tasks are always monitored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Time that a new instance must be seen running before its step counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub monitor_seconds: Option<u64>,
    /// Share of failed members that is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub max_failure_ratio: Option<f64>,
    /// Action on more failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_action: Option<FailureAction>,
    /// Time from the stop of the old instance until the new one must be seen running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub start_timeout_seconds: Option<u64>,
}

/// Order of stop and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The old instance stops before the new one starts.
    StopFirst,
    /// The new one is seen running before the old one stops; on one node this is stop-first, with an event.
    StartFirst,
}

/// When the slot after a replaced one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// When the new instance has run for `monitorSeconds`: a version that fails in that time costs one slot for each one in work.
    Monitored,
    /// As soon as the new instance is seen running.
    Running,
}

/// Effect of a failed step on the rest of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureAction {
    /// Holds it until a user acts.
    Pause,
    /// Goes on with the next member.
    Continue,
    /// Takes the members that changed back.
    Rollback,
}

/// Conditions in an HA group for stopping an instance for a planned change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ha {
    /// Instances that must run on other members; more than there are other members is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub min_running: Option<u32>,
    /// Behavior while the other members are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_peer_policy: Option<OfflinePeerPolicy>,
}

/// Behavior while the other members are down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OfflinePeerPolicy {
    /// The last running instance is left alone.
    Wait,
    /// Members that are down do not count.
    Proceed,
}
