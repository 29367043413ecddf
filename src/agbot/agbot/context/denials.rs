//! Recently recorded refusals.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_ids::PolicyId;

/// The same refusal is recorded again after this time.
const REPEATED_AFTER: Duration = Duration::from_secs(60);
/// Refusals that are remembered.
const LIMIT: usize = 1_000;

/// A denial: caller, policy and action.
type Denial = (String, PolicyId, String);

/// The refusals of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<BTreeMap<Denial, Instant>>);

impl Denials {
    /// Remembers a refusal. Returns true if it must be recorded: it was not recorded recently, and there are
    /// not too many.
    pub(crate) fn is_news(&self, denial: Denial) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let denials = Denials::default();
        let denial = |number: usize| {
            ("o/eve".to_owned(), PolicyId::new("o", &format!("p{number}")), "stop".to_owned())
        };
        assert!(denials.is_news(denial(0)) && !denials.is_news(denial(0)));
        assert!((1..LIMIT).all(|number| denials.is_news(denial(number))));
        assert!(!denials.is_news(denial(LIMIT)));
    }
}
