//! The policy language: properties, constraints, and the policies made of them.
//!
//! Source: agreement protocol, "Internal policy, properties, constraints, compatibility".

pub mod constraint;
pub mod external;
pub mod node_policy;
pub mod property;
pub mod service_policy;

pub use constraint::ConstraintList;
pub use external::{ExternalPolicy, PolicyChange};
pub use node_policy::NodePolicy;
pub use property::{Property, PropertyList, PropertyType};
pub use service_policy::{ServiceIdentity, ServicePolicy};
