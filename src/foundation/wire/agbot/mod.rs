//! Bodies of the agbot's API, one module for each resource.
//!
//! Instants are text in UTC; ids of nodes, groups and policies are `org/name`. Reasons are free-form JSON with a kind
//! for programs and a text for users.

pub mod action;
pub mod agreement;
pub mod attention;
pub mod blocklist;
pub mod claim;
pub mod common;
pub mod domain;
pub mod event;
pub mod fleet;
pub mod health;
pub mod history;
pub mod known_properties;
pub mod orchestration;
pub mod plan;
pub mod reason;
pub mod registration;
pub mod rollout;
pub mod rollout_detail;
pub mod saved_view;
pub mod status;
pub mod upgrade;
