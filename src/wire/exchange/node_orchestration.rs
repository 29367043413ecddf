//! The object `orchestration` of a node: whether services are placed on it.
//!
//! Source: orchestration 1.7, B9.

use evenkeel_domain::orchestration::object::{Members, MembersError, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

const SPEC: Members = Members {
    known: &["availability"],
    unsupported: &["frozen", "faultDomain", "upgradeDomain", "capacities"],
};

/// Whether services are placed on a node, and whether those that run there stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", from = "Value")]
pub enum Availability {
    /// Services are placed on it.
    #[default]
    Active,
    /// What runs stays; nothing new is placed on it and nothing is updated.
    Pause,
    /// Nothing new is placed on it, and what runs is stopped as soon as its HA group can spare it.
    Drain,
}

impl Availability {
    /// Every word, in the order of the specification.
    pub const ALL: [Self; 3] = [Self::Active, Self::Pause, Self::Drain];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pause => "pause",
            Self::Drain => "drain",
        }
    }

    /// What a word means; a word of another version is `active`, which is what holds without any.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|one| one.word() == word).unwrap_or_default()
    }
}

impl From<Value> for Availability {
    fn from(value: Value) -> Self {
        value.as_str().map(Self::of_word).unwrap_or_default()
    }
}

/// What the operator of a node asks of the engine; what is left out, or cannot be read, is as if nobody had asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeOrchestration {
    /// Whether services are placed on the node.
    #[schema(required = true)]
    pub availability: Availability,
}

impl NodeOrchestration {
    /// The object as it is shown with its node: none when it says what holds without it.
    #[must_use]
    pub fn unless_default(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The orchestration of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeOrchestrationResponse {
    /// What its operator asks for.
    #[schema(required = true)]
    pub spec: NodeOrchestration,
}

/// Replaces what the operator of a node asks of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Value", deny_unknown_fields)]
pub struct PutNodeOrchestration {
    /// Whether services are placed on the node.
    pub availability: Availability,
}

impl TryFrom<Value> for PutNodeOrchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let mut spec = Object::open(String::new(), value, &SPEC)?;
        let words = Availability::ALL.map(|one| (one.word(), Some(one)));
        let availability = spec
            .word("availability", &words)?
            .ok_or_else(|| spec.broken("availability", "must be given: active, pause or drain"))?;
        Ok(Self { availability })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exchange::node::NodeResponse;

    #[test]
    fn refusal_names_the_member_and_the_rule() {
        for (value, expected) in [
            (json!([]), "the body must be an object"),
            (json!({}), "availability must be given: active, pause or drain"),
            (json!({"availability": null}), "availability must be given: active, pause or drain"),
            (json!({"availability": "drained"}), "availability must be active, pause or drain"),
            (json!({"availability": "Drain"}), "availability must be active, pause or drain"),
            (json!({"availability": ["drain"]}), "availability must be active, pause or drain"),
            (json!({"availability": "drain", "frozen": false}), "frozen is not supported"),
            (json!({"faultDomain": "fd:/a"}), "faultDomain is not supported"),
            (json!({"upgradeDomain": "a"}), "upgradeDomain is not supported"),
            (json!({"capacities": {}}), "capacities is not supported"),
            (json!({"availabilty": "drain"}), "availabilty is not known; availability was probably meant"),
            (json!({"colour": 1}), "colour is not known"),
        ] {
            let refused = PutNodeOrchestration::try_from(value.clone()).unwrap_err();
            assert_eq!(refused.to_string(), expected, "{value}");
        }
    }

    #[test]
    fn every_word_is_read_back_as_it_is_written() {
        for availability in Availability::ALL {
            let written = json!({"availability": availability});
            assert_eq!(written["availability"], availability.word());
            let read: PutNodeOrchestration = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(read.availability, availability);
            assert_eq!(
                serde_json::from_value::<NodeOrchestration>(written).unwrap(),
                NodeOrchestration { availability }
            );
        }
    }

    #[test]
    fn what_another_version_says_of_a_node_is_active() {
        for value in [json!({}), json!({"availability": "asleep"}), json!({"availability": null, "more": 1})]
        {
            let read: NodeOrchestration = serde_json::from_value(value).unwrap();
            assert_eq!(read.unless_default(), None);
        }
    }

    #[test]
    fn node_is_active_unless_the_exchange_says_otherwise() {
        let node = |orchestration: Value| {
            let node: NodeResponse = serde_json::from_value(json!({"orchestration": orchestration})).unwrap();
            node.orchestration.unwrap_or_default().availability
        };
        assert_eq!(node(json!({"availability": "drain"})), Availability::Drain);
        let unknown =
            [Value::Null, json!({}), json!({"availability": "asleep"}), json!({"availability": null})];
        assert!(unknown.into_iter().all(|unknown| node(unknown) == Availability::Active));
    }
}
