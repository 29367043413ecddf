//! Query strings as typed arguments; unknown parameters are ignored.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::ApiError;

/// The query string of a request.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Query::<T>::from_request_parts(parts, state).await.map(|query| Query(query.0)).map_err(
            |rejection| {
                ApiError::invalid_input(format!("a query parameter is not valid: {}", rejection.body_text()))
            },
        )
    }
}
