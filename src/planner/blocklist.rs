//! The node blocklist: a node gets no more starts of a service version that keeps failing on it, for longer and longer times.
//!
//! A row counts the failures of a service version on a node. Changes are functions of the row, so that the transaction that writes them
//! and the model that follows come to the same row. A block ends when its end is written, not by the clock. Source: orchestration D4.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::BlocklistRules;
use evenkeel_ids::{NodeId, PolicyId, ServiceKey, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    report::Blocked,
    usage::{later, secs_since},
};

/// Rows of services that were blocked once are kept this long after their last failure.
const MEMORY_SECS: u64 = 7 * 86_400;
/// Longest text of a failure that is kept, in characters.
const LONGEST_TEXT: usize = 500;

/// What is counted by itself: a service version on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlocklistKey {
    /// The node.
    pub node: NodeId,
    /// The service.
    pub service: ServiceKey,
    /// Its version.
    pub version: String,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    /// The task.
    pub task: TaskId,
    /// When.
    pub at: Timestamp,
}

/// The row of a service version on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlocklistEntry {
    /// The failures within the window, or those that led to the block.
    pub failures: Vec<FailedTask>,
    /// Consecutive blocks.
    pub blocks: u32,
    /// Since when the node is blocked.
    pub since: Option<Timestamp>,
    /// Until when the node is blocked; none while it is not.
    pub until: Option<Timestamp>,
    /// The text of the last failure.
    pub last_failure: String,
    /// The policy of the task that failed last.
    pub policy: Option<PolicyId>,
    /// When the row is dropped, if nothing happens before.
    pub kept_until: Timestamp,
}

/// A change of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum BlocklistChange {
    /// A task failed before it had run for long enough.
    Failed {
        /// The task.
        task: TaskId,
        /// Its policy.
        policy: PolicyId,
        /// When, by the hub's clock.
        at: Timestamp,
        /// Why, in words.
        text: String,
        /// The rules of the organization.
        rules: BlocklistRules,
    },
    /// The service ran for long enough, or a user started it.
    Ran,
    /// The time of a block, or of a row that is no longer needed, is over.
    Expired {
        /// Now.
        at: Timestamp,
    },
}

/// The changes that a decision makes, each of the row with the key.
pub type BlocklistChanges = Vec<(BlocklistKey, BlocklistChange)>;

/// What the tasks of a workload unit tell the blocklist.
#[derive(Debug, Default)]
pub struct BlocklistNews {
    /// The changes of rows.
    pub changes: BlocklistChanges,
    /// The nodes that these changes block for the current version.
    pub blocked: BTreeMap<NodeId, Blocked>,
}

impl BlocklistNews {
    /// Nothing.
    pub const NONE: Self = Self { changes: Vec::new(), blocked: BTreeMap::new() };
}

impl BlocklistEntry {
    /// Returns the row after a change; none deletes it. Repeating a change changes nothing.
    pub fn changed(known: Option<&Self>, change: &BlocklistChange) -> Option<Self> {
        match change {
            BlocklistChange::Failed { task, policy, at, text, rules } => {
                let failed = Self::failed(known, FailedTask { task: task.clone(), at: *at }, text, rules);
                Some(Self { policy: Some(policy.clone()), ..failed })
            }
            BlocklistChange::Ran => None,
            BlocklistChange::Expired { at } => known.cloned().and_then(|entry| entry.expired(*at)),
        }
    }

    fn failed(known: Option<&Self>, failure: FailedTask, text: &str, rules: &BlocklistRules) -> Self {
        let mut entry = known.cloned().unwrap_or_else(|| Self {
            failures: Vec::new(),
            blocks: 0,
            since: None,
            until: None,
            last_failure: String::new(),
            policy: None,
            kept_until: failure.at,
        });
        if entry.failures.iter().any(|one| one.task == failure.task) {
            return entry;
        }
        let at = failure.at;
        if entry.until.is_none() {
            entry.failures.retain(|one| secs_since(one.at, at) <= rules.window_secs);
        }
        entry.failures.push(failure);
        entry.last_failure = text.chars().take(LONGEST_TEXT).collect();
        if entry.until.is_none() && entry.failures.len() >= rules.failure_threshold as usize {
            entry.blocks = entry.blocks.saturating_add(1);
            entry.since = Some(at);
            entry.until = Some(later(at, rules.duration_secs(entry.blocks)));
        }
        let memory_secs =
            if entry.blocks > 0 { MEMORY_SECS.max(rules.window_secs) } else { rules.window_secs };
        entry.kept_until = later(entry.until.unwrap_or(at), memory_secs);
        entry
    }

    fn expired(mut self, at: Timestamp) -> Option<Self> {
        match self.until {
            Some(until) if until <= at => {
                (self.since, self.until) = (None, None);
                self.failures.clear();
                Some(self)
            }
            None if self.kept_until <= at => None,
            _ => Some(self),
        }
    }

    /// Returns when time changes the row.
    pub fn due_at(&self) -> Timestamp {
        self.until.unwrap_or(self.kept_until)
    }

    /// Returns why the node gets no start of the service; none while it is not blocked.
    pub fn blocked(&self, key: &BlocklistKey) -> Option<Blocked> {
        Some(Blocked::Blocklisted {
            service: key.service.clone(),
            version: key.version.clone(),
            until: self.until?,
            failure: self.last_failure.clone(),
        })
    }

    /// Returns the kind of the event of a change; none when the node is blocked as before.
    pub fn event_kind(
        before: Option<&Self>,
        change: &BlocklistChange,
        after: Option<&Self>,
    ) -> Option<&'static str> {
        let until = |entry: Option<&Self>| entry.and_then(|entry| entry.until);
        match (until(before), until(after)) {
            (None, Some(_)) => Some("blocklist.added"),
            (Some(_), None) if matches!(change, BlocklistChange::Expired { .. }) => Some("blocklist.expired"),
            (Some(_), None) => Some("blocklist.cleared"),
            _ => None,
        }
    }

    /// Returns the text of an event of the row.
    pub fn text(&self, key: &BlocklistKey) -> String {
        let BlocklistKey { service, version, .. } = key;
        match self.until {
            Some(until) => format!(
                "{service} {version} failed {} times and is blocked until {until:.0}; the last failure: {}",
                self.failures.len(),
                self.last_failure
            ),
            None => format!("{service} {version} is no longer blocked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    fn failed(number: i64, seconds: i64) -> BlocklistChange {
        BlocklistChange::Failed {
            task: TaskId::from_text(&format!("t{number}")),
            policy: PolicyId::new("o", "p"),
            at: at(seconds),
            text: format!("exit code {number}"),
            rules: BlocklistRules::default(),
        }
    }

    /// Lets five tasks fail, the last one at `seconds`.
    fn block(mut entry: Option<BlocklistEntry>, first: i64, seconds: i64) -> BlocklistEntry {
        for number in 0..5 {
            entry =
                BlocklistEntry::changed(entry.as_ref(), &failed(first + number, seconds - 40 + number * 10));
        }
        entry.expect("there is a row")
    }

    fn expire(entry: &BlocklistEntry, seconds: i64) -> Option<BlocklistEntry> {
        BlocklistEntry::changed(Some(entry), &BlocklistChange::Expired { at: at(seconds) })
    }

    #[test]
    fn d4_s1_five_failures_within_the_window_block_for_the_base_duration() {
        let mut entry = None;
        for number in 0..4 {
            entry = BlocklistEntry::changed(entry.as_ref(), &failed(number, number * 10));
        }
        assert_eq!(entry.as_ref().and_then(|entry| entry.until), None);
        // The same failure again is none.
        entry = BlocklistEntry::changed(entry.as_ref(), &failed(3, 35));
        let blocked = BlocklistEntry::changed(entry.as_ref(), &failed(4, 40)).expect("a row");
        assert_eq!((blocked.since, blocked.until, blocked.blocks), (Some(at(40)), Some(at(340)), 1));
        assert_eq!((blocked.failures.len(), blocked.last_failure.as_str()), (5, "exit code 4"));
        let change = failed(4, 40);
        assert_eq!(
            BlocklistEntry::event_kind(entry.as_ref(), &change, Some(&blocked)),
            Some("blocklist.added")
        );
    }

    #[test]
    fn failures_before_the_window_do_not_count() {
        let mut entry = None;
        for number in 0..20 {
            entry = BlocklistEntry::changed(entry.as_ref(), &failed(number, number * 80));
        }
        let entry = entry.expect("there is a row");
        assert_eq!((entry.until, entry.failures.len()), (None, 4));
        assert_eq!(expire(&entry, 19 * 80 + 299), Some(entry.clone()));
        assert_eq!(expire(&entry, 19 * 80 + 300), None, "the row is not needed any more");
    }

    #[test]
    fn d4_s3_second_block_is_twice_as_long_and_a_run_begins_anew() {
        let first = block(None, 0, 100);
        assert_eq!(expire(&first, 399), Some(first.clone()), "the block is not over");
        let free = expire(&first, 400).expect("the count of blocks is kept");
        assert_eq!((free.until, free.blocks, free.failures.len()), (None, 1, 0));
        let over = BlocklistChange::Expired { at: at(400) };
        assert_eq!(BlocklistEntry::event_kind(Some(&first), &over, Some(&free)), Some("blocklist.expired"));
        let second = block(Some(free), 10, 500);
        assert_eq!((second.until, second.blocks), (Some(at(1100)), 2));
        let ran = BlocklistEntry::changed(Some(&second), &BlocklistChange::Ran);
        assert_eq!(ran, None);
        let kind = BlocklistEntry::event_kind(Some(&second), &BlocklistChange::Ran, None);
        assert_eq!(kind, Some("blocklist.cleared"));
        assert_eq!(block(ran, 20, 1000).until, Some(at(1300)), "the first block again");
    }

    #[test]
    fn failures_during_a_block_do_not_lengthen_it() {
        let first = block(None, 0, 100);
        let next = BlocklistEntry::changed(Some(&first), &failed(9, 200)).expect("a row");
        assert_eq!((next.until, next.blocks, next.failures.len()), (first.until, 1, 6));
    }
}
