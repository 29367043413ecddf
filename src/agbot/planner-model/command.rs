//! Commands: effects that a decision requests from the agbot.
//!
//! A command is data. Each has one executor, is safe to repeat, and carries fencing numbers: that of the partition's lease
//! always, and that of the claim where it takes a member down. The executor checks both in its own transaction and reports
//! [`crate::event::Event::CommandOutcome`]. Source: design 4.1; agreement-protocol 2.4.

use std::collections::BTreeSet;

use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use evenkeel_planner_record::{
    agreement::{Agreement, CancelReason},
    blocklist::{BlocklistChange, BlocklistKey},
    claims::{ClaimRef, ClaimRequest, Phase, ReleaseReason},
    health::{Entity, HealthRound, Registration, SystemReport},
    lease::Lease,
    report::{Blocked, EliminationReport, Report},
    rollout::Rollout,
    usage::{Backoff, WorkloadUsage},
    workload::{ActionEnd, Part, Slot, Step, Task, UnitId, WorkloadRecord},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::{StoredPlan, UnitEvent};

/// One effect with the lease it acts under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The lease it acts under.
    pub lease: Lease,
    /// The effect.
    pub action: Action,
}

/// The effect of a command.
///
/// # Shape
/// Each variant lists what its executor does, in order, and when it counts as already done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Action {
    /// Records the agreement (unique while live by node and policy; the same id already there is fine), builds the terms
    /// with [`crate::terms::proposal_terms`], sends the proposal and puts `Formed Proposal` into the exchange.
    ///
    /// Refused when another live agreement of the pair exists, or when `claim` is given and gone.
    Propose {
        /// The record to insert, in state proposed.
        agreement: Box<Agreement>,
        /// Claim under which the slot is being upgraded, if any.
        claim: Option<ClaimRef>,
    },
    /// Sends the proposal of an agreement once more; a node that already has it drops the repetition.
    RepeatProposal {
        /// The agreement, proposed and without reply.
        agreement: Box<Agreement>,
    },
    /// Acknowledges a positive reply.
    ///
    /// With `decision`: records counter party, usage and the final state in one transaction, puts `Producer agreed`,
    /// sends the acknowledgement, puts `Finalized Agreement`. Without: only sends the refusing acknowledgement.
    AcknowledgeReply {
        /// The agreement.
        agreement: AgreementId,
        /// The node that replied.
        node: NodeId,
        /// The policy; used only with `decision`.
        policy: Option<PolicyId>,
        /// True when the agreement is still wanted.
        decision: bool,
        /// Usage record to store with it; none removes it.
        usage: Option<WorkloadUsage>,
    },
    /// Ends an agreement: in one transaction checks lease and claim, marks it ended with the reason, stores usage and
    /// back-off; then deletes the exchange's record, sends `cancel` unless the node ended it itself, and archives.
    ///
    /// Done already when the record is ended. Refused when `claim` is given and the row is gone or has another number.
    Cancel {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
        /// Its policy.
        policy: PolicyId,
        /// Why.
        reason: CancelReason,
        /// The cause in words, more precise than the number on the wire.
        cause: String,
        /// Claim under which the member is taken down; none when no planned disruption happens.
        claim: Option<ClaimRef>,
        /// Usage record to store; none removes it.
        usage: Option<WorkloadUsage>,
        /// Back-off to store; none removes it.
        backoff: Option<Backoff>,
        /// False when the node itself ended it, so that no message is needed.
        notifies_node: bool,
    },
    /// Sends `cancel` once more for an agreement that ended but that the node still reports.
    RepeatCancel {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
        /// The reason it ended for.
        reason: CancelReason,
    },
    /// Sends `basicagreementverification`.
    SendVerification {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
    },
    /// Sends `basicagreementverificationreply`.
    SendVerificationReply {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
        /// True if the agreement is live.
        exists: bool,
    },
    /// Stores digest and time as the agreement's pending update, then sends `basicagreementupdate` with the policy change
    /// (terms made with [`crate::terms::proposal_terms`]).
    SendPolicyUpdate {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
        /// Digest of the new terms.
        terms_digest: u64,
    },
    /// Stores the digest as that of the terms the node holds, and forgets the pending update.
    RecordUpdateAccepted {
        /// The agreement.
        agreement: AgreementId,
        /// Digest of the terms it now holds.
        terms_digest: u64,
    },
    /// Records that the instance of an ended agreement has stopped; already recorded is fine.
    RecordStopped {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
    },
    /// Refuses an update that a node requested (always, by the protocol).
    RefuseUpdate {
        /// The agreement.
        agreement: AgreementId,
        /// Its node.
        node: NodeId,
        /// The update's type, to be echoed.
        update_type: String,
    },
    /// Takes a claim in one transaction: locks the group's rows, checks [`evenkeel_change::may_take`], inserts.
    TakeClaim {
        /// The claim request.
        request: Box<ClaimRequest>,
    },
    /// Moves a claim to its next phase with a new deadline, if the row still has the fencing number.
    AdvanceClaim {
        /// The claim.
        claim: ClaimRef,
        /// The phase.
        phase: Phase,
        /// The deadline.
        deadline: Timestamp,
    },
    /// Deletes exactly the row with this fencing number; already gone is fine.
    ReleaseClaim {
        /// The claim.
        claim: ClaimRef,
        /// The member that held it, for the event.
        node: NodeId,
        /// The reason, for the event.
        why: ReleaseReason,
    },
    /// Stores the state of a rollout (insert or replace by group and policy).
    RecordRollout {
        /// The state.
        rollout: Box<Rollout>,
    },
    /// Changes the tasks of a workload unit in one transaction: locks the workload's row, reads the tasks and claims again, checks
    /// [`StoredPlan::check`], takes the claims, writes the rows and the events.
    ApplyPlan {
        /// The workload unit.
        unit_id: UnitId,
        /// The changes.
        plan: Box<StoredPlan>,
    },
    /// Stores a workload's row after a client wrote its policy; refused when the row has changed meanwhile.
    RecordWorkload {
        /// The row.
        workload: Box<WorkloadRecord>,
        /// Tasks for agreements that the policy has already; only with its first row.
        adopted: Vec<Task>,
        /// The action of a user that is over, and no longer in the row.
        ended: Option<Box<ActionEnd>>,
    },
    /// Deletes the rows of a workload; its agreements stay.
    RemoveWorkload {
        /// The policy.
        policy: PolicyId,
        /// True if the policy stays and no longer has an `orchestration`.
        is_detached: bool,
    },
    /// Stores reports of the engine about an entity: [`evenkeel_planner_record::health::stored_reports`] of what the transaction reads.
    ReportHealth {
        /// The entity.
        entity: Entity,
        /// The reports.
        reports: Vec<SystemReport>,
        /// Time for which they are valid when no agbot renews them.
        ttl_secs: u64,
    },
    /// Deletes the events of entities that no longer exist.
    DropHealth {
        /// The entity that was checked.
        checked: Entity,
        /// The entities.
        entities: Vec<Entity>,
    },
    /// Stores the registration of a target of health checks with the events of that; refused when the row has changed meanwhile.
    RecordRegistration {
        /// The row.
        registration: Box<Registration>,
        /// The events.
        events: Vec<UnitEvent>,
        /// Number of members that were found to have failed; they count as healthy if this cannot be written.
        found_unhealthy: u64,
    },
    /// Deletes the registration of a target that no longer has a health policy.
    RemoveRegistration {
        /// The target.
        target: Entity,
    },
    /// Changes a row of the node blocklist by [`evenkeel_planner_record::blocklist::BlocklistEntry::changed`], and writes the
    /// event of that.
    ChangeBlocklist {
        /// The key of the row.
        key: BlocklistKey,
        /// The change.
        change: BlocklistChange,
    },
    /// Stores usage and back-off of a pair; none removes.
    UpdateUsage {
        /// The node.
        node: NodeId,
        /// The policy.
        policy: PolicyId,
        /// Usage record.
        usage: Option<WorkloadUsage>,
        /// Back-off.
        backoff: Option<Backoff>,
    },
}

/// The identity of a command, so that the same one is not issued twice while it is in flight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CommandKey(String);

impl CommandKey {
    /// Returns the key as text, for logs.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of a proposal to a node.
    pub(crate) fn propose(node: &NodeId, policy: &PolicyId) -> Self {
        Self(format!("propose {node} {policy}"))
    }

    /// Returns the key of a plan for a workload unit.
    pub fn plan(unit_id: &UnitId) -> Self {
        Self(match &unit_id.part {
            Part::All => format!("plan {}", unit_id.policy),
            Part::Group(group) => format!("plan {} in {group}", unit_id.policy),
        })
    }

    /// Returns the key of reports about an entity.
    pub fn health(entity: &Entity) -> Self {
        Self(format!("health {} {entity}", entity.kind().word()))
    }

    /// Returns the key of writes of a registration.
    pub fn registration(target: &Entity) -> Self {
        Self(format!("registration {} {target}", target.kind().word()))
    }

    /// Returns the key of the end of an agreement.
    pub(crate) fn cancel(agreement: &AgreementId) -> Self {
        Self(format!("cancel {}", agreement.as_str()))
    }
}

impl Action {
    /// Returns the key: equal for two commands of which one makes the other redundant.
    pub fn key(&self) -> CommandKey {
        CommandKey(match self {
            Self::Propose { agreement, .. } => {
                return CommandKey::propose(&agreement.node, &agreement.policy);
            }
            Self::RepeatProposal { agreement } => format!("propose again {}", agreement.id.as_str()),
            Self::AcknowledgeReply { agreement, decision, .. } => {
                format!("ack {} {decision}", agreement.as_str())
            }
            Self::Cancel { agreement, .. } => return CommandKey::cancel(agreement),
            Self::RepeatCancel { agreement, .. } => format!("repeat {}", agreement.as_str()),
            Self::SendVerification { agreement, .. } => format!("verify {}", agreement.as_str()),
            Self::SendVerificationReply { agreement, .. } => format!("reply {}", agreement.as_str()),
            Self::SendPolicyUpdate { agreement, .. } => format!("update {}", agreement.as_str()),
            Self::RecordUpdateAccepted { agreement, .. } => format!("updated {}", agreement.as_str()),
            Self::RecordStopped { agreement, .. } => format!("stopped {}", agreement.as_str()),
            Self::RefuseUpdate { agreement, .. } => format!("refuse {}", agreement.as_str()),
            Self::TakeClaim { request } => format!("claim {} {}", request.group, request.scope.text()),
            Self::AdvanceClaim { claim, phase, .. } => {
                format!("advance {} {} {} {phase:?}", claim.group, claim.scope.text(), claim.fencing)
            }
            Self::ReleaseClaim { claim, .. } => {
                format!("release {} {} {}", claim.group, claim.scope.text(), claim.fencing)
            }
            Self::RecordRollout { rollout } => format!("rollout {} {}", rollout.group, rollout.policy),
            Self::ApplyPlan { unit_id, .. } => return CommandKey::plan(unit_id),
            Self::RecordWorkload { workload, .. } => format!("workload {}", workload.policy),
            Self::RemoveWorkload { policy, .. } => format!("remove workload {policy}"),
            Self::ReportHealth { entity, .. } => return CommandKey::health(entity),
            Self::DropHealth { checked, .. } => format!("drop health {} {checked}", checked.kind().word()),
            Self::RecordRegistration { registration, .. } => {
                return CommandKey::registration(&registration.target);
            }
            Self::RemoveRegistration { target } => return CommandKey::registration(target),
            Self::ChangeBlocklist { key, .. } => {
                format!("blocklist {} {} {}", key.node, key.version, key.service)
            }
            Self::UpdateUsage { node, policy, .. } => format!("usage {node} {policy}"),
        })
    }
}

/// The fate of the mailbox message that an event brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageFate {
    /// Handled: delete it when every command it led to has succeeded.
    Delete,
    /// For another agbot, for a record not seen yet, or waiting for a command in flight: keep it and handle it again later.
    Leave,
}

/// The time to plan a pair again without an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Watch {
    /// The node.
    pub node: NodeId,
    /// The policy.
    pub policy: PolicyId,
    /// The earliest time.
    pub at: Timestamp,
}

/// The time to plan a workload unit again without an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitWatch {
    /// The earliest time.
    pub at: Timestamp,
    /// The workload unit.
    pub unit_id: UnitId,
    /// The slot; none for all of it.
    pub slot: Option<Slot>,
}

/// Blocked steps of a workload unit.
///
/// # Shape
/// `slots`: those that were reconciled; none for all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnitReport {
    /// The slots.
    pub slots: Option<BTreeSet<Slot>>,
    /// Steps that wait, each with its reason.
    pub blocked: Vec<(Step, Blocked)>,
    /// Reason why not everything was placed.
    pub unplaced: Option<EliminationReport>,
    /// The compatibility versions of the agents that suspend automatic decisions.
    #[serde(default)]
    pub incompatible: Vec<i64>,
}

/// The result of one decision.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Decision {
    /// The commands, in order; independent of each other.
    pub commands: Vec<Command>,
    /// The fate of the event's message; none for other events.
    pub message: Option<MessageFate>,
    /// Number of commands, from the first, that the message led to; its fate depends on their outcomes.
    pub message_commands: usize,
    /// Pairs to plan again, earliest first, by a tick at or after that instant.
    pub watches: Vec<Watch>,
    /// Workload units to plan again, earliest first.
    pub unit_watches: Vec<UnitWatch>,
    /// Workload units, or slots of them, to plan again when the plan in flight is carried out.
    pub deferred: Vec<(UnitId, Option<Slot>)>,
    /// Blocked steps of the workload units that were planned.
    pub unit_reports: Vec<(UnitId, UnitReport)>,
    /// Entities whose health is to be checked, each with the time.
    pub health_checks: Vec<(Entity, Timestamp)>,
    /// Rounds of checks that were made or left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_rounds: Vec<HealthRound>,
    /// The reasons for acting and not acting.
    pub report: Report,
}
