//! What the API remembers of actions: recently recorded refusals, and whether any action has no audit record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_ids::PolicyId;

/// The same refusal is recorded again after this time.
const REPEATED_AFTER: Duration = Duration::from_secs(60);
/// Refusals that are remembered.
const LIMIT: usize = 1_000;

/// A denial: caller, policy and action.
type Denial = (String, PolicyId, String);

/// What the API remembers of actions.
#[derive(Debug, Default)]
pub(super) struct ActionNotes {
    /// The refusals of the last minute.
    denials: Mutex<BTreeMap<Denial, Instant>>,
    /// True if an action was executed for which the exchange keeps no audit record.
    has_unrecorded: AtomicBool,
}

impl ActionNotes {
    /// Remembers an action without an audit record; logs the first one, at an exchange of the reference, which has no such records.
    pub(super) fn note_unrecorded(&self) {
        if !self.has_unrecorded.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the exchange keeps no audit records of actions: they are in the events of the agbot only"
            );
        }
    }

    /// Remembers a refusal. Returns true if it must be recorded: it was not recorded recently, and there are
    /// not too many.
    pub(super) fn is_news(&self, denial: Denial) -> bool {
        let mut known = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, at| at.elapsed() < REPEATED_AFTER);
        if known.len() >= LIMIT || known.contains_key(&denial) {
            return false;
        }
        known.insert(denial, Instant::now());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_refusals_and_a_flood_of_them_are_no_news() {
        let notes = ActionNotes::default();
        let denial = |number: usize| {
            ("o/eve".to_owned(), PolicyId::new("o", &format!("p{number}")), "stop".to_owned())
        };
        assert!(notes.is_news(denial(0)) && !notes.is_news(denial(0)));
        assert!((1..LIMIT).all(|number| notes.is_news(denial(number))));
        assert!(!notes.is_news(denial(LIMIT)));
    }
}
