//! Responses that many routes share.

use axum::Json;
use evenkeel_api::{Either, List};
use evenkeel_wire::exchange::shared::without_absent;
use evenkeel_wire::exchange::utility::AttributeResponse;
use serde::Serialize;
use serde_json::Value;

use crate::ApiError;

/// A resource by itself, which is an empty list when it is absent, or one attribute of it.
pub type OneOrAttribute<T> = Either<List<T>, Json<AttributeResponse>>;

/// 200 with one attribute: texts as they are, structured values as JSON text, nothing as the empty text.
pub fn attribute(name: &str, value: &Value) -> Json<AttributeResponse> {
    let value = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Json(AttributeResponse { attribute: name.to_owned(), value })
}

/// 200 with one member of a resource, named in any case, as the contract writes it: what was never given is the empty text, optional
/// members without a value are left out, except in the members named in `as_given`. `None` when the resource has no such member.
pub fn attribute_of<T: Serialize>(
    resource: &T,
    name: &str,
    as_given: &[&str],
) -> Option<Json<AttributeResponse>> {
    let members = serde_json::to_value(resource).ok()?;
    let (member, value) =
        members.as_object()?.iter().find(|(member, _)| member.eq_ignore_ascii_case(name))?;
    let value = match value {
        value if as_given.contains(&member.as_str()) => value.clone(),
        value => without_absent(value.clone()),
    };
    Some(attribute(name, &value))
}

/// Replaces missing lists by empty ones, as whole resources show them.
pub fn show_absent_lists<const N: usize>(lists: [&mut Value; N]) {
    for list in lists.into_iter().filter(|list| list.is_null()) {
        *list = Value::Array(Vec::new());
    }
}

/// Refuses one more of something when an account owns as many as it may; a limit of 0 is none.
///
/// # Errors
/// 403 naming the limit.
pub fn require_below_limit(what: &str, owned: i64, limit: i64) -> Result<(), ApiError> {
    if limit > 0 && owned >= limit {
        return Err(ApiError::access_denied(format!(
            "you own {owned} {what}, which is the limit of this exchange: {limit}"
        )));
    }
    Ok(())
}

/// Maximum length of names and other short texts, in bytes.
pub const MAX_TEXT: usize = 1_024;
/// Maximum length of keys, and of other values that are read with many others of their kind, in bytes.
pub const MAX_PART: usize = 16 * 1_024;

/// Refuses a text, or a value as JSON, that is too long: what one account stores is read by others in lists.
///
/// # Errors
/// 400 naming the field and the rule.
pub fn require_length(field: &str, length: usize, limit: usize) -> Result<(), ApiError> {
    if length > limit {
        return Err(ApiError::invalid_input(format!("{field}: it has {length} bytes, and may have {limit}")));
    }
    Ok(())
}

/// Refuses one more part of a resource that has as many as it may.
///
/// # Errors
/// 403 naming the limit.
pub fn require_parts_below(what: &str, count: i64, limit: i64) -> Result<(), ApiError> {
    if count >= limit {
        return Err(ApiError::access_denied(format!(
            "{what}: there are {count}, and no more than {limit} are allowed"
        )));
    }
    Ok(())
}

/// The pattern of LIKE for a filter: a text without `%` fits itself only. Filters of nodes are patterns as they are.
pub fn pattern_or_exact(text: String) -> String {
    if text.contains('%') { text } else { text.replace('\\', r"\\").replace('_', r"\_") }
}
