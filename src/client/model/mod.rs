//! Shapes of what the APIs answer and take, tolerant to fields that are unknown, missing or null.
//!
//! Parts whose inner shape belongs to the policy language (properties, user input, bindings) stay JSON values.

#[macro_use]
mod tolerant;

mod agbot;
mod change;
mod fleet;
mod management;
mod node;
mod policy;
mod service;

pub use agbot::*;
pub use change::*;
pub use fleet::*;
pub use management::*;
pub use node::*;
pub use policy::*;
pub use service::*;

pub use crate::client::Reply;

use serde::{Deserialize, Deserializer};

/// Reads null like a missing field.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
