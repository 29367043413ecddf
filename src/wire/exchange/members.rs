//! Objects whose members are taken out one by one, so that a refusal names the member and the rule.
//!
//! Members and words of the specification that the engine cannot honour are refused by name: storing and ignoring them would promise
//! something. Source: orchestration 0.3, 0.6.

use serde_json::{Map, Value};
use thiserror::Error;

/// Letters in which a name may differ from the one that was probably meant.
const MISSPELT_BY: usize = 2;

/// Members of one object: those that are honoured, and those that the specification has beside them.
pub struct Members {
    /// Those that are honoured.
    pub known: &'static [&'static str],
    /// Those that are refused by name.
    pub unsupported: &'static [&'static str],
}

/// Says which member breaks which rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path} {rule}")]
pub struct MembersError {
    /// The member, with those around it.
    pub path: String,
    /// The rule.
    pub rule: String,
}

/// An object whose members are taken out one by one.
pub struct Object {
    path: String,
    members: Map<String, Value>,
}

impl Object {
    /// Takes an object apart, if it holds known members only; `path` is empty for a whole body.
    pub fn open(path: String, value: Value, known: &Members) -> Result<Self, MembersError> {
        let Value::Object(members) = value else {
            let path = if path.is_empty() { "the body".to_owned() } else { path };
            return Err(MembersError { path, rule: "must be an object".to_owned() });
        };
        let object = Self { path, members };
        for name in object.members.keys() {
            if known.unsupported.contains(&name.as_str()) {
                return Err(object.broken(name, "is not supported"));
            }
            if !known.known.contains(&name.as_str()) {
                let members = known.known.iter().chain(known.unsupported);
                // The distance costs the product of the lengths, and is at least their difference.
                let near = members
                    .filter(|one| one.len().abs_diff(name.len()) <= MISSPELT_BY)
                    .map(|one| (strsim::levenshtein(one, name), one))
                    .filter(|(distance, _)| *distance <= MISSPELT_BY)
                    .min();
                let hint = near.map(|(_, one)| format!("; {one} was probably meant")).unwrap_or_default();
                return Err(object.broken(name, &format!("is not known{hint}")));
            }
        }
        Ok(object)
    }

    /// The refusal of a member.
    pub fn broken(&self, member: &str, rule: &str) -> MembersError {
        let member: String = member.chars().take(64).collect();
        MembersError { path: self.path_of(&member), rule: rule.to_owned() }
    }

    fn path_of(&self, member: &str) -> String {
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

    /// Takes a word; words without a meaning are those that the specification has and the engine cannot honour.
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

/// The words as a person would list them.
fn one_of(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}
