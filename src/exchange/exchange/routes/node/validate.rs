//! Validation of nodes.
//!
//! Source: exchange-api 4.4.

use evenkeel_access::{Caller, LoginKind, Role, is_reserved_name};
use evenkeel_exchange_store::node::JsonText;
use evenkeel_exchange_store::node_limit::has_usable_pattern;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::map_order::reorder_members;
use evenkeel_wire::exchange::node::{RegisteredService, ServiceProperty};
use evenkeel_wire::exchange::node_size::FieldTooLong;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::ApiError;
use crate::routes::reference::ExchangeRange;

pub(super) fn check_id(id: &str) -> Result<(), ApiError> {
    if is_reserved_name(LoginKind::Node, id) {
        return Err(ApiError::invalid_input(format!("node id '{id}' is reserved: choose another one")));
    }
    Ok(())
}

pub(super) fn check_token(token: Option<&str>) -> Result<(), ApiError> {
    if token == Some("") {
        return Err(ApiError::invalid_input("the token can not be set to the empty string"));
    }
    Ok(())
}

pub(super) fn check_node_type(node_type: &str) -> Result<(), ApiError> {
    if node_type != "device" && node_type != "cluster" {
        return Err(ApiError::invalid_input(format!("nodeType '{node_type}' is neither device nor cluster")));
    }
    Ok(())
}

/// Refuses a record with a field that exceeds its limit, naming field and limit.
pub(super) fn require_lengths(checked: Result<(), FieldTooLong>) -> Result<(), ApiError> {
    checked.map_err(|error| ApiError::invalid_input(error.to_string()))
}

/// Checks the properties of registered services.
pub(super) fn check_services(services: &[RegisteredService]) -> Result<(), ApiError> {
    for property in services.iter().flat_map(|service| &service.properties) {
        if let Some(problem) = problem(property) {
            return Err(ApiError::invalid_input(format!(
                "property '{}' of a registered service: {problem}",
                property.name
            )));
        }
    }
    Ok(())
}

fn problem(property: &ServiceProperty) -> Option<&'static str> {
    let ServiceProperty { value, prop_type, op, .. } = property;
    if !matches!(op.as_str(), "in" | "=" | ">=" | "<=") {
        return Some("op must be one of in, =, >=, <=");
    }
    let is_any = value == "*";
    match prop_type.as_str() {
        "string" | "list" if op != "in" => Some("op of a string or list must be in"),
        "string" | "list" | "wildcard" => None,
        "boolean" if op != "=" => Some("op of a boolean must be ="),
        "boolean"
            if !is_any && !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") =>
        {
            Some("value must be true or false")
        }
        "int" if op == "in" => Some("op of an int must be =, >= or <="),
        "int" if !is_any && value.parse::<i32>().is_err() => Some("value must be an integer"),
        "version" if op != "=" && op != "in" => Some("op of a version must be = or in"),
        "version" if !is_any && ExchangeRange::parse(value).is_none() => {
            Some("value must be a version or a range of versions")
        }
        "boolean" | "int" | "version" => None,
        _ => Some("propType must be one of string, list, version, boolean, int, wildcard"),
    }
}

/// Splits `org/pattern`; empty is not a pattern.
pub(super) fn parse_pattern(text: &str) -> Result<Option<(&str, &str)>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.split_once('/').map(Some).ok_or_else(|| {
        ApiError::invalid_input(format!("pattern '{text}' must be given with its organization: org/pattern"))
    })
}

/// Checks that the pattern exists and is of the node's organization or public; root may use any.
pub(super) async fn check_pattern(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    pattern: Option<(&str, &str)>,
) -> Result<(), ApiError> {
    let Some((pattern_org, pattern)) = pattern else { return Ok(()) };
    let reader = if caller.role == Role::Root { pattern_org } else { org };
    if !has_usable_pattern(conn, reader, pattern_org, pattern).await? {
        return Err(ApiError::invalid_input(format!("pattern '{pattern_org}/{pattern}' does not exist")));
    }
    Ok(())
}

/// A value as the text that is stored.
pub(in crate::routes) fn json<T: Serialize + ?Sized>(value: &T) -> Result<JsonText, ApiError> {
    serde_json::value::to_raw_value(value).map_err(|error| ApiError::internal(format!("JSON: {error}")))
}

/// Versions of software as the text that is stored.
pub(super) fn versions_json(versions: Option<Map<String, Value>>) -> Result<JsonText, ApiError> {
    json(&reorder_members(versions.unwrap_or_default()))
}
