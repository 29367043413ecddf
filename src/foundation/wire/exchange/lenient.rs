//! Scalars as lenient as the reference reads them: `5` and `true` are texts too, `"5"` is a number too.
//!
//! Use with `#[serde(deserialize_with = "lenient::…")]`. Source: exchange-api 1.4.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};
use serde_json::Value;

fn text_of(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => Err(other),
    }
}

fn wrong<E: Error>(value: &Value, expected: &str) -> E {
    let found = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(flag) => Unexpected::Bool(*flag),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    E::invalid_type(found, &expected)
}

/// A member that is there, `null` included; with a default it is nothing when it is not.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

/// A required text; `null` is refused.
pub fn text<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    text_of(Value::deserialize(input)?).map_err(|value| wrong(&value, "a text"))
}

/// A text or nothing; `null` is nothing.
pub fn optional_text<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(None),
        value => text_of(value).map(Some).map_err(|value| wrong(&value, "a text")),
    }
}

/// A text; `null` is the empty one.
pub fn text_or_empty<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    Ok(optional_text(input)?.unwrap_or_default())
}

/// A list of texts; `null` is an empty list.
pub fn texts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    Ok(optional_texts(input)?.unwrap_or_default())
}

/// A list of texts or nothing; `null` is nothing.
pub fn optional_texts<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(None),
        Value::Array(items) => items
            .into_iter()
            .map(|item| text_of(item).map_err(|value| wrong(&value, "a text")))
            .collect::<Result<_, _>>()
            .map(Some),
        value => Err(wrong(&value, "a list of texts")),
    }
}

/// A 64-bit integer; `null` is 0.
pub fn long<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    Ok(optional_long(input)?.unwrap_or_default())
}

/// A 64-bit integer or nothing.
pub fn optional_long<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    let value = Value::deserialize(input)?;
    match &value {
        Value::Null => Ok(None),
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().filter(|float| float.abs() < 9e15).map(|float| float.trunc() as i64))
            .map(Some)
            .ok_or_else(|| wrong(&value, "an integer")),
        Value::String(digits) => digits.trim().parse().map(Some).map_err(|_| wrong(&value, "an integer")),
        _ => Err(wrong(&value, "an integer")),
    }
}

/// A 32-bit integer; `null` is 0.
pub fn int<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    Ok(optional_int(input)?.unwrap_or_default())
}

/// A 32-bit integer or nothing.
pub fn optional_int<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    let number = optional_long(input)?;
    match number {
        Some(number) if i32::try_from(number).is_err() => {
            Err(D::Error::custom("a number of 32 bits is expected"))
        }
        _ => Ok(number),
    }
}

/// A truth value; `null` is false.
pub fn flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(optional_flag(input)?.unwrap_or_default())
}

/// A truth value or nothing; the texts `true` and `false` are understood too.
pub fn optional_flag<'de, D: Deserializer<'de>>(input: D) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(input)?;
    match &value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::Number(number) => Ok(Some(number.as_f64() != Some(0.0))),
        Value::String(text) => match text.trim() {
            "true" | "True" | "TRUE" => Ok(Some(true)),
            "false" | "False" | "FALSE" | "" => Ok(Some(false)),
            _ => Err(wrong(&value, "true or false")),
        },
        _ => Err(wrong(&value, "true or false")),
    }
}

/// A JSON `true` or `false`, or nothing: the reference refuses everything else where a truth value may be left out.
pub fn optional_json_flag<'de, D: Deserializer<'de>>(input: D) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(input)?;
    match &value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        _ => Err(wrong(&value, "true or false")),
    }
}

/// A JSON `true` or `false`; `null` is false.
pub fn json_flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(optional_json_flag(input)?.unwrap_or_default())
}

/// A list; `null` is an empty list.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(input)?.unwrap_or_default())
}

/// An object with texts as values; `null` is nothing.
pub fn optional_text_map<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<serde_json::Map<String, Value>>, D::Error> {
    let Some(members) = Option::<serde_json::Map<String, Value>>::deserialize(input)? else {
        return Ok(None);
    };
    members
        .into_iter()
        .map(|(name, value)| match text_of(value) {
            Ok(text) => Ok((name, Value::String(text))),
            Err(value) => Err(wrong(&value, "a text")),
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

/// An object or nothing. A list, whose elements would be read as the members in order, is refused.
pub fn optional_object<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    input: D,
) -> Result<Option<T>, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(None),
        value @ Value::Object(_) => serde_json::from_value(value).map(Some).map_err(D::Error::custom),
        other => Err(wrong(&other, "an object")),
    }
}

/// A required object; a list is refused.
pub fn object<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(input: D) -> Result<T, D::Error> {
    optional_object(input)?.ok_or_else(|| D::Error::custom("an object is expected"))
}

/// A list of objects; `null` is an empty list, lists in place of objects are refused.
pub fn objects<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    input: D,
) -> Result<Vec<T>, D::Error> {
    Ok(optional_objects(input)?.unwrap_or_default())
}

/// A list of objects or nothing; lists in place of objects are refused.
pub fn optional_objects<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    input: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let Some(items) = Option::<Vec<Value>>::deserialize(input)? else { return Ok(None) };
    items
        .into_iter()
        .map(|item| {
            if item.is_object() {
                serde_json::from_value(item).map_err(D::Error::custom)
            } else {
                Err(wrong(&item, "an object"))
            }
        })
        .collect::<Result<_, _>>()
        .map(Some)
}
