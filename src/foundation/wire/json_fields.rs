//! Reads a JSON object the way the protocol's existing programs do (agreement protocol 2.1).
//!
//! Field names match in any letter case, a later occurrence overrides an earlier one, `null` leaves a field at its
//! default, an escape of half a surrogate pair becomes the replacement character, unknown fields are ignored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Error of reading an object or one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The text is not a JSON object.
    #[error("the text is not a JSON object: {0}")]
    Syntax(String),
    /// A known field holds a value of the wrong kind.
    #[error("field {field} has a value of the wrong type")]
    Kind {
        /// Name of the field as the protocol spells it.
        field: &'static str,
    },
}

/// All members of one object in the order of the text, duplicates kept.
#[derive(Debug, Default)]
pub struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_unit<E>(self) -> Result<Fields, E> {
                Ok(Fields::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Value>()? {
                    members.push(member);
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_any(Members)
    }
}

impl Fields {
    /// Reads the members of an object; `null` counts as an object without members.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        serde_json::from_str(&replace_lone_surrogates(text))
            .map_err(|error| FieldError::Syntax(error.to_string()))
    }

    /// A text field, empty when absent.
    pub fn text(&self, field: &'static str) -> Result<String, FieldError> {
        self.last(field, |value| value.as_str().map(str::to_owned)).map(Option::unwrap_or_default)
    }

    /// A boolean field, false when absent.
    pub fn flag(&self, field: &'static str) -> Result<bool, FieldError> {
        self.last(field, Value::as_bool).map(Option::unwrap_or_default)
    }

    /// A signed integer written without fraction or exponent, 0 when absent.
    pub fn integer(&self, field: &'static str) -> Result<i64, FieldError> {
        self.last(field, Value::as_i64).map(Option::unwrap_or_default)
    }

    /// An unsigned integer written without fraction or exponent, 0 when absent.
    pub fn unsigned(&self, field: &'static str) -> Result<u64, FieldError> {
        self.last(field, Value::as_u64).map(Option::unwrap_or_default)
    }

    /// A field of any kind, `None` when absent or null.
    pub fn any(&self, field: &'static str) -> Option<Value> {
        self.matching(field).last().filter(|value| !value.is_null()).cloned()
    }

    fn matching(&self, field: &'static str) -> impl Iterator<Item = &Value> {
        let folded = fold(field);
        self.0.iter().filter(move |(name, _)| fold(name) == folded).map(|(_, value)| value)
    }

    fn last<T>(
        &self,
        field: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let mut found = None;
        for value in self.matching(field).filter(|value| !value.is_null()) {
            found = Some(read(value).ok_or(FieldError::Kind { field })?);
        }
        Ok(found)
    }
}

/// Folds letter case; the long s and the kelvin sign are the only other letters whose case folds to ASCII.
fn fold(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Replaces `\uD800`–`\uDFFF` escapes without a partner by `\ufffd`, which strict readers would refuse.
fn replace_lone_surrogates(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text.into();
    }
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        output.push_str(&rest[..at]);
        rest = &rest[at..];
        match code_unit(rest) {
            Some(high @ 0xd800..=0xdbff) if matches!(code_unit(&rest[6..]), Some(0xdc00..=0xdfff)) => {
                debug_assert!(high < 0xdc00);
                output.push_str(&rest[..12]);
                rest = &rest[12..];
            }
            Some(0xd800..=0xdfff) => {
                output.push_str("\\ufffd");
                rest = &rest[6..];
            }
            _ => {
                // An escape is at least two characters; the second may be a backslash that starts nothing.
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                output.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    output.push_str(rest);
    output.into()
}

/// The value of a `\uXXXX` escape at the start of the text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_occurrence_wins_whatever_its_letter_case() {
        let fields = Fields::parse(r#"{"a":"1","A":"2","a":"3"}"#).unwrap();
        assert_eq!(fields.text("a").unwrap(), "3");
    }

    #[test]
    fn null_keeps_what_was_there() {
        let fields = Fields::parse(r#"{"a":"1","a":null}"#).unwrap();
        assert_eq!(fields.text("a").unwrap(), "1");
    }

    #[test]
    fn halves_of_surrogate_pairs_become_the_replacement_character() {
        let fields =
            Fields::parse(r#"{"a":"\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\ude00x"}"#).unwrap();
        assert_eq!(fields.text("a").unwrap(), "\u{fffd}");
        assert_eq!(fields.text("b").unwrap(), "\u{1f600}");
        assert_eq!(fields.text("c").unwrap(), "\\ud83d");
        assert_eq!(fields.text("d").unwrap(), "\u{fffd}x");
    }

    #[test]
    fn backslash_at_the_end_is_an_error_and_no_panic() {
        assert!(Fields::parse("{\"\\ud\\").is_err());
    }
}
