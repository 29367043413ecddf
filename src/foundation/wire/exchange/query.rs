//! Values of query parameters, parsed as leniently as by the reference.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A truth value or nothing: `true`, `yes`, `on`, `1` and their opposites in any case; empty is nothing.
pub fn optional_flag<'de, D: Deserializer<'de>>(input: D) -> Result<Option<bool>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else { return Ok(None) };
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "true" | "yes" | "on" | "1" => Ok(Some(true)),
        "false" | "no" | "off" | "0" => Ok(Some(false)),
        _ => Err(D::Error::custom(format!("'{text}' is neither true nor false"))),
    }
}

/// A 64-bit integer or nothing; empty is nothing.
pub fn optional_long<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| D::Error::custom(format!("'{text}' is not a 64-bit integer")))
}

/// A 32-bit integer or nothing; empty is nothing.
pub fn optional_int<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i32>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else { return Ok(None) };
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| D::Error::custom(format!("'{text}' is not a 32-bit integer")))
}
