//! Which organizations the hub's own agbot serves by itself: each once, when it comes to be.
//!
//! What an administrator takes out of the served entries later stays out, because the agbot's own records keep that the
//! organization was offered. Source: agbot 1.2.

use evenkeel_client::model::{ServedPattern, ServedPolicy};
use evenkeel_client::{Client, ClientError};
use evenkeel_store::Database;
use evenkeel_store::agbot::offered;

use crate::AgbotError;

/// Stands for every policy or pattern of an organization.
const EVERY: &str = "*";

/// The agbot that serves, and where its records are.
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
    /// An entry that exists already is left as it is.
    /// # Errors
    /// When the database or the exchange does not answer.
    pub async fn offer_org(self, org: &str) -> Result<(), AgbotError> {
        let policies = ServedPolicy {
            business_pol_orgid: org.to_owned(),
            business_pol: EVERY.to_owned(),
            node_orgid: org.to_owned(),
            ..ServedPolicy::default()
        };
        accept_existing(self.client.add_served_policy(self.org, self.id, &policies).await)?;
        let patterns = ServedPattern {
            pattern_orgid: org.to_owned(),
            pattern: EVERY.to_owned(),
            node_orgid: org.to_owned(),
            ..ServedPattern::default()
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
