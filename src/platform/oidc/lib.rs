//! Logins by tokens of an OpenID Connect provider: discovery, keys, token verification, roles from groups.
//!
//! Independent of the exchange: it returns the identity at the provider, and the role that the configuration assigns to its groups. It
//! never logs a token. Source: exchange-api 2.2; RFC 7517, 7519, 8725; OpenID Connect Discovery 1.0.

mod error;
mod fetch;
mod keys;
mod provider;
mod settings;
mod token;

pub use error::OidcError;
pub use provider::Provider;
pub use settings::{GroupRole, OidcSettings, Role};
pub use token::{MAX_TOKEN_BYTES, Person};
