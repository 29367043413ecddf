//! Tables of the exchange, one module a resource.

pub mod account;
pub mod agbot;
pub mod agreement;
pub mod api_key;
pub mod change;
pub mod deployment_policy;
pub mod facts;
pub mod ha_group;
pub mod heartbeat;
pub mod identity;
pub mod management_policy;
pub mod message;
pub mod node;
pub mod node_limit;
pub mod node_part;
pub mod node_user_input;
pub mod organization;
pub mod pattern;
pub mod referenced_service;
pub mod secret;
pub mod seed;
pub mod served;
pub mod service;
pub mod service_part;
pub mod signing_key;
