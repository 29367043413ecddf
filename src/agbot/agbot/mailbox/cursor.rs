//! Position from which the mailbox is read.
//!
//! Numbers of messages follow the order in which they are written, not that in which they are committed: a smaller number may come after a
//! greater one was read. So each read begins a while before the newest message that is known, and now and then a long while before it.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Time for which a message may be committed after one with a greater number, usually.
const USUAL_DELAY: Duration = Duration::from_secs(1);
/// The same at the longest: after this time a statement of the exchange has ended.
const LONGEST_DELAY: Duration = Duration::from_secs(90);
/// Interval between reads that begin a long while before the newest message.
const FAR_PERIOD: Duration = Duration::from_secs(30);

/// The newest numbers that were read, with the times at which everything up to them was read.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    ends: VecDeque<(Instant, i64)>,
    far_at: Option<Instant>,
    is_ignored: bool,
}

impl Cursor {
    /// Returns the number after which a read begins.
    pub fn begin(&mut self, now: Instant) -> i64 {
        let is_far = self.far_at.is_none_or(|at| now.duration_since(at) >= FAR_PERIOD);
        if is_far {
            self.far_at = Some(now);
        }
        let delay = if is_far { LONGEST_DELAY } else { USUAL_DELAY };
        let old = self.ends.iter().rev().find(|(at, _)| now.duration_since(*at) >= delay);
        old.map_or(0, |(_, last)| *last)
    }

    /// Notes that everything up to a number was read.
    pub fn end(&mut self, now: Instant, last: i64) {
        let is_crowded =
            self.ends.back().is_some_and(|(at, _)| now.duration_since(*at) < Duration::from_secs(1));
        let last = self.ends.back().map_or(last, |(_, newest)| last.max(*newest));
        if !is_crowded {
            self.ends.push_back((now, last));
        }
        // One that is old enough stays.
        while self.ends.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= LONGEST_DELAY) {
            self.ends.pop_front();
        }
    }

    /// Notes the numbers of a page that was to begin after one.
    pub fn note_page(&mut self, after: i64, numbers: impl Iterator<Item = i64>) {
        self.is_ignored |= numbers.into_iter().any(|number| number <= after);
    }

    /// Returns whether the exchange lists messages from the oldest one on, whatever it is asked for.
    pub fn is_ignored(&self) -> bool {
        self.is_ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_begin_before_the_newest_message_and_now_and_then_long_before_it() {
        let (begun, mut cursor) = (Instant::now(), Cursor::default());
        let at = |secs: u64| begun + Duration::from_secs(secs);
        assert_eq!(cursor.begin(at(0)), 0);
        cursor.end(at(0), 100);
        assert_eq!(cursor.begin(at(0)), 0, "a smaller number may follow");
        for second in 1..200_u32 {
            cursor.end(at(u64::from(second)), 100 + i64::from(second));
        }
        let _far = cursor.begin(at(200));
        assert_eq!(cursor.begin(at(200)), 299, "what is known for a second");
        assert_eq!(cursor.begin(at(230)), 240, "what is known for ninety seconds");
        assert!(cursor.ends.len() <= 92, "{}", cursor.ends.len());
    }

    #[test]
    fn exchange_that_lists_from_the_oldest_message_is_recognized() {
        let mut cursor = Cursor::default();
        cursor.note_page(5, [6, 7].into_iter());
        assert!(!cursor.is_ignored());
        cursor.note_page(7, [6, 7].into_iter());
        assert!(cursor.is_ignored());
    }
}
