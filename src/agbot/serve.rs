//! Serves new organizations with the hub's own agbot, each once when it is created.
//!
//! An entry that an administrator removes later stays removed, because the agbot's own records keep that the
//! organization was offered. Source: agbot 1.2.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot_store::offered;
use evenkeel_client::{Client, ClientError};
use evenkeel_store::Database;
use evenkeel_wire::exchange::agbot::{PostServedPattern, PostServedPolicy};
use evenkeel_wire::exchange::changes::ChangesRequest;
use tokio_util::sync::CancellationToken;

use crate::AgbotError;
use crate::context::Context;

/// Matches every policy or pattern of an organization.
const EVERY: &str = "*";
/// The change feed of every organization carries organization creations; this one has few other changes.
const FEED: &str = "root";
const PAGE: i64 = 1_000;
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between polls of an exchange that does not park them.
const UNPARKED: Duration = Duration::from_secs(1);

/// Serves every organization that is created, until shutdown.
///
/// It follows the feed itself: a new organization must not wait for a full read of the fleet.
pub(crate) async fn run(context: Arc<Context>, first_change: Option<i64>, shutdown: CancellationToken) {
    let mut next = first_change;
    loop {
        let outcome = tokio::select! {
            outcome = follow(&context, &mut next) => outcome,
            () = shutdown.cancelled() => return,
        };
        if let Err(error) = outcome {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "organization changes not read, retrying"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Follows the feed until a call fails; `next` is the first unprocessed change.
async fn follow(context: &Context, next: &mut Option<i64>) -> Result<(), AgbotError> {
    let end = context.client.max_change_id().await? + 1;
    // An exchange restored from an older state counts from there again.
    let mut next_change = next.filter(|next_change| *next_change <= end).unwrap_or(end);
    loop {
        *next = Some(next_change);
        let request =
            ChangesRequest { change_id: next_change, max_records: PAGE, ..ChangesRequest::default() };
        let began = Instant::now();
        let (response, _) =
            context.client.wait_for_changes(FEED, &request, context.settings.poll_wait).await?;
        for change in &response.changes {
            if change.resource == "org" && change.operation == "created" {
                context.as_serving().offer_org(&change.id).await?;
            }
        }
        next_change = response.most_recent_change_id + 1;
        if response.changes.is_empty() && began.elapsed() < UNPARKED {
            tokio::time::sleep(UNPARKED).await;
        }
    }
}

/// The serving agbot and its records.
#[derive(Clone, Copy)]
pub struct ServingAgbot<'a> {
    /// Organization of the agbot.
    pub org: &'a str,
    /// Id of the agbot.
    pub id: &'a str,
    /// The agbot's own credentials at the exchange.
    pub client: &'a Client,
    /// The agbot's own records.
    pub database: &'a Database,
}

impl ServingAgbot<'_> {
    /// Serves all policies and patterns of an organization for its own nodes, and records that it was offered.
    ///
    /// An existing entry is kept.
    /// # Errors
    /// When the database or the exchange does not respond.
    pub async fn offer_org(self, org: &str) -> Result<(), AgbotError> {
        let policies = PostServedPolicy {
            business_pol_orgid: org.to_owned(),
            business_pol: EVERY.to_owned(),
            node_orgid: Some(org.to_owned()),
        };
        accept_existing(self.client.add_served_policy(self.org, self.id, &policies).await)?;
        let patterns = PostServedPattern {
            pattern_orgid: org.to_owned(),
            pattern: EVERY.to_owned(),
            node_orgid: Some(org.to_owned()),
        };
        accept_existing(self.client.add_served_pattern(self.org, self.id, &patterns).await)?;
        offered::insert_offered(&mut *self.database.acquire().await?, org).await?;
        Ok(())
    }
}

fn accept_existing<T>(outcome: Result<T, ClientError>) -> Result<(), ClientError> {
    match outcome {
        Err(ClientError::Status { status: 409, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
