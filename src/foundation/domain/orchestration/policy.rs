//! `orchestration` of a deployment policy.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::PolicyId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::supervisor::{Restart, Update};
use super::{HealthPolicy, InstanceReference, MembersError, Placement, Scope};

/// Number, placement and update of the instances of a workload.
///
/// # Shape
/// Every member has its value; `None` stands for a default that the hub, the organization or the number of
/// nodes decides, as documented for each member. Written as JSON, it reads back as the same value.
///
/// # Source
/// Orchestration 1.2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "Value", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "mode": "global",
    "scope": {"type": "hagroups", "haGroups": ["cameras"]},
    "update": {"delaySeconds": 30, "monitorSeconds": 20, "failureAction": "rollback"},
    "ha": {"minRunning": 2, "offlinePeerPolicy": "wait"},
}))]
pub struct Orchestration {
    /// Version of the document, 1.
    #[schema(required = false, minimum = 1, maximum = 1)]
    pub version: u32,
    /// The kind of count.
    #[schema(required = false)]
    pub mode: Mode,
    /// Degree to which instances are started and moved automatically.
    #[schema(required = false)]
    pub orchestrate: Orchestrate,
    /// The nodes to choose from.
    #[schema(required = false)]
    pub scope: Scope,
    /// Instances in each unit; present with the mode `replicated` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Bounds on the number of instances in each unit; present with the mode `flex` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flex: Option<Flex>,
    /// Instances that one node may run.
    #[schema(required = false, minimum = 1)]
    pub max_per_node: u32,
    /// Preferred and excluded nodes.
    #[schema(required = false)]
    pub placement: Placement,
    /// Instances that must be up before one starts.
    #[schema(required = false, value_type = Vec<String>)]
    pub parents: Vec<InstanceReference>,
    /// Instances that must be down before one stops.
    #[schema(required = false, value_type = Vec<String>)]
    pub children: Vec<InstanceReference>,
    /// Capacity of the node that one instance uses, by name.
    #[schema(required = false)]
    pub loads: BTreeMap<String, f64>,
    /// Restart of an instance that ended.
    #[schema(required = false)]
    pub restart: Restart,
    /// Update of instances to another version; `None` stands for the setting of the hub.
    #[schema(required = false)]
    pub update: Update,
    /// Rollback of a failed update; `None` stands for the setting of the hub.
    #[schema(required = false)]
    pub rollback: Update,
    /// Conditions in an HA group for stopping an instance for a planned change; `None` stands for the setting
    /// of the hub.
    #[schema(required = false)]
    pub ha: Ha,
    /// Detection of failures of instances, and recovery from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub health_policy: Option<HealthPolicy>,
    /// Effect of different compatibility versions of agents on automatic decisions.
    #[schema(required = false)]
    pub compat_gate: CompatGate,
    /// Times to wait.
    #[schema(required = false)]
    pub timers: Timers,
    /// Order in full work queues; smaller is first.
    #[schema(required = false, maximum = 100)]
    pub priority: u8,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            version: 1,
            mode: Mode::Global,
            orchestrate: Orchestrate::Ha,
            scope: Scope::Eligible,
            replicas: None,
            flex: None,
            max_per_node: 1,
            placement: Placement::of_mode(Mode::Global),
            parents: Vec::new(),
            children: Vec::new(),
            loads: BTreeMap::new(),
            restart: Restart::of_mode(Mode::Global),
            update: Update::default(),
            rollback: Update::default(),
            ha: Ha::default(),
            health_policy: None,
            compat_gate: CompatGate::Off,
            timers: Timers::of_mode(Mode::Global),
            priority: 50,
        }
    }
}

impl Orchestration {
    /// Returns the defaults of a mode.
    pub fn of_mode(mode: Mode) -> Self {
        let topology = mode.is_topology();
        Self {
            mode,
            orchestrate: if topology { Orchestrate::No } else { Orchestrate::Ha },
            replicas: (mode == Mode::Replicated).then_some(1),
            flex: (mode == Mode::Flex).then(Flex::default),
            placement: Placement::of_mode(mode),
            restart: Restart::of_mode(mode),
            compat_gate: if topology { CompatGate::Members } else { CompatGate::Off },
            timers: Timers::of_mode(mode),
            ..Self::default()
        }
    }

    /// Checks that members have peers, if peers examine them.
    ///
    /// # Errors
    /// When there is never more than one instance.
    ///
    /// # Source
    /// Orchestration C3.
    pub(super) fn check_peers(&self) -> Result<(), MembersError> {
        let most = match self.mode {
            Mode::Failover => Some(1),
            Mode::Replicated => self.replicas,
            Mode::Flex => self.flex.and_then(|flex| flex.max),
            Mode::Global => None,
        };
        let mode = self.health_policy.as_ref().and_then(HealthPolicy::peer_mode);
        match mode.filter(|_| most == Some(1)) {
            None => Ok(()),
            Some(mode) => Err(MembersError {
                path: "orchestration.healthPolicy.detection.detection_modes".to_owned(),
                rule: format!(
                    "must not hold {} where there is one instance: it has no peers",
                    mode.kind.word()
                ),
            }),
        }
    }

    /// Returns the policies that its parents name.
    pub fn parent_policies(&self, policy: &PolicyId) -> BTreeSet<PolicyId> {
        policies_of(&self.parents, policy)
    }

    /// Returns the policies that its children name.
    pub fn child_policies(&self, policy: &PolicyId) -> BTreeSet<PolicyId> {
        policies_of(&self.children, policy)
    }
}

fn policies_of(references: &[InstanceReference], policy: &PolicyId) -> BTreeSet<PolicyId> {
    references.iter().filter_map(|reference| reference.workload.policy(policy.org())).collect()
}

/// The kind of count.
///
/// # Source
/// Orchestration A2, B1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One instance on every node of the scope that the policy selects.
    #[default]
    Global,
    /// A fixed number of instances in each unit.
    Replicated,
    /// One instance in each unit, never two.
    Failover,
    /// A number of instances between bounds in each unit.
    Flex,
}

impl Mode {
    /// Returns whether the mode is one of the topologies, failover or flex, whose defaults are their own.
    pub fn is_topology(self) -> bool {
        matches!(self, Self::Failover | Self::Flex)
    }
}

/// Degree to which instances are started and moved automatically.
///
/// # Source
/// Orchestration A1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Orchestrate {
    /// Only users start instances.
    No,
    /// An instance is started on its natural leader only.
    Start,
    /// An instance is started on the best available node.
    Ha,
}

/// Bounds on the number of instances in each unit.
///
/// # Source
/// Orchestration A2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flex {
    /// Fewer raise a warning.
    #[schema(required = false)]
    pub min: u32,
    /// More raise a warning; 0 is unlimited. `None` is the number of nodes in the unit's scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The number that is kept automatically.
    #[schema(required = false)]
    pub target: u32,
}

impl Default for Flex {
    fn default() -> Self {
        Self { min: 1, max: None, target: 1 }
    }
}

/// Conditions in an HA group for stopping an instance for a planned change.
///
/// # Source
/// Orchestration E4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ha {
    /// Number of instances that must run on other members; a greater number than that of the other members means all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub min_running: Option<u32>,
    /// Behavior while other members are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_peer_policy: Option<OfflinePeerPolicy>,
}

/// Behavior while other members are down.
///
/// # Source
/// Orchestration E4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OfflinePeerPolicy {
    /// The last running instance stays.
    Wait,
    /// Members that are down do not count.
    Proceed,
}

/// Effect of different compatibility versions of agents on automatic decisions.
///
/// # Source
/// Orchestration A7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CompatGate {
    /// They do, within a unit.
    #[serde(rename = "unit")]
    Members,
    /// They do not.
    Off,
}

/// Times to wait.
///
/// # Units
/// Seconds.
///
/// # Source
/// Orchestration 1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timers {
    /// Time that a node must stay ready before an instance starts there; `None` is the organization's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3_600)]
    pub ready_period_seconds: Option<u64>,
    /// Time in which an instance must stop.
    #[schema(required = false, minimum = 1, maximum = 604_800)]
    pub stop_timeout_seconds: u64,
    /// Longest wait for a workload that soft affinity names.
    #[schema(required = false, minimum = 1, maximum = 604_800)]
    pub affinity_wait_seconds: u64,
}

impl Timers {
    pub(super) fn of_mode(mode: Mode) -> Self {
        Self {
            ready_period_seconds: (!mode.is_topology()).then_some(0),
            stop_timeout_seconds: 120,
            affinity_wait_seconds: 60,
        }
    }
}
