//! Shapes that several resources share: secret bindings, properties, node health, service versions.
//!
//! Source: exchange-api 4.0.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::lenient;
use super::map_order::{reorder, reorder_members};

/// Sources of the secrets of one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneSecretBinding {
    /// Organization of the service.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_orgid: Option<String>,
    /// Url of the service.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_url: Option<String>,
    /// Architecture.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_arch: Option<String>,
    /// Versions meant.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub service_version_range: Option<String>,
    /// Name of the service's secret → name in the vault.
    #[serde(default, deserialize_with = "text_maps")]
    #[schema(value_type = Vec<std::collections::BTreeMap<String, String>>)]
    pub secrets: Vec<Value>,
    /// True if the node may have secrets of its own; any value but a boolean is false.
    #[serde(default, deserialize_with = "flag_or_false")]
    pub enable_node_level_secrets: bool,
}

/// A property of a policy. Only the name of the type is checked, and not everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OneProperty {
    /// Name.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub name: Option<String>,
    /// One of [`PROPERTY_TYPES`], or nothing.
    #[serde(default, rename = "type", deserialize_with = "lenient::optional_text")]
    pub kind: Option<String>,
    /// Any JSON value.
    #[serde(default, deserialize_with = "free_value")]
    #[schema(value_type = Option<Value>)]
    pub value: Value,
}

/// Words for the type of a property.
///
/// # Source
/// Exchange-api 4.0.
pub const PROPERTY_TYPES: &[&str] = &["string", "int", "float", "boolean", "version", "list of strings"];

/// Filters of the catalogs of services and patterns.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct CatalogQuery {
    /// Organization of the published resource, a pattern with `%` and `_`.
    pub organization: Option<String>,
}

/// When a silent node counts as lost: as given, usually `missing_heartbeat_interval` and `check_agreement_status`.
///
/// # Units
/// Seconds.
#[must_use]
pub fn default_node_health() -> Map<String, Value> {
    Map::from_iter([
        ("missing_heartbeat_interval".to_owned(), Value::from(1800)),
        ("check_agreement_status".to_owned(), Value::from(1800)),
    ])
}

/// Any JSON value, its objects in the order of the contract.
pub fn free_value<'de, D: Deserializer<'de>>(input: D) -> Result<Value, D::Error> {
    Value::deserialize(input).map(reorder)
}

/// Any JSON object, its members in the order of the contract.
pub fn free_map<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Map<String, Value>>, D::Error> {
    let map = Option::<Map<String, Value>>::deserialize(input)?;
    Ok(map.map(|map| reorder_members(map.into_iter().map(|(name, value)| (name, reorder(value))).collect())))
}

/// An object of 32-bit integers; an object with any other value counts as nothing, as in the reference.
pub fn int_map<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Map<String, Value>>, D::Error> {
    let map = Option::<Map<String, Value>>::deserialize(input)?;
    let is_int = |value: &Value| value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
    Ok(map.filter(|map| map.values().all(is_int)).map(reorder_members))
}

/// An object of texts; scalars become texts.
pub fn text_map<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Map<String, Value>>, D::Error> {
    let map = Option::<Map<String, Value>>::deserialize(input)?;
    map.map(texts_of).transpose()
}

/// A list of objects of texts; scalars become texts, `null` is an empty list.
pub fn text_maps<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Value>, D::Error> {
    Ok(optional_text_maps(input)?.unwrap_or_default())
}

/// A list of objects of texts or nothing; scalars become texts.
pub fn optional_text_maps<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<Value>>, D::Error> {
    let maps = Option::<Vec<Map<String, Value>>>::deserialize(input)?;
    maps.map(|maps| maps.into_iter().map(|map| texts_of(map).map(Value::Object)).collect()).transpose()
}

fn texts_of<E: serde::de::Error>(map: Map<String, Value>) -> Result<Map<String, Value>, E> {
    reorder_members(map)
        .into_iter()
        .map(|(name, value)| match value {
            Value::Null | Value::String(_) => Ok((name, value)),
            Value::Bool(_) | Value::Number(_) => Ok((name, Value::String(value.to_string()))),
            Value::Array(_) | Value::Object(_) => {
                Err(E::custom(format!("the value of {name} must be a text")))
            }
        })
        .collect()
}

/// A truth value; anything else counts as nothing, as in the reference.
pub fn flag_or_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<bool>, D::Error> {
    Ok(Value::deserialize(input)?.as_bool())
}

/// A truth value; anything else counts as false, as in the reference.
pub fn flag_or_false<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(flag_or_none(input)?.unwrap_or_default())
}

/// Members with any value, whose content is written as given.
const FREE_MEMBERS: &[&str] = &["value", "dataVerification", "secrets"];
/// Members that are always written, also without a value.
const REQUIRED_MEMBERS: &[&str] = &["name", "value"];

/// Removes optional members without a value from the objects of a known shape, as the reference does in the text of an attribute.
#[must_use]
pub fn without_absent(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(name, value)| !value.is_null() || REQUIRED_MEMBERS.contains(&name.as_str()))
                .map(|(name, value)| {
                    let is_free = FREE_MEMBERS.contains(&name.as_str());
                    (name, if is_free { value } else { without_absent(value) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_absent).collect()),
        scalar => scalar,
    }
}

/// Adds members of a shape that were not stored, as `null`. A value of another shape is not changed.
#[must_use]
pub fn filled<T: for<'de> Deserialize<'de> + Serialize>(stored: Value) -> Value {
    match T::deserialize(&stored).map(|shape| serde_json::to_value(shape)) {
        Ok(Ok(value)) => value,
        _ => stored,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exchange::user_input::UserInputService;

    #[test]
    fn secret_binding_may_be_empty_and_keeps_texts() {
        let binding: OneSecretBinding =
            serde_json::from_value(json!({"secrets": [{"a": 5}], "enableNodeLevelSecrets": "x"}))
                .expect("valid");
        assert_eq!(binding.secrets, [json!({"a": "5"})]);
        assert!(!binding.enable_node_level_secrets);
    }

    #[test]
    fn absent_members_are_left_out_but_free_values_stay() {
        let value =
            json!([{"serviceArch": null, "inputs": [{"name": null, "value": [1, null, {"c": null}]}]}]);
        let expected = json!([{"inputs": [{"name": null, "value": [1, null, {"c": null}]}]}]);
        assert_eq!(without_absent(value), expected);
    }

    #[test]
    fn absent_members_are_filled_in() {
        let stored = json!([{"serviceOrgid": "o", "serviceUrl": "u", "inputs": []}]);
        let expected = json!([{
            "serviceOrgid": "o", "serviceUrl": "u", "serviceArch": null, "serviceVersionRange": null, "inputs": []
        }]);
        assert_eq!(filled::<Vec<UserInputService>>(stored), expected);
        assert_eq!(filled::<Vec<UserInputService>>(json!("odd")), json!("odd"));
    }
}
