//! Who is calling: Basic credentials, checked once against the store and then in memory.
//!
//! Source: exchange contract section 2; design, "Credentials".

mod basic;
mod credentials;
mod hash;
mod layer;
mod pool;

pub use credentials::Credentials;
pub use hash::SecretHasher;
pub(crate) use layer::{Guarded, guard};
