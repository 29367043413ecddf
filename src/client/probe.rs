//! Requests that check whether a service is healthy; their servers are not the hub.

use std::time::Duration;

use futures_util::StreamExt;

/// Largest part of a body that is examined, in bytes.
const LARGEST_BODY: usize = 64 * 1024;

/// Sends GET requests to services.
#[derive(Debug, Clone)]
pub struct ProbeClient {
    verifying: reqwest::Client,
    trusting: reqwest::Client,
}

impl ProbeClient {
    /// Creates the client.
    ///
    /// # Errors
    /// The reason, when the certificates of the system cannot be read.
    pub fn new() -> Result<Self, String> {
        let builder = || {
            reqwest::Client::builder()
                .pool_max_idle_per_host(0)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
        };
        let text = |error: reqwest::Error| error.to_string();
        Ok(Self {
            verifying: builder().build().map_err(text)?,
            trusting: builder().tls_danger_accept_invalid_certs(true).build().map_err(text)?,
        })
    }

    /// Returns the first part of the body of a response, whatever its status.
    ///
    /// # Errors
    /// The reason, when there is no response in time.
    pub async fn get(&self, url: &str, verifies: bool, timeout: Duration) -> Result<String, String> {
        let client = if verifies { &self.verifying } else { &self.trusting };
        let text = |error: reqwest::Error| {
            let mut reason = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                reason = inner.to_string();
                source = inner.source();
            }
            reason
        };
        let response = client.get(url).timeout(timeout).send().await.map_err(text)?;
        let mut parts = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part.map_err(text)?);
            if body.len() >= LARGEST_BODY {
                body.truncate(LARGEST_BODY);
                break;
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
