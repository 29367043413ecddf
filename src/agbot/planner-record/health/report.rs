//! Reports: statements of a source about a property of an entity, and the rules by which a newer one replaces
//! an older one.
//!
//! Source: orchestration D1.

use evenkeel_domain::object::{Members, MembersError, Object};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::time::later;

/// Beginning of the sources that only the engine may name.
pub const SYSTEM: &str = "System.";
/// Largest number of events of one entity.
pub const MAX_EVENTS: usize = 100;
/// Longest name of a source or property, in characters.
const MAX_NAME: usize = 256;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 4096;
/// Longest time to live: ten years.
const MAX_TTL_SECS: u64 = 315_360_000;

const MEMBERS: Members = Members {
    known: &[
        "sourceId",
        "property",
        "healthState",
        "sequenceNumber",
        "ttlSeconds",
        "removeWhenExpired",
        "description",
        "sentAt",
    ],
    unsupported: &[],
};

/// State of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum HealthState {
    /// Healthy.
    #[default]
    Ok,
    /// Not as it should be, and it works.
    Warning,
    /// It does not work.
    Error,
}

impl HealthState {
    const WORDS: [(&'static str, Option<Self>); 3] =
        [("Ok", Some(Self::Ok)), ("Warning", Some(Self::Warning)), ("Error", Some(Self::Error))];

    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "Ok",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(one, _)| *one == word).and_then(|(_, state)| *state)
    }
}

/// Report of a source about a property of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// Source of the report.
    pub source: String,
    /// About what.
    pub property: String,
    /// State.
    pub state: HealthState,
    /// Its number; none lets the hub number it.
    pub sequence: Option<i64>,
    /// Time for which it holds; none: it does not expire.
    pub ttl_secs: Option<u64>,
    /// True if the event disappears when it expires; otherwise it then counts as an error.
    pub is_removed_when_expired: bool,
    /// Human-readable details.
    pub description: String,
    /// When it was sent, by the sender's clock.
    pub sent_at: Option<Timestamp>,
}

impl HealthReport {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// The first member that breaks a rule.
    pub fn read(body: Value) -> Result<Self, MembersError> {
        let mut object = Object::open(String::new(), body, &MEMBERS)?;
        let required = |object: &Object, name: &str| object.broken(name, "is required");
        let source = text(&mut object, "sourceId", 1..=MAX_NAME)?;
        let property = text(&mut object, "property", 1..=MAX_NAME)?;
        let state = object.word("healthState", &HealthState::WORDS)?;
        let sequence = sequence(&mut object)?;
        let ttl_secs = object.number("ttlSeconds", 1..=MAX_TTL_SECS)?;
        let is_removed_when_expired = object.boolean("removeWhenExpired")?.unwrap_or(false);
        let description = text(&mut object, "description", 0..=MAX_DESCRIPTION)?.unwrap_or_default();
        let sent_at = match object.text("sentAt", 64)? {
            Some(at) => {
                let rule = "must be an instant such as 2026-03-01T08:15:30.123Z";
                Some(at.parse::<Timestamp>().map_err(|_| object.broken("sentAt", rule))?)
            }
            None => None,
        };
        Ok(Self {
            source: source.ok_or_else(|| required(&object, "sourceId"))?,
            property: property.ok_or_else(|| required(&object, "property"))?,
            state: state.ok_or_else(|| required(&object, "healthState"))?,
            sequence,
            ttl_secs,
            is_removed_when_expired,
            description,
            sent_at,
        })
    }
}

fn text(
    object: &mut Object,
    name: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<String>, MembersError> {
    let Some(value) = object.take(name) else { return Ok(None) };
    let Value::String(text) = value else { return Err(object.broken(name, "must be a text")) };
    if text.contains('\0') {
        return Err(object.broken(name, "must not hold a NUL character"));
    }
    // Counting stops where the rule is broken.
    let count = text.chars().take(range.end() + 1).count();
    if range.contains(&count) {
        return Ok(Some(text));
    }
    let rule = format!("must hold {} to {} characters", range.start(), range.end());
    Err(object.broken(name, &rule))
}

/// Takes a number that a JSON reader may have had to keep as text, because it is larger than numbers of JavaScript.
fn sequence(object: &mut Object) -> Result<Option<i64>, MembersError> {
    let number = match object.take("sequenceNumber") {
        None => return Ok(None),
        Some(Value::String(text)) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        Some(value) => value.as_i64(),
    };
    let rule = format!("must be an integer from 1 to {}, as a number or as a text", i64::MAX);
    number.filter(|number| *number > 0).map(Some).ok_or_else(|| object.broken("sequenceNumber", &rule))
}

/// A report that is older than the one that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "stale: sequenceNumber must be greater than {known}, the number of the last report of this source about this property"
)]
pub struct Stale {
    /// The number of the known one.
    pub known: i64,
}

/// The newest report of a source about a property, with what came before it.
///
/// # Shape
/// The times of transitions: the start of the current state, and the last report of each other state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReport {
    /// Source of the event.
    pub source: String,
    /// About what.
    pub property: String,
    /// State.
    pub state: HealthState,
    /// Its number.
    pub sequence: i64,
    /// Lifetime of the event.
    pub ttl_secs: Option<u64>,
    /// True if the event disappears when it expires.
    pub is_removed_when_expired: bool,
    /// Human-readable details.
    pub description: String,
    /// When it was sent, by the sender's clock.
    pub sent_at: Option<Timestamp>,
    /// When the hub received it.
    pub received_at: Timestamp,
    /// The partition of the agbot that keeps it up; none for reports that hold by themselves.
    pub partition: Option<u32>,
    /// The last time of [`HealthState::Ok`].
    pub last_ok_at: Option<Timestamp>,
    /// The last time of [`HealthState::Warning`].
    pub last_warning_at: Option<Timestamp>,
    /// The last time of [`HealthState::Error`].
    pub last_error_at: Option<Timestamp>,
}

impl StoredReport {
    /// Returns what a report makes of the known one; none when it repeats it.
    ///
    /// # Errors
    /// [`Stale`] when its number is not greater than the known one.
    pub fn next(known: Option<&Self>, report: HealthReport, now: Timestamp) -> Result<Option<Self>, Stale> {
        // Events that have disappeared are not compared.
        let known = known.filter(|known| !known.is_gone(now));
        if let Some(known) = known {
            let stale = Err(Stale { known: known.sequence });
            match report.sequence {
                Some(number) if number == known.sequence && known.says(&report) => return Ok(None),
                Some(number) if number <= known.sequence => return stale,
                None if known.sequence == i64::MAX => return stale,
                _ => {}
            }
        }
        let sequence = report.sequence.unwrap_or_else(|| known.map_or(1, |known| known.sequence + 1));
        let mut next = Self {
            source: report.source,
            property: report.property,
            state: report.state,
            sequence,
            ttl_secs: report.ttl_secs,
            is_removed_when_expired: report.is_removed_when_expired,
            description: report.description,
            sent_at: report.sent_at,
            received_at: now,
            partition: None,
            last_ok_at: known.and_then(|known| known.last_ok_at),
            last_warning_at: known.and_then(|known| known.last_warning_at),
            last_error_at: known.and_then(|known| known.last_error_at),
        };
        let before = known.map(|known| (known.state, known.received_at));
        if let Some((state, at)) = before.filter(|(state, _)| *state != next.state) {
            *next.last_at(state) = Some(at);
        }
        // One that had expired begins again.
        let goes_on = known.is_some_and(|known| known.state == next.state && !known.is_expired(now));
        if !goes_on {
            *next.last_at(next.state) = Some(now);
        }
        Ok(Some(next))
    }

    fn last_at(&mut self, state: HealthState) -> &mut Option<Timestamp> {
        match state {
            HealthState::Ok => &mut self.last_ok_at,
            HealthState::Warning => &mut self.last_warning_at,
            HealthState::Error => &mut self.last_error_at,
        }
    }

    /// Returns since when it has its state.
    pub fn since(&self) -> Timestamp {
        let since = match self.state {
            HealthState::Ok => self.last_ok_at,
            HealthState::Warning => self.last_warning_at,
            HealthState::Error => self.last_error_at,
        };
        since.unwrap_or(self.received_at)
    }

    /// Returns when it expires by itself.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.ttl_secs.filter(|_| self.partition.is_none()).map(|secs| later(self.received_at, secs))
    }

    /// Returns whether it has expired by itself.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|at| now >= at)
    }

    /// Returns whether it has expired by itself and counts no longer.
    pub fn is_gone(&self, now: Timestamp) -> bool {
        self.is_removed_when_expired && self.is_expired(now)
    }

    fn says(&self, report: &HealthReport) -> bool {
        self.state == report.state
            && self.ttl_secs == report.ttl_secs
            && self.is_removed_when_expired == report.is_removed_when_expired
            && self.description == report.description
            && self.sent_at == report.sent_at
    }
}
