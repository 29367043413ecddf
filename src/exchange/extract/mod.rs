//! Parts of a request as typed arguments of handlers.

mod body;
mod parameters;

pub(crate) use body::{Body, ListBody, NoBody, RawBody, RequestBody};
pub(crate) use parameters::{Parameters, Query};
