//! Values of expressions and how they are compared and converted.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::policy::{Property, PropertyType};

/// A value of an expression.
///
/// # Shape
/// A number is finite; integers are exact up to 2⁵³. The items of a list are not lists.
///
/// # Source
/// Orchestration A5.2.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A number.
    Number(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// True or false.
    Boolean(bool),
    /// A list.
    List(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// Creates a text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Returns the value of a property: its own type, with a list of strings as a list; none when an expression has no such type.
    pub fn of_property(property: &'a Property) -> Option<Self> {
        match (&property.value, &property.declared) {
            (serde_json::Value::String(text), PropertyType::ListOfStrings) => {
                Some(Self::List(text.split(',').map(|item| Self::text(item.trim())).collect()))
            }
            (serde_json::Value::Array(items), _) => {
                items.iter().map(Self::of_json).collect::<Option<_>>().map(Self::List)
            }
            (value, _) => Self::of_json(value),
        }
    }

    /// Returns a number, a text or a boolean of JSON.
    fn of_json(value: &'a serde_json::Value) -> Option<Self> {
        match value {
            serde_json::Value::Bool(value) => Some(Self::Boolean(*value)),
            serde_json::Value::Number(number) => {
                number.as_f64().filter(|number| number.is_finite()).map(Self::Number)
            }
            serde_json::Value::String(text) => Some(Self::text(text.as_str())),
            serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        }
    }

    /// Returns the same value without owning its text.
    pub(super) fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Boolean(value) => Value::Boolean(*value),
            Self::List(items) => Value::List(items.iter().map(Value::borrowed).collect()),
        }
    }

    /// Returns whether the value counts as true: all but false, 0, the empty text and the empty list.
    pub(super) fn is_truth(&self) -> bool {
        match self {
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Boolean(value) => *value,
            Self::List(items) => !items.is_empty(),
        }
    }

    /// Returns whether two values are equal; of different types as numbers if both are some, else as texts.
    pub(super) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Number(left), Value::Number(right)) => left == right,
            (Self::Text(left), Value::Text(right)) => left == right,
            (Self::Boolean(left), Value::Boolean(right)) => left == right,
            (Self::List(left), Value::List(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.equals(right))
            }
            _ => match (self.as_number(), other.as_number()) {
                (Some(left), Some(right)) => left == right,
                _ => self.as_text() == other.as_text(),
            },
        }
    }

    /// Returns whether the value equals an item, or an item of a list among the items.
    pub(super) fn is_among(&self, items: &[Value<'_>]) -> bool {
        items.iter().any(|item| match item {
            Value::List(items) => items.iter().any(|item| self.equals(item)),
            item => self.equals(item),
        })
    }

    /// Returns the order of two numbers or two texts; none when the values have none.
    pub(super) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(left), Value::Number(right)) => left.partial_cmp(right),
            (Self::Text(left), Value::Text(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => number_of_text(text),
            Self::Boolean(_) | Self::List(_) => None,
        }
    }

    /// Returns the value as it stands in a text: a list with commas between its items.
    pub(super) fn as_text(&self) -> Cow<'_, str> {
        match self {
            // Adding zero turns minus zero into zero.
            Self::Number(number) => Cow::Owned((number + 0.0).to_string()),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Boolean(true) => Cow::Borrowed("true"),
            Self::Boolean(false) => Cow::Borrowed("false"),
            Self::List(items) => {
                let items: Vec<Cow<'_, str>> = items.iter().map(Value::as_text).collect();
                Cow::Owned(items.join(","))
            }
        }
    }

    /// Returns the name of the type, with its article.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "a list",
        }
    }
}

/// Returns the number that a whole text stands for; `inf` and `nan` are none.
fn number_of_text(text: &str) -> Option<f64> {
    let begins =
        text.starts_with(|letter: char| letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.'));
    begins.then(|| text.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}
