//! The policy language: properties, constraints, and the policies made of them.
//!
//! # How policies are combined for one (node, deployment policy, service version)
//!
//! Every step works on [`InternalPolicy`], the common form.
//!
//! 1. **Producer.** The node's [`NodePolicy`] is flattened by [`NodePolicy::deployment_policy`] (properties of the top level
//!    overlaid by those of the deployment part; constraints of that part, else those of the top level) and becomes, by
//!    [`InternalPolicy::from_node`], the policy `Policy for org/node`. The hub adds the HA group as a property.
//! 2. **Service policy.** The service's own policy gains the properties that describe the service, and
//!    whether the service or one of its dependencies needs privileges:
//!    [`compatibility::check::full_service_policy`]. A service that needs privileges also requires them of the
//!    node by a constraint.
//! 3. **Consumer.** [`DeploymentPolicy::to_internal`], with the service policy merged in by
//!    [`InternalPolicy::merge_external`]: properties of the deployment policy win, constraints add up.
//! 4. **Test.** [`terms::check_compatible`]: the consumer's constraints against the producer's properties, the producer's
//!    against the consumer's, then protocols and data verification. [`terms::all_mismatches`] returns every failure,
//!    each comparison with the actual value.
//!
//! [`compatibility::PolicyCheck`] runs all five for every version that the deployment policy names.
//! [`priority::choose_workload`] decides which of the passing versions is tried; [`terms::terms_and_conditions`] builds the
//! proposal: the consumer with that one version, named after both sides. A [`Pattern`] replaces the deployment policy by one
//! consumer per service; it has no constraints.
//!
//! Source: agreement-protocol 3.

pub mod compatibility;
pub mod constraint;
pub mod deployment_policy;
pub mod expression;
pub mod external;
pub mod internal;
mod list_filter;
mod missing_service;
pub mod node_policy;
pub mod pattern;
pub mod priority;
pub mod property;
pub mod reference_json;
pub mod secret_binding;
pub mod service_policy;
pub mod terms;
pub mod user_input;

pub use constraint::ConstraintList;
pub use deployment_policy::DeploymentPolicy;
pub use external::{ExternalPolicy, PolicyChange};
pub use internal::InternalPolicy;
pub use list_filter::ListFilter;
pub use missing_service::MissingService;
pub use node_policy::NodePolicy;
pub use pattern::Pattern;
pub use property::{Property, PropertyList, PropertyType};
pub use service_policy::{ServiceIdentity, ServicePolicy};

#[cfg(test)]
mod laws;
