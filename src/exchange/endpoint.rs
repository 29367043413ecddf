//! Rows of the exchange's table of routes.

pub use evenkeel_api::{Content, endpoint};

/// One operation of the exchange.
pub type Endpoint = evenkeel_api::Endpoint<crate::Exchange>;
