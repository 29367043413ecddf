//! Evaluation of a constraint: whether a list of properties satisfies it.
//!
//! Source: agreement-protocol 3.4 (table of evaluation).

use serde_json::Value;

use super::quote::{bare, bare_element};
use super::tree::{Expression, Operator, Predicate};
use crate::policy::property::{Property, PropertyList, PropertyType};
use crate::version::is_version;

impl Expression {
    /// Returns whether the properties satisfy the expression.
    ///
    /// If the reference crashes on a property's value (see [`Predicate::compare`]) before it has a result, the result
    /// is `false`, even if a later alternative would be satisfied.
    pub fn is_satisfied_by(&self, properties: &PropertyList) -> bool {
        self.evaluate(properties).unwrap_or(false)
    }

    /// Evaluates from left to right and stops as soon as the result is known, or with `None` at a crash of the reference.
    fn evaluate(&self, properties: &PropertyList) -> Option<bool> {
        let (parts, decisive) = match self {
            Self::All(parts) => (parts, false),
            Self::Any(parts) => (parts, true),
            Self::Predicate(predicate) => return predicate.evaluate(properties),
        };
        for part in parts {
            if part.evaluate(properties)? == decisive {
                return Some(decisive);
            }
        }
        Some(!decisive)
    }

    /// Returns the failing predicates: empty exactly when the properties satisfy the expression.
    ///
    /// Of alternatives that all fail, the failing predicates of each are included.
    pub fn failing_predicates(&self, properties: &PropertyList) -> Vec<&Predicate> {
        let mut failing = Vec::new();
        self.collect_failing(properties, &mut failing);
        failing
    }

    /// Evaluates as [`Expression::evaluate`] and appends the failing predicates, evaluating each at most once.
    fn collect_failing<'a>(
        &'a self,
        properties: &PropertyList,
        failing: &mut Vec<&'a Predicate>,
    ) -> Option<bool> {
        let (parts, decisive) = match self {
            Self::All(parts) => (parts, false),
            Self::Any(parts) => (parts, true),
            Self::Predicate(predicate) => {
                let result = predicate.evaluate(properties);
                if result != Some(true) {
                    failing.push(predicate);
                }
                return result;
            }
        };
        let before = failing.len();
        let mut result = Some(!decisive);
        for part in parts {
            let of_part = part.collect_failing(properties, failing);
            if result == Some(!decisive) {
                result = of_part;
            }
            if result == Some(true) && decisive {
                failing.truncate(before);
                break;
            }
        }
        result
    }
}

/// The result of comparing a predicate with one property.
enum Comparison {
    /// Definite result: true if the property satisfies the predicate.
    Decided(bool),
    /// The operator does not compare values of that kind (null, lists, objects; truth values with `in`), so that the property
    /// counts as absent.
    Skipped,
    /// The value holds a single quotation mark, over which the reference crashes; nothing is satisfied by it.
    Refused,
}

impl Predicate {
    /// Returns whether the properties satisfy the predicate: the first property of that name decides, unless the operator cannot
    /// compare its value at all; then the next of that name decides. Without one the result is `false`, for every operator.
    pub fn is_satisfied_by(&self, properties: &PropertyList) -> bool {
        self.evaluate(properties).unwrap_or(false)
    }

    fn evaluate(&self, properties: &PropertyList) -> Option<bool> {
        let named = properties.iter().filter(|property| property.name == self.property());
        for comparison in named.map(|property| self.compare_in_detail(property)) {
            match comparison {
                Comparison::Decided(result) => return Some(result),
                Comparison::Refused => return None,
                Comparison::Skipped => {}
            }
        }
        Some(false)
    }

    /// Compares with one property, regardless of its name.
    ///
    /// # Shape
    /// `None` when the operator does not compare values of that kind, so that the property counts as absent: null, lists,
    /// objects, and truth values with `in`. A text with a single quotation mark, over which the reference crashes, satisfies
    /// nothing.
    pub fn compare(&self, property: &Property) -> Option<bool> {
        match self.compare_in_detail(property) {
            Comparison::Decided(result) => Some(result),
            Comparison::Refused => Some(false),
            Comparison::Skipped => None,
        }
    }

    fn compare_in_detail(&self, property: &Property) -> Comparison {
        match &property.value {
            Value::Number(number) => {
                Comparison::Decided(number.as_f64().is_some_and(|number| self.compare_number(number)))
            }
            Value::Bool(value) => self.compare_bool(*value),
            Value::String(text) => {
                self.compare_text(text, &property.declared).map_or(Comparison::Refused, Comparison::Decided)
            }
            Value::Null | Value::Array(_) | Value::Object(_) => Comparison::Skipped,
        }
    }

    // Compared numbers are exact, not results of calculations.
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

    fn compare_bool(&self, value: bool) -> Comparison {
        let Some(operand) = self.operand().boolean() else {
            return Comparison::Decided(false);
        };
        match self.operator() {
            Operator::Equal => Comparison::Decided(value == operand),
            Operator::NotEqual => Comparison::Decided(value != operand),
            Operator::In => Comparison::Skipped,
            _ => Comparison::Decided(false),
        }
    }

    /// `None` where the reference crashes: on a single quotation mark.
    fn compare_text(&self, raw: &str, declared: &PropertyType) -> Option<bool> {
        let is_list = *declared == PropertyType::ListOfStrings;
        let operand = self.operand();
        let value = bare(raw)?;
        match self.operator() {
            Operator::Equal => Some(list_holds(value, operand.text())? || value == operand.text()),
            Operator::NotEqual if is_list => Some(!list_holds(value, operand.text())?),
            Operator::NotEqual => Some(value != operand.text()),
            Operator::In if self.means_a_range_for(value, declared) => Some(operand.holds_version(value)),
            Operator::In if is_list => is_one_in(value.split(','), operand.elements()),
            Operator::In => is_one_in(std::iter::once(value), operand.elements()),
            _ => Some(false),
        }
    }

    fn means_a_range_for(&self, value: &str, declared: &PropertyType) -> bool {
        *declared == PropertyType::Version || (is_version(value) && self.operand().is_range_expression())
    }
}

/// Returns whether a text split at its commas holds a value.
fn list_holds(list: &str, value: &str) -> Option<bool> {
    let value = bare_element(value)?;
    for element in list.split(',') {
        if bare_element(element)? == value {
            return Some(true);
        }
    }
    Some(false)
}

/// Returns whether one of the values is among the elements.
///
/// # Shape
/// `elements`: sorted, because both lists may be as long as a constraint and a body.
fn is_one_in<'a>(values: impl Iterator<Item = &'a str>, elements: &[String]) -> Option<bool> {
    for value in values {
        let value = bare_element(bare_element(value)?)?;
        if elements.binary_search_by(|element| element.as_str().cmp(value)).is_ok() {
            return Some(true);
        }
    }
    Some(false)
}
