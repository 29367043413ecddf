//! The change feed (exchange API 5) and the exchange's version.

use std::time::{Duration, Instant};

use evenkeel_wire::exchange::changes::{ChangesRequest, ChangesResponse, MaxChangeId};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::{Client, ClientError, Path};

/// Time in addition to the requested wait after which a parked poll counts as lost.
const SLACK: Duration = Duration::from_secs(15);

impl Client {
    /// The number of the latest change.
    pub async fn max_change_id(&self) -> Result<i64, ClientError> {
        let found: Option<MaxChangeId> = self.get(Path::new(&["changes", "maxchangeid"])).await?;
        Ok(found.map_or(0, |found| found.max_change_id))
    }

    /// Changes since a number, waiting up to `wait` for the first of them. Also returns how long the exchange took:
    /// one that does not support it responds at once, and the caller must pause itself.
    pub async fn wait_for_changes(
        &self,
        org: &str,
        request: &ChangesRequest,
        wait: Duration,
    ) -> Result<(ChangesResponse, Duration), ClientError> {
        let mut headers = HeaderMap::new();
        let preference = HeaderValue::try_from(format!("wait={}", wait.as_secs()))
            .map_err(|error| ClientError::Request(error.to_string()))?;
        headers.insert(HeaderName::from_static("prefer"), preference);
        let body = serde_json::to_vec(request).map_err(|error| ClientError::Request(error.to_string()))?;
        let began = Instant::now();
        let path = Path::org(org, &["changes"]);
        let response =
            self.send_with(Method::POST, &path, Some(body.into()), headers, Some(wait + SLACK)).await?;
        match response.status {
            StatusCode::OK | StatusCode::CREATED => Ok((response.json()?, began.elapsed())),
            _ => Err(response.unexpected()),
        }
    }

    /// The version of the exchange, such as `2.154.0`.
    pub async fn exchange_version(&self) -> Result<String, ClientError> {
        let text = self.get_text(Path::new(&["admin", "version"])).await?;
        Ok(text.unwrap_or_default().trim().to_owned())
    }
}
