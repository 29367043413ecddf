//! What the exchange says about nodes, services, policies and groups, in the shape the planner reads it.
//!
//! Facts are data only: the effects layer fills them from the exchange's answers and hands them over in events; nothing
//! here decides. Sources: exchange API chapters on nodes, services, deployment policies and HA groups; agreement
//! protocol 3.1.

use std::{collections::BTreeSet, fmt};

use evenkeel_domain::policy::ExternalPolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{AgreementId, GroupId, NmpId, NodeId, PolicyId, ServiceId, ServiceKey, stable_hash},
    settings::UpdateOverrides,
};

/// Tells devices from edge clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// A machine that runs containers or processes.
    #[default]
    Device,
    /// An edge cluster; never a member of an HA group.
    Cluster,
}

/// Says what a node's operator lets it do.
///
/// # Source
/// Orchestration B9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// Services are placed and updated.
    #[default]
    Active,
    /// What runs goes on; nothing is placed or updated.
    Pause,
    /// What runs leaves, members of an HA group one at a time; nothing is placed.
    Drain,
}

/// Is one service that a node has registered, with its configuration state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredService {
    /// The service.
    pub service: ServiceKey,
    /// Version the entry speaks about; empty means every version.
    pub version: String,
    /// True when the owner of the node suspended it.
    pub is_suspended: bool,
}

/// Is a node as the exchange holds it, without its policy and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Who it is.
    pub id: NodeId,
    /// Architecture in the exchange's spelling; may be empty.
    pub arch: String,
    /// Device or cluster.
    pub node_type: NodeType,
    /// Base64 of the public key; empty until the agent runs.
    pub public_key: String,
    /// `org/pattern`, empty for nodes that work by policy.
    pub pattern: String,
    /// Configuration states.
    pub registered_services: Vec<RegisteredService>,
    /// User input of the node, as in the exchange.
    pub user_input: Vec<Value>,
    /// Version of the agent, `softwareVersions.horizon`; empty when unknown.
    pub agent_version: String,
    /// Namespace of a cluster agent.
    pub cluster_namespace: String,
    /// True when a cluster agent is bound to its namespace.
    pub is_namespace_scoped: bool,
    /// What its operator lets it do.
    #[serde(default)]
    pub availability: Availability,
    /// True when its agent said that it ended, with all of its services.
    #[serde(default)]
    pub is_stopped: bool,
    /// Last heartbeat the exchange has recorded; none before the first.
    pub last_heartbeat: Option<Timestamp>,
}

/// Is the deployment half of a node's policy: top level overlaid by `deployment`, as agreement protocol 3.1 says.
///
/// The management half is not part of it, so that editing that half cannot touch an agreement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodePolicyFacts {
    /// Properties (first of a name wins) and constraints.
    pub policy: ExternalPolicy,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

/// Is one service instance in a node's status report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedService {
    /// Agreement the instance belongs to; none for dependencies.
    pub agreement: Option<AgreementId>,
    /// The service.
    pub service: ServiceKey,
    /// Version that runs.
    pub version: String,
    /// True when at least one container is reported and every one is running.
    pub is_running: bool,
}

/// How often and why an instance ended, in a node's status report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFailure {
    /// Agreement the instance belongs to, also of one that is over; none for dependencies.
    pub agreement: Option<AgreementId>,
    /// The service.
    pub service: ServiceKey,
    /// Its version.
    pub version: String,
    /// Times of the latest exits by the node's clock, in seconds since 1970, newest last.
    pub recent_exits: Vec<i64>,
    /// What happened, in words.
    pub text: String,
}

/// A node's status report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeStatusFacts {
    /// All instances it reports.
    pub services: Vec<ObservedService>,
    /// Failures of instances; agents of other makers report none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ObservedFailure>,
    /// When the exchange stored the report.
    pub reported_at: Option<Timestamp>,
}

/// Is a service definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceFacts {
    /// `org/url_version_arch`.
    pub id: ServiceId,
    /// `org/url`.
    pub key: ServiceKey,
    /// Version.
    pub version: String,
    /// Architecture.
    pub arch: String,
    /// Deployment text for devices; empty when there is none.
    pub deployment: String,
    /// Signature of that text.
    pub deployment_signature: String,
    /// Deployment text for clusters; empty when there is none.
    pub cluster_deployment: String,
    /// Signature of that text.
    pub cluster_deployment_signature: String,
    /// `requiredServices`, as in the exchange.
    pub required_services: Vec<Value>,
    /// `userInput`, as in the exchange.
    pub user_input: Vec<Value>,
}

/// Is the policy of a service definition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServicePolicyFacts {
    /// Properties and constraints.
    pub policy: ExternalPolicy,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

/// Is one entry of a deployment policy's version list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionChoice {
    /// Version.
    pub version: String,
    /// Priority; smaller is better, 0 means none.
    pub priority: u32,
    /// Attempts before the next lower entry is tried.
    pub retries: u32,
    /// Seconds after which the attempts start anew.
    pub retry_secs: u64,
    /// Passed on to the node; nothing here depends on it.
    pub verified_secs: u64,
    /// Text with the environment variables that replace those of the deployment; may be empty.
    #[serde(default)]
    pub deployment_overrides: String,
    /// Signature of that text.
    #[serde(default)]
    pub deployment_overrides_signature: String,
}

impl VersionChoice {
    /// Returns a digest of the overrides; 0 when there are none.
    pub fn overrides_digest(&self) -> u64 {
        match (self.deployment_overrides.as_str(), self.deployment_overrides_signature.as_str()) {
            ("", "") => 0,
            (text, signature) => stable_hash(&[text, signature]),
        }
    }
}

/// Is a deployment policy, or what a pattern says about one of its services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeploymentPolicyFacts {
    /// Who it is; of a pattern's service see [`PolicyId::of_pattern`].
    pub id: PolicyId,
    /// `org/pattern`, empty for a deployment policy.
    #[serde(default)]
    pub pattern: String,
    /// Label shown to people.
    pub label: String,
    /// Service it deploys.
    pub service: ServiceKey,
    /// Architecture; empty or `*` means the node's.
    pub arch: String,
    /// Namespace for clusters.
    pub cluster_namespace: String,
    /// Versions in the order of the document.
    pub versions: Vec<VersionChoice>,
    /// Seconds without heartbeat after which an agreement is given up; 0 means never.
    pub missing_heartbeat_secs: u64,
    /// Seconds after which an agreement missing on the node is given up; 0 means never.
    pub agreement_check_secs: u64,
    /// Properties and constraints.
    pub policy: ExternalPolicy,
    /// `userInput`, as in the exchange.
    pub user_input: Vec<Value>,
    /// `secretBinding`, as in the exchange.
    pub secret_binding: Vec<Value>,
    /// Organisations whose nodes this agbot serves with the policy.
    pub node_orgs: BTreeSet<String>,
    /// What it says over the hub's settings.
    #[serde(default)]
    pub orchestration: PolicyOrchestration,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

impl DeploymentPolicyFacts {
    /// Returns its name in proposals: the id of a deployment policy, the bare name of a pattern's service (agreement
    /// protocol 3.1).
    pub fn internal_name(&self) -> &str {
        self.id.pattern_service().unwrap_or(self.id.as_str())
    }
}

/// Is what a deployment policy says over the hub's settings.
///
/// # Source
/// Orchestration 1.2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyOrchestration {
    /// How many copies there are.
    pub mode: Mode,
    /// On which nodes it may run, beside properties and constraints.
    pub scope: UnitScope,
    /// How it is updated.
    pub update: UpdateOverrides,
}

/// Says how many copies a policy wants.
///
/// # Source
/// Orchestration B1, A2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One on every node.
    #[default]
    Global,
    /// One in each HA group.
    Failover,
}

/// Says which nodes belong to a policy, whatever they are like.
///
/// # Source
/// Orchestration 1.3.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type", content = "groups")]
pub enum UnitScope {
    /// All nodes.
    #[default]
    Eligible,
    /// Members of any HA group.
    EveryHaGroup,
    /// Members of these HA groups.
    HaGroups(BTreeSet<GroupId>),
}

/// Stands for every HA group in the list of a scope.
const EVERY_GROUP: &str = "*";

impl UnitScope {
    /// Makes the scope of a policy from a list of groups: `org/name`, or the name alone in the policy's organisation; `*` is every group.
    pub fn of_groups(policy: &PolicyId, names: &[String]) -> Self {
        if names.iter().any(|name| name == EVERY_GROUP) {
            return Self::EveryHaGroup;
        }
        let id = |name: &String| match name.split_once('/') {
            Some((org, name)) => GroupId::new(org, name),
            None => GroupId::new(policy.org(), name),
        };
        Self::HaGroups(names.iter().map(id).collect())
    }

    /// Answers whether a node belongs to it; `group`: the name of the node's group.
    pub fn holds(&self, node: &NodeId, group: Option<&str>) -> bool {
        match self {
            Self::Eligible => true,
            Self::EveryHaGroup => group.is_some(),
            Self::HaGroups(groups) => {
                group.is_some_and(|group| groups.contains(&GroupId::new(node.org(), group)))
            }
        }
    }
}

impl fmt::Display for UnitScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eligible => formatter.write_str("all nodes"),
            Self::EveryHaGroup => formatter.write_str("members of HA groups"),
            Self::HaGroups(groups) => {
                let names: Vec<&str> = groups.iter().map(GroupId::as_str).collect();
                write!(formatter, "members of {}", names.join(", "))
            }
        }
    }
}

/// Is an HA group: the only source of membership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaGroupFacts {
    /// Who it is.
    pub id: GroupId,
    /// Members, of the group's organisation.
    pub members: BTreeSet<NodeId>,
    /// True (default) when one disruption at a time is allowed over all causes.
    pub is_exclusive: bool,
    /// Members that may be disrupted at once when not exclusive; at least 1.
    pub max_unavailable: u32,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

impl HaGroupFacts {
    /// Makes a group with the default rules.
    pub fn new(id: GroupId, members: impl IntoIterator<Item = NodeId>) -> Self {
        let members = members.into_iter().collect();
        Self { id, members, is_exclusive: true, max_unavailable: 1, last_updated: None }
    }
}

/// Is the status of one node management policy on one node, as the node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NmpStatusFacts {
    /// The node.
    pub node: NodeId,
    /// The node management policy.
    pub nmp: NmpId,
    /// Status word, `download started`, `downloaded`, `initiated`, …; none when the record is gone.
    pub status: Option<String>,
}
