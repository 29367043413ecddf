//! Logins of people by tokens of an OpenID Connect provider: discovery, keys, checks of a token, groups to roles.
//!
//! Knows nothing of the exchange: it says who somebody is by the provider, and which role the configuration gives to that person's
//! groups. It never writes a token to a log. Source: exchange contract 2.2; OpenID Connect Discovery 1.0; RFC 7517, 7519 and 8725.

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
