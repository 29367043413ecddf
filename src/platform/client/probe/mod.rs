//! Requests to servers that are not the hub: checks of services, and calls of workflows.
//!
//! Responses are bounded in time and size, and redirects are not followed.

mod address;
mod check;
mod schedule;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Url};
use serde_json::Value;
use tokio::sync::Semaphore;

use address::Unresolved;
pub use address::{AddressRule, AllowedAddresses, Networks};
pub use check::pause_after;
pub use schedule::{ProbeGuard, ProbeSchedule};

/// Largest part of a body that is examined, in bytes.
const LARGEST_BODY: usize = 64 * 1024;
/// Maximum number of concurrent requests of a client. Further ones wait.
const MOST_REQUESTS: usize = 512;
/// Header by which the receiver of a call recognizes its repetition.
const CALL_ID: &str = "Idempotency-Key";

/// Sends requests to services and workflows. Cloning shares connections and limits.
#[derive(Debug, Clone)]
pub struct ProbeClient {
    verifying: Client,
    trusting: Client,
    rule: AddressRule,
    slots: Arc<Semaphore>,
}

/// Reads the certificates of authorities.
fn authorities(file: &Path) -> Result<Vec<Certificate>, String> {
    let name = file.display();
    let pem = std::fs::read(file).map_err(|error| format!("{name}: {error}"))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| format!("{name}: {}", reason(&error)))?;
    if found.is_empty() { Err(format!("{name} holds no certificate")) } else { Ok(found) }
}

impl ProbeClient {
    /// Creates a client that connects to the addresses that a rule allows. `ca_file`: authorities that are
    /// trusted in addition to those of the system, PEM.
    ///
    /// # Errors
    /// The reason, when the certificates of the system, or the file, cannot be read.
    pub fn new(rule: AddressRule, ca_file: Option<&Path>) -> Result<Self, String> {
        let authorities = ca_file.map_or_else(|| Ok(Vec::new()), authorities)?;
        let builder = || {
            let builder = Client::builder()
                .pool_max_idle_per_host(0)
                .redirect(Policy::none())
                .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
            let builder = authorities.iter().cloned().fold(builder, ClientBuilder::add_root_certificate);
            rule.applied_to(builder)
        };
        let build = |builder: ClientBuilder| builder.build().map_err(|error| reason(&error));
        Ok(Self {
            verifying: build(builder())?,
            trusting: build(builder().tls_danger_accept_invalid_certs(true))?,
            rule,
            slots: Arc::new(Semaphore::new(MOST_REQUESTS)),
        })
    }

    /// Returns the status and the first part of the body of a response.
    ///
    /// # Errors
    /// The reason, when there is no response in time.
    pub async fn get(
        &self,
        url: &str,
        verifies: bool,
        timeout: Duration,
    ) -> Result<(u16, String), RequestError> {
        let url = self.allowed(url).map_err(RequestError::OfRequest)?;
        let client = if verifies { &self.verifying } else { &self.trusting };
        let _slot = self.slots.acquire().await;
        let response =
            client.get(url).timeout(timeout).send().await.map_err(|error| RequestError::of(&error))?;
        let status = response.status().as_u16();
        let mut parts = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part.map_err(|error| RequestError::of(&error))?);
            if body.len() >= LARGEST_BODY {
                body.truncate(LARGEST_BODY);
                break;
            }
        }
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Sends a JSON document; `id` names the call, the same for a repetition.
    ///
    /// # Errors
    /// The reason, when the status is not a success, or the response does not arrive in time. The body of the
    /// response is not read.
    pub async fn post(&self, url: &str, id: &str, body: &Value, timeout: Duration) -> Result<(), String> {
        let url = self.allowed(url)?;
        let _slot = self.slots.acquire().await;
        let request = self.verifying.post(url).header(CALL_ID, id).json(body).timeout(timeout);
        let response = request.send().await.map_err(|error| reason(&error))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the response has status {}", status.as_u16())) }
    }

    /// Parses a URL, unless its host is an address that the rule refuses.
    fn allowed(&self, url: &str) -> Result<Url, String> {
        let url = Url::parse(url).map_err(|error| format!("{url} is not a URL: {error}"))?;
        self.rule.check(&url)?;
        Ok(url)
    }
}

/// Reason why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request is invalid and was not sent.
    #[error("{0}")]
    OfRequest(String),
    /// The server did not respond.
    #[error("{0}")]
    OfServer(String),
}

impl RequestError {
    fn of(error: &reqwest::Error) -> Self {
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(unresolved) = inner.downcast_ref::<Unresolved>() {
                return Self::OfRequest(unresolved.to_string());
            }
            source = inner.source();
        }
        match error.is_builder() {
            true => Self::OfRequest(reason(error)),
            false => Self::OfServer(reason(error)),
        }
    }

    /// Returns whether the request itself is invalid.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        matches!(self, Self::OfRequest(_))
    }
}

/// Returns the innermost cause of a failed request.
fn reason(error: &reqwest::Error) -> String {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        reason = inner.to_string();
        source = inner.source();
    }
    reason
}

#[cfg(test)]
mod tests;
