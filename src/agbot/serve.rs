//! Which organizations the hub's own agbot serves by itself: each once, when it comes to be.
//!
//! What an administrator takes out of the served entries later stays out, because it is noted that the organization was
//! offered. Source: agbot 1.2.

use evenkeel_client::model::{ServedPattern, ServedPolicy};
use evenkeel_client::{Client, ClientError};
use evenkeel_store::agbot::offered;
use evenkeel_store::exchange::served::{ServedRow, insert_pattern, insert_policy};
use evenkeel_store::{Database, StoreError};
use jiff::Timestamp;

use crate::AgbotError;

/// The agbot that serves, and where its records are.
#[derive(Clone, Copy)]
pub struct ServingAgbot<'a> {
    /// Organization of the agbot.
    pub org: &'a str,
    /// Id of the agbot.
    pub id: &'a str,
    /// The agbot's own credentials at the exchange.
    pub client: &'a Client,
    /// The agbot's records; those of the exchange too, in a hub.
    pub database: &'a Database,
}

impl ServingAgbot<'_> {
    /// Serves all policies and patterns of an organization for its own nodes, and notes that it was offered. Being served
    /// already is fine.
    ///
    /// In a hub the entries are the hub's own arrangement, made beside the API: no row of the feed tells other agbots of them.
    /// An agbot with records of its own asks the exchange.
    ///
    /// # Errors
    /// When the database or the exchange does not answer.
    pub async fn offer_org(self, org: &str, now: Timestamp) -> Result<(), AgbotError> {
        let row = ServedRow {
            entry: format!("{org}_*_{org}"),
            subject_org: org.to_owned(),
            subject: "*".to_owned(),
            node_org: org.to_owned(),
            updated_at: now,
        };
        // The connection is given back before the exchange is asked.
        let is_here = {
            let mut connection = self.database.acquire().await?;
            is_written(insert_policy(&mut connection, self.org, self.id, &row).await)?
                && is_written(insert_pattern(&mut connection, self.org, self.id, &row).await)?
        };
        if !is_here {
            self.ask_to_serve(&row).await?;
        }
        offered::insert_offered(&mut *self.database.acquire().await?, org).await?;
        Ok(())
    }

    async fn ask_to_serve(self, row: &ServedRow) -> Result<(), ClientError> {
        let policies = ServedPolicy {
            business_pol_orgid: row.subject_org.clone(),
            business_pol: row.subject.clone(),
            node_orgid: row.node_org.clone(),
            ..ServedPolicy::default()
        };
        there_is_fine(self.client.add_served_policy(self.org, self.id, &policies).await)?;
        let patterns = ServedPattern {
            pattern_orgid: row.subject_org.clone(),
            pattern: row.subject.clone(),
            node_orgid: row.node_org.clone(),
            ..ServedPattern::default()
        };
        there_is_fine(self.client.add_served_pattern(self.org, self.id, &patterns).await)
    }
}

/// Whether the entry is in the database; false when the agbot is not, so that the exchange's records are elsewhere.
fn is_written(outcome: Result<(), StoreError>) -> Result<bool, StoreError> {
    match outcome {
        Ok(()) | Err(StoreError::Conflict { .. }) => Ok(true),
        Err(StoreError::ParentMissing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn there_is_fine<T>(outcome: Result<T, ClientError>) -> Result<(), ClientError> {
    match outcome {
        Err(ClientError::Status { status: 409, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
