//! Facts about nodes, services, policies and groups from the exchange, in the planner's shape.
//!
//! Facts are data only: the effects layer fills them from the exchange's responses and passes them in events; nothing
//! here decides. Source: exchange-api 4.4, 4.6, 4.8, 6; agreement-protocol 3.1.

use std::{collections::BTreeSet, fmt, sync::Arc};

pub use crate::availability::Availability;
pub use evenkeel_domain::orchestration::Mode;
use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_domain::orchestration::health_policy::Target;
use evenkeel_domain::orchestration::{HealthPolicy, Orchestration, PlacementPolicy, Scope};
use evenkeel_domain::policy::ExternalPolicy;
use evenkeel_ids::{AgreementId, GroupId, NmpId, NodeId, OrgId, PatternId, PolicyId, ServiceId, ServiceKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{settings::UpdateOverrides, statistics::NodeStatistics};

/// The type of a node: device or edge cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// A machine that runs containers or processes.
    #[default]
    Device,
    /// An edge cluster; never a member of an HA group.
    Cluster,
}

/// The reported activity of a node's agent.
///
/// # Source
/// Orchestration 1.7, A10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeMonitorState {
    /// It works.
    #[default]
    Idle,
    /// It has started, and has not yet reported what runs.
    Init,
    /// It was stopped on purpose, or its operator works on the node; it is expected back soon.
    Maintenance,
    /// It is being upgraded.
    Upgrade,
    /// It is stopping.
    Shutting,
}

impl NodeMonitorState {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Init => "init",
            Self::Maintenance => "maintenance",
            Self::Upgrade => "upgrade",
            Self::Shutting => "shutting",
        }
    }
}

/// A service that a node has registered, with its configuration state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredService {
    /// The service.
    pub service: ServiceKey,
    /// Version the entry applies to; empty means every version.
    pub version: String,
    /// True when the owner of the node suspended it.
    pub is_suspended: bool,
}

/// A node as the exchange holds it, without its policy and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Its id.
    pub id: NodeId,
    /// Architecture in the exchange's spelling; may be empty.
    pub arch: String,
    /// Device or cluster.
    pub node_type: NodeType,
    /// Base64 of the public key; empty until the agent runs.
    pub public_key: String,
    /// The pattern; none for nodes that work by policy.
    pub pattern: Option<PatternId>,
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
    /// Its availability.
    #[serde(default)]
    pub availability: Availability,
    /// True if a drain also removes the last instance of an HA group from the node.
    #[serde(default)]
    pub is_drain_forced: bool,
    /// True if a user froze the node: the engine starts, stops and moves nothing there.
    #[serde(default)]
    pub is_frozen: bool,
    /// True if the node is drained for an upgrade, after which its instances return.
    #[serde(default)]
    pub is_in_upgrade: bool,
    /// Capacities of the node that its operator set for instances.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub capacities: Amounts,
    /// Fault domain of the node, with the enclosing domains, such as `fd:/dc/rack`; none when not set.
    pub fault_domain: Option<Arc<str>>,
    /// Upgrade domain of the node; none when not set.
    pub upgrade_domain: Option<Arc<str>>,
    /// User who last changed the availability of the node or froze or unfroze it; none when no user did.
    #[serde(default)]
    pub spec_updated_by: Option<Arc<str>>,
    /// True if the agent of the node reads tasks and reports their states.
    #[serde(default)]
    pub is_capable: bool,
    /// True when its agent reported that it stopped, with all of its services.
    #[serde(default)]
    pub is_stopped: bool,
    /// Activity of the agent.
    #[serde(default)]
    pub monitor_state: NodeMonitorState,
    /// When its agent reported that; none before its first report.
    #[serde(default)]
    pub monitor_state_since: Option<Timestamp>,
    /// Version of what must be the same on all nodes of a workload unit; none of agents that announce none.
    #[serde(default)]
    pub compat_version: Option<i64>,
    /// Facts that the agent reported about itself; none for agents that do not name themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<AgentFacts>>,
    /// Last heartbeat the exchange has recorded; none before the first.
    pub last_heartbeat: Option<Timestamp>,
    /// Its last statistics, in facts that are read of it alone: none, and the model keeps those that it has.
    #[serde(default)]
    pub statistics: Option<NodeStatistics>,
}

/// State of the guardian that enforces the leases of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Guardian {
    /// It does.
    Running,
    /// It does not run.
    #[default]
    Absent,
    /// It does not respond.
    Silent,
}

/// Identity that distinguishes two agents of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentName {
    /// Id of the boot of its machine.
    pub boot: Arc<str>,
    /// Id of its journal.
    pub journal: Arc<str>,
}

/// Facts that an agent reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// The agent whose reports count.
    pub name: AgentName,
    /// State of the guardian that enforces its leases.
    pub guardian: Guardian,
    /// Another agent with the identity of the node, and when the exchange refused it last.
    pub refused: Option<(AgentName, Timestamp)>,
}

impl NodeFacts {
    /// Returns whether the guardian of the agent enforces leases.
    #[must_use]
    pub fn guardian(&self) -> Guardian {
        self.agent.as_ref().map_or(Guardian::Absent, |agent| agent.guardian)
    }

    /// A device that nothing else is known of.
    #[must_use]
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            arch: String::new(),
            node_type: NodeType::Device,
            public_key: String::new(),
            pattern: None,
            registered_services: Vec::new(),
            user_input: Vec::new(),
            agent_version: String::new(),
            cluster_namespace: String::new(),
            is_namespace_scoped: false,
            availability: Availability::Active,
            is_frozen: false,
            is_drain_forced: false,
            is_in_upgrade: false,
            capacities: Amounts::new(),
            fault_domain: None,
            upgrade_domain: None,
            spec_updated_by: None,
            is_capable: false,
            is_stopped: false,
            monitor_state: NodeMonitorState::Idle,
            monitor_state_since: None,
            compat_version: None,
            agent: None,
            last_heartbeat: None,
            statistics: None,
        }
    }
}

/// The deployment half of a node's policy: top level overlaid by `deployment`, as defined by agreement protocol 3.1.
///
/// The management half is not part of it, so that editing that half cannot touch an agreement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodePolicyFacts {
    /// Properties (first of a name wins) and constraints.
    pub policy: ExternalPolicy,
    /// Reason why it cannot be read; properties and constraints are empty then, and nothing new is placed on
    /// the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

/// A service instance in a node's status report.
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

/// The exits of an instance, in a node's status report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFailure {
    /// Agreement the instance belongs to, even if ended; none for dependencies.
    pub agreement: Option<AgreementId>,
    /// The service.
    pub service: ServiceKey,
    /// Its version.
    pub version: String,
    /// Times of the latest exits by the node's clock, in seconds since 1970, newest last.
    pub recent_exits: Vec<i64>,
    /// The cause, in words.
    pub text: String,
}

/// A node's status report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeStatusFacts {
    /// All instances that it reports.
    pub services: Vec<ObservedService>,
    /// Failures of instances; third-party agents report none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ObservedFailure>,
    /// When the exchange stored the report.
    pub reported_at: Option<Timestamp>,
}

/// A service definition.
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

impl ServiceFacts {
    /// A version for devices that needs no other service and no input.
    #[must_use]
    pub fn of_device(key: ServiceKey, version: &str, arch: &str, deployment: &str) -> Self {
        Self {
            id: ServiceId::new(key.org(), &format!("{}_{version}_{arch}", key.name())),
            key,
            version: version.to_owned(),
            arch: arch.to_owned(),
            deployment: deployment.to_owned(),
            deployment_signature: String::new(),
            cluster_deployment: String::new(),
            cluster_deployment_signature: String::new(),
            required_services: Vec::new(),
            user_input: Vec::new(),
        }
    }
}

/// The policy of a service definition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServicePolicyFacts {
    /// Properties and constraints.
    pub policy: ExternalPolicy,
    /// Reason why it cannot be read; the service is not deployed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

/// An entry of a deployment policy's version list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionChoice {
    /// Version.
    pub version: String,
    /// Priority; smaller is better, 0 means none.
    pub priority: u32,
    /// Attempts before the next lower entry is tried.
    pub retries: u32,
    /// Seconds after which the count of attempts is reset.
    pub retry_secs: u64,
    /// Passed on to the node; not used here.
    pub verified_secs: u64,
    /// Its deployment overrides.
    #[serde(default)]
    pub overrides: DeploymentOverrides,
    /// True if instances that run keep their version until their agreement ends. Applies only to policies
    /// with tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_running: bool,
}

/// Environment variables that replace those of a deployment, as signed by their author.
///
/// # Shape
/// Both texts are empty when there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentOverrides {
    /// The variables by service.
    pub text: String,
    /// Signature of that text.
    pub signature: String,
}

impl DeploymentOverrides {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.signature.is_empty()
    }

    /// Returns whether both give a service the same environment: another signature of the same text is not a
    /// change.
    pub fn is_same_environment(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A deployment policy, or one service of a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeploymentPolicyFacts {
    /// Its id; for a pattern's service see [`PolicyId::of_pattern`].
    pub id: PolicyId,
    /// The pattern; none for a deployment policy.
    #[serde(default)]
    pub pattern: Option<PatternId>,
    /// Display label.
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
    /// Organizations whose nodes this agbot serves with the policy.
    pub node_orgs: BTreeSet<OrgId>,
    /// Its settings that override the hub's.
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

/// The settings of a deployment policy that override the hub's.
///
/// # Source
/// Orchestration 1.2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyOrchestration {
    /// The nodes on which it may run, in addition to properties and constraints.
    pub scope: PolicyScope,
    /// Its update settings.
    pub update: UpdateOverrides,
    /// The document. A policy without one is carried out by agreements alone, regardless of its other
    /// members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Box<Orchestration>>,
}

impl PolicyOrchestration {
    /// Returns whether nodes are ranked by their statistics.
    pub fn ranks_by_statistics(&self) -> bool {
        let policy = self.document.as_ref().and_then(|document| document.placement.policy);
        matches!(policy, Some(PlacementPolicy::LoadAvg | PlacementPolicy::Score))
    }

    /// Returns whether its health policy needs to know the container engines or the addresses of nodes.
    pub fn examines_machines(&self) -> bool {
        let policy = self.document.as_ref().and_then(|document| document.health_policy.as_ref());
        policy.is_some_and(HealthPolicy::needs_machines)
    }

    /// Returns how instances are counted.
    pub fn mode(&self) -> Mode {
        self.document.as_ref().map_or(Mode::Global, |document| document.mode)
    }

    /// Returns the settings that the document of a policy names.
    pub fn of(policy: &PolicyId, document: &Orchestration) -> Self {
        Self {
            scope: PolicyScope::of(policy, &document.scope),
            update: UpdateOverrides::of(&document.update, &document.ha),
            document: Some(Box::new(document.clone())),
        }
    }
}

/// The nodes that belong to a policy, regardless of their properties.
///
/// # Source
/// Orchestration 1.3.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type", content = "members")]
pub enum PolicyScope {
    /// All nodes.
    #[default]
    Eligible,
    /// Members of any HA group.
    EveryHaGroup,
    /// Members of these HA groups.
    HaGroups(BTreeSet<GroupId>),
    /// These nodes.
    Nodes(BTreeSet<NodeId>),
}

impl PolicyScope {
    /// Returns the scope of a policy.
    pub fn of(policy: &PolicyId, scope: &Scope) -> Self {
        match scope {
            Scope::Eligible => Self::Eligible,
            Scope::Nodes { .. } => Self::Nodes(scope.node_ids(policy.org()).into_iter().flatten().collect()),
            Scope::HaGroups { .. } => match scope.group_ids(policy.org()) {
                Some(groups) => Self::HaGroups(groups.into_iter().collect()),
                None => Self::EveryHaGroup,
            },
        }
    }

    /// Returns whether a node is in the scope; `group`: the name of the node's group.
    pub fn holds(&self, node: &NodeId, group: Option<&str>) -> bool {
        match self {
            Self::Eligible => true,
            Self::EveryHaGroup => group.is_some(),
            Self::HaGroups(groups) => {
                group.is_some_and(|group| groups.contains(&GroupId::new(node.org(), group)))
            }
            Self::Nodes(nodes) => nodes.contains(node),
        }
    }
}

impl fmt::Display for PolicyScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eligible => formatter.write_str("all nodes"),
            Self::EveryHaGroup => formatter.write_str("members of HA groups"),
            Self::HaGroups(groups) => {
                let names: Vec<&str> = groups.iter().map(GroupId::as_str).collect();
                write!(formatter, "members of {}", names.join(", "))
            }
            Self::Nodes(nodes) => {
                let names: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
                formatter.write_str(&names.join(", "))
            }
        }
    }
}

/// An HA group: the only source of membership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaGroupFacts {
    /// Its id.
    pub id: GroupId,
    /// Members, of the group's organization.
    pub members: BTreeSet<NodeId>,
    /// True (default) when only one disruption at a time is allowed, whatever the cause.
    pub is_exclusive: bool,
    /// Members that may be disrupted at once when not exclusive; at least 1.
    pub max_unavailable: u32,
    /// Time after which the claim of a silent member is released; none is the hub's.
    #[serde(default)]
    pub lock_stale_secs: Option<u64>,
    /// Detection of failures of members, and recovery from them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "policy_of_group")]
    pub health: Option<Arc<HealthPolicy>>,
    /// When the exchange stored it.
    pub last_updated: Option<Timestamp>,
}

fn policy_of_group<'de, D: serde::Deserializer<'de>>(
    input: D,
) -> Result<Option<Arc<HealthPolicy>>, D::Error> {
    let document = Option::<Value>::deserialize(input)?;
    let read = document.map(|document| HealthPolicy::read("health", document, Target::Group));
    Ok(read.transpose().map_err(serde::de::Error::custom)?.map(Arc::new))
}

impl HaGroupFacts {
    /// Creates a group with the default rules.
    pub fn new(id: GroupId, members: impl IntoIterator<Item = NodeId>) -> Self {
        let members = members.into_iter().collect();
        Self {
            id,
            members,
            is_exclusive: true,
            max_unavailable: 1,
            lock_stale_secs: None,
            health: None,
            last_updated: None,
        }
    }
}

/// The status of one node management policy on one node, as the node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NmpStatusFacts {
    /// The node.
    pub node: NodeId,
    /// The node management policy.
    pub nmp: NmpId,
    /// Status, `download started`, `downloaded`, `initiated`, …; none when the record is gone.
    pub status: Option<String>,
}
