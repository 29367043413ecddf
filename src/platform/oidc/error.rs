//! The reasons why a login fails.

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

/// The reason why a login of a browser fails. No text of the response is repeated, because every page that sends a browser to the redirect
/// address chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeFlowError {
    /// The response does not belong to the attempt of this browser.
    #[error("the login was not begun in this browser, or another one was begun since")]
    Unbound,
    /// The response is from another issuer, or does not name its issuer although the provider always does.
    #[error("the response is from another identity provider")]
    MixUp,
    /// The provider did not log the user in.
    #[error("{}", denial(*.0))]
    Denied(Denial),
    /// The provider does not accept the code for this client and this attempt.
    #[error("the identity provider does not accept the code of this login")]
    CodeRefused,
    /// The id token is not accepted.
    #[error("the id token is not accepted: {0}")]
    IdToken(String),
    /// The provider does not respond, or not as the standard says.
    #[error("the identity provider does not respond: {0}")]
    Unavailable(String),
    /// Too many logins wait for the provider.
    #[error("too many logins wait for the identity provider")]
    Busy,
}

/// The error that the provider reported instead of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The user or the provider refused.
    Access,
    /// The provider is not able to log in now.
    Temporary,
    /// The provider does not accept the request of the hub: a matter of the configuration.
    Request,
}

fn denial(denial: Denial) -> &'static str {
    match denial {
        Denial::Access => "the identity provider did not permit the login",
        Denial::Temporary => "the identity provider is not able to log in now",
        Denial::Request => "the identity provider does not accept the request of the hub",
    }
}

impl Denial {
    /// Reads the code of an error. Source: RFC 6749, section 4.1.2.1; OpenID Connect Core 1.0, section 3.1.2.6.
    pub(crate) fn of(code: &str) -> Denial {
        match code {
            "access_denied"
            | "login_required"
            | "consent_required"
            | "interaction_required"
            | "account_selection_required" => Denial::Access,
            "server_error" | "temporarily_unavailable" => Denial::Temporary,
            _ => Denial::Request,
        }
    }
}

impl From<OidcError> for CodeFlowError {
    fn from(error: OidcError) -> CodeFlowError {
        match error {
            OidcError::Refused(why) => CodeFlowError::IdToken(why),
            OidcError::Unavailable(why) | OidcError::Settings(why) => CodeFlowError::Unavailable(why),
        }
    }
}
