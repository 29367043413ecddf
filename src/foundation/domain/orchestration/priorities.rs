//! The member `constraintPriorities`: 0 hard, 1 soft, 2 an optimization, -1 off.
//!
//! Source: orchestration D5.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::placement::Constraint;
use crate::document::error_inside;
use crate::object::{MembersError, Object, hint};

pub(super) const MEMBER: &str = "constraintPriorities";

/// Priorities of the constraints on placement: 0 hard, 1 soft, 2 an optimization, -1 off.
// `None` stands for the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConstraintPriorities {
    /// That `placement.expression` holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    placement_constraint: Option<i8>,
    /// That the loads fit into the capacities of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    node_capacity: Option<i8>,
    /// Hard affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    affinity: Option<i8>,
    /// Distribution over fault domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    fault_domain: Option<i8>,
    /// Distribution over upgrade domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    upgrade_domain: Option<i8>,
    /// The preferred domain, and the origin of an instance that moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 2)]
    preferred_location: Option<i8>,
}

impl ConstraintPriorities {
    const DEFAULT: Self = Self {
        placement_constraint: Some(0),
        node_capacity: Some(0),
        affinity: Some(0),
        fault_domain: Some(0),
        upgrade_domain: Some(1),
        preferred_location: Some(2),
    };

    /// Returns the priority of a constraint, as set or by default.
    #[must_use]
    pub fn of(&self, constraint: Constraint) -> i8 {
        self.given(constraint).or(Self::DEFAULT.given(constraint)).unwrap_or_default()
    }

    fn given(&self, constraint: Constraint) -> Option<i8> {
        match constraint {
            Constraint::PlacementConstraint => self.placement_constraint,
            Constraint::NodeCapacity => self.node_capacity,
            Constraint::Affinity => self.affinity,
            Constraint::FaultDomain => self.fault_domain,
            Constraint::UpgradeDomain => self.upgrade_domain,
            Constraint::PreferredLocation => self.preferred_location,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the priorities that apply, with the defaults.
    pub(super) fn with_defaults(self) -> Self {
        Self::of_each(|constraint| Some(self.of(constraint)))
    }

    fn of_each(priority: impl Fn(Constraint) -> Option<i8>) -> Self {
        Self {
            placement_constraint: priority(Constraint::PlacementConstraint),
            node_capacity: priority(Constraint::NodeCapacity),
            affinity: priority(Constraint::Affinity),
            fault_domain: priority(Constraint::FaultDomain),
            upgrade_domain: priority(Constraint::UpgradeDomain),
            preferred_location: priority(Constraint::PreferredLocation),
        }
    }
}

// Not derived: priorities may be a list, their numbers texts, and each constraint has two names.
impl<'de> Deserialize<'de> for ConstraintPriorities {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let given = read(Value::deserialize(input)?).map_err(error_inside)?;
        Ok(Self::of_each(|constraint| given.get(&constraint).copied().flatten()))
    }
}

/// Takes the priorities out of an object.
///
/// # Errors
/// The first name or number that breaks a rule, with its path.
pub(super) fn take_priorities(around: &mut Object) -> Result<BTreeMap<Constraint, i8>, MembersError> {
    let Some(given) = around.take(MEMBER) else { return Ok(BTreeMap::new()) };
    let given = read(given).map_err(|error| error.under(MEMBER));
    let given = given.map_err(|error| around.broken_at(&error.path, &error.rule))?;
    Ok(given.into_iter().filter_map(|(constraint, priority)| Some((constraint, priority?))).collect())
}

/// Reads priorities, given as an object or as a list of `name` and `value`; `None` for an entry that is `null`.
///
/// # Errors
/// The first name or number that breaks a rule, with its path.
pub(super) fn read(given: Value) -> Result<BTreeMap<Constraint, Option<i8>>, MembersError> {
    let broken = |rule: &str| MembersError { path: String::new(), rule: rule.to_owned() };
    let entries: Vec<(String, Value)> = match given {
        Value::Object(entries) => entries.into_iter().collect(),
        Value::Array(items) if items.len() <= 2 * Constraint::NAMES.len() => items
            .iter()
            .map(|item| Some((item.get("name")?.as_str()?.to_owned(), item.get("value")?.clone())))
            .collect::<Option<_>>()
            .ok_or_else(|| broken("must be a list of name and value"))?,
        _ => return Err(broken("must be an object")),
    };
    let mut found = BTreeMap::new();
    for (name, value) in entries {
        let broken = |rule: &str| broken(rule).under(&name.chars().take(64).collect::<String>());
        let known =
            Constraint::NAMES.iter().find(|(short, long, _)| [*short, *long].contains(&name.as_str()));
        let Some((.., constraint)) = known else {
            if value.is_null() {
                continue;
            }
            let hint = hint(Constraint::NAMES.iter().map(|(short, ..)| *short), &name);
            return Err(broken(&format!("is not a constraint{hint}")));
        };
        let priority: &mut Option<i8> = found.entry(*constraint).or_default();
        if value.is_null() {
            continue;
        }
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let Some(number) = number.filter(|number| (-1..=2).contains(number)) else {
            return Err(broken("must be -1, 0, 1 or 2"));
        };
        if priority.replace(number as i8).is_some() {
            return Err(broken("must not be given twice"));
        }
    }
    Ok(found)
}
