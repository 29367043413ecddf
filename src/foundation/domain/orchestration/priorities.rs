//! The member `constraintPriorities`: 0 hard, 1 soft, 2 an optimization, -1 off.
//!
//! Source: orchestration D5.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::placement::Constraint;
use crate::object::{MembersError, Object, hint};

const MEMBER: &str = "constraintPriorities";

/// Default priorities.
const DEFAULTS: [(Constraint, i8); 6] = [
    (Constraint::PlacementConstraint, 0),
    (Constraint::NodeCapacity, 0),
    (Constraint::Affinity, 0),
    (Constraint::FaultDomain, 0),
    (Constraint::UpgradeDomain, 1),
    (Constraint::PreferredLocation, 2),
];

/// The priorities that an organization sets for its workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConstraintPriorities {
    values: [Option<i8>; DEFAULTS.len()],
}

impl ConstraintPriorities {
    /// Returns the priority of a constraint, as set or by default.
    #[must_use]
    pub fn of(&self, constraint: Constraint) -> i8 {
        let found = DEFAULTS.iter().zip(self.values).find(|((one, _), _)| *one == constraint);
        found.map_or(0, |((_, default), value)| value.unwrap_or(*default))
    }

    /// Takes the member out of the object around it and merges it: priorities that are left out stay, and `null` ends one or all.
    ///
    /// # Errors
    /// The first name or number that breaks a rule, with its path.
    pub(super) fn patched(mut self, around: &mut Object, patch: &Value) -> Result<Self, MembersError> {
        let patch = patch.get(MEMBER);
        if patch.is_some_and(Value::is_null) {
            return Ok(Self::default());
        }
        let ended = |constraint: Constraint| {
            let names = Constraint::NAMES.iter().filter(|(.., one)| *one == constraint);
            let mut names = names.flat_map(|(short, long, _)| [*short, *long]);
            names.any(|name| patch.and_then(|patch| patch.get(name)).is_some_and(Value::is_null))
        };
        let given = take_priorities(around)?;
        for (value, (constraint, _)) in self.values.iter_mut().zip(DEFAULTS) {
            if ended(constraint) {
                *value = None;
            }
            if let Some(priority) = given.get(&constraint) {
                *value = Some(*priority);
            }
        }
        Ok(self)
    }

    /// Returns the document of what is set; none when nothing is.
    pub(super) fn document(&self) -> Option<Value> {
        let set = DEFAULTS
            .iter()
            .zip(self.values)
            .filter_map(|((one, _), value)| Some((name(*one), value?.into())));
        let members: Map<String, Value> = set.collect();
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// Returns the document of what holds, with the defaults.
    pub(super) fn with_defaults(&self) -> Value {
        Value::Object(DEFAULTS.iter().map(|(one, _)| (name(*one), self.of(*one).into())).collect())
    }
}

fn name(constraint: Constraint) -> String {
    let found = Constraint::NAMES.iter().find(|(.., one)| *one == constraint);
    found.map(|(short, ..)| (*short).to_owned()).unwrap_or_default()
}

/// Takes priorities out of an object, given as an object or as a list of `name` and `value`. An entry that is `null` is left out.
///
/// # Errors
/// The first name or number that breaks a rule, with its path.
pub(super) fn take_priorities(around: &mut Object) -> Result<BTreeMap<Constraint, i8>, MembersError> {
    let most = 2 * DEFAULTS.len();
    let entries: Vec<(String, Value)> = match around.take(MEMBER) {
        None => Vec::new(),
        Some(Value::Object(entries)) => entries.into_iter().collect(),
        Some(Value::Array(items)) if items.len() <= most => items
            .iter()
            .map(|item| Some((item.get("name")?.as_str()?.to_owned(), item.get("value")?.clone())))
            .collect::<Option<_>>()
            .ok_or_else(|| around.broken(MEMBER, "must be a list of name and value"))?,
        Some(_) => return Err(around.broken(MEMBER, "must be an object")),
    };
    let mut read = BTreeMap::new();
    for (name, value) in entries.into_iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("{MEMBER}.{}", name.chars().take(64).collect::<String>());
        let known =
            Constraint::NAMES.iter().find(|(short, long, _)| [*short, *long].contains(&name.as_str()));
        let Some((.., constraint)) = known else {
            let hint = hint(Constraint::NAMES.iter().map(|(short, ..)| *short), &name);
            return Err(around.broken_at(&path, &format!("is not a constraint{hint}")));
        };
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let Some(priority) = number.filter(|number| (-1..=2).contains(number)) else {
            return Err(around.broken_at(&path, "must be -1, 0, 1 or 2"));
        };
        if read.insert(*constraint, priority as i8).is_some() {
            return Err(around.broken_at(&path, "must not be given twice"));
        }
    }
    Ok(read)
}
