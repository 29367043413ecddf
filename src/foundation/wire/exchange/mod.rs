//! JSON shapes of the exchange API, one module a resource. Source: exchange-api 4 to 7.

#[macro_use]
pub mod response;

pub mod administration;
pub mod agbot;
pub mod agbot_approval;
pub mod agent_run;
pub mod audit;
pub mod changes;
pub mod deployment_policy;
pub mod forwarded;
pub mod ha_group;
pub mod lenient;
pub mod management_policy;
pub mod map_order;
pub mod message;
pub mod node;
pub mod node_orchestration;
pub mod node_part;
pub mod node_report;
pub mod node_size;
pub mod node_tag;
pub mod node_task;
pub mod org_orchestration;
pub mod organization;
pub mod pattern;
pub mod plan_approval;
pub mod query;
pub mod revision;
pub mod search;
pub mod service;
pub mod shared;
pub mod task_health;
pub mod time;
pub mod user;
pub mod user_input;
pub mod utility;
