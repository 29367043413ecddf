//! Exchanges in this process, over real databases: who may do what, and what must hold between requests and between exchanges.

mod access;
mod adversary;
pub mod api;
mod audit;
mod bad_body;
mod bad_request;
mod change_feed;
mod contract;
mod credentials;
mod documented;
mod ha_group_races;
mod ha_groups;
mod limits;
mod long_lists;
mod mailboxes;
mod node_orchestration;
mod node_report;
mod node_tasks;
mod nodes;
mod oidc;
mod orchestration;
mod org_orchestration;
mod privacy;
mod publications;
mod request;
mod several;
mod world;
