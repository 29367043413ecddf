//! Decoded path segments as an argument of a handler.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::ApiError;

/// Longest accepted id: longer ones cannot be keys.
const MAX_ID: usize = 1024;

/// Path parameters, percent-decoded.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let raw = axum::extract::RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid_input("the path is not valid percent-encoded UTF-8"))?;
        for (name, value) in &raw {
            if value.contains('\0') {
                return Err(ApiError::invalid_input(format!("{name} in the path contains a NUL character")));
            }
            if value.len() > MAX_ID {
                return Err(ApiError::invalid_input(format!(
                    "{name} in the path is longer than {MAX_ID} bytes"
                )));
            }
        }
        axum::extract::Path::<T>::from_request_parts(parts, state).await.map(|path| Path(path.0)).map_err(
            |rejection| ApiError::invalid_input(format!("the path is not valid: {}", rejection.body_text())),
        )
    }
}
