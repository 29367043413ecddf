//! The check whether a node may run the service of a deployment policy, used by `deploycheck policy`, `explain` and the agbot.
//!
//! [`check::PolicyCheck`] is the entry; its parts are public for narrower checks. Services come from a
//! [`service::ServiceSource`] that the caller fills beforehand, so that nothing here waits or fetches. Source: agreement-protocol 3.6, 3.7, 3.8.

pub mod check;
pub mod deployment;
pub mod inputs;
pub mod namespace;
pub mod operator;
pub mod report;
pub mod resolve;
pub mod service;

pub use check::{NodeFacts, NodeType, PolicyCheck};
pub use report::{CheckError, CompatibilityReport, Incompatibility, ServiceVerdict};
pub use resolve::{ResolveError, ResolvedService};
pub use service::{ServiceCatalog, ServiceDefinition, ServiceDependency, ServiceSource};

#[cfg(test)]
mod tests;
