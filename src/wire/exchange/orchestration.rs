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

/// Most HA groups of a scope.
const MOST_GROUPS: usize = 1_000;

/// Where the service of a deployment policy runs and how it is updated; what is left out is the hub's.
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
    /// How many copies there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether copies are started by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrate: Option<Orchestrate>,
    /// On which nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How copies are replaced by those of another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// What must hold in an HA group before a copy may stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ha: Option<Ha>,
}

/// How many copies there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One on every node of the scope that the policy selects.
    Global,
    /// One in each HA group of the scope, moved to the next member by name when its node is down or not selected any more.
    Failover,
}

/// Whether copies are started by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Orchestrate {
    /// Wherever the policy wants one and none runs.
    Ha,
}

/// On which nodes the service may run, beside properties and constraints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Scope {
    /// On every node that the policy selects.
    Eligible,
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
            .max_items(Some(MOST_GROUPS))
            .description(Some(
                "Names of the groups, `org/name` outside the organization of the policy; `*` alone is every group.",
            ));
        let eligible = ObjectBuilder::new()
            .property("type", kind("eligible"))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On every node that the policy selects."));
        let members = ObjectBuilder::new()
            .property("type", kind("hagroups"))
            .required("type")
            .property("haGroups", groups)
            .required("haGroups")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On members of these HA groups only."));
        OneOfBuilder::new()
            .item(eligible)
            .item(members)
            .description(Some("On which nodes the service may run, beside properties and constraints."))
            .into()
    }
}

impl ToSchema for Scope {}

/// How copies are replaced by those of another version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Update {
    /// HA groups in work at once; 0 is all of them. Inside a group it is always one member at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100_000)]
    pub parallelism: Option<u32>,
    /// Wait between two members of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub delay_seconds: Option<u64>,
    /// What comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Time that a new copy must be seen running before its step counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub monitor_seconds: Option<u64>,
    /// Share of failed members that is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub max_failure_ratio: Option<f64>,
    /// What more failures do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_action: Option<FailureAction>,
    /// Time from the stop of the old copy until the new one must be seen running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub start_timeout_seconds: Option<u64>,
}

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The old copy stops before the new one starts.
    StopFirst,
    /// The new one is seen running before the old one stops; on one node this is stop-first, with an event.
    StartFirst,
}

/// What a failed step does to the rest of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureAction {
    /// Holds it until somebody acts.
    Pause,
    /// Goes on with the next member.
    Continue,
    /// Takes the members that changed back.
    Rollback,
}

/// What must hold in an HA group before a copy may stop for a planned change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ha {
    /// Copies that must run on other members; more than there are other members is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub min_running: Option<u32>,
    /// What happens while the other members are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_peer_policy: Option<OfflinePeerPolicy>,
}

/// What happens while the other members are down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OfflinePeerPolicy {
    /// The last running copy is left alone.
    Wait,
    /// Members that are down do not count.
    Proceed,
}
