//! Matching: may this node run this policy's service, in which version, and if not, why not.
//!
//! Pure queries on the model. The merged side of a policy ("consumer") is prepared once per (policy, service
//! definition) in [`consumer`]; the choice for one pair is made in [`select`]. Source: agreement-protocol 3.6 to 3.9.

mod built_ins;
pub mod consumer;
pub mod evaluate;
mod inputs;
mod readable;
mod select;

pub use consumer::Consumer;
pub(crate) use readable::read;
pub use readable::{
    needed_services, node_input_errors, policy_errors, service_errors, service_policy_errors,
};
pub use select::{Choice, Fit, fit, is_intended, select};
pub(crate) use select::{canonical_arch, fit_spec, select_spec};
