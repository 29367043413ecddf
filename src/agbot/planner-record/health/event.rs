//! Events as the model holds them: what decides, without descriptions.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{HealthState, StoredReport};
use crate::{stable_hash::stable_hash, time::later};

/// The newest report of a source about a property.
///
/// # Shape
/// An organization may have a hundred thousand: descriptions are read from the database when they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthEvent {
    /// Source of the event.
    pub source: Arc<str>,
    /// About what.
    pub property: Arc<str>,
    /// State.
    pub state: HealthState,
    /// Its number.
    pub sequence: i64,
    /// Since when it is so.
    pub since: Timestamp,
    /// When the hub received it.
    pub received_at: Timestamp,
    /// When it expires by itself.
    pub expires_at: Option<Timestamp>,
    /// True if the event disappears when it expires; otherwise it then counts as an error.
    pub is_removed_when_expired: bool,
    /// The partition of the agbot that keeps it up; none for reports that hold by themselves.
    pub partition: Option<u32>,
    /// Digest of the description.
    pub digest: u64,
}

impl HealthEvent {
    /// Returns what the model holds of a report.
    pub fn of(report: &StoredReport) -> Self {
        Self {
            source: report.source.as_str().into(),
            property: report.property.as_str().into(),
            state: report.state,
            sequence: report.sequence,
            since: report.since(),
            received_at: report.received_at,
            expires_at: report.expires_at(),
            is_removed_when_expired: report.is_removed_when_expired,
            partition: report.partition,
            digest: digest(&report.description),
        }
    }

    /// Returns the state that counts, and since when; none when it has disappeared.
    ///
    /// # Shape
    /// `kept_up_until`: until when the owner of a partition keeps its reports up.
    pub fn state_at(
        &self,
        now: Timestamp,
        kept_up_until: impl FnOnce(u32) -> Option<Timestamp>,
    ) -> Option<(HealthState, Timestamp)> {
        let ends_at = match self.partition {
            Some(partition) => Some(kept_up_until(partition).unwrap_or(Timestamp::MIN)),
            None => self.expires_at,
        };
        match ends_at.filter(|at| now >= *at) {
            None => Some((self.state, self.since)),
            Some(_) if self.is_removed_when_expired => None,
            // One that was an error before keeps being one.
            Some(_) if self.state == HealthState::Error => Some((HealthState::Error, self.since)),
            Some(at) => Some((HealthState::Error, at)),
        }
    }

    /// Returns the order in which events of an entity are listed.
    pub(super) fn order(&self) -> (&str, &str) {
        (&self.source, &self.property)
    }
}

/// Returns the digest of a description.
pub fn digest(description: &str) -> u64 {
    stable_hash(&[description])
}

/// Returns until when the reports of a partition hold whose owner was last seen to hold it at this time.
pub(super) fn kept_up_until(confirmed_at: Timestamp, ttl_secs: u64) -> Timestamp {
    later(confirmed_at, ttl_secs)
}
