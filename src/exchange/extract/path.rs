//! Decoded path segments as an argument of a handler.

use axum::extract::{FromRequestParts, RawPathParams};
use evenkeel_api::MAX_ID;
use http::request::Parts;

use crate::ApiError;

/// Path parameters, percent-decoded, in the order of the path.
pub struct Path<T>(pub T);

/// One text for each parameter of a path.
pub trait FromPathParameters: Sized {
    /// Takes the parameters; `None` when the route has another number of them.
    fn take<'p>(parameters: &mut impl Iterator<Item = &'p str>) -> Option<Self>;
}

impl FromPathParameters for String {
    fn take<'p>(parameters: &mut impl Iterator<Item = &'p str>) -> Option<Self> {
        parameters.next().map(str::to_owned)
    }
}

macro_rules! tuple {
    ($($part:ident),+) => {
        impl<$($part: FromPathParameters),+> FromPathParameters for ($($part,)+) {
            fn take<'p>(parameters: &mut impl Iterator<Item = &'p str>) -> Option<Self> {
                Some(($($part::take(parameters)?,)+))
            }
        }
    };
}

tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);

impl<S: Send + Sync, T: FromPathParameters> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let raw = RawPathParams::from_request_parts(parts, state)
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
        let mut values = raw.iter().map(|(_, value)| value);
        match (T::take(&mut values), values.next()) {
            (Some(taken), None) => Ok(Path(taken)),
            _ => Err(ApiError::internal("the handler expects other parameters than its path has")),
        }
    }
}
