//! Checks of nodes, the members of HA groups with a health policy.
//!
//! Source: orchestration C3.

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy};
use evenkeel_ids::NodeId;
use jiff::Timestamp;

use super::{Entity, detect};
use crate::{
    facts::Availability,
    model::{Liveness, Model},
};

/// A node as the health policy of its group sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeVerdict {
    /// All is well, or nothing is known that says otherwise.
    Healthy,
    /// It is not checked: it was never heard of, is away for an announced time, or a user holds it.
    Skipped,
    /// It has failed, for this reason.
    Failed(String),
}

impl NodeVerdict {
    /// Returns the reason of a failure.
    pub fn failure(self) -> Option<String> {
        match self {
            Self::Failed(reason) => Some(reason),
            Self::Healthy | Self::Skipped => None,
        }
    }
}

impl Model {
    /// Checks a node by the health policy of its HA group.
    pub fn examine_node(&self, policy: &HealthPolicy, node: &NodeId, now: Timestamp) -> NodeVerdict {
        let Some(record) = self.node(node) else { return NodeVerdict::Skipped };
        let is_held = record.facts.is_frozen || record.facts.availability != Availability::Active;
        let liveness = self.liveness(node, now);
        // An agent that announces nothing is silent while it is upgraded under the claim of its group.
        let is_upgraded = matches!(liveness, Liveness::Down { .. }) && self.is_agent_in_upgrade(node);
        let is_away = matches!(liveness, Liveness::NeverHeard | Liveness::Away { .. });
        if is_held || is_away || is_upgraded {
            return NodeVerdict::Skipped;
        }
        let found = detect::combine(policy, |kind| match kind {
            DetectionType::NodeStatusPolling => self.failed_node_status(node, liveness, now),
            // Not supported for nodes: what is not known counts as healthy.
            DetectionType::NodeStatusPollUrl
            | DetectionType::HypervisorStatusPolling
            | DetectionType::LifecycleEvents
            | DetectionType::LbStatusPolling
            | DetectionType::LbStatusEvents => None,
        });
        match found {
            Some((mode, message)) => NodeVerdict::Failed(format!("{}: {message}", mode.word())),
            None => NodeVerdict::Healthy,
        }
    }

    fn failed_node_status(&self, node: &NodeId, liveness: Liveness, now: Timestamp) -> Option<String> {
        let record = self.node(node)?;
        if let Liveness::Down { since } = liveness {
            return Some(match record.facts.is_stopped {
                true => "the agent has stopped".to_owned(),
                false => format!("the node is down, its last heartbeat was at {since:.3}"),
            });
        }
        if record.facts.public_key.is_empty() {
            return Some("the node is not registered".to_owned());
        }
        let event = self.error_apart_from_recovery(&Entity::Node(node.clone()), now)?;
        Some(format!("the health of the node is Error: {} about {}", event.source, event.property))
    }
}
