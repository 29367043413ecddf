//! What a handler takes of a request besides its path: typed parameters and a body.

use http::request::Parts;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::request::{ApiRequest, BodyKind};
use crate::{Content, Refusal};

/// The parameters of an operation other than path and body, read before the permission is asked for.
pub trait Parameters: Sized + Send + Sync + 'static {
    /// Reads the request.
    ///
    /// # Errors
    /// 400 for values that are not of their type.
    fn read(request: &Parts) -> Result<Self, Refusal>;

    /// The parameters as the API document shows them.
    fn documented() -> Vec<Parameter> {
        Vec::new()
    }
}

/// The query string of a request; unknown parameters are ignored.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl Parameters for () {
    fn read(_: &Parts) -> Result<Self, Refusal> {
        Ok(())
    }
}

impl<T: DeserializeOwned + IntoParams + Send + Sync + 'static> Parameters for Query<T> {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let query = axum::extract::Query::<T>::try_from_uri(&request.uri);
        query.map(|query| Query(query.0)).map_err(|rejection| {
            Refusal::invalid_input(format!("a query parameter is not valid: {}", rejection.body_text()))
        })
    }

    fn documented() -> Vec<Parameter> {
        T::into_params(|| Some(ParameterIn::Query))
    }
}

impl<A: Parameters, B: Parameters> Parameters for (A, B) {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        Ok((A::read(request)?, B::read(request)?))
    }

    fn documented() -> Vec<Parameter> {
        A::documented().into_iter().chain(B::documented()).collect()
    }
}

/// What a handler takes of a request once its permission is granted: usually the body.
///
/// Callers without the right get 403 whatever they send: wrong input is an error only after the right was granted.
pub trait Input<A: ApiRequest>: Sized + Send + 'static {
    /// Kind of body to receive before it is read.
    const KIND: BodyKind;

    /// True if wrong input is refused before the right is asked for, because that depends on it.
    const PRECEDES_PERMISSION: bool = false;

    /// Reads what was sent.
    ///
    /// # Errors
    /// 400 when it is not of this shape.
    fn read(sent: A::Sent) -> Result<Self, A::Refusal>;

    /// The query parameters as the API document shows them.
    fn parameters() -> Vec<Parameter> {
        Vec::new()
    }

    /// The body as the API document shows it.
    fn body() -> Content {
        Content::None
    }
}

/// No input: whatever is sent is left alone.
#[derive(Debug)]
pub struct NoInput;

impl<A: ApiRequest> Input<A> for NoInput {
    const KIND: BodyKind = BodyKind::None;

    fn read(_: A::Sent) -> Result<Self, A::Refusal> {
        Ok(Self)
    }
}
