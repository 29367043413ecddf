//! The node blocklist: a node gets no more starts of a service version that keeps failing on it, for longer and longer times.
//!
//! A row counts the failures of a service version on a node. Changes are functions of the row, so that the transaction that writes them
//! and the model that follows come to the same row. A block ends when its end is written, not by the clock; then one task probes the node, and
//! as long as probes fail each block is longer than the one before. Source: orchestration D4.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::BlocklistRules;
use evenkeel_ids::{NodeId, PolicyId, ServiceKey, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    report::Blocked,
    time::{later, secs_since},
};

/// Rows of services that were blocked once are kept this long after their last failure.
const MEMORY_SECS: u64 = 7 * 86_400;
/// Least time that a probe must run before others follow, in seconds.
const LEAST_PROOF_SECS: u64 = 10;
/// Longest text of a failure that is kept, in characters.
const LONGEST_TEXT: usize = 500;

/// Key of the blocklist: a service version on a node.
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

/// The state of a node whose block is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probing {
    /// The task that tries the service; none until one starts.
    pub task: Option<TaskId>,
    /// When the task will have run for long enough.
    pub until: Option<Timestamp>,
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
    /// Tasks that probe the service after a block; none before the first probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probing: Option<Probing>,
    /// All failures since the row exists.
    #[serde(default)]
    pub failure_count: u32,
    /// When the last one was; none in rows from before that was recorded.
    #[serde(default)]
    pub failed_at: Option<Timestamp>,
    /// The longest time that a task which failed had run, in seconds.
    #[serde(default)]
    pub longest_run_secs: u64,
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
        /// Time until the first probe: the restart delay of the policy. None takes that of the rules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe_secs: Option<u64>,
        /// Time for which it had run, in seconds.
        #[serde(default)]
        ran_secs: u64,
    },
    /// A task starts after a block.
    Probed {
        /// The task.
        task: TaskId,
        /// Now.
        at: Timestamp,
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

/// Changes of the blocklist that follow from the tasks of a workload unit.
#[derive(Debug, Default)]
pub struct BlocklistNews {
    /// The changes of rows.
    pub changes: BlocklistChanges,
    /// The nodes that these changes block for the current version.
    pub blocked: BTreeMap<NodeId, Blocked>,
    /// Nodes on which tasks failed; true where the version list has versions left.
    pub has_versions_left: BTreeMap<NodeId, bool>,
}

impl BlocklistNews {
    /// Nothing.
    pub const NONE: Self =
        Self { changes: Vec::new(), blocked: BTreeMap::new(), has_versions_left: BTreeMap::new() };
}

impl BlocklistEntry {
    /// Returns the row after a change; none deletes it. Repeating a change changes nothing.
    pub fn changed(known: Option<&Self>, change: &BlocklistChange) -> Option<Self> {
        match change {
            BlocklistChange::Failed { task, policy, at, text, rules, probe_secs, ran_secs } => {
                let failure = FailedTask { task: task.clone(), at: *at };
                let first_secs = probe_secs.unwrap_or(rules.base_secs);
                let failed = Self::failed(known, failure, (text, *ran_secs), (rules, first_secs));
                Some(Self { policy: Some(policy.clone()), ..failed })
            }
            BlocklistChange::Probed { task, at } => known.cloned().map(|entry| entry.probed(task, *at)),
            BlocklistChange::Ran => None,
            BlocklistChange::Expired { at } => known.cloned().and_then(|entry| entry.expired(*at)),
        }
    }

    fn failed(
        known: Option<&Self>,
        failure: FailedTask,
        (text, ran_secs): (&str, u64),
        (rules, first_secs): (&BlocklistRules, u64),
    ) -> Self {
        let mut entry = known.cloned().unwrap_or_else(|| Self {
            failures: Vec::new(),
            blocks: 0,
            since: None,
            until: None,
            probing: None,
            failure_count: 0,
            failed_at: None,
            longest_run_secs: 0,
            last_failure: String::new(),
            policy: None,
            kept_until: failure.at,
        });
        if entry.failures.iter().any(|one| one.task == failure.task) {
            return entry;
        }
        let at = failure.at;
        let is_probe = entry.probing.take().is_some();
        if entry.until.is_none() {
            entry.failures.retain(|one| secs_since(one.at, at) <= rules.window_secs);
        }
        entry.failures.push(failure);
        entry.failure_count = entry.failure_count.saturating_add(1);
        entry.failed_at = Some(at);
        entry.longest_run_secs = entry.longest_run_secs.max(ran_secs);
        entry.last_failure = text.chars().take(LONGEST_TEXT).collect();
        let is_due = is_probe || entry.failures.len() >= rules.failure_threshold as usize;
        if entry.until.is_none() && is_due {
            entry.blocks = entry.blocks.saturating_add(1);
            entry.since = Some(at);
            entry.until = Some(later(at, rules.pause_secs(first_secs, entry.blocks)));
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
                self.probing = Some(Probing { task: None, until: None });
                self.failures.clear();
                Some(self)
            }
            None if self.kept_until <= at => None,
            _ => Some(self),
        }
    }

    /// One task at a time probes a node: the last one that started.
    fn probed(mut self, task: &TaskId, at: Timestamp) -> Self {
        let until = later(at, self.proof_secs());
        if let Some(probing) = &mut self.probing {
            *probing = Probing { task: Some(task.clone()), until: Some(until) };
        }
        self
    }

    /// Returns how long a probe must run to show that what made the others fail is over, in seconds: clearly longer than they did.
    pub fn proof_secs(&self) -> u64 {
        self.longest_run_secs.saturating_mul(2).max(LEAST_PROOF_SECS)
    }

    /// Returns the task that probes the node.
    pub fn probe(&self) -> Option<&TaskId> {
        self.probing.as_ref()?.task.as_ref()
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

    /// Returns why the node gets no further start of the service while a task probes it; none while none does.
    pub fn probed_by(&self, key: &BlocklistKey) -> Option<(&TaskId, Blocked)> {
        let probing = self.probing.as_ref()?;
        let blocked = Blocked::Blocklisted {
            service: key.service.clone(),
            version: key.version.clone(),
            until: probing.until?,
            failure: self.last_failure.clone(),
        };
        Some((probing.task.as_ref()?, blocked))
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

    /// The restart delay of the policy, in seconds.
    const DELAY: u64 = 20;

    fn failed(number: i64, seconds: i64) -> BlocklistChange {
        BlocklistChange::Failed {
            task: TaskId::from_text(&format!("t{number}")),
            policy: PolicyId::new("o", "p"),
            at: at(seconds),
            text: format!("exit code {number}"),
            rules: BlocklistRules::default(),
            probe_secs: Some(DELAY),
            ran_secs: 3,
        }
    }

    fn key() -> BlocklistKey {
        BlocklistKey {
            node: NodeId::new("o", "n"),
            service: ServiceKey::new("o", "s"),
            version: "1.0.0".into(),
        }
    }

    fn changed(entry: &BlocklistEntry, change: &BlocklistChange) -> BlocklistEntry {
        BlocklistEntry::changed(Some(entry), change).expect("the row is kept")
    }

    /// Makes five tasks fail, the last one at `seconds`.
    fn block(seconds: i64) -> BlocklistEntry {
        let mut entry = None;
        for number in 0..5 {
            entry = BlocklistEntry::changed(entry.as_ref(), &failed(number, seconds - 40 + number * 10));
        }
        entry.expect("there is a row")
    }

    fn expire(entry: &BlocklistEntry, seconds: i64) -> Option<BlocklistEntry> {
        BlocklistEntry::changed(Some(entry), &BlocklistChange::Expired { at: at(seconds) })
    }

    #[test]
    fn five_failures_within_the_window_block_until_the_restart_delay_is_over() {
        let mut entry = None;
        for number in 0..4 {
            entry = BlocklistEntry::changed(entry.as_ref(), &failed(number, number * 10));
        }
        assert_eq!(entry.as_ref().and_then(|entry| entry.until), None);
        // The same failure again is none.
        entry = BlocklistEntry::changed(entry.as_ref(), &failed(3, 35));
        let blocked = BlocklistEntry::changed(entry.as_ref(), &failed(4, 40)).expect("a row");
        assert_eq!((blocked.since, blocked.until, blocked.blocks), (Some(at(40)), Some(at(60)), 1));
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
        assert_eq!((entry.until, entry.failures.len(), entry.failure_count), (None, 4, 20));
        assert_eq!(expire(&entry, 19 * 80 + 299), Some(entry.clone()));
        assert_eq!(expire(&entry, 19 * 80 + 300), None, "the row is not needed any more");
    }

    #[test]
    fn failed_probe_doubles_the_next_block_and_a_run_clears_the_node() {
        let first = block(100);
        assert_eq!(expire(&first, 119), Some(first.clone()), "the block is not over");
        let mut entry = expire(&first, 120).expect("the count of blocks is kept");
        let over = BlocklistChange::Expired { at: at(120) };
        assert_eq!(BlocklistEntry::event_kind(Some(&first), &over, Some(&entry)), Some("blocklist.expired"));
        let mut now = 120;
        for (number, pause) in [(10, 40), (11, 80), (12, 160)] {
            assert_eq!((entry.until, entry.probe(), entry.failures.len()), (None, None, 0));
            entry = changed(&entry, &BlocklistChange::Probed { task: TaskId::from_text("t"), at: at(now) });
            let (task, blocked) = entry.probed_by(&key()).expect("no other one starts");
            assert_eq!(task, &TaskId::from_text("t"));
            assert!(matches!(blocked, Blocked::Blocklisted { until, .. } if until == at(now + 10)));
            entry = changed(&entry, &failed(number, now + 2));
            assert_eq!((entry.until, entry.probing.clone()), (Some(at(now + 2 + pause)), None));
            now += 2 + pause;
            entry = expire(&entry, now).expect("the count of blocks is kept");
        }
        assert_eq!((entry.blocks, entry.failure_count), (4, 8));
        let ran = BlocklistEntry::changed(Some(&entry), &BlocklistChange::Ran);
        assert_eq!(ran, None);
        let kind = BlocklistEntry::event_kind(Some(&first), &BlocklistChange::Ran, None);
        assert_eq!(kind, Some("blocklist.cleared"));
    }

    #[test]
    fn block_is_never_longer_than_the_rules_say_nor_begins_with_more_than_their_base() {
        let rules = BlocklistRules::default();
        assert_eq!([rules.pause_secs(5, 1), rules.pause_secs(5, 2), rules.pause_secs(5, 3)], [5, 10, 20]);
        assert_eq!(rules.pause_secs(0, 1), 1);
        assert_eq!(rules.pause_secs(604_800, 1), rules.base_secs);
        assert_eq!(rules.pause_secs(5, 60), rules.max_secs);
    }

    #[test]
    fn failures_during_a_block_do_not_lengthen_it() {
        let first = block(100);
        let next = changed(&first, &failed(9, 110));
        assert_eq!((next.until, next.blocks, next.failures.len()), (first.until, 1, 6));
    }
}
