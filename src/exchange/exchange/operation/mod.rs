//! The operation is the unit of the API: one row declares it, one path carries it out.
//!
//! [`row`] declares, [`pipeline`] receives a request and records its outcome, [`authorize`] asks the permission table, [`router`] and
//! [`fast_path`] find the operation that a request asks for, [`document`] shows all of them. Rows, handlers and the steps from the
//! parameters of a request to its handler are those of `evenkeel_api`.

pub(crate) mod authorize;
pub(crate) mod document;
pub(crate) mod fast_path;
mod negotiation;
pub(crate) mod pipeline;
pub(crate) mod router;
pub(crate) mod row;

pub use row::{Content, Operation};

pub(crate) use evenkeel_api::{OrgPath, PartPath, ResourcePath};
pub(crate) use pipeline::{ExchangeRequest, Op};
