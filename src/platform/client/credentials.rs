//! Credentials of the caller: an organization, an id inside it and a secret, sent as Basic authentication; or the token of an identity provider.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use evenkeel_ids::NodeId;
use http::HeaderValue;

use crate::ClientError;

/// Id that the exchange resolves to the caller's own user.
const OWN_USER: &str = "apikey";

/// Credentials of a user, node or agbot. The `Debug` form hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Organization of the caller.
    pub org: String,
    /// Id of the caller inside its organization.
    pub id: String,
    secret: String,
    is_token: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credentials({}/{})", self.org, self.id)
    }
}

impl Credentials {
    /// Puts credentials together.
    pub fn new(org: impl Into<String>, id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { org: org.into(), id: id.into(), secret: secret.into(), is_token: false }
    }

    /// Creates credentials from the token of an identity provider, for an organization. The hub determines the user;
    /// the id is the placeholder for the caller.
    pub fn bearer(org: impl Into<String>, token: impl Into<String>) -> Self {
        Self { org: org.into(), id: OWN_USER.to_owned(), secret: token.into(), is_token: true }
    }

    /// Returns the id of the node whose credentials these are.
    pub fn node(&self) -> NodeId {
        NodeId::new(&self.org, &self.id)
    }

    /// Returns whether this is the token of an identity provider.
    pub fn is_bearer(&self) -> bool {
        self.is_token
    }

    /// Reads `id:secret` or `org/id:secret`; `default_org` completes the first form.
    pub fn parse(text: &str, default_org: &str) -> Option<Self> {
        let (name, secret) = text.split_once(':')?;
        let (org, id) = name.split_once('/').unwrap_or((default_org, name));
        if org.is_empty() || id.is_empty() {
            return None;
        }
        Some(Self::new(org, id, secret))
    }

    /// The secret, for storing it where it belongs.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The caller as `org/id`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.org, self.id)
    }

    pub(crate) fn header(&self) -> Result<HeaderValue, ClientError> {
        let text = if self.is_token {
            format!("Bearer {}", self.secret)
        } else {
            format!("Basic {}", STANDARD.encode(format!("{}/{}:{}", self.org, self.id, self.secret)))
        };
        let mut value = HeaderValue::try_from(text).map_err(unfit)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the organization of a token's user.
    pub(crate) fn organization_header(&self) -> Result<Option<HeaderValue>, ClientError> {
        self.is_token.then(|| HeaderValue::try_from(&self.org).map_err(unfit)).transpose()
    }
}

fn unfit<E>(_: E) -> ClientError {
    ClientError::Request("the credentials do not fit a header".to_owned())
}
