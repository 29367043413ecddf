//! The optional object `orchestration` of a deployment policy: where its service runs and how it is updated.
//!
//! Every member may be left out and then is the hub's. Members of the specification that the engine cannot honour are refused by
//! name: storing and ignoring them would promise something. Source: orchestration 0.3, 0.6, 1.2, 1.3.

use evenkeel_domain::orchestration::object::{Members, MembersError, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Longest wait that a member may ask for, seconds.
const MOST_SECONDS: u64 = 604_800;
/// Largest number of copies that a member may name.
const MAX_INSTANCES: u64 = 100_000;
/// Most HA groups of a scope, and the longest name of one.
const MOST_GROUPS: usize = 1_000;
const LONGEST_NAME: usize = 512;
/// Every HA group.
const EVERY_GROUP: &str = "*";

const ROOT: Members = Members {
    known: &["version", "mode", "orchestrate", "scope", "update", "ha"],
    unsupported: &[
        "replicas",
        "flex",
        "maxPerNode",
        "placement",
        "parents",
        "children",
        "loads",
        "restart",
        "rollback",
        "healthPolicy",
        "compatGate",
        "timers",
        "priority",
    ],
};
const SCOPE: Members = Members { known: &["type", "haGroups"], unsupported: &["nodes"] };
const UPDATE: Members = Members {
    known: &[
        "parallelism",
        "delaySeconds",
        "order",
        "monitorSeconds",
        "maxFailureRatio",
        "failureAction",
        "startTimeoutSeconds",
    ],
    unsupported: &[],
};
const HA: Members = Members { known: &["minRunning", "offlinePeerPolicy"], unsupported: &[] };

/// Where the service of a deployment policy runs and how it is updated; what is left out is the hub's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "Value", deny_unknown_fields)]
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

impl TryFrom<Value> for Orchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let mut root = Object::open("orchestration".to_owned(), value, &ROOT)?;
        let update = root.object("update", &UPDATE)?.map(read_update).transpose()?;
        let ha = root.object("ha", &HA)?.map(read_ha).transpose()?;
        let scope = root.object("scope", &SCOPE)?.map(read_scope).transpose()?;
        let read = Self {
            version: root.number("version", 1..=1)?,
            mode: root.word(
                "mode",
                &[
                    ("global", Some(Mode::Global)),
                    ("replicated", None),
                    ("failover", Some(Mode::Failover)),
                    ("flex", None),
                ],
            )?,
            orchestrate: root
                .word("orchestrate", &[("ha", Some(Orchestrate::Ha)), ("no", None), ("start", None)])?,
            scope,
            update,
            ha,
        };
        read.check_failover(&root)?;
        Ok(read)
    }
}

impl Orchestration {
    /// What a copy that moves asks of the other members.
    fn check_failover(&self, root: &Object) -> Result<(), MembersError> {
        if self.mode != Some(Mode::Failover) {
            return Ok(());
        }
        if self.orchestrate.is_none() {
            return Err(root.broken(
                "orchestrate",
                "must be ha with the mode failover: its default, no, is not supported",
            ));
        }
        if !matches!(self.scope, Some(Scope::HaGroups { .. })) {
            return Err(root.broken("scope", "must be of the type hagroups with the mode failover"));
        }
        if self.update.as_ref().is_some_and(|update| update.order == Some(Order::StartFirst)) {
            return Err(root.broken("update.order", "must be stop-first with the mode failover"));
        }
        Ok(())
    }
}

fn read_update(mut update: Object) -> Result<Update, MembersError> {
    let max_failure_ratio = update.take("maxFailureRatio").map(|value| {
        let ratio = value.as_f64().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| update.broken("maxFailureRatio", "must be a number from 0 to 1"))
    });
    Ok(Update {
        max_failure_ratio: max_failure_ratio.transpose()?,
        parallelism: update.number("parallelism", 0..=MAX_INSTANCES)?,
        delay_seconds: update.number("delaySeconds", 0..=MOST_SECONDS)?,
        order: update.word(
            "order",
            &[("stop-first", Some(Order::StopFirst)), ("start-first", Some(Order::StartFirst))],
        )?,
        monitor_seconds: update.number("monitorSeconds", 0..=MOST_SECONDS)?,
        failure_action: update.word(
            "failureAction",
            &[
                ("pause", Some(FailureAction::Pause)),
                ("continue", Some(FailureAction::Continue)),
                ("rollback", Some(FailureAction::Rollback)),
            ],
        )?,
        start_timeout_seconds: update.number("startTimeoutSeconds", 1..=MOST_SECONDS)?,
    })
}

fn read_ha(mut ha: Object) -> Result<Ha, MembersError> {
    Ok(Ha {
        min_running: ha.number("minRunning", 1..=MAX_INSTANCES)?,
        offline_peer_policy: ha.word(
            "offlinePeerPolicy",
            &[("wait", Some(OfflinePeerPolicy::Wait)), ("proceed", Some(OfflinePeerPolicy::Proceed))],
        )?,
    })
}

fn read_scope(mut scope: Object) -> Result<Scope, MembersError> {
    let groups = scope.take("haGroups");
    let is_grouped = scope
        .word("type", &[("eligible", Some(false)), ("hagroups", Some(true)), ("nodes", None)])?
        .unwrap_or(false);
    match (is_grouped, groups) {
        (false, None) => Ok(Scope::Eligible),
        (false, Some(_)) => Err(scope.broken("haGroups", "needs the type hagroups")),
        (true, groups) => read_groups(&scope, groups).map(|ha_groups| Scope::HaGroups { ha_groups }),
    }
}

fn read_groups(scope: &Object, groups: Option<Value>) -> Result<Vec<String>, MembersError> {
    let broken = |rule: &str| scope.broken("haGroups", rule);
    let Some(Value::Array(items)) = groups else {
        return Err(broken("must be a list of names of HA groups"));
    };
    if items.is_empty() || items.len() > MOST_GROUPS {
        return Err(broken(&format!("must hold 1 to {MOST_GROUPS} names")));
    }
    let mut names: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        let Value::String(name) = item else {
            return Err(broken("must be a list of names of HA groups"));
        };
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(broken(&format!("must hold names of 1 to {LONGEST_NAME} bytes")));
        }
        names.push(name);
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    sorted.dedup();
    if sorted.len() < names.len() {
        return Err(broken("must not hold a name twice"));
    }
    if names.len() > 1 && names.iter().any(|name| name == EVERY_GROUP) {
        return Err(broken("must hold * alone"));
    }
    Ok(names)
}

#[cfg(test)]
#[path = "orchestration_tests.rs"]
mod tests;
