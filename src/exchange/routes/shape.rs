//! Answers that many routes share.

use axum::Json;
use axum::response::{IntoResponse, Response};
use evenkeel_wire::exchange::utility::AttributeAnswer;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

/// 200 with JSON.
pub fn found<T: Serialize>(body: T) -> Response {
    Json(body).into_response()
}

/// 200 with JSON when there is something, 404 with the same shape when there is nothing.
pub fn found_or_empty<T: Serialize>(is_empty: bool, body: T) -> Response {
    let status = if is_empty { StatusCode::NOT_FOUND } else { StatusCode::OK };
    (status, Json(body)).into_response()
}

/// 204.
pub fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// 200 with one attribute: texts as they are, structured values as JSON text, nothing as the empty text.
pub fn attribute(name: &str, value: &Value) -> Response {
    let value = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    found(AttributeAnswer { attribute: name.to_owned(), value })
}
