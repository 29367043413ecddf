//! Health reports and evaluations.
//!
//! Source: orchestration D1.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Report of a source about a property of an entity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthReport {
    /// Source of the report, up to 256 characters; names that begin with `System.` are the engine's.
    #[schema(required = true, max_length = 256)]
    pub source_id: String,
    /// Property that the report concerns, up to 256 characters.
    #[schema(required = true, max_length = 256)]
    pub property: String,
    /// `Ok`, `Warning` or `Error`.
    #[schema(required = true)]
    pub health_state: String,
    /// Sequence number, which grows with each report of the source about the property; assigned by the hub if
    /// left out. May be a number, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<String>,
    /// Lifetime of the report; without it, it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<u64>,
    /// True if the event disappears when it expires; otherwise it then counts as an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_when_expired: Option<bool>,
    /// Human-readable details, up to 4096 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    /// When it was sent, by the sender's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<String>,
}

/// Rules for one evaluation instead of those of the organization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub struct HealthQuery {
    /// True if an event with a warning counts as an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consider_warning_as_error: Option<bool>,
    /// Nodes that may be in error, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_nodes: Option<u8>,
    /// Workloads that may be in error, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_workloads: Option<u8>,
    /// Units of a workload that may be in error, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_units: Option<u8>,
    /// Instances of a unit that may be in error, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_instances: Option<u8>,
    /// Children that are listed, the worst first [default: 1000].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u16>,
    /// Children that are left out at the beginning of the list: the value of `next` of the page before. A child whose state changes between two pages may
    /// be on both, or on none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 1_000_000)]
    pub offset: Option<u32>,
    /// Only children of this kind are listed: `node`, `hagroup`, `workload`, `unit` or `instance`. The state depends on all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The health of an entity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthEvaluation {
    /// `org`, `node`, `hagroup`, `workload`, `unit` or `instance`.
    #[schema(required = true)]
    pub entity: String,
    /// Its id: `org`, `org/name`, `org/policy/unit` or `org/policy@node`.
    #[schema(required = true)]
    pub id: String,
    /// `Ok`, `Warning` or `Error`: the worst of its own events and of its children.
    #[schema(required = true)]
    pub aggregated_health_state: String,
    /// Every reason that it is not `Ok`.
    #[schema(required = true)]
    pub unhealthy_evaluations: Vec<UnhealthyEvaluation>,
    /// Contained entities, the worst first.
    #[schema(required = true)]
    pub child_health_states: Vec<ChildHealthState>,
    /// Number of contained entities, or those of the kind that was asked for, when not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_count: Option<usize>,
    /// Value of `offset` for the following entities; left out at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Its own events, by source and property.
    #[schema(required = true)]
    pub health_events: Vec<HealthEvent>,
}

impl HealthEvaluation {
    /// Returns the worst of its own events, of which an expired one counts as an error; `None` when all are `Ok`.
    #[must_use]
    pub fn worst_event(&self) -> Option<&HealthEvent> {
        self.health_events.iter().max_by_key(|event| event.severity()).filter(|event| event.severity() > 0)
    }
}

/// A reason that an entity is not `Ok`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum UnhealthyEvaluation {
    /// An event of it.
    #[serde(rename_all = "camelCase")]
    Event {
        /// Source of the event.
        source_id: String,
        /// Property that the event is about.
        property: String,
        /// `Warning` or `Error`.
        health_state: String,
        /// True if a warning counted as an error.
        consider_warning_as_error: bool,
    },
    /// Contained entities of one kind.
    #[serde(rename_all = "camelCase")]
    Children {
        /// The kind of its children.
        entity: String,
        /// Those that are not `Ok`.
        unhealthy: Vec<String>,
        /// All of them.
        total: usize,
        /// Share of them that may be in error, in percent.
        max_percent: u8,
    },
}

/// The state of an entity that another one holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildHealthState {
    /// Its kind.
    #[schema(required = true)]
    pub entity: String,
    /// Its id.
    #[schema(required = true)]
    pub id: String,
    /// Its state.
    #[schema(required = true)]
    pub aggregated_health_state: String,
}

/// The newest report of a source about a property.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthEvent {
    /// Source of the event.
    #[schema(required = true)]
    pub source_id: String,
    /// Property that the event is about.
    #[schema(required = true)]
    pub property: String,
    /// `Ok`, `Warning` or `Error`.
    #[schema(required = true)]
    pub health_state: String,
    /// The number of the report.
    #[schema(required = true)]
    pub sequence_number: String,
    /// When it was sent, by the sender's clock.
    pub sent_at: Option<String>,
    /// When the hub received it, or confirmed it last.
    #[schema(required = true)]
    pub received_at: String,
    /// Lifetime of the event.
    pub ttl_seconds: Option<u64>,
    /// True if the event disappears when it expires.
    #[schema(required = true)]
    pub remove_when_expired: bool,
    /// True if the event has expired and counts as an error.
    #[schema(required = true)]
    pub is_expired: bool,
    /// Last time of each state.
    #[schema(required = true)]
    pub transitions: HealthTransitions,
    /// Human-readable details.
    #[schema(required = true)]
    pub description: String,
}

impl HealthEvent {
    /// Returns what it reports in words: its description, or else its source, property and state.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.description.as_str() {
            "" => format!("{} reports {} as {}", self.source_id, self.property, self.health_state),
            description => description.to_owned(),
        }
    }

    fn severity(&self) -> u8 {
        match self.health_state.as_str() {
            "Error" => 2,
            _ if self.is_expired => 2,
            "Warning" => 1,
            _ => 0,
        }
    }
}

/// Times of the states of an event: the start of its current state, and the last report of each other state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthTransitions {
    /// `Ok`; none for never.
    pub last_ok_at: Option<String>,
    /// `Warning`; none for never.
    pub last_warning_at: Option<String>,
    /// `Error`; none for never.
    pub last_error_at: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(health_state: &str, description: &str, is_expired: bool) -> HealthEvent {
        HealthEvent {
            source_id: "dog".to_owned(),
            property: "p".to_owned(),
            health_state: health_state.to_owned(),
            description: description.to_owned(),
            is_expired,
            ..HealthEvent::default()
        }
    }

    #[test]
    fn worst_event_is_an_error_or_an_expired_one_before_a_warning() {
        let worst = |events: &[HealthEvent]| {
            let found = HealthEvaluation { health_events: events.to_vec(), ..HealthEvaluation::default() };
            found.worst_event().map(HealthEvent::in_words)
        };
        let (ok, warning) = (event("Ok", "fine", false), event("Warning", "slow", false));
        let (error, expired) = (event("Error", "silent", false), event("Ok", "fine until noon", true));
        assert_eq!(worst(&[error, warning.clone(), ok.clone()]).as_deref(), Some("silent"));
        assert_eq!(worst(&[warning.clone(), expired, ok.clone()]).as_deref(), Some("fine until noon"));
        assert_eq!(worst(&[ok.clone(), warning]).as_deref(), Some("slow"));
        assert_eq!(worst(&[event("Error", "", false)]).as_deref(), Some("dog reports p as Error"));
        assert_eq!(worst(&[ok]), None);
        assert_eq!(worst(&[]), None);
    }
}
