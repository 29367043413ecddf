//! The health registry in the model: the rows, the rounds of checks of this agbot, and what its checks and recoveries came to.
//!
//! Source: orchestration C9, C10, 2.7.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    health::{Entity, HealthRound, Registration},
    lease::Lease,
    workload::{DesiredState, Task},
};
use jiff::Timestamp;

use super::Model;
use crate::plan::UnitEvent;

/// Counts of the checks and recoveries of this agbot.
///
/// # Source
/// Orchestration 2.7.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthCounts {
    /// Checks of members that were healthy.
    pub healthy: u64,
    /// Checks of members that had failed.
    pub unhealthy: u64,
    /// Checks that failed themselves: the member counts as healthy.
    pub errors: u64,
    /// Actions of recoveries that are over, by action and result.
    pub actions: BTreeMap<(String, &'static str), u64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct HealthRegistry {
    rows: BTreeMap<Entity, Registration>,
    /// Targets with recoveries of members.
    recovering: BTreeSet<Entity>,
    rounds: BTreeMap<Entity, HealthRound>,
    counts: HealthCounts,
}

impl HealthRegistry {
    /// Takes over a row, unless the model's is newer; none deletes it.
    pub fn put(&mut self, target: &Entity, row: Option<&Registration>) {
        match row {
            Some(row) if self.rows.get(target).is_some_and(|known| known.revision > row.revision) => {}
            Some(row) => {
                if row.recoveries.is_empty() {
                    self.recovering.remove(target);
                } else {
                    self.recovering.insert(target.clone());
                }
                self.rows.insert(target.clone(), row.clone());
            }
            None => {
                self.recovering.remove(target);
                self.rows.remove(target);
                self.rounds.remove(target);
            }
        }
    }

    /// Records the rounds of a decision.
    pub fn note(&mut self, rounds: &[HealthRound]) {
        for round in rounds {
            if let Some((healthy, unhealthy)) = round.found {
                self.counts.healthy += healthy;
                self.counts.unhealthy += unhealthy;
            }
            let checked_before = self.rounds.get(&round.target).filter(|_| round.found.is_none());
            // When the target was checked last is kept over rounds that are left out.
            let at = checked_before.map_or(round.at, |known| known.at);
            self.rounds.insert(round.target.clone(), HealthRound { at, ..round.clone() });
        }
    }

    /// Records whether what follows from failed checks was written. If not, their members count as healthy.
    pub fn note_unhealthy(&mut self, count: u64, is_written: bool) {
        if is_written {
            self.counts.unhealthy += count;
        } else {
            self.counts.errors += count;
        }
    }

    /// Counts the actions of recoveries that are over.
    pub fn note_actions(&mut self, events: &[UnitEvent]) {
        for event in events {
            let result = match &*event.kind {
                "health.recovered" => "recovered",
                "health.action-failed" => "failed",
                _ => continue,
            };
            let action = event.data.as_ref().and_then(|data| data["operation"].as_str());
            if let Some(action) = action {
                *self.counts.actions.entry((action.to_owned(), result)).or_default() += 1;
            }
        }
    }
}

/// Tasks that show the progress of operations and recoveries.
#[derive(Debug, Clone, Default)]
pub struct HealthTasks {
    /// Tasks of instances that are removed and have not stopped.
    removing: BTreeMap<PolicyId, BTreeSet<TaskId>>,
    /// Tasks that carry out the recovery of a member of an HA group, or did, by its id.
    of_recoveries: BTreeMap<String, BTreeSet<TaskId>>,
    /// Tasks that examine another one.
    watchers: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// Deleted nodes that have tasks.
    deleted_nodes: BTreeSet<NodeId>,
}

impl HealthTasks {
    /// Notes that a task was added, or that it is no longer as it is given.
    pub fn note(&mut self, task: &Task, is_added: bool) {
        if task.desired == DesiredState::Remove && !task.state.is_ended() {
            note(&mut self.removing, task.unit_id.policy.clone(), &task.id, is_added);
        }
        for id in task.health.group_recoveries() {
            note(&mut self.of_recoveries, id.to_owned(), &task.id, is_added);
        }
        for peer in task.health.supervision.peers.iter().flat_map(|watch| &watch.members) {
            note(&mut self.watchers, peer.task.clone(), &task.id, is_added);
        }
    }

    /// Notes that a node was deleted, or is there again.
    pub fn note_node(&mut self, node: &NodeId, is_deleted: bool) {
        if is_deleted {
            self.deleted_nodes.insert(node.clone());
        } else {
            self.deleted_nodes.remove(node);
        }
    }
}

fn note<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<TaskId>>, key: K, task: &TaskId, is_added: bool) {
    let ids = index.entry(key.clone()).or_default();
    if is_added {
        ids.insert(task.clone());
    } else {
        ids.remove(task);
    }
    if ids.is_empty() {
        index.remove(&key);
    }
}

impl Model {
    /// Returns the registration of a target.
    pub fn registration(&self, target: &Entity) -> Option<&Registration> {
        self.registry.rows.get(target)
    }

    /// Returns all registrations, by target.
    pub fn registrations(&self) -> impl Iterator<Item = &Registration> {
        self.registry.rows.values()
    }

    /// Returns the checks of HA groups that users ordered and that this agbot has to make, with the ids of the actions.
    pub fn ordered_group_checks(&self) -> impl Iterator<Item = (&str, &GroupId)> {
        self.registrations().filter_map(|row| {
            let Entity::Group(group) = &row.target else { return None };
            let action = row.action.as_ref().filter(|action| action.check.is_some())?;
            self.lease_for_group(group).map(|_| (action.id.as_str(), group))
        })
    }

    /// Returns when this agbot checked a target last, under a lease that it may hold no longer.
    pub fn checked_at(&self, target: &Entity) -> Option<Timestamp> {
        self.registry.rounds.get(target).filter(|round| round.found.is_some()).map(|round| round.at)
    }

    /// Returns what the checks and recoveries of this agbot came to.
    pub fn health_counts(&self) -> &HealthCounts {
        &self.registry.counts
    }

    /// Returns the health policy of a target.
    pub fn health_policy_of(&self, target: &Entity) -> Option<&HealthPolicy> {
        match target {
            Entity::Group(group) => self.group(group)?.health.as_deref(),
            Entity::Workload(policy) => {
                self.policy(policy)?.orchestration.document.as_ref()?.health_policy.as_ref()
            }
            _ => None,
        }
    }

    /// Returns the lease under which this agbot may check a target.
    pub fn lease_for_target(&self, target: &Entity) -> Option<Lease> {
        match target {
            Entity::Group(group) => self.lease_for_group(group),
            Entity::Workload(policy) => self.lease_for_workload(policy),
            _ => None,
        }
    }

    /// Returns whether this agbot was seen to hold a partition within the duration of a lease, if that was
    /// observed. A suspended agbot may have lost it.
    pub fn is_sure_of(&self, lease: Lease, now: Timestamp) -> bool {
        self.health.kept_up_until(lease.partition, self.settings.lease_secs).is_none_or(|until| now < until)
    }

    /// Returns the last round of checks of a target under a lease.
    pub fn last_round(&self, target: &Entity, lease: Lease) -> Option<i64> {
        self.registry.rounds.get(target).filter(|round| round.lease == lease).map(|round| round.number)
    }

    /// Returns the targets that are registered or have a health policy: all HA groups, and the registered deployment policies.
    pub(crate) fn health_targets(&self) -> BTreeSet<Entity> {
        let groups = self.groups.values().filter(|group| group.health.is_some());
        let groups = groups.map(|group| Entity::Group(group.id.clone()));
        groups.chain(self.registry.rows.keys().cloned()).collect()
    }

    /// Returns the members of HA groups that have failed and that are being recovered, or could not be.
    pub fn failing_members(&self, now: Timestamp) -> BTreeSet<NodeId> {
        let mut failing = BTreeSet::new();
        for target in &self.registry.recovering {
            let (row, policy) = (self.registration(target), self.health_policy_of(target));
            let (Some(row), Some(policy)) = (row, policy) else { continue };
            let failed = row.recoveries.keys();
            let failed = failed.filter(|node| self.examine_node(policy, node, now).failure().is_some());
            failing.extend(failed.cloned());
        }
        failing
    }

    /// Returns the tasks that carry out a recovery of a member of an HA group, or did.
    pub fn tasks_of_recovery(&self, id: &str) -> impl Iterator<Item = &Task> {
        let ids = self.engine.health_tasks.of_recoveries.get(id).into_iter().flatten();
        ids.filter_map(|id| self.task(id))
    }

    /// Returns the tasks that examine another one.
    pub(crate) fn watchers_of(&self, id: &TaskId) -> impl Iterator<Item = &Task> {
        self.engine.health_tasks.watchers.get(id).into_iter().flatten().filter_map(|id| self.task(id))
    }

    /// Returns the operation of a user that suspends the checks of a workload: read from its row and tasks,
    /// so that nothing has to be reverted after a crash.
    ///
    /// # Source
    /// Orchestration C10.
    pub fn suspending_operation(&self, policy: &PolicyId, now: Timestamp) -> Option<String> {
        let record = self.workload(policy)?;
        if record.update.is_rolling() {
            return Some("update".to_owned());
        }
        if let Some(action) = &record.action {
            return Some(action.name.clone());
        }
        let tasks = &self.engine.health_tasks;
        let removing = tasks.removing.get(policy).into_iter().flatten().filter_map(|id| self.task(id));
        if self.are_stopping(removing, now) {
            let goal = self.workload_of(policy).map(|workload| workload.goal);
            return Some(goal.map_or("scale-in", |goal| goal.scale_down_name()).to_owned());
        }
        let mut deleted = tasks.deleted_nodes.iter().flat_map(|node| self.engine.tasks_on(node, policy));
        deleted.any(|task| !task.state.is_ended()).then(|| "node-delete".to_owned())
    }

    /// Returns whether one of some tasks has not stopped and is on a node from which that can still be heard.
    pub fn are_stopping<'t>(&self, mut tasks: impl Iterator<Item = &'t Task>, now: Timestamp) -> bool {
        tasks.any(|task| {
            let node = task.node.as_ref().filter(|_| !task.state.is_ended());
            node.is_some_and(|node| self.node(node).is_some() && !self.is_down(node, now))
        })
    }

    /// Records that a node was deleted, or is there again.
    pub(super) fn note_deleted_node(&mut self, node: &NodeId, is_deleted: bool) {
        let has_tasks = is_deleted && self.engine.pairs_of(node).next().is_some();
        self.engine.health_tasks.note_node(node, has_tasks);
    }

    /// Forgets deleted nodes whose tasks have ended.
    pub(super) fn forget_deleted_nodes(&mut self) {
        let engine = &self.engine;
        let is_open = |node: &NodeId| {
            let pairs = engine.pairs_of(node);
            pairs.flat_map(|(_, policy)| engine.tasks_on(node, policy)).any(|task| !task.state.is_ended())
        };
        let gone: Vec<NodeId> =
            engine.health_tasks.deleted_nodes.iter().filter(|node| !is_open(node)).cloned().collect();
        gone.iter().for_each(|node| self.engine.health_tasks.note_node(node, false));
    }
}
