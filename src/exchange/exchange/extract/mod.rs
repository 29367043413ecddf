//! Parts of a request as typed arguments of handlers.

mod body;

pub(crate) use body::{Body, ListBody, OptionalBody, OptionalShape, RawBody, has_json_type, receive};
pub(crate) use evenkeel_api::{Parameters, Query};
