//! Values for the variables of services: their merge, and the check for missing ones.
//!
//! Source: agreement-protocol 4.5.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::internal::is_same_set;
use super::reference_json::plain_value;
use crate::version::{Version, VersionError, VersionRange};

/// A variable and its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// The variable's name.
    pub name: String,
    /// The value: boolean, number, string or list of strings.
    #[serde(serialize_with = "plain_value")]
    pub value: Value,
}

impl Input {
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && is_same_value(&self.value, &other.value)
    }
}

/// Values for the variables of one service, from a deployment policy, pattern or node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UserInput {
    /// The service's organization.
    pub service_orgid: String,
    /// The service's name.
    pub service_url: String,
    /// The architecture; empty matches every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_arch: String,
    /// The versions; empty matches every one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_version_range: String,
    /// The values; `None` is written as null and means an empty list.
    pub inputs: Option<Vec<Input>>,
}

impl UserInput {
    /// Returns the values.
    pub fn inputs(&self) -> &[Input] {
        self.inputs.as_deref().unwrap_or_default()
    }

    /// Returns whether another entry contains everything in this one; a missing architecture equals every other, and the other
    /// entry may hold further values.
    pub fn is_same(&self, other: &Self) -> bool {
        let arches_agree = self.service_arch.is_empty()
            || other.service_arch.is_empty()
            || self.service_arch == other.service_arch;
        self.service_orgid == other.service_orgid
            && self.service_url == other.service_url
            && self.service_version_range == other.service_version_range
            && arches_agree
            && self.inputs().iter().all(|one| other.inputs().iter().any(|two| one.is_same(two)))
    }

    /// Returns this entry overlaid with the values of another one, variable by variable.
    pub fn overlay(&self, preferred: &Self) -> Self {
        if preferred.inputs().is_empty() {
            return self.clone();
        }
        if self.inputs().is_empty() {
            return preferred.clone();
        }
        let mut inputs = self.inputs().to_vec();
        for input in preferred.inputs() {
            match inputs.iter_mut().find(|existing| existing.name == input.name) {
                Some(existing) => *existing = input.clone(),
                None => inputs.push(input.clone()),
            }
        }
        Self { inputs: Some(inputs), ..self.clone() }
    }
}

/// Returns whether two lists are of one length and every element of the first has an equal in the second.
pub(crate) fn is_same_list(left: &[UserInput], right: &[UserInput]) -> bool {
    is_same_set(left, right, UserInput::is_same)
}

/// The service whose variables are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceVersion<'a> {
    /// The organization.
    pub org: &'a str,
    /// The name.
    pub url: &'a str,
    /// The version.
    pub version: &'a str,
    /// The architecture; empty for any.
    pub arch: &'a str,
}

impl fmt::Display for ServiceVersion<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{} {} {}", self.org, self.url, self.version, self.arch)
    }
}

/// Returns the first entry that applies to a service.
///
/// # Errors
/// [`VersionError`] when a range before the match, or the service's version, is invalid.
pub fn find_entry<'a>(
    entries: &'a [UserInput],
    service: ServiceVersion<'_>,
) -> Result<Option<&'a UserInput>, VersionError> {
    for entry in entries {
        if applies_to(entry, service)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn applies_to(entry: &UserInput, service: ServiceVersion<'_>) -> Result<bool, VersionError> {
    let arch = entry.service_arch.as_str();
    let is_for_arch = arch == service.arch || matches!(arch, "" | "*") || service.arch.is_empty();
    if entry.service_orgid != service.org || entry.service_url != service.url || !is_for_arch {
        return Ok(false);
    }
    if service.version.is_empty() || entry.service_version_range.is_empty() {
        return Ok(true);
    }
    let range = VersionRange::parse(&entry.service_version_range)?;
    Ok(range.contains(&Version::parse(service.version)?))
}

/// A variable that a service declares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// A display name.
    pub label: String,
    /// `string`, `int`, `float`, `boolean` or `list of strings`; empty means `string`.
    #[serde(rename = "type")]
    pub declared: String,
    /// The default value; empty means that an input is required.
    #[serde(rename = "defaultValue")]
    pub default_value: String,
}

impl Variable {
    /// Returns whether the variable needs an input.
    pub fn is_required(&self) -> bool {
        !self.name.is_empty() && self.default_value.is_empty()
    }

    /// Returns whether a value is of the declared type.
    pub fn accepts(&self, value: &Value) -> bool {
        let declared = self.declared.as_str();
        match value {
            Value::Bool(_) => matches!(declared, "bool" | "boolean"),
            Value::String(_) => matches!(declared, "string" | ""),
            Value::Number(number) => {
                declared.contains("float")
                    || (declared == "int" && number.as_f64().is_some_and(|number| number.fract() == 0.0))
            }
            Value::Array(elements) => declared == "list of strings" && elements.iter().all(Value::is_string),
            Value::Null | Value::Object(_) => false,
        }
    }
}

/// The reason why a service's variables cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserInputProblem {
    /// There are no values for the service.
    #[error("no user input is given for service {service}, which needs {}", variables.join(", "))]
    NoEntry {
        /// The service.
        service: String,
        /// The variables without default.
        variables: Vec<String>,
    },
    /// A variable without default has no value.
    #[error("variable {variable} of service {service} has neither a value nor a default")]
    MissingValue {
        /// The service.
        service: String,
        /// The variable.
        variable: String,
    },
    /// A value is of another type than declared.
    #[error("variable {variable} of service {service} is declared as {declared} and cannot be {value}")]
    WrongType {
        /// The service.
        service: String,
        /// The variable.
        variable: String,
        /// The declared type.
        declared: String,
        /// The given value, as JSON.
        value: String,
    },
    /// The versions of an entry are invalid.
    #[error("a version range in the user input for service {service} cannot be read: {reason}")]
    Unreadable {
        /// The service.
        service: String,
        /// The error.
        reason: VersionError,
    },
}

/// Checks that each variable of one service has a value of its type or a default: the consumer's entry overlaid with the
/// node's.
///
/// # Shape
/// A service all of whose variables have defaults is not checked, as in the reference. Call it for the top-level service and
/// each of its dependencies, on devices only.
/// # Errors
/// [`UserInputProblem`] for the first variable that cannot be set.
/// # Source
/// Agreement-protocol 4.5.
pub fn check_variables(
    service: ServiceVersion<'_>,
    variables: &[Variable],
    consumer: &[UserInput],
    node: &[UserInput],
) -> Result<(), UserInputProblem> {
    if !variables.iter().any(Variable::is_required) {
        return Ok(());
    }
    let name = || service.to_string();
    let unreadable = |reason| UserInputProblem::Unreadable { service: name(), reason };
    let entries =
        (find_entry(consumer, service).map_err(unreadable)?, find_entry(node, service).map_err(unreadable)?);
    let merged = match entries {
        (Some(consumer), Some(node)) => consumer.overlay(node),
        (Some(only), None) | (None, Some(only)) => only.clone(),
        (None, None) => {
            let required = variables.iter().filter(|variable| variable.is_required());
            let variables = required.map(|variable| variable.name.clone()).collect();
            return Err(UserInputProblem::NoEntry { service: name(), variables });
        }
    };
    for variable in variables {
        let given = merged.inputs().iter().find(|input| input.name == variable.name);
        match given {
            Some(input) if !variable.accepts(&input.value) => {
                return Err(UserInputProblem::WrongType {
                    service: name(),
                    variable: variable.name.clone(),
                    declared: variable.declared.clone(),
                    value: input.value.to_string(),
                });
            }
            None if variable.default_value.is_empty() => {
                return Err(UserInputProblem::MissingValue {
                    service: name(),
                    variable: variable.name.clone(),
                });
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Returns the environment variables of one service: the declared defaults, overridden by the merged input.
///
/// # Shape
/// Sorted by name. Values of unsupported types are left out.
/// # Errors
/// [`VersionError`] as in [`find_entry`].
/// # Source
/// Agreement-protocol 4.5 (at start of a container).
pub fn environment(
    service: ServiceVersion<'_>,
    variables: &[Variable],
    consumer: &[UserInput],
    node: &[UserInput],
) -> Result<BTreeMap<String, String>, VersionError> {
    let defaults = variables.iter().filter(|variable| !variable.default_value.is_empty());
    let mut environment: BTreeMap<String, String> =
        defaults.map(|variable| (variable.name.clone(), variable.default_value.clone())).collect();
    for entries in [consumer, node] {
        let inputs = find_entry(entries, service)?.map(UserInput::inputs).unwrap_or_default();
        let texts =
            inputs.iter().filter_map(|input| Some((input.name.clone(), environment_text(&input.value)?)));
        environment.extend(texts);
    }
    Ok(environment)
}

/// Returns a value as text for the environment: integers without decimals, other numbers with six, lists joined by blanks.
///
/// # Shape
/// `None` for null and objects.
pub fn environment_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_f64().map(|number| {
            if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.6}") }
        }),
        Value::Array(elements) => {
            Some(elements.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// Numbers are compared by value, regardless of their spelling.
fn is_same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(one, two)| is_same_value(one, two))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has_same =
                |(name, one): (&String, &Value)| right.get(name).is_some_and(|two| is_same_value(one, two));
            left.len() == right.len() && left.iter().all(has_same)
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests;
