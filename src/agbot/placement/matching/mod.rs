//! Matching: may this node run this policy's service, in which version, and if not, why not.
//!
//! Functions of a node, a policy and the known services. The merged side of a policy ("consumer") is prepared once per (policy, service
//! definition) in [`consumer`]; the choice for one pair is made in [`select`]. Source: agreement-protocol 3.6 to 3.9.

mod built_ins;
pub mod consumer;
pub mod evaluate;
mod inputs;
mod readable;
mod select;

pub use built_ins::missing as missing_built_ins;
pub use consumer::Consumer;
pub use consumer::Consumers;
pub use readable::read;
pub use readable::{
    needed_services, node_input_errors, policy_errors, service_errors, service_policy_errors,
};
pub use select::{Choice, Fit};
pub use select::{TriedVersions, Wanted, canonical_arch, choose, fit_wanted, lost_or_unclear};
