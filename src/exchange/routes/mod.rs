//! The table of all routes below `/v1`.

pub mod administration;
pub mod agbot;
pub mod audit;
pub mod changes;
pub mod deployment_policy;
pub mod ha_group;
pub mod management_policy;
pub mod node;
pub mod organization;
pub mod pattern;
pub mod reference;
pub mod search;
pub mod service;
pub mod shape;
pub mod user;
pub mod utility;

pub(crate) mod negotiation;

mod mailbox;
mod pages;
mod signing_key;

use crate::endpoint::Endpoint;

/// Every operation of the exchange.
#[must_use]
pub fn all() -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    endpoints.extend(utility::endpoints());
    endpoints.extend(administration::endpoints());
    endpoints.extend(audit::endpoints());
    endpoints.extend(changes::endpoints());
    endpoints.extend(node::endpoints());
    endpoints.extend(agbot::endpoints());
    endpoints.extend(search::endpoints());
    endpoints.extend(organization::endpoints());
    endpoints.extend(user::endpoints());
    endpoints.extend(ha_group::endpoints());
    endpoints.extend(service::endpoints());
    endpoints.extend(pattern::endpoints());
    endpoints.extend(deployment_policy::endpoints());
    endpoints.extend(management_policy::endpoints());
    endpoints
}
