//! Who calls: an organisation, an id inside it and a secret, sent as Basic authentication.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;

use crate::ClientError;

/// Credentials of a user, node or agbot. The `Debug` form hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Organisation of the caller.
    pub org: String,
    /// Id of the caller inside its organisation.
    pub id: String,
    secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credentials({}/{})", self.org, self.id)
    }
}

impl Credentials {
    /// Puts credentials together.
    pub fn new(org: impl Into<String>, id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { org: org.into(), id: id.into(), secret: secret.into() }
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
        let text = STANDARD.encode(format!("{}/{}:{}", self.org, self.id, self.secret));
        let mut value = HeaderValue::try_from(format!("Basic {text}"))
            .map_err(|_| ClientError::Request("the credentials do not fit a header".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
