//! Checks of nodes, the members of HA groups with a health policy.
//!
//! Source: orchestration C3.

use evenkeel_domain::orchestration::health_policy::{DetectionType, Executor, HealthPolicy};
use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    facts::Availability,
    health::{Entity, detect},
    node_record::NodeRecord,
    workload::{PeerVotes, Task},
};
use jiff::Timestamp;

use crate::model::{Liveness, Model};

/// A node as the health policy of its group sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeVerdict {
    /// No known problem.
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
            DetectionType::NodeStatusPollUrl => self.failed_node_url(policy, node, now),
            DetectionType::HypervisorStatusPolling => detect::failed_engine(policy, record.engine, now),
            DetectionType::LifecycleEvents => failed_by_event(record),
            DetectionType::LbStatusPolling | DetectionType::LbStatusEvents => {
                self.failed_by_peers(node, now, PeerVotes::is_offline)
            }
        });
        match found {
            Some((mode, message)) => NodeVerdict::Failed(format!("{}: {message}", mode.word())),
            None => NodeVerdict::Healthy,
        }
    }

    /// Returns what is wrong with the URL of a node: as the hub finds it, or most of the peers that poll it.
    fn failed_node_url(&self, policy: &HealthPolicy, node: &NodeId, now: Timestamp) -> Option<String> {
        let options = policy.poll_options()?;
        if options.executor == Executor::Agent {
            return self.failed_by_peers(node, now, |votes| votes.offline * 2 > votes.reports);
        }
        let is_checked = |task: &&Task| task.health.supervision.is_polled_for(policy);
        let reported =
            self.members_on(node).filter(is_checked).find_map(|task| self.engine.hub_report(&task.id));
        let failed = reported.filter(|reported| reported.healthy == Some(false))?;
        Some(failed.message.clone().unwrap_or_else(|| "the check failed".to_owned()))
    }

    /// Returns which instance of a node its peers do not reach.
    fn failed_by_peers(
        &self,
        node: &NodeId,
        now: Timestamp,
        is_offline: impl Fn(PeerVotes) -> bool,
    ) -> Option<String> {
        self.members_on(node).find_map(|task| {
            let votes = self.peer_votes(&task.id, now);
            let text = || {
                let policy = &task.unit_id.policy;
                format!("{} of {} peers do not reach the instance of {policy}", votes.offline, votes.reports)
            };
            is_offline(votes).then(text)
        })
    }

    /// Returns the tasks that run on a node.
    fn members_on<'m>(&'m self, node: &'m NodeId) -> impl Iterator<Item = &'m Task> {
        self.tasks_of(node).filter(|task| task.is_wanted() && task.is_running())
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
        let event = self.error_to_recover(&Entity::Node(node.clone()), now)?;
        Some(format!("the health of the node is Error: {} about {}", event.source, event.property))
    }
}

/// Returns what the agent of a node reported by itself: that it stops, or that its container engine does not respond.
///
/// # Source
/// Orchestration C3, C5.
fn failed_by_event(record: &NodeRecord) -> Option<String> {
    if record.facts.is_stopped {
        return Some("the agent has stopped".to_owned());
    }
    let is_failed = record.engine.is_some_and(|engine| !engine.is_usable);
    is_failed.then(|| detect::ENGINE_DOWN.to_owned())
}
