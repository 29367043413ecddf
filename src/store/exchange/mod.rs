//! Tables of the exchange, one module a resource.

pub mod change;
pub mod facts;
pub mod heartbeat;
pub mod identity;
pub mod secret;
