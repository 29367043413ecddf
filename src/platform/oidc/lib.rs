//! Logins by an OpenID Connect provider: discovery, keys, token verification, roles from groups, and the authorization code flow of browsers.
//!
//! Independent of the exchange: it returns the identity at the provider, and the role that the configuration assigns to its groups. It
//! never logs a token or a code. Source: exchange-api 2.2; RFC 6749, 7517, 7519, 7636, 8725, 9207; OpenID Connect Core 1.0; OpenID Connect Discovery 1.0.

mod browser_client;
mod code_flow;
mod discovery;
mod error;
mod fetch;
mod keys;
mod provider;
mod settings;
mod token;

pub use browser_client::BrowserClient;
pub use code_flow::{BrowserLogin, CodeResponse, LoginAttempt};
pub use error::{CodeFlowError, Denial, OidcError};
pub use provider::Provider;
pub use settings::{GroupRole, OidcSettings, Role};
pub use token::{MAX_TOKEN_BYTES, Person};
