//! Rules that the mailboxes of nodes and agbots share.
//!
//! Source: exchange contract section 8.

use evenkeel_exchange_store::message::MessageFilter;
use jiff::{SignedDuration, Timestamp};

use super::pages::LARGE_PAGE_ROWS;
use crate::ApiError;

/// Expired messages stay this long in the table, as in the reference; nobody sees them meanwhile.
const GRACE: SignedDuration = SignedDuration::from_millis(500);

/// The number of a message in a path.
pub(super) fn parse_id(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| ApiError::invalid_input(format!("'{text}' is not the number of a message")))
}

/// How many messages a list shall hold; `None` is all of them.
pub(super) fn limit(wanted: Option<i32>) -> Option<i64> {
    wanted.filter(|count| *count > 0).map(i64::from)
}

/// Where a page of a mailbox begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    after: Option<i64>,
    now: Timestamp,
    /// How many messages are still wanted; `None` is all of them.
    left: Option<i64>,
}

impl Place {
    /// The first page of messages that are alive at `now`.
    pub(super) fn first(now: Timestamp, wanted: Option<i64>) -> Place {
        Place { after: None, now, left: wanted }
    }

    fn rows(self) -> i64 {
        self.left.unwrap_or(LARGE_PAGE_ROWS).min(LARGE_PAGE_ROWS)
    }

    /// What to ask the store for.
    pub(super) fn filter(self) -> MessageFilter {
        MessageFilter { message_id: None, after: self.after, now: self.now, limit: self.rows() }
    }

    /// The page after one with `count` messages whose last number is given; `None` when it was the last.
    pub(super) fn next(self, count: usize, last: Option<i64>) -> Option<Place> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let left = self.left.map(|left| left - count);
        (count == self.rows() && left != Some(0)).then_some(Place { after: last, left, ..self })
    }
}

/// When a message expires.
pub(super) fn expiry(now: Timestamp, ttl_seconds: i64) -> Timestamp {
    now.saturating_add(SignedDuration::from_secs(ttl_seconds)).unwrap_or(now)
}

/// What expired before this instant may be removed.
pub(super) fn long_expired(now: Timestamp) -> Timestamp {
    now.saturating_sub(GRACE).unwrap_or(now)
}

/// Refuses a message to a full mailbox.
pub(super) fn check_space(count: i64, capacity: i64) -> Result<(), ApiError> {
    if count >= capacity {
        return Err(ApiError::TooMany {
            retry_after: 30,
            message: format!("the mailbox is full: it holds {capacity} messages"),
        });
    }
    Ok(())
}
