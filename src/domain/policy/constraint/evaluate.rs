//! What a constraint means: whether a list of properties satisfies it.
//!
//! Source: agreement protocol, "Constraint language" (table of evaluation).

use serde_json::Value;

use super::tree::{Expression, Operator, Predicate};
use crate::policy::property::{Property, PropertyList, PropertyType};
use crate::version::is_version;

impl Expression {
    /// Answers whether the properties satisfy the expression.
    pub fn is_satisfied_by(&self, properties: &PropertyList) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.is_satisfied_by(properties)),
            Self::Any(parts) => parts.iter().any(|part| part.is_satisfied_by(properties)),
            Self::Predicate(predicate) => predicate.is_satisfied_by(properties),
        }
    }

    /// Returns the predicates that stand in the way: empty exactly when the properties satisfy the expression.
    ///
    /// Of alternatives that all fail, the failing predicates of each are part of the answer.
    pub fn failing_predicates(&self, properties: &PropertyList) -> Vec<&Predicate> {
        if self.is_satisfied_by(properties) {
            return Vec::new();
        }
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().flat_map(|part| part.failing_predicates(properties)).collect()
            }
            Self::Predicate(predicate) => vec![predicate],
        }
    }
}

impl Predicate {
    /// Answers whether the properties satisfy the predicate: the first property of that name decides, unless its value cannot
    /// be compared by the operator at all; then the next of that name is asked. Without one the answer is no, for every
    /// operator.
    pub fn is_satisfied_by(&self, properties: &PropertyList) -> bool {
        let named = properties.iter().filter(|property| property.name == self.property());
        named.filter_map(|property| self.compare(property)).next().unwrap_or(false)
    }

    /// Compares with one property, whatever its name.
    ///
    /// # Shape
    /// `None` when the operator does not compare values of that kind and the property counts as absent: null, lists, objects,
    /// and truth values with `in`.
    pub fn compare(&self, property: &Property) -> Option<bool> {
        match &property.value {
            Value::Number(number) => Some(number.as_f64().is_some_and(|number| self.compare_number(number))),
            Value::Bool(value) => self.compare_bool(*value),
            Value::String(text) => Some(self.compare_text(text, &property.declared).unwrap_or(false)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    // Numbers are exact where they are compared, not results of calculations.
    #[expect(clippy::float_cmp, reason = "the language compares numbers exactly")]
    fn compare_number(&self, number: f64) -> bool {
        let Some(operand) = self.operand().number() else {
            return false;
        };
        match self.operator() {
            Operator::Less => number < operand,
            Operator::LessOrEqual => number <= operand,
            Operator::Greater => number > operand,
            Operator::GreaterOrEqual => number >= operand,
            Operator::NotEqual => number != operand,
            Operator::Equal | Operator::In | Operator::MisspelledOrder => number == operand,
        }
    }

    fn compare_bool(&self, value: bool) -> Option<bool> {
        let Some(operand) = self.operand().boolean() else {
            return Some(false);
        };
        match self.operator() {
            Operator::Equal => Some(value == operand),
            Operator::NotEqual => Some(value != operand),
            Operator::In => None,
            _ => Some(false),
        }
    }

    /// `None` where the reference crashes: on a quotation mark that stands alone.
    fn compare_text(&self, raw: &str, declared: &PropertyType) -> Option<bool> {
        let is_list = *declared == PropertyType::ListOfStrings;
        let operand = self.operand();
        match self.operator() {
            Operator::Equal => {
                let value = bare(raw)?;
                Some(list_holds(value, operand.text())? || value == operand.text())
            }
            Operator::NotEqual if is_list => Some(!list_holds(bare(raw)?, operand.text())?),
            Operator::NotEqual => Some(bare(raw)? != operand.text()),
            Operator::In => {
                let value = bare(raw)?;
                if *declared == PropertyType::Version || (is_version(value) && operand.is_range_expression())
                {
                    Some(operand.holds_version(value))
                } else if is_list {
                    is_one_in(value.split(','), operand.elements())
                } else {
                    is_one_in(std::iter::once(value), operand.elements())
                }
            }
            _ => Some(false),
        }
    }
}

/// Answers whether a text split at its commas holds a value.
fn list_holds(list: &str, value: &str) -> Option<bool> {
    let value = bare_element(value)?;
    for element in list.split(',') {
        if bare_element(element)? == value {
            return Some(true);
        }
    }
    Some(false)
}

/// Answers whether one of the values is among the elements.
fn is_one_in<'a>(values: impl Iterator<Item = &'a str>, elements: &[String]) -> Option<bool> {
    for value in values {
        let value = bare_element(bare_element(value)?)?;
        if elements.iter().any(|element| element == value) {
            return Some(true);
        }
    }
    Some(false)
}

/// Takes one pair of quotation marks away, then spaces; `None` for a single quotation mark, on which the reference crashes.
pub(super) fn bare(text: &str) -> Option<&str> {
    without_quotes(text).map(|text| text.trim_matches(' '))
}

/// Takes spaces away, then one pair of quotation marks; `None` as in [`bare`].
pub(super) fn bare_element(text: &str) -> Option<&str> {
    without_quotes(text.trim_matches(' '))
}

fn without_quotes(text: &str) -> Option<&str> {
    match text.strip_prefix('"') {
        Some("") => None,
        Some(rest) => Some(rest.strip_suffix('"').unwrap_or(text)),
        None => Some(text),
    }
}
