//! Tables of the exchange, one module a resource.

pub mod account;
pub mod agbot;
pub mod agreement;
pub mod api_key;
pub mod change;
pub mod facts;
pub mod heartbeat;
pub mod identity;
pub mod message;
pub mod node;
pub mod node_limit;
pub mod node_user_input;
pub mod organization;
pub mod referenced_service;
pub mod secret;
pub mod seed;
pub mod served;
