//! Query strings and headers as typed arguments; unknown query parameters are ignored.

use http::request::Parts;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::ApiError;

/// The parameters of an operation other than path and body.
pub(crate) trait Parameters: Sized + Send + Sync + 'static {
    /// Reads the request.
    ///
    /// # Errors
    /// 400 for values that are not of their type.
    fn read(request: &Parts) -> Result<Self, ApiError>;

    /// The parameters as the API document shows them.
    fn documented() -> Vec<Parameter> {
        Vec::new()
    }
}

/// The query string of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl Parameters for () {
    fn read(_: &Parts) -> Result<Self, ApiError> {
        Ok(())
    }
}

impl<T: DeserializeOwned + IntoParams + Send + Sync + 'static> Parameters for Query<T> {
    fn read(request: &Parts) -> Result<Self, ApiError> {
        axum::extract::Query::<T>::try_from_uri(&request.uri).map(|query| Query(query.0)).map_err(
            |rejection| {
                ApiError::invalid_input(format!("a query parameter is not valid: {}", rejection.body_text()))
            },
        )
    }

    fn documented() -> Vec<Parameter> {
        T::into_params(|| Some(ParameterIn::Query))
    }
}

impl<A: Parameters, B: Parameters> Parameters for (A, B) {
    fn read(request: &Parts) -> Result<Self, ApiError> {
        Ok((A::read(request)?, B::read(request)?))
    }

    fn documented() -> Vec<Parameter> {
        A::documented().into_iter().chain(B::documented()).collect()
    }
}
