//! Rules that the mailboxes of nodes and agbots share.
//!
//! Source: exchange-api 8.

use evenkeel_exchange_store::message::{MessageFilter, MessageRow, Volume};
use evenkeel_wire::exchange::message::MessagesQuery;
use jiff::{SignedDuration, Timestamp};

use super::pages::LARGE_PAGE_ROWS;
use crate::ApiError;
use crate::mailbox_usage::full;
use crate::settings::MailboxLimits;

/// Expired messages stay in the table for this time, as in the reference, but are not returned.
const GRACE: SignedDuration = SignedDuration::from_millis(500);

/// The number of a message in a path.
pub(super) fn parse_id(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| ApiError::invalid_input(format!("'{text}' is not the number of a message")))
}

/// Largest number of messages or bytes in a list; `None` is no limit.
fn limit(wanted: Option<i32>) -> Option<i64> {
    wanted.filter(|count| *count > 0).map(i64::from)
}

/// Start of a page of a mailbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    after: Option<i64>,
    now: Timestamp,
    /// Number of messages that are still wanted; `None` is all of them.
    left: Option<i64>,
    /// Number of bytes that are still wanted; `None` is any number.
    bytes_left: Option<usize>,
}

impl Place {
    /// The first page of messages that are alive at `now`.
    pub(super) fn first(now: Timestamp, query: &MessagesQuery) -> Place {
        let bytes_left = limit(query.maxbytes).and_then(|bytes| usize::try_from(bytes).ok());
        Place { after: query.after, now, left: limit(query.maxmsgs), bytes_left }
    }

    /// Drops messages beyond the reader's limit of bytes. It gets at least one message, so that it makes
    /// progress.
    pub(super) fn cut(&mut self, rows: &mut Vec<MessageRow>, is_first: bool) -> bool {
        let Some(bytes_left) = &mut self.bytes_left else { return false };
        for position in 0..rows.len() {
            let size = rows[position].message.len() + rows[position].public_key.len();
            if size > *bytes_left && !(is_first && position == 0) {
                rows.truncate(position);
                return true;
            }
            *bytes_left = bytes_left.saturating_sub(size);
        }
        false
    }

    fn rows(self) -> i64 {
        self.left.unwrap_or(LARGE_PAGE_ROWS).min(LARGE_PAGE_ROWS)
    }

    /// Returns the filter for the store.
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
pub(super) fn expiry(now: Timestamp, ttl_seconds: i64, limits: &MailboxLimits) -> Timestamp {
    let longest = i64::try_from(limits.lifetime.as_secs()).unwrap_or(i64::MAX);
    now.saturating_add(SignedDuration::from_secs(ttl_seconds.min(longest))).unwrap_or(now)
}

/// Longest key of a sender.
const KEY_BYTES: usize = 16 * 1024;

/// Returns what a message takes of a mailbox, without the key of its sender.
///
/// # Errors
/// 413 when it is too large.
pub(super) fn measure(message: &str, limits: &MailboxLimits) -> Result<Volume, ApiError> {
    if message.len() > limits.message_bytes {
        return Err(ApiError::too_large(format!(
            "message: it has {} bytes, and a message may have {}",
            message.len(),
            limits.message_bytes
        )));
    }
    Ok(Volume { messages: 1, bytes: i64::try_from(message.len()).unwrap_or(i64::MAX) })
}

/// Adds the key of the sender to what a message takes.
///
/// # Errors
/// 400 when it is too large.
pub(super) fn with_key(message: Volume, public_key: &str) -> Result<Volume, ApiError> {
    if public_key.len() > KEY_BYTES {
        return Err(ApiError::invalid_input(format!(
            "the public key of the sender has {} bytes, and that of a sender of messages may have {KEY_BYTES}",
            public_key.len()
        )));
    }
    let key = Volume { messages: 0, bytes: i64::try_from(public_key.len()).unwrap_or(i64::MAX) };
    Ok(message + key)
}

/// Refuses a message that exceeds what one sender may have in a mailbox.
pub(super) fn check_sender(own: Volume, new: Volume, limit: Volume) -> Result<(), ApiError> {
    if (own + new).fits(limit) {
        return Ok(());
    }
    Err(full(&format!(
        "the mailbox holds {} messages of this sender with {} bytes, and accepts no more from it",
        own.messages, own.bytes
    )))
}

/// Refuses a message to a full mailbox.
pub(super) fn check_mailbox(used: Volume, new: Volume, limit: Volume) -> Result<(), ApiError> {
    if (used + new).fits(limit) {
        return Ok(());
    }
    Err(full(&format!("the mailbox is full: it holds {} messages with {} bytes", used.messages, used.bytes)))
}

/// Returns the instant before which expired messages may be removed.
pub(super) fn long_expired(now: Timestamp) -> Timestamp {
    now.saturating_sub(GRACE).unwrap_or(now)
}

/// Refuses a message to a mailbox with as many messages as root allows; 0 allows any number.
pub(super) fn check_space(count: i64, capacity: i64) -> Result<(), ApiError> {
    if capacity > 0 && count >= capacity {
        let message = format!("the mailbox is full: it holds {capacity} messages");
        return Err(ApiError::too_many(30, message));
    }
    Ok(())
}
