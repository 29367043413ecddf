//! Findings about well-formed documents that can never work.
//!
//! The compatible API stores such documents, as the reference does. One place finds them for all callers: the command line refuses them before
//! they are sent, the exchange refuses them in what is an addition and warns about the rest, plans and reasons name what is stored.
//! Source: agreement-protocol 3.1 (Validation); orchestration A5, B10.

mod deployment;
mod expression;
pub mod identity;
mod policy;
mod settings;
mod versions;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub use deployment::{MAX_FINDINGS, service};
pub use expression::{ConstantExpression, check_expression};
pub use policy::{deployment_policy, node_policy, pattern, properties};
pub use settings::{missing_policy, named_policies, orchestration};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It can never work: refused by those who write documents.
    Error,
    /// It is probably not what was meant.
    Warning,
}

/// Something in a document that can never work, or is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Path of the member.
    pub member: String,
    /// The rule and, where there is one, the cure.
    pub rule: String,
}

impl Finding {
    fn error(member: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { severity: Severity::Error, member: member.into(), rule: rule.into() }
    }

    fn warning(member: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(member, rule) }
    }

    /// Returns whether those who write documents refuse it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.member, self.rule)
    }
}

/// Returns a member of an object by its name, without regard to case; null is as absent.
fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let members = object.as_object()?;
    let found = members
        .get(name)
        .or_else(|| members.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

/// Returns the entries of a list with their paths; anything but a list has none.
fn entries<'a>(object: &'a Value, name: &'a str) -> impl Iterator<Item = (String, &'a Value)> {
    let list = member(object, name).and_then(Value::as_array).into_iter().flatten();
    list.enumerate().map(move |(index, entry)| (format!("{name}[{index}]"), entry))
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    member(object, name).and_then(Value::as_str).unwrap_or_default()
}
