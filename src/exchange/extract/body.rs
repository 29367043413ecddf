//! JSON bodies, with the contract's answers to wrong ones.
//!
//! Source: exchange contract 1.1 and 1.4.

use std::convert::Infallible;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::ApiError;

/// A required JSON body that is an object.
///
/// Callers without the right get 403 whatever they send: a handler reads the body after it has asked for the right.
#[must_use]
pub struct Body<T>(Result<T, ApiError>);

/// A required JSON body that is a list.
#[must_use]
pub struct ListBody<T>(Result<Vec<T>, ApiError>);

/// A body of any type, as bytes.
#[must_use]
pub struct RawBody(Result<Bytes, ApiError>);

impl<T> Body<T> {
    /// Takes what was sent.
    ///
    /// # Errors
    /// 400 when it is absent, no object or not of this shape, 413 when it is too large, 415 when it is not said to be JSON.
    pub fn read(self) -> Result<T, ApiError> {
        self.0
    }
}

impl<T> ListBody<T> {
    /// Takes what was sent.
    ///
    /// # Errors
    /// As those of [`Body::read`].
    pub fn read(self) -> Result<Vec<T>, ApiError> {
        self.0
    }
}

impl RawBody {
    /// Takes what was sent.
    ///
    /// # Errors
    /// 413 when it is too large.
    pub fn read(self) -> Result<Bytes, ApiError> {
        self.0
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        Ok(Self(json_bytes(request, state).await.and_then(|bytes| parse_object(&bytes))))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ListBody<T> {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        Ok(Self(json_bytes(request, state).await.and_then(|bytes| parse(&bytes))))
    }
}

fn parse_object<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    // Without this check a list would be read as the members of an object in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::invalid_input("the request body is not valid: a JSON object is expected"));
    }
    parse(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    if escapes_nul(bytes) {
        return Err(ApiError::invalid_input("the request body is not valid: it holds a NUL character"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid_input(format!("the request body is not valid: {error}")))
}

/// Whether a JSON text spells a NUL character, which no column of the database holds.
fn escapes_nul(json: &[u8]) -> bool {
    const ESCAPE: &[u8] = b"\\u0000";
    json.windows(ESCAPE.len()).enumerate().any(|(at, window)| {
        // An even number of backslashes before it: it is no escaped backslash itself.
        window == ESCAPE && json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    })
}

/// The bytes of a body that says it is JSON.
async fn json_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    let is_json = has_json_type(request.headers());
    let bytes = raw_bytes(request, state).await?;
    if bytes.is_empty() {
        return Err(ApiError::Plain {
            status: StatusCode::BAD_REQUEST,
            message: "Request entity expected but not supplied".to_owned(),
        });
    }
    if !is_json {
        return Err(ApiError::Plain {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message: "The request's Content-Type is not supported. Expected:\napplication/json".to_owned(),
        });
    }
    Ok(bytes)
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        Ok(Self(raw_bytes(request, state).await))
    }
}

async fn raw_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|rejection| {
        let status = rejection.status();
        let message = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "the request body is larger than this exchange accepts"
        } else {
            "the request body could not be read"
        };
        ApiError::Plain { status, message: message.to_owned() }
    })
}

fn has_json_type(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::escapes_nul;

    #[test]
    fn only_a_real_escape_is_a_nul_character() {
        assert!(escapes_nul(br#"{"a":"x\u0000y"}"#));
        assert!(escapes_nul(br#"{"a":"\\\u0000"}"#));
        assert!(!escapes_nul(br#"{"a":"\\u0000"}"#));
        assert!(!escapes_nul(br#"{"a":"u0000"}"#));
    }
}
