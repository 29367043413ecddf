//! Serves new organizations with the hub's own agbot, each once when it is created.
//!
//! An entry that an administrator removes later stays removed, because the agbot's own records keep that the
//! organization was offered. Source: agbot 1.2.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot_store::offered;
use evenkeel_client::{Client, ClientError};
use evenkeel_runtime::worker::Worker;
use evenkeel_store::Database;
use evenkeel_wire::exchange::agbot::{PostServedPattern, PostServedPolicy};
use evenkeel_wire::exchange::changes::ChangesRequest;

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

/// Serves every organization that is created.
///
/// It follows the feed itself: a new organization must not wait for a full read of the fleet.
pub(crate) struct OrganizationServer {
    context: Arc<Context>,
    /// The first unprocessed change; none for changes from now on.
    next_change: Option<i64>,
    is_following: bool,
    pause: Duration,
}

impl OrganizationServer {
    pub(crate) fn new(context: Arc<Context>, first_change: Option<i64>) -> Self {
        Self { context, next_change: first_change, is_following: false, pause: Duration::ZERO }
    }

    /// Returns the number to poll from.
    async fn position(&self) -> Result<i64, AgbotError> {
        if let Some(next) = self.next_change.filter(|_| self.is_following) {
            return Ok(next);
        }
        let end = self.context.client.max_change_id().await? + 1;
        // An exchange restored from an older state counts from there again.
        Ok(self.next_change.filter(|next| *next <= end).unwrap_or(end))
    }

    /// Polls once, and serves the organizations that were created.
    async fn poll(&mut self) -> Result<(), AgbotError> {
        let position = self.position().await?;
        self.next_change = Some(position);
        let request = ChangesRequest { change_id: position, max_records: PAGE, ..ChangesRequest::default() };
        let began = Instant::now();
        let context = &self.context;
        let (response, _) =
            context.client.wait_for_changes(FEED, &request, context.settings.poll_wait).await?;
        for change in &response.changes {
            if change.resource == "org" && change.operation == "created" {
                ServingAgbot::of(context).offer_org(&change.id).await?;
            }
        }
        self.next_change = Some(response.most_recent_change_id + 1);
        let is_unparked = response.changes.is_empty() && began.elapsed() < UNPARKED;
        self.pause = if is_unparked { UNPARKED } else { Duration::ZERO };
        Ok(())
    }
}

impl Worker for OrganizationServer {
    type Error = AgbotError;
    const NAME: &'static str = "new_organizations";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), AgbotError> {
        let result = self.poll().await;
        self.is_following = result.is_ok();
        if result.is_err() {
            self.pause = PAUSE;
        }
        result
    }

    fn pause(&self) -> Duration {
        self.pause
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

impl<'a> ServingAgbot<'a> {
    /// The agbot itself, for the organizations that it serves by itself.
    fn of(context: &'a Context) -> Self {
        let (org, id) = (&context.settings.org, &context.settings.id);
        Self { org, id, client: &context.client, database: &context.database }
    }
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
        self.database.read(async |connection| offered::insert_offered(connection, org).await).await?;
        Ok(())
    }
}

fn accept_existing<T>(outcome: Result<T, ClientError>) -> Result<(), ClientError> {
    match outcome {
        Err(ClientError::Status { status: 409, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
