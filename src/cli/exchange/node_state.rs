//! The state of a node at a glance: what its agent said, what its operator asks for, and the age of its last heartbeat.

use evenkeel_planner::settings::PlannerSettings;
use evenkeel_wire::exchange::node_orchestration::Availability;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::time::seconds_of;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// No heartbeat was ever seen.
    New,
    /// It sends heartbeats.
    Up,
    /// It is up and is being emptied.
    Draining,
    /// Its heartbeats are missing.
    Down,
    /// Its agent said that it ended, with all of its services.
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

/// State and age of the last heartbeat of a node, from its record at the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeHealth {
    /// The state.
    pub state: NodeState,
    /// Seconds since the last heartbeat.
    pub heartbeat_age: Option<i64>,
}

impl NodeHealth {
    /// Judges a record. A node is down when it is silent for longer than a hub waits unless its settings say otherwise.
    pub fn of(record: &Value, now: Timestamp) -> Self {
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let seen = seconds_of(text("/lastHeartbeat").trim_end_matches("[UTC]"));
        let heartbeat_age = (seen != 0).then(|| now.as_second().saturating_sub(seen).max(0));
        let limit = i64::try_from(PlannerSettings::default().node_down_after_secs).unwrap_or(i64::MAX);
        let state = match heartbeat_age {
            _ if text("/agentState") == "stopped" => NodeState::Stopped,
            None => NodeState::New,
            Some(age) if age > limit => NodeState::Down,
            Some(_) if text("/orchestration/availability") == Availability::Drain.word() => {
                NodeState::Draining
            }
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

/// Adds the members `state` and `heartbeatAge` to every record, for a table.
pub fn with_health(map: Map<String, Value>, now: Timestamp) -> Map<String, Value> {
    let add = |mut record: Value| {
        let health = NodeHealth::of(&record, now);
        if let Some(members) = record.as_object_mut() {
            members.insert("state".to_owned(), json!(health.state.word()));
            members.insert("heartbeatAge".to_owned(), json!(health.heartbeat_age.map(age_text)));
        }
        record
    };
    map.into_iter().map(|(name, record)| (name, add(record))).collect()
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
    fn every_state_is_told_with_the_age_of_the_heartbeat() {
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
            (json!({"lastHeartbeat": seen(600)}), "DOWN, last heartbeat 10m ago"),
            (json!({"lastHeartbeat": seen(3), "agentState": "stopped"}), "STOPPED, last heartbeat 3s ago"),
            (
                json!({"lastHeartbeat": seen(400_000), "agentState": "stopped"}),
                "STOPPED, last heartbeat 4d ago",
            ),
        ] {
            assert_eq!(NodeHealth::of(&record, now).text(), expected);
        }
    }

    #[test]
    fn table_gets_state_and_age() {
        let map = json!({"o/n": {"lastHeartbeat": null}}).as_object().cloned().unwrap_or_default();
        let shown = with_health(map, at("2026-03-01T12:00:00Z"));
        assert_eq!(shown["o/n"]["state"], "NEW");
        assert_eq!(shown["o/n"]["heartbeatAge"], Value::Null);
    }
}
