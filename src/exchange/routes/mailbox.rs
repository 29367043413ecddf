//! Rules that the mailboxes of nodes and agbots share.
//!
//! Source: exchange contract section 8.

use jiff::{SignedDuration, Timestamp};

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
