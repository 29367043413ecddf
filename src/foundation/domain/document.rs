//! Reads JSON documents into types that derive `Deserialize`, with errors that name the member and the rule that it breaks.
//!
//! A member that is `null` counts as left out. Source: orchestration 0.3, 0.6.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use crate::object::{MembersError, hint, one_of};

/// Separates path and rule in the text of an error, which is all that serde passes on. No path has it.
const END_OF_PATH: char = '\0';

/// Reads a document; `path` leads to it and is empty for a whole body.
///
/// # Errors
/// A member that is not known or breaks a rule, with its path.
pub fn read<T: DeserializeOwned>(path: &str, document: Value) -> Result<T, MembersError> {
    serde_path_to_error::deserialize(Document(document)).map_err(|error| {
        // The path of the document itself is written as a period.
        let within = Some(error.path().to_string()).filter(|path| path != ".").unwrap_or_default();
        let error = error.into_inner().0.under(&within).under(path);
        if error.path.is_empty() { error.under("the body") } else { error }
    })
}

/// Changes a document by a merge patch: members that are left out stay, `null` removes a member.
///
/// # Source
/// RFC 7396.
pub fn merge(document: &mut Value, patch: Value) {
    let Value::Object(changes) = patch else {
        *document = patch;
        return;
    };
    if !document.is_object() {
        *document = Value::Object(serde_json::Map::new());
    }
    let Some(members) = document.as_object_mut() else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// Reads an integer from `MIN` to `MAX`; for `deserialize_with`.
///
/// # Errors
/// Another value breaks the rule.
pub fn integer<'de, D, T, const MIN: i64, const MAX: i64>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let value = Value::deserialize(input)?;
    if value.is_null() {
        return Ok(None);
    }
    let number = value.as_i64().filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.map(Some).ok_or_else(|| Error::custom(format!("must be an integer from {MIN} to {MAX}")))
}

/// Passes on an error of something inside the value that is read; for `deserialize_with`.
pub(crate) fn error_inside<E: Error>(error: MembersError) -> E {
    E::custom(format!("{}{END_OF_PATH}{}", error.path, error.rule))
}

/// A document, or a value in it.
struct Document(Value);

/// An error of reading: the path within the value that is read, and the rule.
#[derive(Debug)]
struct ReadError(MembersError);

impl ReadError {
    fn at(path: &str, rule: String) -> Self {
        Self(MembersError { path: path.to_owned(), rule })
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl std::error::Error for ReadError {}

impl Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        let (path, rule) = message.split_once(END_OF_PATH).unwrap_or(("", &message));
        Self::at(path, rule.to_owned())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let kind = match expected.as_str() {
            "a boolean" => "true or false",
            "a string" => "a text",
            "a map" => "an object",
            "a sequence" => "a list",
            other => other,
        };
        Self::at("", format!("must be {kind}"))
    }
}

impl<'de> Deserializer<'de> for Document {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Document))),
            Value::Object(members) => visitor.visit_map(MapDeserializer::new(
                members.into_iter().map(|(name, value)| (name, Document(value))),
            )),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let Value::Object(members) = self.0 else {
            return Err(ReadError::at("", "must be an object".to_owned()));
        };
        if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
            let path: String = unknown.chars().take(64).collect();
            let hint = hint(known.iter().copied(), unknown);
            return Err(ReadError::at(&path, format!("is not known{hint}")));
        }
        let given = members.into_iter().filter(|(_, value)| !value.is_null());
        visitor.visit_map(MapDeserializer::new(given.map(|(name, value)| (name, Document(value)))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(word) if variants.contains(&word.as_str()) => {
                let word: StringDeserializer<ReadError> = word.into_deserializer();
                visitor.visit_enum(word)
            }
            _ => Err(ReadError::at("", format!("must be {}", one_of(variants)))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, ReadError> for Document {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Outer {
        is_set: Option<bool>,
        name: String,
        #[serde(deserialize_with = "integer::<_, _, 1, 9>")]
        count: Option<u32>,
        kind: Kind,
        inner: Option<Box<Outer>>,
    }

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        One,
        Two,
    }

    #[test]
    fn errors_name_the_member_and_the_rule() {
        for (document, expected) in [
            (json!([]), "the body must be an object"),
            (json!({"isSet": 1}), "isSet must be true or false"),
            (json!({"name": ["a"]}), "name must be a text"),
            (json!({"inner": {"count": 1.5}}), "inner.count must be an integer from 1 to 9"),
            (json!({"inner": {"count": 10}}), "inner.count must be an integer from 1 to 9"),
            (json!({"inner": {"kind": 3}}), "inner.kind must be one or two"),
            (json!({"inner": 3}), "inner must be an object"),
            (json!({"inner": {"isSte": null}}), "inner.isSte is not known; isSet was probably meant"),
        ] {
            let error = read::<Outer>("", document.clone()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{document}");
        }
        let error = read::<Outer>("at", json!({"isSet": 1})).unwrap_err();
        assert_eq!((error.path.as_str(), error.rule.as_str()), ("at.isSet", "must be true or false"));
    }

    #[test]
    fn member_that_is_null_counts_as_left_out() {
        let read = read::<Outer>("", json!({"name": null, "kind": "two", "inner": null})).unwrap();
        assert_eq!(read, Outer { kind: Kind::Two, ..Outer::default() });
    }

    #[test]
    fn merge_removes_what_is_null_and_keeps_what_is_left_out() {
        let mut document = json!({"a": {"b": 1, "c": 2}, "d": 3});
        merge(&mut document, json!({"a": {"b": null, "e": {"f": null}}, "d": [null]}));
        assert_eq!(document, json!({"a": {"c": 2, "e": {}}, "d": [null]}));
    }
}
