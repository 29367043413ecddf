//! The reasons why a token login fails.

use thiserror::Error;

/// The error of a login or of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OidcError {
    /// The configuration cannot be used.
    #[error("the oidc settings cannot be used: {0}")]
    Settings(String),
    /// The token is not accepted.
    #[error("the bearer token is not accepted: {0}")]
    Refused(String),
    /// No keys of the provider are known, and they cannot be fetched now.
    #[error("the identity provider does not respond: {0}")]
    Unavailable(String),
}

impl OidcError {
    pub(crate) fn refused(why: impl Into<String>) -> OidcError {
        OidcError::Refused(why.into())
    }
}
