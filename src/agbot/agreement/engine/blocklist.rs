//! News of tasks for the node blocklist, and the end of blocks.
//!
//! Source: orchestration D4, A10, A12.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_placement::place::NodeState;
use evenkeel_planner_model::{
    command::Action,
    model::{
        Model, UnitRecord,
        observe::agreement_of,
        selection::{choose, has_versions_left},
    },
    pass::Pass,
};
use evenkeel_planner_record::{
    blocklist::{BlocklistChange, BlocklistEntry, BlocklistKey, BlocklistNews},
    time::{later, secs_since},
    workload::{Cause, Task, Workload},
};
use jiff::Timestamp;

/// Collects the news of the tasks of a workload unit.
#[derive(Default)]
pub(super) struct Collector {
    /// The news collected so far.
    pub news: BlocklistNews,
    /// When time alone changes a row because something runs.
    pub wake_at: Option<Timestamp>,
    rows: BTreeMap<BlocklistKey, Option<BlocklistEntry>>,
}

impl Collector {
    /// Takes in what is seen of a task; `known`: the task as it is stored.
    pub fn note(
        &mut self,
        model: &Model,
        (workload, unit): (&Workload, &UnitRecord),
        (known, seen): (&Task, &Task),
        now: Timestamp,
    ) {
        let is_empty = model.engine.blocklist.is_empty();
        if !seen.state.is_ended() && is_empty && self.rows.is_empty() {
            return;
        }
        let Some(key) = key_of(model, seen, now) else { return };
        let rules = model.blocklist_rules(key.node.org());
        if is_failure(seen, rules.reset_after_secs) && counts(workload, unit, &key.node) {
            let text = seen.ending_text();
            let (task, policy) = (seen.id.clone(), seen.unit_id.policy.clone());
            let ran = seen.running_at.zip(seen.ended_at);
            let ran_secs = ran.map_or(0, |(from, to)| secs_since(from, to));
            let probe_secs = Some(workload.restart.delay_seconds);
            let change = BlocklistChange::Failed { task, policy, at: now, text, rules, probe_secs, ran_secs };
            let is_current = seen.spec == workload.versions.current;
            self.change(model, key, change, is_current);
            return self.note_versions(model, seen, now);
        }
        let Some(entry) = self.row(model, &key) else { return };
        if !seen.is_live() || !seen.is_running() {
            return;
        }
        let is_started_by_user = matches!(seen.cause, Cause::User { .. }) && !known.is_running();
        let last = entry.failures.iter().map(|failure| failure.at).max();
        // After a block a run shows soon that its cause is over.
        let proof_secs = match entry.probing {
            Some(_) => entry.proof_secs().min(rules.reset_after_secs),
            None => rules.reset_after_secs,
        };
        let until = later(last.map_or(seen.state_at, |at| at.max(seen.state_at)), proof_secs);
        if is_started_by_user || now >= until {
            self.change(model, key, BlocklistChange::Ran, false);
        } else {
            self.wake_at = Some(self.wake_at.map_or(until, |at| at.min(until)));
        }
    }

    /// Notes whether the version list of a task that failed has versions left for its node now.
    fn note_versions(&mut self, model: &Model, task: &Task, now: Timestamp) {
        let Some(node) = &task.node else { return };
        let row = |key: &BlocklistKey| self.row(model, key);
        let policy = &task.unit_id.policy;
        let has_left = has_versions_left(model, node, (policy, task.spec.number), now, &row);
        self.news.has_versions_left.insert(node.clone(), has_left);
    }

    fn row(&self, model: &Model, key: &BlocklistKey) -> Option<BlocklistEntry> {
        match self.rows.get(key) {
            Some(row) => row.clone(),
            None => model.engine.blocklist.get(key).cloned(),
        }
    }

    fn change(&mut self, model: &Model, key: BlocklistKey, change: BlocklistChange, is_current: bool) {
        let row = BlocklistEntry::changed(self.row(model, &key).as_ref(), &change);
        if let Some(blocked) = row.as_ref().and_then(|row| row.blocked(&key)).filter(|_| is_current) {
            self.news.blocked.insert(key.node.clone(), blocked);
        }
        self.rows.insert(key.clone(), row);
        self.news.changes.push((key, change));
    }
}

/// Returns the service version that a task runs on its node: that of its agreement, or what its version would run there.
fn key_of(model: &Model, task: &Task, now: Timestamp) -> Option<BlocklistKey> {
    let node = task.node.clone()?;
    if let Some(agreement) = agreement_of(model, task) {
        let (service, version) = (agreement.service_key.clone(), agreement.version.clone());
        return Some(BlocklistKey { node, service, version });
    }
    let choice = choose(model, &node, &task.unit_id.policy, task.spec.number, now).ok()?;
    Some(BlocklistKey { node, service: choice.key, version: choice.version })
}

/// Returns whether a task ended with an error before it had run for long enough.
fn is_failure(task: &Task, reset_after_secs: u64) -> bool {
    let has_failed = task.state.has_failed();
    // Both are times of the node's clock.
    let ran = task.running_at.zip(task.ended_at);
    has_failed && task.ended_by_itself() && ran.is_none_or(|(from, to)| to < later(from, reset_after_secs))
}

/// Returns whether failures on a node count: not those of frozen instances, nor on nodes that are away.
fn counts(workload: &Workload, unit: &UnitRecord, node: &NodeId) -> bool {
    let row = unit.table.find(node);
    !workload.is_frozen && row.is_some_and(|row| row.frozen.is_none() && row.state == NodeState::Ready)
}

/// Ends what is over, on the nodes of this agbot.
pub(super) fn expire(pass: &mut Pass<'_>) {
    let model = pass.model;
    for key in model.engine.blocklist.due(pass.now) {
        if let Some(lease) = model.lease_for(&key.node) {
            let change = BlocklistChange::Expired { at: pass.now };
            pass.issue_for_group(lease, Action::ChangeBlocklist { key: key.clone(), change });
        }
    }
}
