//! Fetches small JSON documents from the provider.

use std::path::Path;
use std::time::Duration;

use evenkeel_domain::causes::chain;
use futures_util::StreamExt;
use reqwest::{Client, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

use crate::OidcError;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum size; discovery documents and key sets have a few kilobytes.
const LARGEST: usize = 512 * 1024;

/// Creates a client that trusts only the given authorities, or those of the system.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<Client, OidcError> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_LIMIT)
        .timeout(LIMIT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
    if let Some(file) = ca_file {
        let unusable = |why: String| OidcError::Settings(format!("ca-file: {}: {why}", file.display()));
        let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
        let roots =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.to_string()))?;
        if roots.is_empty() {
            return Err(unusable("holds no certificate".to_owned()));
        }
        builder = builder.tls_certs_only(roots);
    }
    builder.build().map_err(|error| OidcError::Settings(error.to_string()))
}

/// Fetches a JSON document.
pub(crate) async fn json<T: DeserializeOwned>(client: &Client, url: Url) -> Result<T, OidcError> {
    let failed = |why: String| OidcError::Unavailable(format!("{url}: {why}"));
    let response =
        client.get(url.clone()).send().await.map_err(|error| failed(chain(&error.without_url())))?;
    if response.status() != StatusCode::OK {
        return Err(failed(format!("status {}", response.status().as_u16())));
    }
    let body = body(response, LARGEST).await.map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| failed(format!("not the expected JSON: {error}")))
}

/// Reads a body of at most `largest` bytes. Its length is counted while it arrives, because a header can claim anything.
pub(crate) async fn body(response: Response, largest: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| chain(&error.without_url()))?;
        if body.len() + piece.len() > largest {
            return Err(format!("the document has more than {largest} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}
