//! The policy language: properties, constraints, and the policies made of them.
//!
//! Source: agreement protocol, "Internal policy, properties, constraints, compatibility".

pub mod compatibility;
pub mod constraint;
pub mod deployment_policy;
pub mod external;
pub mod internal;
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
pub use node_policy::NodePolicy;
pub use pattern::Pattern;
pub use property::{Property, PropertyList, PropertyType};
pub use service_policy::{ServiceIdentity, ServicePolicy};
