//! JSON shapes of the exchange API, one module a resource; see the exchange contract sections 4 to 7.

pub mod agbot;
pub mod changes;
pub mod lenient;
pub mod shared;
pub mod map_order;
pub mod message;
pub mod node;
pub mod organization;
pub mod query;
pub mod time;
pub mod user;
pub mod user_input;
pub mod utility;
