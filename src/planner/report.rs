//! Why not: the reasons that keep a service off a node or a rollout from going on, as data and in words.
//!
//! Every decision carries a report; CLI, API and console show the same reasons. Sources: design 1.5, orchestration D3
//! and D11.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agreement::CancelReason,
    claims::{ReleaseReason, Scope},
    facts::UnitScope,
    ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId, ServiceKey},
};

/// Says whose constraint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A constraint of the deployment policy, tested against the node's properties.
    DeploymentPolicy,
    /// A constraint of the service's policy, tested against the node's properties.
    ServicePolicy,
    /// A constraint of the node, tested against the properties of policy and service.
    Node,
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::DeploymentPolicy => "deployment policy",
            Self::ServicePolicy => "service policy",
            Self::Node => "node policy",
        })
    }
}

/// Is one term that is not satisfied, with the value it met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedClause {
    /// Whose constraint.
    pub side: Side,
    /// The whole constraint, as written.
    pub constraint: String,
    /// The term inside it that is false; the whole constraint when it cannot be read.
    pub clause: String,
    /// Property the term is about; empty when the constraint cannot be read.
    pub property: String,
    /// Actual value; none when the property is missing.
    pub actual: Option<Value>,
}

impl fmt::Display for FailedClause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} wants `{}`", self.side, self.clause)?;
        match &self.actual {
            _ if self.property.is_empty() => formatter.write_str(", which cannot be read"),
            Some(value) => write!(formatter, ", but {} is {value}", self.property),
            None => write!(formatter, ", but {} is missing", self.property),
        }
    }
}

/// Is why a rollout is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum HoldReason {
    /// The new version failed on a member.
    StepFailed {
        /// The member.
        node: NodeId,
        /// The version.
        version: String,
        /// What the node said.
        reason: CancelReason,
        /// How it failed, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The new version was not seen running on a member in time.
    StepStalled {
        /// The member.
        node: NodeId,
        /// The version.
        version: String,
        /// What was missing when the time was over.
        missing: Box<Blocked>,
    },
    /// A user paused it.
    Paused {
        /// Who.
        actor: String,
    },
    /// A user stopped it for good.
    Aborted {
        /// Who.
        actor: String,
    },
    /// A user asked to go back.
    RollbackAsked {
        /// Who.
        actor: String,
    },
}

impl HoldReason {
    /// Returns the member on which a step failed or stalled.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::StepFailed { node, .. } | Self::StepStalled { node, .. } => Some(node),
            Self::Paused { .. } | Self::Aborted { .. } | Self::RollbackAsked { .. } => None,
        }
    }

    /// Returns whether a step failed or stalled, as opposed to a user's decision.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::StepFailed { .. } | Self::StepStalled { .. })
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepFailed { node, version, reason, detail } => {
                write!(formatter, "{version} failed on {node}: {} ({})", reason.text(), reason.0)?;
                detail.iter().try_for_each(|detail| write!(formatter, ": {detail}"))
            }
            Self::StepStalled { node, version, missing } => {
                write!(formatter, "{version} was not seen running on {node} in time: {missing}")
            }
            Self::Paused { actor } => write!(formatter, "paused by {actor}"),
            Self::Aborted { actor } => write!(formatter, "aborted by {actor}"),
            Self::RollbackAsked { actor } => write!(formatter, "{actor} asked to go back"),
        }
    }
}

/// Is one reason why something does not happen now.
///
/// # Shape
/// Each variant names who or what must change; [`fmt::Display`] says it in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "blocked")]
pub enum Blocked {
    /// The replica does not know the node.
    NodeUnknown,
    /// The replica does not know the policy, or does not serve it.
    PolicyUnknown,
    /// The agbot does not serve the node's organisation with this policy.
    OrgNotServed {
        /// The organisation.
        org: String,
    },
    /// Another agbot of the exchange is configured to serve the policy for the node's organization.
    LeftToAgbot {
        /// The agbot, as `org/id`.
        agbot: String,
    },
    /// Another instance of this agbot owns the node's partition.
    OtherAgbot {
        /// The partition.
        partition: u32,
    },
    /// The node works by a pattern.
    UsesPattern {
        /// The pattern.
        pattern: String,
    },
    /// The service is one of a pattern's that the node does not work by.
    OfPattern {
        /// The pattern.
        pattern: String,
    },
    /// The policy is for members of HA groups that the node is not in.
    OutsideScope {
        /// Whom it is for.
        scope: UnitScope,
    },
    /// The node has no policy.
    NoNodePolicy,
    /// The node has never been heard of.
    NeverHeard,
    /// The node has published no key, so nothing can be sent to it.
    NoPublicKey,
    /// The node is silent.
    NodeDown {
        /// Last heartbeat.
        since: Timestamp,
    },
    /// The node's operator lets nothing be placed or updated on it.
    NodePaused,
    /// The node's operator empties it.
    NodeDraining,
    /// Nobody else in the group can take the one copy now.
    NoCandidate {
        /// The group.
        group: GroupId,
    },
    /// The architecture differs.
    WrongArch {
        /// Wanted by the policy.
        wanted: String,
        /// The node's.
        actual: String,
    },
    /// The service has no deployment for this type of node.
    NoDeployment {
        /// The service.
        service: ServiceId,
        /// True when the node is a cluster.
        is_cluster: bool,
    },
    /// A service of a pattern needs privileges that the node does not give.
    NeedsPrivileges {
        /// The service.
        service: ServiceId,
    },
    /// The namespaces do not fit.
    WrongNamespace {
        /// Wanted.
        wanted: String,
        /// The node's.
        actual: String,
    },
    /// No definition of the service in that version for the node's architecture.
    ServiceMissing {
        /// The service.
        service: ServiceKey,
        /// The version.
        version: String,
        /// The architecture looked for.
        arch: String,
    },
    /// A service that the service needs is missing.
    DependencyMissing {
        /// The needed service, as written.
        service: String,
    },
    /// The owner of the node suspended the service.
    Suspended {
        /// The service.
        service: ServiceKey,
    },
    /// Constraints are not satisfied.
    Constraints {
        /// Every failing term with its actual value.
        clauses: Vec<FailedClause>,
    },
    /// Required user input has no value.
    UserInput {
        /// What is missing.
        detail: String,
    },
    /// A policy cannot be read.
    Unreadable {
        /// What is wrong.
        detail: String,
    },
    /// The node has not published the properties its agent's version should.
    BuiltInsMissing {
        /// The names.
        names: Vec<String>,
    },
    /// An earlier attempt failed; the next one waits.
    BackingOff {
        /// Until when.
        until: Timestamp,
        /// Attempts that failed.
        failure_count: u32,
        /// Why the last one failed.
        reason: CancelReason,
    },
    /// The node still reports an agreement that is over.
    OldCopyStopping {
        /// The agreement.
        agreement: AgreementId,
        /// At that instant the next one starts all the same.
        until: Timestamp,
    },
    /// The proposal waits for its reply.
    WaitingForReply {
        /// The agreement.
        agreement: AgreementId,
        /// Until when.
        until: Timestamp,
    },
    /// The agreement is final and the service has not been seen running.
    NotSeenRunning {
        /// The agreement.
        agreement: AgreementId,
        /// Since when it is final.
        since: Timestamp,
        /// Why it does not run, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has not answered an update of the terms.
    UpdateUnanswered {
        /// When it was sent last.
        since: Timestamp,
    },
    /// The service runs and is watched for a while.
    BeingWatched {
        /// Until when.
        until: Timestamp,
    },
    /// Stopping this copy would leave too few.
    HaMinimum {
        /// The group.
        group: GroupId,
        /// The service.
        service: ServiceKey,
        /// Members that must run it elsewhere.
        wanted: u32,
        /// Members that do, without the one to be stopped.
        running: Vec<NodeId>,
        /// The other intended members, each with what keeps it from counting.
        missing: BTreeMap<NodeId, String>,
    },
    /// Another member is being disrupted.
    HaLock {
        /// The group.
        group: GroupId,
        /// The member.
        holder: NodeId,
        /// What for.
        scope: Scope,
        /// Whether that is to drain the member.
        is_drain: bool,
        /// Since when.
        since: Timestamp,
        /// Until when at most.
        deadline: Timestamp,
    },
    /// The replica has just begun to be filled; nothing is taken down yet.
    JustStarted {
        /// Until when.
        until: Timestamp,
    },
    /// The wish for the claim is on its way.
    ClaimRequested,
    /// The policy wants one copy in the group, and the one on another member may still run.
    StopUnconfirmed {
        /// The member.
        node: NodeId,
        /// The agreement that ended.
        agreement: AgreementId,
        /// When it ended.
        since: Timestamp,
    },
    /// The policy wants one copy in the group, and another member has it.
    CopyElsewhere {
        /// The member.
        node: NodeId,
    },
    /// Another slot of the rollout is first.
    PeerFirst {
        /// The member.
        node: NodeId,
    },
    /// As many groups as the policy's update parallelism allows are in work.
    UpdateParallelism {
        /// The limit.
        limit: u32,
        /// The groups in work.
        groups: Vec<GroupId>,
    },
    /// The pause between two slots.
    Delay {
        /// Until when.
        until: Timestamp,
    },
    /// The rollout is held.
    RolloutHeld {
        /// Why.
        hold: HoldReason,
        /// Since when.
        since: Timestamp,
    },
    /// The node is not in the group.
    NotAMember {
        /// The group.
        group: GroupId,
    },
    /// Every other agent of the group is down, or the group's upgrade failed on a member.
    AgentPeer {
        /// The member.
        node: NodeId,
        /// What is the matter with it.
        state: String,
    },
    /// Another member asked earlier and is preferred for a while.
    AgentTurn {
        /// The member.
        node: NodeId,
        /// Until when.
        until: Timestamp,
    },
    /// The claim was released.
    ClaimReleased {
        /// Why.
        why: ReleaseReason,
    },
}

impl Blocked {
    /// Answers whether the reason speaks about policies not fitting, so that a running service is no longer wanted.
    ///
    /// All other reasons (a silent node, a missing definition, a suspended service) leave what runs alone.
    pub fn is_incompatibility(&self) -> bool {
        matches!(
            self,
            Self::PolicyUnknown
                | Self::OrgNotServed { .. }
                | Self::UsesPattern { .. }
                | Self::OfPattern { .. }
                | Self::OutsideScope { .. }
                | Self::NoNodePolicy
                | Self::WrongArch { .. }
                | Self::Constraints { .. }
        )
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::report_text::write_blocked(self, formatter)
    }
}

/// Is how one (node, policy) stands after a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "placement")]
pub enum Placement {
    /// The node has an agreement and nothing is to be done.
    Placed {
        /// The agreement.
        agreement: AgreementId,
        /// The version.
        version: String,
        /// True when the service was seen running.
        is_running: bool,
        /// Why it does not run, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has an agreement that is to be replaced or ended, and this is what it waits for.
    Waiting {
        /// The agreement.
        agreement: AgreementId,
        /// Why it waits.
        blocked: Blocked,
    },
    /// A command was issued for the pair.
    Acting {
        /// What is being done, in words.
        action: String,
    },
    /// The node gets nothing from the policy.
    NotPlaced {
        /// Why.
        blocked: Blocked,
    },
}

/// Is what a decision has to say beside its commands.
///
/// # Shape
/// `pairs` holds only the pairs that were looked at one by one; nodes that the index ruled out are counted in
/// `ruled_out` and explained on demand by `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Each pair that was looked at.
    #[serde(with = "pair_list")]
    pub pairs: BTreeMap<(NodeId, PolicyId), Placement>,
    /// Nodes per policy that the index ruled out without looking at them.
    pub ruled_out: BTreeMap<PolicyId, u64>,
    /// Events for people: claims released, rollouts held, late replies.
    pub events: Vec<PlannerEvent>,
}

/// Is something worth telling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannerEvent {
    /// Kind, dotted, past tense: `rollout.held`, `claim.released`, `message.late-reply`.
    pub kind: String,
    /// What happened, in a sentence.
    pub text: String,
}

mod pair_list {
    use super::{BTreeMap, NodeId, Placement, PolicyId};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Row {
        node: NodeId,
        policy: PolicyId,
        #[serde(flatten)]
        placement: Placement,
    }

    pub fn serialize<S: Serializer>(
        pairs: &BTreeMap<(NodeId, PolicyId), Placement>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|((node, policy), placement)| Row {
            node: node.clone(),
            policy: policy.clone(),
            placement: placement.clone(),
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<(NodeId, PolicyId), Placement>, D::Error> {
        let rows = Vec::<Row>::deserialize(deserializer)?;
        Ok(rows.into_iter().map(|row| ((row.node, row.policy), row.placement)).collect())
    }
}
