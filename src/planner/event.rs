//! Events: what may change a decision.
//!
//! An event only narrows where to look; [`crate::decide::decide`] with [`Event::FullReconcile`] gives the same commands.
//! Sources: style 4, agbot 1.3, orchestration B4 and B5.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agreement::Agreement,
    claims::{Claim, ClaimKey},
    command::Command,
    facts::{
        DeploymentPolicyFacts, HaGroupFacts, NmpStatusFacts, NodeFacts, NodePolicyFacts, NodeStatusFacts,
        ServiceFacts, ServicePolicyFacts,
    },
    ids::{AgreementId, GroupId, NmpId, NodeId, PolicyId, ServiceId},
    other_agbots::OtherAgbots,
    rolling::Rollout,
    usage::{Backoff, WorkloadUsage},
};

/// Is what a message of a node says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum MessageBody {
    /// `reply`.
    Reply {
        /// Yes or no.
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
        /// Whether the node has the agreement.
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
        /// Yes or no.
        accepted: bool,
    },
}

/// Is a message of a node, after decryption and after its sender was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreementMessage {
    /// The node that sent it, by the exchange's word.
    pub from: NodeId,
    /// Agreement it speaks about.
    pub agreement: AgreementId,
    /// What it says.
    pub body: MessageBody,
}

/// Is how a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// Carried out, or was so already.
    Done,
    /// The claim was taken, or was held already; the row as it is now.
    ClaimTaken {
        /// The row.
        claim: Box<Claim>,
    },
    /// A precondition did not hold: the lease or claim has another number, another row has the key, the state does not
    /// allow it. Nothing was changed; the truth follows in other events.
    Refused {
        /// Which, in words.
        why: String,
    },
    /// It could not be carried out; nothing is known about its effect. It is issued again later.
    Failed {
        /// Why, in words.
        why: String,
    },
}

/// Is anything that happened.
///
/// # Shape
/// Facts replace what was known; `…Removed` forgets it. Records (`…Recorded`) mirror rows of the agbot's database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A node is new or changed.
    NodeChanged {
        /// The node.
        node: Box<NodeFacts>,
    },
    /// A node is gone.
    NodeRemoved {
        /// The node.
        node: NodeId,
    },
    /// A node's policy changed; none when it is gone.
    NodePolicyChanged {
        /// The node.
        node: NodeId,
        /// Its deployment policy.
        policy: Option<Box<NodePolicyFacts>>,
    },
    /// A node's status changed; none when it is gone.
    NodeStatusChanged {
        /// The node.
        node: NodeId,
        /// Its status.
        status: Option<Box<NodeStatusFacts>>,
    },
    /// A node's agreements in the exchange changed.
    NodeAgreementsChanged {
        /// The node.
        node: NodeId,
        /// All that the exchange has of it.
        agreements: BTreeSet<AgreementId>,
    },
    /// Heartbeats were read.
    HeartbeatsSeen {
        /// Last heartbeat per node.
        at: BTreeMap<NodeId, Timestamp>,
    },
    /// A service definition is new or changed.
    ServiceChanged {
        /// The service.
        service: Box<ServiceFacts>,
    },
    /// A service definition is gone.
    ServiceRemoved {
        /// The service.
        service: ServiceId,
    },
    /// A service's policy changed; none when it is gone.
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
    /// A deployment policy is gone or no longer served.
    DeploymentPolicyRemoved {
        /// The policy.
        policy: PolicyId,
    },
    /// What other agbots of the exchange are configured to serve, as a whole.
    OtherAgbotsChanged {
        /// Their served policies and patterns.
        others: Box<OtherAgbots>,
    },
    /// An HA group is new or changed.
    HaGroupChanged {
        /// The group.
        group: Box<HaGroupFacts>,
    },
    /// An HA group is gone.
    HaGroupRemoved {
        /// The group.
        group: GroupId,
    },
    /// A node's status for a management policy changed; needed for members that hold an agent claim and for their peers.
    NmpStatusChanged {
        /// The status.
        status: Box<NmpStatusFacts>,
    },
    /// A node management policy is gone.
    NmpRemoved {
        /// The policy.
        nmp: NmpId,
    },
    /// A node sent a message.
    Message {
        /// The message.
        message: Box<AgreementMessage>,
    },
    /// A command was carried out, or not.
    CommandOutcome {
        /// The command.
        command: Box<Command>,
        /// How it ended.
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
    /// A claim row was read or written by somebody else.
    ClaimRecorded {
        /// The row.
        claim: Box<Claim>,
    },
    /// A claim row is gone.
    ClaimRemoved {
        /// Its key.
        key: ClaimKey,
    },
    /// A rollout row was read.
    RolloutRecorded {
        /// The row.
        rollout: Box<Rollout>,
    },
    /// An agreement row is gone, although the agreement had not ended.
    AgreementRemoved {
        /// Its id.
        agreement: AgreementId,
    },
    /// A rollout row is gone.
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
    /// Everything is to be looked at: at start, after a take-over, and now and then.
    FullReconcile,
}
