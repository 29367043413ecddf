//! Parts of a request as typed arguments of handlers.

mod body;
mod parameters;

pub(crate) use body::{
    Body, BodyKind, ListBody, NoBody, OptionalBody, OptionalShape, RawBody, RequestBody, has_json_type,
    receive,
};
pub(crate) use parameters::{Parameters, Query};
