//! The node blocklist in the model.
//!
//! Source: orchestration D4.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::BlocklistRules;
use evenkeel_ids::{NodeId, ServiceKey};
use evenkeel_placement::{matching::Choice, place::UnitNode};
use evenkeel_planner_record::{
    blocklist::{BlocklistChange, BlocklistEntry, BlocklistKey},
    report::Blocked,
    workload::{Task, UnitId},
};
use jiff::Timestamp;

use super::Model;

/// The rows of the blocklist.
#[derive(Debug, Clone, Default)]
pub struct Blocklist {
    rows: BTreeMap<BlocklistKey, BlocklistEntry>,
    /// When time changes each row.
    due: BTreeSet<(Timestamp, BlocklistKey)>,
    /// Nodes with a row that changed.
    changed: BTreeSet<NodeId>,
}

impl Blocklist {
    /// Takes over a row; none deletes it.
    pub fn put(&mut self, key: &BlocklistKey, entry: Option<&BlocklistEntry>) {
        if let Some(old) = self.rows.remove(key) {
            self.due.remove(&(old.due_at(), key.clone()));
        }
        if let Some(entry) = entry {
            self.due.insert((entry.due_at(), key.clone()));
            self.rows.insert(key.clone(), entry.clone());
        }
        self.changed.insert(key.node.clone());
    }

    /// Changes a row.
    pub fn change(&mut self, key: &BlocklistKey, change: &BlocklistChange) {
        let entry = BlocklistEntry::changed(self.rows.get(key), change);
        self.put(key, entry.as_ref());
    }

    /// Returns a row.
    pub fn get(&self, key: &BlocklistKey) -> Option<&BlocklistEntry> {
        self.rows.get(key)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the keys of all rows.
    pub fn keys(&self) -> impl Iterator<Item = &BlocklistKey> {
        self.rows.keys()
    }

    /// Returns the rows that time changes.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &BlocklistKey> {
        self.due.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| key)
    }

    /// Schedules the rows of a node for another evaluation.
    pub fn touch(&mut self, node: &NodeId) {
        self.changed.insert(node.clone());
    }

    /// Returns the nodes with rows that changed, once.
    pub fn take_changed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.changed)
    }
}

fn key_of(node: &NodeId, choice: &Choice) -> BlocklistKey {
    BlocklistKey { node: node.clone(), service: choice.key.clone(), version: choice.version.clone() }
}

impl Model {
    /// Returns the rows of the blocklist, by node, service and version.
    pub fn blocklist(&self) -> impl Iterator<Item = (&BlocklistKey, &BlocklistEntry)> {
        self.engine.blocklist.rows.iter()
    }

    /// Returns the rows of a node, by service and version.
    pub fn blocklist_of<'a>(
        &'a self,
        node: &'a NodeId,
    ) -> impl Iterator<Item = (&'a BlocklistKey, &'a BlocklistEntry)> {
        let from =
            BlocklistKey { node: node.clone(), service: ServiceKey::from_text("/"), version: String::new() };
        self.engine.blocklist.rows.range(from..).take_while(move |(key, _)| key.node == *node)
    }

    /// Returns the rules of an organization.
    pub fn blocklist_rules(&self, org: &str) -> BlocklistRules {
        self.org_settings(org).blocklist()
    }

    /// Returns why a node gets no start of what was chosen for it.
    pub(crate) fn blocklisted(&self, node: &NodeId, choice: &Choice) -> Option<Blocked> {
        if self.engine.blocklist.is_empty() {
            return None;
        }
        let key = key_of(node, choice);
        let entry = self.engine.blocklist.get(&key)?;
        let probed = || {
            let (task, blocked) = entry.probed_by(&key)?;
            self.task(task).is_some_and(|task| !task.state.is_ended()).then_some(blocked)
        };
        entry.blocked(&key).or_else(probed)
    }

    /// Returns the row of what was chosen for a node, if its block is over and its next start there is a probe.
    pub(crate) fn awaited_probe(&self, node: &NodeId, choice: &Choice) -> Option<BlocklistKey> {
        let key = key_of(node, choice);
        let entry = self.engine.blocklist.get(&key)?;
        (entry.probing.is_some() && self.blocklisted(node, choice).is_none()).then_some(key)
    }

    /// Schedules an update of the rows of a node for the end of its probe.
    pub(super) fn note_end_of_probe(&mut self, task: &Task) {
        if self.engine.blocklist.is_empty() || !task.state.is_ended() {
            return;
        }
        let Some(node) = &task.node else { return };
        if self.blocklist_of(node).any(|(_, entry)| entry.probe() == Some(&task.id)) {
            self.engine.blocklist.touch(node);
        }
    }

    /// Brings the rows of the nodes in the tables up to date after the blocklist changed.
    pub(super) fn follow_blocklist(&mut self, now: Timestamp) {
        for node in self.engine.blocklist.take_changed() {
            let before = self.blocks_on(&node);
            self.refresh_node(&node, now);
            let after = self.blocks_on(&node).into_iter();
            let changed = after.filter(|(unit_id, blocked)| before.get(unit_id) != Some(blocked));
            self.engine.touched.extend(changed.map(|(unit_id, _)| (unit_id, None)));
        }
    }

    fn blocks_on(&self, node: &NodeId) -> BTreeMap<UnitId, Option<Blocked>> {
        let row =
            |unit_id: &UnitId, row: &UnitNode| (unit_id.clone(), row.marks.blocklisted.as_deref().cloned());
        let known = self.engine.workload_units.iter();
        known.filter_map(|(unit_id, unit)| Some(row(unit_id, unit.table.find(node)?))).collect()
    }
}
