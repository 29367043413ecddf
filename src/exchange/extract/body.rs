//! JSON bodies, with the contract's answers to wrong ones.
//!
//! Source: exchange contract 1.1 and 1.4.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::ApiError;

/// A required JSON body.
pub struct Body<T>(pub T);

/// A body of any type, as bytes.
pub struct RawBody(pub Bytes);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = has_json_type(request.headers());
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
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
        serde_json::from_slice(&bytes)
            .map(Body)
            .map_err(|error| ApiError::invalid_input(format!("the request body is not valid: {error}")))
    }
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Bytes::from_request(request, state).await.map(RawBody).map_err(|rejection| {
            let status = rejection.status();
            let message = if status == StatusCode::PAYLOAD_TOO_LARGE {
                "the request body is larger than this exchange accepts"
            } else {
                "the request body could not be read"
            };
            ApiError::Plain { status, message: message.to_owned() }
        })
    }
}

fn has_json_type(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
