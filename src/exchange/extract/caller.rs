//! The authenticated caller as an argument of a handler.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use evenkeel_access::Caller;
use http::request::Parts;

use crate::ApiError;

/// The caller that the authentication layer found.
#[derive(Clone)]
pub struct CurrentCaller(pub Arc<Caller>);

impl Deref for CurrentCaller {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CurrentCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Arc<Caller>>()
            .cloned()
            .map(CurrentCaller)
            .ok_or_else(|| ApiError::internal("the route is not behind the authentication layer"))
    }
}
