//! Audit records of the actions of callers, in the sealed chain of the exchange.
//!
//! The request to the exchange carries the caller's own credentials, so that the exchange identifies the
//! caller itself, and the agbot's as proof that the action is about to be executed. No action is executed
//! before its record is written; a failure after that leaves another record with its status.

use evenkeel_client::RetryDelay;
use evenkeel_wire::exchange::audit::PostActionRecord;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

use super::caller::as_caller;
use super::pipeline::Refusal;
use crate::context::Context;

/// Status of the record of an action that is about to be carried out.
const BEGUN: u16 = 202;
/// Attempts to write a record.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One request that changes something.
pub(super) struct Action {
    org: String,
    operation: &'static str,
    method: Method,
    resource: String,
    request: String,
}

impl Action {
    /// Describes a request.
    pub(super) fn of(
        org: &str,
        operation: &'static str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Self {
        let path = uri.path();
        let request = headers.get("x-request-id").and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self {
            org: org.to_owned(),
            operation,
            method: method.clone(),
            resource: below_org(path.strip_prefix("/v1").unwrap_or(path), org),
            request: request.to_owned(),
        }
    }

    /// Writes the record that the action is about to be carried out.
    ///
    /// # Errors
    /// 503 when the exchange does not take it: then the action must not be carried out.
    pub(super) async fn begin(&self, context: &Context, headers: &HeaderMap) -> Result<(), Refusal> {
        self.record(context, headers, BEGUN).await.map_err(|error| {
            tracing::warn!(
                operation = self.operation,
                error,
                "an action is refused because it cannot be recorded"
            );
            let text = "the exchange does not record the action, so it is not carried out; try again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// Writes the record of an action that was refused or failed.
    pub(super) async fn end(&self, context: &Context, headers: &HeaderMap, status: StatusCode) {
        if let Err(error) = self.record(context, headers, status.as_u16()).await {
            tracing::warn!(operation = self.operation, %status, error, "the end of an action has no audit record");
        }
    }

    async fn record(&self, context: &Context, headers: &HeaderMap, status: u16) -> Result<(), String> {
        let client = as_caller(context, headers).map_err(|_| "it has no credentials".to_owned())?;
        let record = PostActionRecord {
            action: Uuid::new_v4().to_string(),
            operation: self.operation.to_owned(),
            method: self.method.to_string(),
            resource: self.resource.clone(),
            status,
            request: self.request.clone(),
        };
        let mut delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
        for attempt in 1.. {
            match client.record_action(&self.org, &record).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    note_unrecorded(context);
                    return Ok(());
                }
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                    tokio::time::sleep(delay.next_pause()).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// Logs once that an exchange of the reference, which has no such records, leaves actions unrecorded.
fn note_unrecorded(context: &Context) {
    if !context.has_unrecorded_actions.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "the exchange keeps no audit records of actions: they are in the events of the agbot only"
        );
    }
}

/// Returns the path of a resource; old forms of paths begin with `/org/`.
fn below_org(path: &str, org: &str) -> String {
    match path.strip_prefix("/org/") {
        Some(rest) => format!("/orgs/{rest}"),
        None if path.starts_with("/orgs/") => path.to_owned(),
        None => format!("/orgs/{org}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_paths_of_the_organization() {
        let uri: Uri = "/v1/orgs/o/business/policies/p/actions/freeze?force=true".parse().expect("a URI");
        let action = Action::of("o", "act_on_policy", &Method::POST, &uri, &HeaderMap::new());
        assert_eq!(action.resource, "/orgs/o/business/policies/p/actions/freeze");
        assert_eq!(below_org("/org/o/node/n/upgrade", "o"), "/orgs/o/node/n/upgrade");
        assert_eq!(below_org("/agbot/x", "o"), "/orgs/o/agbot/x");
    }
}
