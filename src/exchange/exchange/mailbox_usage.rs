//! Usage of the mailboxes of agbots, as this exchange knows it.
//!
//! The mailbox of a hub's agbot takes the messages of every node. A lock on it would let all of them wait for each other, and counting it for
//! each message would cost more than the message. So it is counted at most four times a second, and what this exchange adds meanwhile is
//! added up: a limit is exceeded by what other exchanges accept in that time. The mailboxes of nodes, and what one sender has in a mailbox,
//! are counted exactly.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_exchange_store::message::{self, Volume};
use evenkeel_store::{Database, StoreError};
use jiff::Timestamp;

use crate::ApiError;
use crate::settings::MailboxLimits;

/// Time for which a count is used.
const USED_FOR: Duration = Duration::from_millis(250);
/// Number of mailboxes above which those that were not used recently are forgotten.
const KEPT: usize = 1_000;

/// An agbot's organization and id.
type Key = (String, String);

#[derive(Debug, Default)]
pub(crate) struct MailboxUsage(Mutex<HashMap<Key, Known>>);

#[derive(Debug)]
struct Known {
    counted_at: Instant,
    total: Volume,
    /// By the organization of the senders.
    orgs: HashMap<String, Volume>,
}

impl Known {
    fn of(counted_at: Instant, volumes: Vec<(String, Volume)>) -> Self {
        let total = volumes.iter().fold(Volume::default(), |total, (_, volume)| total + *volume);
        Self { counted_at, total, orgs: volumes.into_iter().collect() }
    }
}

impl MailboxUsage {
    /// Reserves room for a message of `new` bytes from a sender of an organization.
    ///
    /// # Errors
    /// 429 when the mailbox, or the organization's share of it, is full; 503 when the store does not respond.
    pub(crate) async fn reserve(
        &self,
        database: &Database,
        limits: &MailboxLimits,
        (org, agbot): (&str, &str),
        sender_org: &str,
        (new, now): (Volume, Timestamp),
    ) -> Result<(), ApiError> {
        let key = (org.to_owned(), agbot.to_owned());
        if !self.is_fresh(&key) {
            let counted_at = Instant::now();
            let volumes = count(database, limits, &key, now).await?;
            let mut known = self.lock();
            if known.len() >= KEPT {
                known.retain(|_, one| one.counted_at.elapsed() < USED_FOR);
            }
            known.insert(key.clone(), Known::of(counted_at, volumes));
        }
        let mut known = self.lock();
        let Some(known) = known.get_mut(&key) else { return Ok(()) };
        let own = known.orgs.entry(sender_org.to_owned()).or_default();
        if !(*own + new).fits(limits.agbot_org) {
            return Err(full(&format!(
                "the mailbox accepts no more from senders of organization '{sender_org}'"
            )));
        }
        if !(known.total + new).fits(limits.agbot) {
            return Err(full("the mailbox is full"));
        }
        *own = *own + new;
        known.total = known.total + new;
        Ok(())
    }

    /// Releases the space that was reserved for a message that was not sent.
    pub(crate) fn give_back(&self, (org, agbot): (&str, &str), sender_org: &str, new: Volume) {
        let unused = Volume { messages: -new.messages, bytes: -new.bytes };
        if let Some(known) = self.lock().get_mut(&(org.to_owned(), agbot.to_owned())) {
            known.total = known.total + unused;
            if let Some(own) = known.orgs.get_mut(sender_org) {
                *own = *own + unused;
            }
        }
    }

    fn is_fresh(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|known| known.counted_at.elapsed() < USED_FOR)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn count(
    database: &Database,
    limits: &MailboxLimits,
    (org, agbot): &Key,
    now: Timestamp,
) -> Result<Vec<(String, Volume)>, StoreError> {
    let most = limits.agbot.messages.saturating_add(1);
    database.read(async |connection| message::usage_of_agbot(connection, org, agbot, now, most).await).await
}

/// The refusal of a message for which there is no room now.
pub(crate) fn full(what: &str) -> ApiError {
    ApiError::too_many(30, format!("{what}, try again when the receiver has read"))
}
