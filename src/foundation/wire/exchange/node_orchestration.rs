//! The object `orchestration` of a node: its availability for placement, whether it is frozen, and its capacities.
//!
//! Source: orchestration 1.7, A12, B9, D7.

use std::collections::BTreeMap;

use evenkeel_domain::object::{Members, MembersError, Object};
use evenkeel_domain::orchestration::capacity::{Amounts, readable_amounts, take_amounts};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::node_report::NodeReportResponse;
use super::query;

const FAULT_DOMAIN: &str = "faultDomain";
const UPGRADE_DOMAIN: &str = "upgradeDomain";

/// Maximum length of the path of a fault domain, in bytes, and maximum number of its levels.
const LONGEST_PATH: usize = 512;
const MOST_LEVELS: usize = 16;

const SPEC: Members = Members {
    known: &["availability", "force", "frozen", "upgrade", "capacities", FAULT_DOMAIN, UPGRADE_DOMAIN],
    unsupported: &[],
};

/// Availability of a node for placement, and treatment of the instances that run there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", from = "Value")]
pub enum Availability {
    /// Services are placed on it.
    #[default]
    Active,
    /// Running instances stay; nothing new is placed on the node and nothing is updated.
    Pause,
    /// Nothing new is placed on it, and each instance is stopped as soon as its HA group allows it.
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

    /// Returns the availability for a word; a word of another version counts as `active`, the default.
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

/// Settings of a node's operator for orchestration; members that are left out or unreadable have their
/// defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeOrchestration {
    /// Availability of the node for placement.
    #[schema(required = true)]
    pub availability: Availability,
    /// True if a drain also removes the last instance of an HA group from the node; left out when false.
    #[serde(deserialize_with = "true_or_else", skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// True if the node is frozen: the engine starts, stops and moves nothing there; left out when false.
    #[serde(deserialize_with = "true_or_else", skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// True if the node is drained for an upgrade, after which its instances return; left out when false.
    #[serde(deserialize_with = "true_or_else", skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
    /// Capacities of the node for instances, by name. A capacity without an entry is unlimited, except for
    /// `memoryMb` and `cpuMilli`, which then come from the properties of the node.
    #[serde(deserialize_with = "amounts_or_none", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub capacities: BTreeMap<String, f64>,
    /// Fault domain of the node, with the enclosing domains, such as `fd:/dc/rack`.
    #[serde(rename = "faultDomain", skip_serializing_if = "Option::is_none")]
    pub fault_domain: Option<String>,
    /// Upgrade domain of the node.
    #[serde(rename = "upgradeDomain", skip_serializing_if = "Option::is_none")]
    pub upgrade_domain: Option<String>,
}

/// Reads amounts; unreadable ones, written by another version, are left out.
fn amounts_or_none<'de, D: Deserializer<'de>>(value: D) -> Result<Amounts, D::Error> {
    Ok(readable_amounts(&Value::deserialize(value)?))
}

/// Reads a truth value; an unreadable one, written by another version, is false.
fn true_or_else<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(value)? == Value::Bool(true))
}

impl NodeOrchestration {
    /// The object as it is shown with its node: none when it contains only defaults.
    #[must_use]
    pub fn unless_default(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The orchestration of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeOrchestrationResponse {
    /// Operator's settings.
    #[schema(required = true)]
    pub spec: NodeOrchestration,
    /// The node's report about itself.
    #[schema(required = true)]
    pub status: NodeReportResponse,
}

/// Replaces the orchestration settings of a node's operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Value", deny_unknown_fields)]
pub struct PutNodeOrchestration {
    /// Availability of the node for placement.
    pub availability: Availability,
    /// True if the drain waits neither for the minimum available of HA groups nor for a node that could take
    /// an instance; only with `drain`.
    #[schema(required = false)]
    pub force: bool,
    /// True if the node is frozen.
    #[schema(required = false)]
    pub frozen: bool,
    /// True if the node is drained for an upgrade; only with `drain`.
    #[schema(required = false)]
    pub upgrade: bool,
    /// Capacities of the node for instances, by name.
    #[schema(required = false)]
    pub capacities: BTreeMap<String, f64>,
    /// Fault domain of the node, with the enclosing domains, such as `fd:/dc/rack`; none when it is left out.
    #[serde(rename = "faultDomain", skip_serializing_if = "Option::is_none")]
    pub fault_domain: Option<String>,
    /// Upgrade domain of the node; none when it is left out.
    #[serde(rename = "upgradeDomain", skip_serializing_if = "Option::is_none")]
    pub upgrade_domain: Option<String>,
}

/// Changes the orchestration settings of a node's operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Value", deny_unknown_fields)]
pub struct PatchNodeOrchestration {
    /// Availability of the node for placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    /// True if the drain waits neither for the minimum available of HA groups nor for a node that could take
    /// an instance; given with `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// True if the node is frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<bool>,
    /// True if the node is drained for an upgrade; given with `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<bool>,
    /// Capacities of the node for instances, by name; they replace all earlier ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacities: Option<BTreeMap<String, f64>>,
    /// Fault domain of the node, with the enclosing domains, such as `fd:/dc/rack`; null, or an empty text
    /// here, removes it.
    #[serde(
        rename = "faultDomain",
        skip_serializing_if = "Option::is_none",
        serialize_with = "text_or_null"
    )]
    pub fault_domain: Option<String>,
    /// Upgrade domain of the node; null, or an empty text here, removes it.
    #[serde(
        rename = "upgradeDomain",
        skip_serializing_if = "Option::is_none",
        serialize_with = "text_or_null"
    )]
    pub upgrade_domain: Option<String>,
}

#[expect(clippy::ref_option, reason = "serde passes the member like this")]
fn text_or_null<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_ref().filter(|text| !text.is_empty()).serialize(serializer)
}

impl PatchNodeOrchestration {
    /// A change of the availability alone.
    #[must_use]
    pub fn availability(availability: Availability) -> Self {
        Self { availability: Some(availability), ..Self::default() }
    }

    /// A change of whether the node is frozen alone.
    #[must_use]
    pub fn frozen(frozen: bool) -> Self {
        Self { frozen: Some(frozen), ..Self::default() }
    }
}

impl TryFrom<Value> for PatchNodeOrchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let removed = |name| value.get(name).filter(|value| value.is_null()).map(|_| String::new());
        let (fault_domain, upgrade_domain) = (removed(FAULT_DOMAIN), removed(UPGRADE_DOMAIN));
        let mut spec = Object::open(String::new(), value, &SPEC)?;
        let availability = word(&mut spec)?;
        let change = Self {
            availability,
            force: take_of_drain(&mut spec, "force", availability)?,
            frozen: spec.boolean("frozen")?,
            upgrade: take_of_drain(&mut spec, "upgrade", availability)?,
            capacities: take_amounts(&mut spec, "capacities")?,
            fault_domain: take_fault_domain(&mut spec)?.or(fault_domain),
            upgrade_domain: take_upgrade_domain(&mut spec)?.or(upgrade_domain),
        };
        if change == Self::default() {
            let rule = "or frozen, capacities, faultDomain or upgradeDomain must be given";
            return Err(spec.broken("availability", rule));
        }
        Ok(change)
    }
}

fn word(spec: &mut Object) -> Result<Option<Availability>, MembersError> {
    spec.word("availability", &Availability::ALL.map(|one| (one.word(), Some(one))))
}

impl TryFrom<Value> for PutNodeOrchestration {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let mut spec = Object::open(String::new(), value, &SPEC)?;
        let availability = word(&mut spec)?
            .ok_or_else(|| spec.broken("availability", "must be given: active, pause or drain"))?;
        let capacities = take_amounts(&mut spec, "capacities")?.unwrap_or_default();
        Ok(Self {
            availability,
            force: take_of_drain(&mut spec, "force", Some(availability))?.unwrap_or_default(),
            frozen: spec.boolean("frozen")?.unwrap_or_default(),
            upgrade: take_of_drain(&mut spec, "upgrade", Some(availability))?.unwrap_or_default(),
            capacities,
            fault_domain: take_fault_domain(&mut spec)?,
            upgrade_domain: take_upgrade_domain(&mut spec)?,
        })
    }
}

/// Reads a flag that only a drain may have.
fn take_of_drain(
    spec: &mut Object,
    name: &str,
    availability: Option<Availability>,
) -> Result<Option<bool>, MembersError> {
    let is_set = spec.boolean(name)?;
    if is_set == Some(true) && availability != Some(Availability::Drain) {
        return Err(spec.broken(name, "must not be true unless availability is drain"));
    }
    Ok(is_set)
}

/// Options of a drain.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
pub struct DrainQuery {
    /// True if the drain waits neither for the minimum available of HA groups nor for a node that could take
    /// an instance.
    #[serde(deserialize_with = "query::optional_flag")]
    pub force: Option<bool>,
    /// True if the node is drained for an upgrade: its instances return when it is active again.
    #[serde(deserialize_with = "query::optional_flag")]
    pub upgrade: Option<bool>,
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn take_fault_domain(spec: &mut Object) -> Result<Option<String>, MembersError> {
    let Some(path) = spec.text(FAULT_DOMAIN, LONGEST_PATH)? else { return Ok(None) };
    let levels = path.strip_prefix("fd:/").map(|path| path.split('/'));
    let is_path = levels.is_some_and(|levels| {
        let levels: Vec<&str> = levels.collect();
        levels.len() <= MOST_LEVELS && levels.into_iter().all(is_name)
    });
    let rule = "must be fd: followed by 1 to 16 levels, each / and letters, digits, . _ or -";
    if is_path { Ok(Some(path)) } else { Err(spec.broken(FAULT_DOMAIN, rule)) }
}

fn take_upgrade_domain(spec: &mut Object) -> Result<Option<String>, MembersError> {
    let Some(name) = spec.text(UPGRADE_DOMAIN, LONGEST_PATH)? else { return Ok(None) };
    let is_meant = is_name(&name) && name.len() <= 64;
    let rule = "must be 1 to 64 letters, digits, . _ or -";
    if is_meant { Ok(Some(name)) } else { Err(spec.broken(UPGRADE_DOMAIN, rule)) }
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
            (json!({"availability": "drain", "frozen": 1}), "frozen must be true or false"),
            (
                json!({"availability": "active", "faultDomain": "rack"}),
                "faultDomain must be fd: followed by 1 to 16 levels, each / and letters, digits, . _ or -",
            ),
            (
                json!({"availability": "active", "faultDomain": format!("fd:{}", "/a".repeat(17))}),
                "faultDomain must be fd: followed by 1 to 16 levels, each / and letters, digits, . _ or -",
            ),
            (
                json!({"availability": "active", "faultDomain": "/a".repeat(1_000_000)}),
                "faultDomain must not be longer than 512 bytes",
            ),
            (
                json!({"availability": "active", "upgradeDomain": "a/b"}),
                "upgradeDomain must be 1 to 64 letters, digits, . _ or -",
            ),
            (json!({"availability": "drain", "capacities": [1]}), "capacities must be an object"),
            (
                json!({"availability": "drain", "capacities": {"memoryMb": 9_223_372_036_854_775_808_u64}}),
                "capacities.memoryMb must be a number from 0 to 1000000000000",
            ),
            (
                json!({"availability": "drain", "capacities": {"a b": 1}}),
                "capacities.a b must be a name of 1 to 64 letters, digits and _",
            ),
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
                NodeOrchestration { availability, ..NodeOrchestration::default() }
            );
        }
    }

    #[test]
    fn change_names_what_it_changes() {
        let change =
            |value: Value| PatchNodeOrchestration::try_from(value).map_err(|error| error.to_string());
        assert_eq!(change(json!({"frozen": true})), Ok(PatchNodeOrchestration::frozen(true)));
        let drain = PatchNodeOrchestration::availability(Availability::Drain);
        assert_eq!(change(json!({"availability": "drain"})), Ok(drain.clone()));
        assert_eq!(serde_json::to_value(drain).unwrap(), json!({"availability": "drain"}));
        for value in [json!({}), json!({"frozen": null})] {
            let expected = "availability or frozen, capacities, faultDomain or upgradeDomain must be given";
            assert_eq!(change(value), Err(expected.to_owned()));
        }
        let frozen: NodeOrchestration =
            serde_json::from_value(json!({"availability": "active", "frozen": true})).unwrap();
        assert_eq!(frozen.clone().unless_default(), Some(frozen));
    }

    #[test]
    fn what_another_version_says_of_a_node_is_active() {
        for value in
            [json!({}), json!({"availability": "asleep"}), json!({"availability": null, "frozen": "1"})]
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
