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
mod patch;
pub mod pattern;
pub mod plan_approval;
pub mod reference;
pub mod revision;
pub mod search;
pub mod service;
pub mod shape;
pub mod user;
pub mod utility;

mod document_bytes;
mod mailbox;
mod page_query;
mod pages;
mod signing_key;

use crate::operation::Operation;

/// Every operation of the exchange.
#[must_use]
pub fn all() -> Vec<Operation> {
    let mut operations = Vec::new();
    operations.extend(utility::operations());
    operations.extend(administration::operations());
    operations.extend(audit::operations());
    operations.extend(changes::operations());
    operations.extend(node::operations());
    operations.extend(agbot::operations());
    operations.extend(search::operations());
    operations.extend(organization::operations());
    operations.extend(user::operations());
    operations.extend(ha_group::operations());
    operations.extend(service::operations());
    operations.extend(pattern::operations());
    operations.extend(deployment_policy::operations());
    operations.extend(management_policy::operations());
    operations.extend(plan_approval::operations());
    operations.extend(revision::operations());
    operations.into_iter().map(revision::with_reason).collect()
}
