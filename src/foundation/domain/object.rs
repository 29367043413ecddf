//! JSON objects whose members are read one by one, so that an error names the member and the rule that it breaks.
//!
//! Source: orchestration 0.3, 0.6.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

/// Maximum edit distance between a misspelled name and its suggestion.
const MISSPELT_BY: usize = 2;
/// Longest name of an object, in bytes.
pub(crate) const MAX_NAME: usize = 512;

/// The members of an object: those that are read, and those of the specification that are not supported.
pub struct Members {
    /// Members that are read.
    pub known: &'static [&'static str],
    /// Members that are refused by name, because storing a member without effect would be misleading.
    pub unsupported: &'static [&'static str],
}

impl Members {
    /// Returns the suggestion for a misspelled name.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(self.known.iter().chain(self.unsupported).copied(), name)
    }
}

/// Returns the most similar of some names to a misspelled one.
pub fn nearest(names: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    // Computing the distance takes time proportional to the product of the lengths, and the distance is at least their difference.
    let near = names
        .filter(|one| one.len().abs_diff(name.len()) <= MISSPELT_BY)
        .map(|one| (strsim::damerau_levenshtein(one, name), one))
        .filter(|(distance, _)| *distance <= MISSPELT_BY)
        .min();
    near.map(|(_, one)| one)
}

/// Returns the end of an error about an unknown name: a suggestion, if one of the names is similar.
pub(crate) fn hint(names: impl Iterator<Item = &'static str>, name: &str) -> String {
    nearest(names, name).map(|one| format!("; {one} was probably meant")).unwrap_or_default()
}

/// A member that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path} {rule}")]
pub struct MembersError {
    /// The member, with those around it.
    pub path: String,
    /// The rule.
    pub rule: String,
}

impl MembersError {
    /// Returns the error with a path that leads to the object in which it was found.
    #[must_use]
    pub(crate) fn under(self, path: &str) -> Self {
        let separator = if path.is_empty() || self.path.is_empty() { "" } else { "." };
        Self { path: format!("{path}{separator}{}", self.path), ..self }
    }
}

/// An object whose members are read one by one.
pub struct Object {
    path: String,
    members: Map<String, Value>,
}

impl Object {
    /// Opens an object that has known members only; `path` is empty for a whole body.
    pub fn open(path: String, value: Value, known: &Members) -> Result<Self, MembersError> {
        let Value::Object(members) = value else {
            let path = if path.is_empty() { "the body".to_owned() } else { path };
            return Err(MembersError { path, rule: "must be an object".to_owned() });
        };
        let object = Self { path, members };
        for (name, value) in &object.members {
            if known.unsupported.contains(&name.as_str()) {
                if value.is_null() {
                    continue;
                }
                return Err(object.broken(name, "is not supported"));
            }
            if !known.known.contains(&name.as_str()) {
                let hint = hint(known.known.iter().chain(known.unsupported).copied(), name);
                return Err(object.broken(name, &format!("is not known{hint}")));
            }
        }
        Ok(object)
    }

    /// Returns the error of a member that breaks a rule.
    pub fn broken(&self, member: &str, rule: &str) -> MembersError {
        let member: String = member.chars().take(64).collect();
        MembersError { path: self.path_of(&member), rule: rule.to_owned() }
    }

    /// Returns the error of a value inside of a member; the path begins with the member and is bounded.
    pub fn broken_at(&self, path: &str, rule: &str) -> MembersError {
        MembersError { path: self.path_of(path), rule: rule.to_owned() }
    }

    pub(crate) fn path_of(&self, member: &str) -> String {
        if self.path.is_empty() { member.to_owned() } else { format!("{}.{member}", self.path) }
    }

    /// Takes a member; `null` is none.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// Takes an object with known members only.
    pub fn object(&mut self, name: &str, known: &Members) -> Result<Option<Self>, MembersError> {
        let path = self.path_of(name);
        self.take(name).map(|value| Self::open(path, value, known)).transpose()
    }

    /// Returns whether a member exists and is not `null`.
    pub fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// Takes true or false.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.broken(name, "must be true or false"))
    }

    /// Takes a number from 0 to 1.
    pub fn ratio(&mut self, name: &str) -> Result<Option<f64>, MembersError> {
        self.quantity(name, 1.0)
    }

    /// Takes a number from 0 to a greatest one.
    pub fn quantity(&mut self, name: &str, greatest: f64) -> Result<Option<f64>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| (0.0..=greatest).contains(number));
        number.map(Some).ok_or_else(|| self.broken(name, &format!("must be a number from 0 to {greatest}")))
    }

    /// Takes a text of a bounded length.
    pub fn text(&mut self, name: &str, max_bytes: usize) -> Result<Option<String>, MembersError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= max_bytes => Ok(Some(text)),
            Some(Value::String(_)) => {
                Err(self.broken(name, &format!("must not be longer than {max_bytes} bytes")))
            }
            Some(_) => Err(self.broken(name, "must be a text")),
        }
    }

    /// Takes a list of distinct names; `of` is the kind of object that they name.
    pub fn names(
        &mut self,
        name: &str,
        counts: std::ops::RangeInclusive<usize>,
        of: &str,
    ) -> Result<Option<Vec<String>>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let list = || self.broken(name, &format!("must be a list of names of {of}"));
        let Value::Array(items) = value else { return Err(list()) };
        if !counts.contains(&items.len()) {
            let rule = format!("must hold {} to {} names", counts.start(), counts.end());
            return Err(self.broken(name, &rule));
        }
        let mut seen = BTreeSet::new();
        for item in &items {
            let Value::String(item) = item else { return Err(list()) };
            if item.is_empty() || item.len() > MAX_NAME {
                return Err(self.broken(name, &format!("must hold names of 1 to {MAX_NAME} bytes")));
            }
            if !seen.insert(item) {
                return Err(self.broken(name, "must not hold a name twice"));
            }
        }
        let text = |item| if let Value::String(text) = item { Some(text) } else { None };
        Ok(Some(items.into_iter().filter_map(text).collect()))
    }

    /// Takes an integer in a range that may be negative.
    pub fn integer(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_i64().filter(|number| range.contains(number));
        let rule = || format!("must be an integer from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| self.broken(name, &rule()))
    }

    /// Takes an integer in a range.
    pub fn number<N: TryFrom<u64>>(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<N>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| range.contains(number));
        match number.and_then(|number| N::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None if range.start() == range.end() => {
                Err(self.broken(name, &format!("must be {}", range.start())))
            }
            None => {
                let rule = format!("must be an integer from {} to {}", range.start(), range.end());
                Err(self.broken(name, &rule))
            }
        }
    }

    /// Takes a word; words without a meaning are not supported.
    pub fn word<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&str, Option<T>)],
    ) -> Result<Option<T>, MembersError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| value.as_str() == Some(word));
        match found {
            Some((_, Some(meaning))) => Ok(Some(*meaning)),
            Some((word, None)) => Err(self.broken(name, &format!("{word} is not supported"))),
            None => {
                let all: Vec<&str> =
                    words.iter().filter(|(_, one)| one.is_some()).map(|(word, _)| *word).collect();
                Err(self.broken(name, &format!("must be {}", one_of(&all))))
            }
        }
    }
}

/// Returns a document without the members that are `null`, at any depth.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let given = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// Lists words for a message.
pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}
