//! Claims: the table that serializes disruptions of an HA group's members.
//!
//! Agent upgrades and service upgrades of a group share it. Whether one may be taken is decided by `change`. Source: orchestration E5,
//! E6; agbot 3.4; design 4.2.

use std::fmt;

use evenkeel_ids::{GroupId, NmpId, NodeId, PolicyId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The subject of a claim: one rollout of a policy, or the agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "policy")]
pub enum Scope {
    /// Upgrade of the agent.
    Agent,
    /// Upgrade of the service that a policy deploys.
    Policy(PolicyId),
}

impl Scope {
    /// Returns the text kept in the table's `scope` column: `agent`, or the policy's id.
    pub fn text(&self) -> &str {
        match self {
            Self::Agent => "agent",
            Self::Policy(policy) => policy.as_str(),
        }
    }

    /// Reads the text of the table's `scope` column.
    pub fn from_text(text: &str) -> Self {
        // A policy's id always holds a slash, so it cannot equal `agent`.
        if text == "agent" { Self::Agent } else { Self::Policy(PolicyId::from_text(text)) }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => formatter.write_str("agent upgrade"),
            Self::Policy(policy) => write!(formatter, "rollout of {policy}"),
        }
    }
}

/// The purpose of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "purpose")]
pub enum Purpose {
    /// Replaces a service by a wanted version.
    ServiceUpgrade,
    /// Takes a service off a node that is being drained.
    Drain,
    /// Executes a node management policy.
    AgentUpgrade {
        /// The policy.
        nmp: NmpId,
        /// True if the node is drained first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        drains: bool,
    },
}

impl Purpose {
    /// Returns whether both are for the same thing; how it is done may have been changed meanwhile.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AgentUpgrade { nmp, .. }, Self::AgentUpgrade { nmp: other, .. }) => nmp == other,
            _ => self == other,
        }
    }

    /// Returns whether the node is drained for an upgrade of its agent.
    pub fn is_agent_drain(&self) -> bool {
        matches!(self, Self::AgentUpgrade { drains: true, .. })
    }
}

/// The progress of the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The old instance is being stopped.
    Stopping,
    /// The new instance is being started.
    Starting,
    /// The new instance runs and is being monitored.
    Verifying,
}

/// The unique key of a claim.
pub type ClaimKey = (GroupId, Scope);

/// A claim: one row of the table.
///
/// # Shape
/// Unique by (group, scope). `fencing` grows with every claim ever taken and is never used twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The group.
    pub group: GroupId,
    /// Its subject.
    pub scope: Scope,
    /// The member that holds it.
    pub node: NodeId,
    /// Its purpose.
    pub purpose: Purpose,
    /// Wanted version; empty for agent upgrades and drains.
    pub version: String,
    /// Fencing number that every command under the claim carries.
    pub fencing: u64,
    /// The phase.
    pub phase: Phase,
    /// When the claim was taken.
    pub since: Timestamp,
    /// When the phase began.
    pub phase_since: Timestamp,
    /// Instant at which the claim expires.
    pub deadline: Timestamp,
}

impl Claim {
    /// Returns the unique key.
    pub fn key(&self) -> ClaimKey {
        (self.group.clone(), self.scope.clone())
    }

    /// Returns the human-readable purpose.
    pub fn task(&self) -> String {
        task(&self.scope, self.purpose == Purpose::Drain)
    }

    /// Returns why the holder does not count as running, in words.
    pub fn disruption(&self) -> String {
        let doing = match self.phase {
            Phase::Stopping | Phase::Starting => "being disrupted by the",
            Phase::Verifying => "not yet verified in the",
        };
        format!("{doing} {}", self.task())
    }

    /// Returns the reference that commands carry to act under this claim.
    pub fn reference(&self) -> ClaimRef {
        ClaimRef { group: self.group.clone(), scope: self.scope.clone(), fencing: self.fencing }
    }
}

/// A claim named in a command: the executor refuses when the row is gone or has another fencing number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRef {
    /// The group.
    pub group: GroupId,
    /// Its subject.
    pub scope: Scope,
    /// Its fencing number.
    pub fencing: u64,
}

/// A claim request, with the facts that allowed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// The group.
    pub group: GroupId,
    /// Its subject.
    pub scope: Scope,
    /// The member.
    pub node: NodeId,
    /// Its purpose.
    pub purpose: Purpose,
    /// Wanted version; empty for agent upgrades and drains.
    pub version: String,
    /// Instant at which the claim expires.
    pub deadline: Timestamp,
    /// Members that were seen running the service when the decision was made, without `node`; empty when the service
    /// ran nowhere else and did not have to. Kept with the claim to explain it.
    pub seen_running: Vec<NodeId>,
    /// Number of groups that may be updated by the policy at the same time; 0 means no limit.
    #[serde(default)]
    pub parallelism: u32,
}

impl ClaimRequest {
    /// Converts the request into the row.
    pub fn into_claim(self, fencing: u64, now: Timestamp) -> Claim {
        Claim {
            group: self.group,
            scope: self.scope,
            node: self.node,
            purpose: self.purpose,
            version: self.version,
            fencing,
            phase: Phase::Stopping,
            since: now,
            phase_since: now,
            deadline: self.deadline,
        }
    }
}

/// Returns the human-readable purpose of a claim.
pub(crate) fn task(scope: &Scope, is_drain: bool) -> String {
    match scope {
        Scope::Policy(policy) if is_drain => format!("drain of {policy}"),
        scope => scope.to_string(),
    }
}

/// The reason a claim ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum ReleaseReason {
    /// The step is done: seen running and healthy.
    Done,
    /// The step failed; the rollout is held.
    Failed,
    /// The deadline passed.
    DeadlinePassed,
    /// Another version is wanted now.
    Superseded,
    /// The minimum available no longer holds, and nothing was stopped yet.
    #[serde(rename = "floor-lost")]
    MinimumAvailableLost,
    /// The rollout was held meanwhile, and nothing was stopped yet.
    RolloutHeld,
    /// The service is no longer wanted on the node.
    NotWanted,
    /// The node is being drained.
    NodeDraining,
    /// The instance has left the node that is being drained.
    Drained,
    /// The node is no longer being drained, or was paused before anything was stopped.
    AvailabilityChanged,
    /// The node is no longer a member.
    NodeLeft,
    /// The node was deleted.
    NodeRemoved,
    /// The group was deleted.
    GroupRemoved,
    /// The policy (deployment or management) was deleted.
    PolicyRemoved,
    /// The policy got tasks, whose update replaces its rollouts.
    TasksTakeOver,
    /// The node has been silent for too long.
    NodeSilent,
    /// The node's status for the management policy is not active.
    AgentFinished {
        /// The status; none when it is gone.
        status: Option<String>,
    },
}

impl fmt::Display for ReleaseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => formatter.write_str("the new version runs"),
            Self::Failed => formatter.write_str("the step failed"),
            Self::DeadlinePassed => formatter.write_str("the deadline passed"),
            Self::Superseded => formatter.write_str("another version is wanted now"),
            Self::MinimumAvailableLost => formatter.write_str("too few other members run the service"),
            Self::RolloutHeld => formatter.write_str("the rollout was paused"),
            Self::NotWanted => formatter.write_str("the service is no longer wanted on the node"),
            Self::NodeDraining => formatter.write_str("the node is being drained"),
            Self::Drained => formatter.write_str("the instance has left the node"),
            Self::AvailabilityChanged => formatter.write_str("the node's availability was changed"),
            Self::NodeLeft => formatter.write_str("the node left the group"),
            Self::NodeRemoved => formatter.write_str("the node was deleted"),
            Self::GroupRemoved => formatter.write_str("the group was deleted"),
            Self::PolicyRemoved => formatter.write_str("the policy was deleted"),
            Self::TasksTakeOver => formatter.write_str("the policy has tasks now"),
            Self::NodeSilent => formatter.write_str("the node has been silent for too long"),
            Self::AgentFinished { status: Some(status) } => {
                write!(formatter, "the node reports \"{status}\"")
            }
            Self::AgentFinished { status: None } => formatter.write_str("the node no longer has a status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_survives_its_text_form() {
        for scope in [Scope::Agent, Scope::Policy(PolicyId::new("o", "a"))] {
            assert_eq!(Scope::from_text(scope.text()), scope);
        }
    }
}
