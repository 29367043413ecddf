//! Tables of the exchange, one module per resource.

pub mod account;
pub mod agbot;
pub mod agbot_approval;
pub mod agent_file;
pub mod agent_run;
pub mod agreement;
pub mod api_key;
mod assigned_role;
pub mod audit;
pub mod audit_chain;
pub mod audit_state;
pub mod change;
pub mod departure;
pub mod deployment_policy;
pub mod document_bytes;
pub mod document_revision;
pub mod facts;
pub mod fencing;
pub mod ha_group;
pub mod heartbeat;
pub mod identity;
pub mod instance;
pub mod management_policy;
pub mod message;
pub mod node;
pub mod node_details;
pub mod node_health;
pub mod node_limit;
pub mod node_part;
pub mod node_report;
pub mod node_spec;
pub mod node_task;
pub mod organization;
pub mod pattern;
pub mod permitted;
pub mod plan_approval;
pub mod provided_account;
pub mod referenced_service;
pub mod resource_key;
pub mod scope;
pub mod search;
pub mod secret;
pub mod seed;
pub mod served_entry;
pub mod service;
pub mod service_part;
pub mod signing_key;
pub mod status;

/// Migrations of the exchange's tables.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../../migrations/exchange");

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
