//! Events: inputs that may change a decision.
//!
//! An event only narrows the scope; `decide::decide` with [`Event::FullReconcile`] gives the same commands.
//! Source: agbot 1.3; orchestration B4, B5.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_ids::{AgreementId, GroupId, NmpId, NodeId, OrgId, PolicyId, ServiceId, TaskId};
use evenkeel_planner_record::{
    agreement::Agreement,
    blocklist::{BlocklistEntry, BlocklistKey},
    claims::{Claim, ClaimKey},
    departure::Departures,
    facts::{
        DeploymentPolicyFacts, HaGroupFacts, NmpStatusFacts, NodeFacts, NodePolicyFacts, NodeStatusFacts,
        ServiceFacts, ServicePolicyFacts,
    },
    health::{Entity, HealthEvent, Registration},
    other_agbots::OtherAgbots,
    rollout::Rollout,
    statistics::{NodeMachine, NodeStatistics},
    usage::{Backoff, WorkloadUsage},
    workload::{HubReport, Instance, ReportedHealth, Task, TaskReport, WorkloadRecord},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::Command;

/// The body of a node's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum MessageBody {
    /// `reply`.
    Reply {
        /// True if the node accepts.
        decision: bool,
    },
    /// `cancel`.
    Cancel {
        /// Reason number.
        reason: u32,
    },
    /// `basicagreementverification`.
    Verification,
    /// `basicagreementverificationreply`.
    VerificationReply {
        /// True if the node has the agreement.
        exists: bool,
    },
    /// `basicagreementupdate`.
    Update {
        /// Type of update.
        update_type: String,
    },
    /// `basicagreementupdatereply`.
    UpdateReply {
        /// Type of update.
        update_type: String,
        /// True if the node accepts.
        accepted: bool,
    },
}

/// A message of a node, after decryption and after its sender was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreementMessage {
    /// The sender, as the exchange reports it.
    pub from: NodeId,
    /// The agreement it concerns.
    pub agreement: AgreementId,
    /// Its body.
    pub body: MessageBody,
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// Carried out, now or before.
    Done,
    /// The claim was taken or already held; the row as it is now.
    ClaimTaken {
        /// The row.
        claim: Box<Claim>,
    },
    /// The plan was carried out; the claims that were taken for it.
    PlanApplied {
        /// The rows.
        claims: Vec<Claim>,
    },
    /// A precondition did not hold: the lease or claim has another fencing number, another row has the key, the state does not
    /// allow it. Nothing was changed; the current state follows in other events.
    Refused {
        /// The precondition, in words.
        why: String,
    },
    /// It could not be carried out; its effect is unknown. It is issued again later.
    Failed {
        /// The cause, in words.
        why: String,
    },
}

/// An input of the planner.
///
/// # Shape
/// Facts replace what was known; `…Removed` deletes it. Records (`…Recorded`) mirror rows of the agbot's database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A node is new or changed.
    NodeChanged {
        /// The node.
        node: Box<NodeFacts>,
    },
    /// A node was deleted.
    NodeRemoved {
        /// The node.
        node: NodeId,
    },
    /// The deleted nodes of an organization were read whose agents have not confirmed that they stopped everything.
    DeparturesRead {
        /// The organization.
        org: OrgId,
        /// The nodes.
        nodes: Departures,
    },
    /// A node's policy changed; none when it was deleted.
    NodePolicyChanged {
        /// The node.
        node: NodeId,
        /// Its deployment policy.
        policy: Option<Box<NodePolicyFacts>>,
    },
    /// A node's status changed; none when it was deleted.
    NodeStatusChanged {
        /// The node.
        node: NodeId,
        /// Its status.
        status: Option<Box<NodeStatusFacts>>,
    },
    /// The agreements that the exchange has of a node were read.
    NodeAgreementsRead {
        /// The node.
        node: NodeId,
        /// All records of it in the exchange.
        agreements: BTreeSet<AgreementId>,
        /// When the read began.
        read_at: Timestamp,
    },
    /// A node's tasks in the exchange were read.
    NodeTasksChanged {
        /// The node.
        node: NodeId,
        /// All its tasks that it has reported about, with the last report of each.
        tasks: BTreeMap<TaskId, TaskReport>,
        /// Health of its tasks, as the node reported it.
        health: BTreeMap<TaskId, ReportedHealth>,
    },
    /// Heartbeats were read.
    HeartbeatsSeen {
        /// Last heartbeat per node.
        at: BTreeMap<NodeId, Timestamp>,
    },
    /// The statistics of nodes were read; those of nodes that are left out have not changed.
    StatisticsSeen {
        /// Statistics per node.
        of: BTreeMap<NodeId, NodeStatistics>,
    },
    /// Reports of nodes about their machines were read; nodes that are left out have not changed.
    MachinesSeen {
        /// Machine per node.
        of: BTreeMap<NodeId, NodeMachine>,
    },
    /// The hub checked a task, or a call that it made for one ended.
    HubReported {
        /// The task.
        task: TaskId,
        /// The finding.
        report: HubReport,
    },
    /// A service definition is new or changed.
    ServiceChanged {
        /// The service.
        service: Box<ServiceFacts>,
    },
    /// A service definition was deleted.
    ServiceRemoved {
        /// The service.
        service: ServiceId,
    },
    /// A service's policy changed; none when it was deleted.
    ServicePolicyChanged {
        /// The service.
        service: ServiceId,
        /// Its policy.
        policy: Option<Box<ServicePolicyFacts>>,
    },
    /// A served deployment policy is new or changed.
    DeploymentPolicyChanged {
        /// The policy.
        policy: Box<DeploymentPolicyFacts>,
    },
    /// A deployment policy was deleted or is no longer served.
    DeploymentPolicyRemoved {
        /// The policy.
        policy: PolicyId,
    },
    /// A user deleted a deployment policy and does not wait for its children.
    RemovalForced {
        /// The policy.
        policy: PolicyId,
    },
    /// Heartbeats were last read at this time before the process started.
    HubWasAlive {
        /// When.
        at: Timestamp,
    },
    /// The organizations whose nodes and groups are read from now on; those of others are not known.
    OrgsRead {
        /// Their names.
        orgs: BTreeSet<OrgId>,
    },
    /// The organizations that could not be read since the start: nothing is decided about what belongs to them.
    OrgsUnread {
        /// Their names.
        orgs: BTreeSet<OrgId>,
    },
    /// The settings of an organization were read.
    OrgSettingsChanged {
        /// The organization.
        org: OrgId,
        /// Settings of the organization.
        settings: Box<OrgSettings>,
    },
    /// The complete served policies and patterns of the other agbots of the exchange.
    OtherAgbotsChanged {
        /// Their served policies and patterns.
        others: Box<OtherAgbots>,
    },
    /// An HA group is new or changed.
    HaGroupChanged {
        /// The group.
        group: Box<HaGroupFacts>,
    },
    /// An HA group was deleted.
    HaGroupRemoved {
        /// The group.
        group: GroupId,
    },
    /// A node's status for a management policy changed; needed for members that hold an agent claim and for their peers.
    NmpStatusChanged {
        /// The status.
        status: Box<NmpStatusFacts>,
    },
    /// A node management policy was deleted.
    NmpRemoved {
        /// The policy.
        nmp: NmpId,
    },
    /// A node sent a message.
    Message {
        /// The message.
        message: Box<AgreementMessage>,
    },
    /// The outcome of a command.
    CommandOutcome {
        /// The command.
        command: Box<Command>,
        /// The outcome.
        outcome: Outcome,
    },
    /// An agreement row was read.
    AgreementRecorded {
        /// The row.
        agreement: Box<Agreement>,
    },
    /// Usage and back-off of a pair were read.
    UsageRecorded {
        /// The node.
        node: NodeId,
        /// The policy.
        policy: PolicyId,
        /// Usage record.
        usage: Option<WorkloadUsage>,
        /// Back-off.
        backoff: Option<Backoff>,
    },
    /// A claim row was read, or written by another agbot.
    ClaimRecorded {
        /// The row.
        claim: Box<Claim>,
    },
    /// A claim row was deleted.
    ClaimRemoved {
        /// Its key.
        key: ClaimKey,
    },
    /// A rollout row was read.
    RolloutRecorded {
        /// The row.
        rollout: Box<Rollout>,
    },
    /// A workload row was read.
    WorkloadRecorded {
        /// The row.
        workload: Box<WorkloadRecord>,
    },
    /// A workload row was deleted, with all rows that belong to it.
    WorkloadRemoved {
        /// The policy.
        policy: PolicyId,
    },
    /// A task row was read.
    TaskRecorded {
        /// The row.
        task: Box<Task>,
    },
    /// A task row was deleted.
    TaskRemoved {
        /// Its id.
        task: TaskId,
    },
    /// The row of a workload on a node was read; none when it was deleted.
    InstanceRecorded {
        /// The policy.
        policy: PolicyId,
        /// The node.
        node: NodeId,
        /// The row.
        instance: Option<Box<Instance>>,
    },
    /// The health events of an entity were read; there are no others.
    HealthRecorded {
        /// The entity.
        entity: Entity,
        /// Its events.
        events: Vec<HealthEvent>,
    },
    /// A row of the health registry was read; none when it was deleted.
    RegistrationRecorded {
        /// The target.
        target: Entity,
        /// The row.
        registration: Option<Box<Registration>>,
    },
    /// The partitions that had an owner when their leases were read.
    PartitionsConfirmed {
        /// When the owner renewed its lease last, at the latest.
        at: BTreeMap<u32, Timestamp>,
    },
    /// A row of the node blocklist was read; none when it was deleted.
    BlocklistRecorded {
        /// The key of the row.
        key: BlocklistKey,
        /// The row.
        entry: Option<Box<BlocklistEntry>>,
    },
    /// An agreement row was deleted, although the agreement had not ended.
    AgreementRemoved {
        /// Its id.
        agreement: AgreementId,
    },
    /// A rollout row was deleted.
    RolloutRemoved {
        /// The group.
        group: GroupId,
        /// The policy.
        policy: PolicyId,
    },
    /// The partitions this agbot holds are exactly these, with their fencing numbers.
    PartitionsChanged {
        /// Fencing number per partition.
        leases: BTreeMap<u32, u64>,
    },
    /// Time passed.
    Tick,
    /// Everything is to be planned: at start, after a partition changed its owner, and periodically.
    FullReconcile,
}
