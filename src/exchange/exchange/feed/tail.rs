//! The newest changes in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_exchange_store::change::SequencedChange;

use super::Selection;

/// Sequenced changes above a lower bound, without gaps up to `last`.
pub struct Tail {
    capacity: usize,
    last: AtomicI64,
    kept: RwLock<Kept>,
}

struct Kept {
    /// Changes with numbers up to this one are not in memory.
    lower_bound: i64,
    rows: VecDeque<Arc<SequencedChange>>,
}

impl Tail {
    pub fn new(lower_bound: i64, capacity: usize) -> Tail {
        Tail {
            capacity,
            last: AtomicI64::new(lower_bound),
            kept: RwLock::new(Kept { lower_bound, rows: VecDeque::new() }),
        }
    }

    pub fn last(&self) -> i64 {
        self.last.load(Ordering::Acquire)
    }

    /// Appends rows above the last number, ascending; `last` is the number up to which nothing is missing.
    pub fn append(&self, rows: Vec<SequencedChange>, last: i64) -> Vec<Arc<SequencedChange>> {
        let rows: Vec<Arc<SequencedChange>> = rows.into_iter().map(Arc::new).collect();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        let known = self.last();
        kept.rows.extend(rows.iter().filter(|row| row.change_id > known).cloned());
        while kept.rows.len() > self.capacity {
            if let Some(oldest) = kept.rows.pop_front() {
                kept.lower_bound = oldest.change_id;
            }
        }
        let newest = rows.last().map_or(known, |row| row.change_id);
        self.last.store(known.max(newest).max(last), Ordering::Release);
        rows
    }

    /// The first `limit` allowed changes from `from` on, `None` when some of them are not in memory.
    pub fn select(
        &self,
        from: i64,
        limit: usize,
        allowed: &impl Fn(&SequencedChange) -> bool,
    ) -> Option<Selection> {
        let last = self.last();
        if from > last {
            return Some(Selection { changes: Vec::new(), last });
        }
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if from <= kept.lower_bound {
            return None;
        }
        let start = kept.rows.partition_point(|row| row.change_id < from);
        let changes = kept.rows.range(start..).filter(|row| allowed(row)).take(limit).cloned().collect();
        Some(Selection { changes, last: self.last() })
    }

    /// Returns true if one of the rows in memory satisfies the predicate.
    pub fn any(&self, is_wanted: impl Fn(&SequencedChange) -> bool) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.rows.iter().rev().any(|row| is_wanted(row))
    }

    /// Forgets the rows in memory, for instance after a pruning by hand.
    pub fn forget_rows(&self) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.lower_bound = self.last();
        kept.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change_id: i64) -> SequencedChange {
        SequencedChange {
            change_id,
            org: "o".into(),
            id: "n".into(),
            category: "node".into(),
            resource: "node".into(),
            operation: "modified".into(),
            is_public: false,
            changed_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn numbers(selection: &Selection) -> Vec<i64> {
        selection.changes.iter().map(|row| row.change_id).collect()
    }

    #[test]
    fn reader_gets_every_change_from_its_number_on() {
        let tail = Tail::new(10, 100);
        tail.append((11..=15).map(row).collect(), 15);
        let selection = tail.select(13, 100, &|_| true).expect("in memory");
        assert_eq!((numbers(&selection), selection.last), (vec![13, 14, 15], 15));
        assert!(tail.select(16, 100, &|_| true).expect("nothing new").changes.is_empty());
        assert!(tail.select(10, 100, &|_| true).is_none(), "older ones are not in memory");
    }

    #[test]
    fn memory_is_bounded_and_its_lower_bound_follows() {
        let tail = Tail::new(0, 3);
        tail.append((1..=5).map(row).collect(), 5);
        assert!(tail.select(2, 9, &|_| true).is_none());
        assert_eq!(numbers(&tail.select(3, 9, &|_| true).expect("in memory")), vec![3, 4, 5]);
    }

    #[test]
    fn rows_seen_before_are_not_appended_twice() {
        let tail = Tail::new(0, 10);
        tail.append((1..=3).map(row).collect(), 3);
        tail.append((2..=4).map(row).collect(), 4);
        assert_eq!(numbers(&tail.select(1, 9, &|_| true).expect("in memory")), vec![1, 2, 3, 4]);
    }
}
