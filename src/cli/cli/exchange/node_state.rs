//! The state of a node at a glance: the state that its agent reported, the settings of its operator, and the
//! age of its last heartbeat.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_wire::exchange::node::{AgentState, NodeResponse};
use evenkeel_wire::exchange::node_orchestration::Availability;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::time::seconds_of;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// No heartbeat has been received yet.
    New,
    /// It sends heartbeats.
    Up,
    /// It is up and is being emptied.
    Draining,
    /// Its heartbeats are missing.
    Down,
    /// The agent reported that it ended, with all of its services.
    Stopped,
}

impl NodeState {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Up => "UP",
            Self::Draining => "DRAINING",
            Self::Down => "DOWN",
            Self::Stopped => "STOPPED",
        }
    }
}

/// The silence after which a node is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownAfter {
    secs: i64,
}

impl DownAfter {
    /// Reads the limit for the nodes of an organization, so that the command and the agbot show the same nodes as down:
    /// that of the organization, or else that of the agbot. If no agbot reports one, it is the agbot's default.
    pub async fn read(context: &Context, exchange: &Exchange, org: &str) -> Outcome<Self> {
        let given = match exchange.server.client.org_orchestration(org).await {
            // Other hubs have no settings of organizations.
            Ok(given) => given,
            // Node credentials may not read them.
            Err(error) if matches!(error.status(), Some(401 | 403)) => None,
            Err(error) => {
                return Err(exchange.server.failed(&format!("reading the settings of {org}"), &error));
            }
        };
        if let Some(own) = given.and_then(|settings| Self::of_org(settings.into_value())) {
            return Ok(own);
        }
        let secs = match context.agbot(exchange)?.client.agbot_status().await {
            Ok(status) => status.node_down_after_secs,
            Err(_) => PlannerSettings::default().node_down_after_secs,
        };
        Ok(Self::of_secs(secs))
    }

    fn of_org(settings: Value) -> Option<Self> {
        OrgSettings::read(settings).ok()?.node_down_after_secs().map(Self::of_secs)
    }

    /// The limit as a number of seconds.
    pub fn of_secs(secs: u64) -> Self {
        Self { secs: i64::try_from(secs).unwrap_or(i64::MAX) }
    }
}

/// State and age of the last heartbeat of a node, from its record at the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeHealth {
    /// The state.
    pub state: NodeState,
    /// Seconds since the last heartbeat.
    pub heartbeat_age: Option<i64>,
}

impl NodeHealth {
    /// Derives the state from a record. A node is down when its last heartbeat is older than `down_after`.
    pub fn of(node: &NodeResponse, now: Timestamp, down_after: DownAfter) -> Self {
        let seen = seconds_of(node.last_heartbeat.as_deref().unwrap_or_default().trim_end_matches("[UTC]"));
        let heartbeat_age = (seen != 0).then(|| now.as_second().saturating_sub(seen).max(0));
        let is_draining =
            node.orchestration.as_ref().is_some_and(|asked| asked.availability == Availability::Drain);
        let state = match heartbeat_age {
            _ if node.agent_state == Some(AgentState::Stopped) => NodeState::Stopped,
            None => NodeState::New,
            Some(age) if age > down_after.secs => NodeState::Down,
            Some(_) if is_draining => NodeState::Draining,
            Some(_) => NodeState::Up,
        };
        Self { state, heartbeat_age }
    }

    /// Returns the state in a sentence: `UP, last heartbeat 12s ago`.
    pub fn text(&self) -> String {
        match self.heartbeat_age {
            Some(age) => format!("{}, last heartbeat {} ago", self.state.word(), age_text(age)),
            None => format!("{}, no heartbeat yet", self.state.word()),
        }
    }

    /// Returns the state for programs.
    pub fn json(&self) -> Value {
        json!({"state": self.state.word(), "heartbeatAgeSeconds": self.heartbeat_age})
    }
}

/// Adds the members `state` and `heartbeatAge` to the record of a node, for a table.
pub fn with_health(mut record: Value, health: NodeHealth) -> Value {
    if let Some(members) = record.as_object_mut() {
        members.insert("state".to_owned(), json!(health.state.word()));
        members.insert("heartbeatAge".to_owned(), json!(health.heartbeat_age.map(age_text)));
    }
    record
}

/// Returns an age in the largest unit that leaves two digits: `45s`, `12m`, `5h`, `3d`.
fn age_text(secs: i64) -> String {
    match secs {
        ..120 => format!("{secs}s"),
        120..7200 => format!("{}m", secs / 60),
        7200..172_800 => format!("{}h", secs / 3600),
        _ => format!("{}d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    #[test]
    fn every_state_has_the_age_of_the_heartbeat() {
        let now = at("2026-03-01T12:00:00Z");
        let seen = |secs: i64| {
            Timestamp::from_second(now.as_second() - secs).map(|at| format!("{at}[UTC]")).unwrap_or_default()
        };
        for (record, expected) in [
            (json!({}), "NEW, no heartbeat yet"),
            (json!({"lastHeartbeat": seen(12)}), "UP, last heartbeat 12s ago"),
            (json!({"lastHeartbeat": seen(-3)}), "UP, last heartbeat 0s ago"),
            (
                json!({"lastHeartbeat": seen(12), "orchestration": {"availability": "drain"}}),
                "DRAINING, last heartbeat 12s ago",
            ),
            (json!({"lastHeartbeat": seen(60)}), "UP, last heartbeat 60s ago"),
            (json!({"lastHeartbeat": seen(61)}), "DOWN, last heartbeat 61s ago"),
            (json!({"lastHeartbeat": seen(3), "agentState": "stopped"}), "STOPPED, last heartbeat 3s ago"),
            (
                json!({"lastHeartbeat": seen(400_000), "agentState": "stopped"}),
                "STOPPED, last heartbeat 4d ago",
            ),
        ] {
            let node: NodeResponse = serde_json::from_value(record).expect("a node");
            assert_eq!(NodeHealth::of(&node, now, DownAfter::of_secs(60)).text(), expected);
        }
    }

    #[test]
    fn limit_of_the_organization_counts_where_it_sets_one() {
        let limit = |settings: Value| DownAfter::of_org(settings).map(|limit| limit.secs);
        assert_eq!(limit(json!({"nodeDownAfterSeconds": 15})), Some(15));
        assert_eq!(limit(json!({"readyPeriodSeconds": 15})), None);
        assert_eq!(limit(json!({})), None);
    }

    #[test]
    fn table_gets_state_and_age() {
        let health =
            NodeHealth::of(&NodeResponse::default(), at("2026-03-01T12:00:00Z"), DownAfter::of_secs(60));
        let shown = with_health(json!({"lastHeartbeat": null}), health);
        assert_eq!(shown, json!({"lastHeartbeat": null, "state": "NEW", "heartbeatAge": null}));
    }
}
