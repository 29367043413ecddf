//! Authentication of callers: Basic credentials and tokens of an identity provider, checked once and then cached.
//!
//! Source: exchange contract section 2; design, "Credentials".

mod argon;
mod basic;
mod bearer;
mod credentials;
pub(crate) mod demotion;
mod forwarded;
mod hash;
mod hash_queue;
mod layer;
mod remembered;

pub(crate) use bearer::BearerLogins;
pub use credentials::Credentials;
pub(crate) use forwarded::ActingAgbot;
pub use hash::SecretHasher;
pub(crate) use layer::{Authenticated, ClientAddress, authenticate, authenticate_departed};
