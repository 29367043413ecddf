//! Audit records of the actions of callers, in the sealed chain of the exchange.
//!
//! The request to the exchange carries the caller's own credentials, so that the exchange identifies the
//! caller itself, and the agbot's as proof that the action is about to be executed. No action is executed
//! before its record is written; a failure after that leaves another record with its status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::RawPathParams;
use evenkeel_agbot::Context;
use evenkeel_api::{AuditFacts, AuditedOperation, Refusal};
use evenkeel_client::{ClientError, RetryDelay};
use evenkeel_wire::exchange::audit::PostActionRecord;
use evenkeel_wire::exchange::plan_approval::APPROVAL_REQUIRED;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use uuid::Uuid;

use super::Running;
use super::action_notes::ActionNotes;
use super::caller::{as_caller, claimed_name};

/// Status of the record of an action that is about to be carried out.
const BEGUN: u16 = 202;
/// Attempts to write a record.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Reason why an action has no record.
#[derive(Debug, thiserror::Error)]
enum Unrecorded {
    #[error("it has no credentials")]
    NoCredentials,
    #[error(transparent)]
    Exchange(#[from] ClientError),
}

/// One request that changes something.
pub(super) struct Action {
    context: Arc<Context>,
    notes: Arc<ActionNotes>,
    headers: HeaderMap,
    org: String,
    facts: AuditFacts,
    is_begun: AtomicBool,
}

impl Action {
    /// Describes a request; none outside of organizations, and none for what a node does about itself.
    pub(super) fn of(
        Running { context, notes, .. }: &Running,
        operation: AuditedOperation,
        parts: &Parts,
        path: &RawPathParams,
    ) -> Option<Self> {
        let named = |name: &str| path.iter().find(|(one, _)| *one == name).map(|(_, value)| value);
        let org = named("organization")?;
        if named("node").is_some_and(|node| claimed_name(&parts.headers) == format!("{org}/{node}")) {
            return None;
        }
        Some(Self {
            context: context.clone(),
            notes: notes.clone(),
            headers: parts.headers.clone(),
            org: org.to_owned(),
            facts: AuditFacts::of(operation, &parts.method, &parts.uri, &parts.headers),
            is_begun: AtomicBool::new(false),
        })
    }

    /// Writes the record that the action is about to be carried out.
    ///
    /// # Errors
    /// 503 when the exchange does not take it: then the action must not be carried out.
    pub(super) async fn begin(&self) -> Result<(), Refusal> {
        let recorded = self.record(BEGUN).await;
        recorded.map_err(|error| {
            // What the exchange finds wrong with the path is for the caller to mend.
            match error {
                Unrecorded::Exchange(ClientError::Status { status: 400, msg, .. }) => {
                    return Refusal::new(StatusCode::BAD_REQUEST, msg);
                }
                // The organization wants a second person to approve it.
                Unrecorded::Exchange(ClientError::Status { code, msg, .. }) if code == APPROVAL_REQUIRED => {
                    return Refusal::coded(StatusCode::FORBIDDEN, APPROVAL_REQUIRED, msg);
                }
                _ => {}
            }
            tracing::warn!(
                operation = self.facts.operation.name,
                %error,
                "an action is refused because it cannot be recorded"
            );
            let text = "the exchange does not record the action, so it is not carried out; try again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the record of an action that failed after its begin, or that was refused to the caller.
    pub(super) async fn settle(&self, status: StatusCode) {
        if status != StatusCode::FORBIDDEN && !self.is_begun.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.record(status.as_u16()).await {
            let operation = self.facts.operation.name;
            tracing::warn!(operation, %status, %error, "the end of an action has no audit record");
        }
    }

    async fn record(&self, status: u16) -> Result<(), Unrecorded> {
        let client = as_caller(&self.context, &self.headers).map_err(|_| Unrecorded::NoCredentials)?;
        let record = PostActionRecord {
            action: Uuid::new_v4().to_string(),
            operation: self.facts.operation.name.to_owned(),
            method: self.facts.method.to_string(),
            resource: below_org(&self.facts.resource, &self.org),
            status,
            request: self.facts.request.clone(),
        };
        let mut delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
        for attempt in 1.. {
            match client.record_action(&self.org, &record).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.notes.note_unrecorded();
                    return Ok(());
                }
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                    tokio::time::sleep(delay.next_pause()).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
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
        let path = "/orgs/o/business/policies/p/actions/freeze";
        assert_eq!(below_org(path, "o"), path);
        assert_eq!(below_org("/org/o/node/n/upgrade", "o"), "/orgs/o/node/n/upgrade");
        assert_eq!(below_org("/agbot/x", "o"), "/orgs/o/agbot/x");
    }
}
