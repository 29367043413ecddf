//! Who is calling: Basic credentials and tokens of an identity provider, checked once and then in memory.
//!
//! Source: exchange contract section 2; design, "Credentials".

mod argon;
mod basic;
mod bearer;
mod credentials;
mod hash;
mod layer;
mod pool;
mod remembered;

pub(crate) use bearer::BearerLogins;
pub use credentials::Credentials;
pub use hash::SecretHasher;
pub(crate) use layer::authenticate;
