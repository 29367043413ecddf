//! The reasons that block a placement or a rollout, as data and as text.
//!
//! Every decision carries a report; CLI, API and console show the same reasons. Source: design 1.5; orchestration D3, D11.

mod constraint;
mod decision;
mod elimination;
mod explanation;
mod failed_clause;
mod frozen_level;
mod hold_reason;
mod no_lease;
mod placement;
mod text;

pub use constraint::Constraint;
pub use decision::{PlannerEvent, Report};
pub use elimination::{EliminatedNode, EliminationReport, ExplainedStage, UnplacedCause};
pub use explanation::Explanation;
pub use failed_clause::{FailedClause, Side};
pub use frozen_level::FrozenLevel;
pub use hold_reason::HoldReason;
pub use no_lease::NoLease;
pub use placement::Placement;
pub use text::WithoutNodes;

use std::{collections::BTreeMap, fmt};

use evenkeel_ids::{
    AgbotId, AgreementId, GroupId, NodeId, PatternId, PolicyId, ServiceId, ServiceKey, TaskId,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agreement::CancelReason,
    claims::{ReleaseReason, Scope},
    facts::{NodeMonitorState, PolicyScope},
    goal::Avail,
};

/// The reason why something does not happen now.
///
/// # Shape
/// Each variant names what must change; [`fmt::Display`] gives the sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "blocked")]
pub enum Blocked {
    /// The model does not contain the node.
    NodeUnknown,
    /// The model does not contain the policy, or the agbot does not serve it.
    PolicyUnknown,
    /// The agbot does not serve the node's organization with this policy.
    OrgNotServed {
        /// The organization.
        org: String,
    },
    /// Another agbot of the exchange is configured to serve the policy for the node's organization.
    LeftToAgbot {
        /// The agbot.
        agbot: AgbotId,
    },
    /// Another instance of this agbot owns the node's partition.
    OtherAgbot {
        /// The partition.
        partition: u32,
    },
    /// The node uses a pattern.
    UsesPattern {
        /// The pattern.
        pattern: PatternId,
    },
    /// The service belongs to a pattern that the node does not use.
    OfPattern {
        /// The pattern.
        pattern: PatternId,
    },
    /// The policy is for members of HA groups that the node is not in.
    OutsideScope {
        /// The allowed nodes.
        scope: PolicyScope,
    },
    /// The node has no policy.
    NoNodePolicy,
    /// No heartbeat of the node was ever seen.
    NeverHeard,
    /// The node has published no key, so nothing can be sent to it.
    NoPublicKey,
    /// The node is down.
    NodeDown {
        /// Last heartbeat.
        since: Timestamp,
    },
    /// The agents of the workload unit's nodes have different compatibility versions, so that nothing is started or stopped automatically.
    IncompatibleVersions {
        /// The versions.
        versions: Vec<i64>,
    },
    /// An upgrade domain waits until an earlier one is finished.
    DomainOrder {
        /// The domain.
        domain: String,
        /// The earlier one.
        earlier: String,
    },
    /// An upgrade domain waits until an error that was reported since the update began is over.
    Unhealthy {
        /// The domain.
        domain: String,
        /// The error.
        error: String,
        /// When the update fails.
        until: Timestamp,
    },
    /// The agent of the node announced that it is not available for a while.
    NodeAway {
        /// Activity of the agent.
        monitor_state: NodeMonitorState,
        /// Since when.
        since: Timestamp,
    },
    /// An instance on a node that is down may still run until its lease ends.
    FencePending {
        /// The node.
        node: NodeId,
        /// When its agent has stopped the instance.
        until: Timestamp,
    },
    /// An instance on a node that is down may still run, and nothing stops it by itself.
    FenceFailed {
        /// The node.
        node: NodeId,
        /// Reason why the instance has no lease.
        #[serde(default)]
        cause: NoLease,
    },
    /// Most running instances fail at once, so that something else than the instances is the likely cause.
    CommonCause {
        /// Those that fail.
        failing: u32,
        /// Those that run.
        running: u32,
        /// Cause that they share.
        cause: String,
    },
    /// As many running instances are being recovered as the health policy allows.
    RecoveryBudget {
        /// The number.
        limit: u32,
    },
    /// The node's operator paused placement and updates.
    NodePaused,
    /// The node's operator is draining it.
    NodeDraining,
    /// A node was deleted, and what runs there may not have stopped.
    NodeDeparting {
        /// The node.
        node: NodeId,
        /// When it was deleted.
        since: Timestamp,
        /// Until when its agent is waited for; none where only its word or a user's counts.
        until: Option<Timestamp>,
    },
    /// The HA group that the scope of the policy names does not exist: what runs there stays.
    GroupGone {
        /// The group.
        group: GroupId,
    },
    /// No other member of the group can take over the single instance now.
    NoCandidate {
        /// The group.
        group: GroupId,
    },
    /// The node has too little left for a version that uses more than the one before it.
    NoRoom {
        /// The node.
        node: NodeId,
        /// Capacity that the node lacks.
        detail: String,
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
    /// A service of a pattern needs privileges that the node does not grant.
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
        /// The architecture searched for.
        arch: String,
    },
    /// A required service is missing.
    DependencyMissing {
        /// The required service, as written.
        service: String,
    },
    /// The owner of the node suspended the service.
    Suspended {
        /// The service.
        service: ServiceKey,
    },
    /// Constraints are not satisfied.
    Constraints {
        /// Failing terms with their actual values, as many as are kept.
        clauses: Vec<FailedClause>,
        /// Number of the other failing terms.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
    },
    /// Required user input has no value.
    UserInput {
        /// The missing input.
        detail: String,
    },
    /// A policy cannot be read.
    Unreadable {
        /// The error.
        detail: String,
    },
    /// The node has not published the properties that its agent's version provides.
    BuiltInsMissing {
        /// The names.
        names: Vec<String>,
    },
    /// An earlier attempt failed; the next one waits.
    BackingOff {
        /// Time of the next attempt.
        until: Timestamp,
        /// Attempts that failed.
        failure_count: u32,
        /// Reason why the last one failed.
        reason: CancelReason,
    },
    /// The node still reports an agreement that has ended.
    #[serde(rename = "old-copy-stopping")]
    OldInstanceStopping {
        /// The agreement.
        agreement: AgreementId,
        /// The next instance starts at this time in any case.
        until: Timestamp,
    },
    /// The proposal waits for its reply.
    WaitingForReply {
        /// The agreement.
        agreement: AgreementId,
        /// The deadline.
        until: Timestamp,
    },
    /// The agreement is final and the service has not been seen running.
    NotSeenRunning {
        /// The agreement.
        agreement: AgreementId,
        /// Since when it is final.
        since: Timestamp,
        /// Reason why it does not run, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has not replied to an update of the terms.
    UpdateUnanswered {
        /// When it was sent last.
        since: Timestamp,
    },
    /// The service runs and is being monitored.
    BeingWatched {
        /// End of the monitoring time.
        until: Timestamp,
    },
    /// Stopping this instance would leave too few.
    HaMinimum {
        /// The group.
        group: GroupId,
        /// The service.
        service: ServiceKey,
        /// Required number of other running members.
        wanted: u32,
        /// Other running members.
        running: Vec<NodeId>,
        /// The other intended members, each with the reason it does not count.
        missing: BTreeMap<NodeId, String>,
    },
    /// Another member is being disrupted.
    HaLock {
        /// The group.
        group: GroupId,
        /// The member.
        holder: NodeId,
        /// The claim's subject.
        scope: Scope,
        /// True if the claim is for a drain of the member.
        is_drain: bool,
        /// Start of the claim.
        since: Timestamp,
        /// End of the claim at the latest.
        deadline: Timestamp,
    },
    /// The model is being filled after a start; nothing is taken down yet.
    JustStarted {
        /// End of the grace period.
        until: Timestamp,
    },
    /// The claim request is in flight.
    ClaimRequested,
    /// There must never be a second instance, and another node has one.
    #[serde(rename = "copy-elsewhere")]
    InstanceElsewhere {
        /// The member.
        node: NodeId,
    },
    /// Another slot of the rollout is first.
    PeerFirst {
        /// The member.
        node: NodeId,
    },
    /// The policy's update parallelism is used up by other groups.
    UpdateParallelism {
        /// The limit.
        limit: u32,
        /// The groups being updated.
        groups: Vec<GroupId>,
    },
    /// The delay between two slots.
    Delay {
        /// End of the delay.
        until: Timestamp,
    },
    /// The rollout is paused.
    #[serde(rename = "rollout-paused", alias = "rollout-held")]
    RolloutHeld {
        /// The reason.
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
        /// Its state.
        state: String,
    },
    /// Another member requested earlier and is preferred for a while.
    AgentTurn {
        /// The member.
        node: NodeId,
        /// End of the preference.
        until: Timestamp,
    },
    /// The claim was released.
    ClaimReleased {
        /// The reason.
        why: ReleaseReason,
    },
    /// A user froze the instance, the workload or the node.
    Frozen {
        /// Frozen level: `instance`, `workload` or `node`.
        level: FrozenLevel,
    },
    /// The service version keeps failing on the node.
    Blocklisted {
        /// The service.
        service: ServiceKey,
        /// The version.
        version: String,
        /// End of the block.
        until: Timestamp,
        /// The last failure.
        failure: String,
    },
    /// Another task must have stopped first, and its node has not confirmed that.
    TaskStopping {
        /// The task.
        task: TaskId,
        /// Its node.
        node: NodeId,
        /// When the stop was requested.
        since: Timestamp,
        /// The agreement whose stop a user may confirm; none where the wait is limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agreement: Option<AgreementId>,
    },
    /// There are fewer suitable nodes than wanted.
    Unplaced {
        /// Wanted instances.
        wanted: u32,
        /// Placed instances.
        placed: u32,
        /// Number of nodes that each constraint removed.
        summary: String,
    },
    /// As many slots as allowed are being updated.
    UpdateBudget {
        /// The limit.
        limit: u32,
    },
    /// The update is paused.
    UpdatePaused {
        /// Why.
        message: String,
    },
    /// The start is delayed.
    StartDelayed {
        /// End of the delay.
        until: Timestamp,
    },
    /// Workloads that should be on the same node start or stop; where they will run is not known yet.
    AffinityWait {
        /// Some of them.
        workloads: Vec<PolicyId>,
        /// Time at which the instance is placed nevertheless.
        until: Timestamp,
    },
    /// The instance returns to the node that it left when the upgrade is over.
    ReturnPending {
        /// The node.
        origin: NodeId,
    },
    /// A workload that must, or must not, share the node is being upgraded: where it belongs shows after that.
    PartnerInUpgrade,
    /// A workload that must not be on the same node has an instance there.
    UnwantedNeighbor {
        /// The workload, or the service.
        partner: String,
        /// The node.
        node: NodeId,
    },
    /// A parent is not up, or has an instance that starts or stops.
    ParentNotUp {
        /// The parent.
        parent: String,
        /// Its availability; none when it does not exist.
        avail: Option<Avail>,
    },
    /// A child is up.
    ChildUp {
        /// The child.
        child: String,
    },
    /// No task of the policy is to run on the node.
    #[serde(rename = "not-chosen", alias = "no-task")]
    NoTask,
    /// A task is no longer what the decision was based on.
    TaskChanged {
        /// The task.
        task: TaskId,
    },
}

impl Blocked {
    /// Returns that not all wanted instances can be placed.
    pub fn unplaced(report: &EliminationReport) -> Self {
        let EliminationReport { requested, placed, summary, .. } = report;
        Self::Unplaced { wanted: *requested, placed: *placed, summary: summary.clone() }
    }

    /// Returns whether time alone ends the wait, at an instant that is known.
    pub fn ends_by_time(&self) -> bool {
        matches!(self, Self::StartDelayed { .. } | Self::FencePending { .. })
    }

    /// Returns whether an instance that may run once only waits for the end of another one on a node that is lost.
    pub fn is_of_lost_instance(&self) -> bool {
        matches!(self, Self::FencePending { .. } | Self::FenceFailed { .. } | Self::NodeDeparting { .. })
    }

    /// Returns the rule that keeps an upgrade from continuing, as the API names it.
    ///
    /// # Source
    /// Orchestration D11.
    pub fn upgrade_rule(&self) -> &'static str {
        match self {
            Self::HaMinimum { .. } => "HAMinimum",
            Self::HaLock { .. } | Self::ClaimRequested => "HALock",
            Self::Unplaced { .. } | Self::NoCandidate { .. } | Self::GroupGone { .. } => "NoCandidate",
            Self::NoRoom { .. } => "Capacity",
            Self::NodePaused | Self::NodeDraining => "NodePaused",
            Self::NodeDown { .. } | Self::NeverHeard => "NodeDown",
            Self::Frozen { .. } => "Frozen",
            Self::Blocklisted { .. } => "Blocklist",
            Self::TaskStopping { .. } => "Stopping",
            Self::DomainOrder { .. } => "DomainOrder",
            Self::Unhealthy { .. } => "Health",
            Self::AgentPeer { .. } => "AgentPeer",
            Self::AgentTurn { .. } => "AgentTurn",
            _ => "Waiting",
        }
    }

    /// Returns whether a parent or a child is waited for.
    pub fn is_of_dependency(&self) -> bool {
        matches!(self, Self::ParentNotUp { .. } | Self::ChildUp { .. })
    }

    /// Returns whether the policies do not fit, so that a running service is no longer wanted.
    ///
    /// All other reasons (a silent node, a missing definition, a suspended service) leave running services alone.
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

/// Serde calls it with a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl fmt::Display for Blocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_blocked(self, formatter)
    }
}
