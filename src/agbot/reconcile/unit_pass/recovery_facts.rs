//! Context of recoveries in a workload unit: the health policies of the HA groups of its nodes, and other
//! recoveries on those nodes.
//!
//! Source: orchestration C1 (recoveries are serialized per node, that of the group first), C10.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    health::{Entity, MemberRecovery},
    report::Blocked,
    workload::{GroupOrder, Slot, SlotTasks, Task, UnitId},
};
use jiff::Timestamp;

/// A node that the health policy of its HA group covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredNode {
    /// The group.
    pub group: GroupId,
    /// Reason why the node has failed, by the policy of the group.
    pub failure: Option<String>,
    /// True if the group recovers the node when it has failed.
    pub is_checked: bool,
    /// The recovery of the node in progress.
    pub recovery: Option<MemberRecovery>,
}

/// Context of the recoveries of tasks.
#[derive(Debug, Clone, Default)]
pub struct RecoveryFacts {
    /// The nodes that the policy of a group covers.
    pub nodes: BTreeMap<NodeId, CoveredNode>,
    /// The policies of groups.
    pub policies: BTreeMap<GroupId, Arc<HealthPolicy>>,
    /// The recoveries of nodes that users ordered: they need no policy.
    pub ordered: BTreeSet<String>,
    /// Members of groups that have failed: instances that are recovered go to other nodes.
    pub failing: BTreeSet<NodeId>,
    /// The instances on a node on which an action of a recovery is in progress.
    pub recovering: BTreeMap<NodeId, BTreeSet<(UnitId, Slot)>>,
    /// The addresses of the nodes of the workload unit, if its members examine each other.
    pub addresses: BTreeMap<NodeId, Arc<str>>,
    /// Reasons not to interrupt a node whose machine a recovery would reboot.
    pub host_blocks: BTreeMap<NodeId, Blocked>,
    /// True if a user's operation suspends the checks of the workload.
    pub is_suspended: bool,
}

impl RecoveryFacts {
    /// Facts of tasks that nothing surrounds.
    pub const NONE: Self = Self {
        nodes: BTreeMap::new(),
        policies: BTreeMap::new(),
        ordered: BTreeSet::new(),
        failing: BTreeSet::new(),
        recovering: BTreeMap::new(),
        addresses: BTreeMap::new(),
        host_blocks: BTreeMap::new(),
        is_suspended: false,
    };

    /// Collects what surrounds some tasks of a workload unit. `own`: the health policy of the workload.
    pub fn of<'t>(
        model: &Model,
        policy: &PolicyId,
        own: Option<&HealthPolicy>,
        (unit, tasks): (&UnitRecord, impl Iterator<Item = &'t Task>),
        now: Timestamp,
    ) -> Self {
        let mut facts =
            Self { is_suspended: model.suspending_operation(policy, now).is_some(), ..Self::default() };
        for task in tasks {
            if let Some(order) = task.health.recovery.as_ref().and_then(|one| one.of_group.as_ref()) {
                facts.add_policy(model, &order.group);
                facts.add_order(model, order);
            }
            let Some(node) = task.node.as_ref().filter(|_| task.is_wanted()) else { continue };
            let is_covered = facts.add_node(model, node, now);
            if (is_covered || own.is_some()) && !facts.recovering.contains_key(node) {
                let busy = model.tasks_of(node).filter(|task| task.health.is_recovering());
                let busy = busy.map(|task| (task.unit_id.clone(), task.slot.clone())).collect();
                facts.recovering.insert(node.clone(), busy);
            }
        }
        if !facts.policies.is_empty() {
            facts.failing = model.failing_members(now);
        }
        let are_examined = own.is_some_and(|policy| policy.peer_mode().is_some())
            || facts.policies.values().any(|policy| policy.node_peer_mode().is_some());
        if are_examined {
            let tasks = unit.slots.values().flat_map(SlotTasks::wanted);
            let nodes = tasks.filter_map(|task| task.node.as_ref());
            let address = |node: &NodeId| Some((node.clone(), model.node(node)?.address.clone()?));
            facts.addresses = nodes.filter_map(address).collect();
        }
        facts
    }

    fn add_policy(&mut self, model: &Model, group: &GroupId) {
        if let Some(policy) = model.group(group).and_then(|group| group.health.clone()) {
            self.policies.insert(group.clone(), policy);
        }
    }

    fn add_order(&mut self, model: &Model, order: &GroupOrder) {
        let row = model.registration(&Entity::Group(order.group.clone()));
        let is_ordered = |one: &MemberRecovery| one.id == order.id && one.ordered_by.is_some();
        if row.is_some_and(|row| row.recoveries.values().any(is_ordered)) {
            self.ordered.insert(order.id.clone());
        }
    }

    /// Adds a node if the policy of its group covers it; returns whether it does.
    fn add_node(&mut self, model: &Model, node: &NodeId, now: Timestamp) -> bool {
        if self.nodes.contains_key(node) {
            return true;
        }
        let Some(group) = model.group_of(node) else { return false };
        let Some(policy) = &group.health else { return false };
        let row = model.registration(&Entity::Group(group.id.clone()));
        let recovery = row.and_then(|row| row.recoveries.get(node)).filter(|one| one.goes_on(policy));
        let covered = CoveredNode {
            group: group.id.clone(),
            failure: model.examine_node(policy, node, now).failure(),
            is_checked: row.is_some_and(evenkeel_planner_record::health::Registration::is_checking),
            recovery: recovery.cloned(),
        };
        self.add_policy(model, &group.id);
        self.nodes.insert(node.clone(), covered);
        true
    }

    /// Returns the nodes whose machine a recovery is to reboot.
    pub fn hosts_to_reboot(&self) -> Vec<NodeId> {
        let is_of_host = |covered: &&CoveredNode| {
            covered.recovery.as_ref().is_some_and(|one| one.actions.iter().any(|action| action.is_of_host))
        };
        let found = self.nodes.iter().filter(|(_, covered)| is_of_host(covered));
        found.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the policy of the group of a node.
    pub(crate) fn policy_of(&self, node: &NodeId) -> Option<&HealthPolicy> {
        self.policies.get(&self.nodes.get(node)?.group).map(|policy| &**policy)
    }

    /// Returns whether the group of a node recovers it, or will at its next check: its recovery comes first.
    pub(crate) fn is_of_group(&self, node: &NodeId) -> bool {
        let covered = self.nodes.get(node);
        covered.is_some_and(|covered| {
            covered.recovery.is_some() || covered.is_checked && covered.failure.is_some()
        })
    }

    /// Returns whether an action of a recovery of another instance is in progress on a node.
    pub(crate) fn is_busy(&self, node: &NodeId, own: (&UnitId, &Slot)) -> bool {
        let busy = self.recovering.get(node).into_iter().flatten();
        busy.into_iter().any(|(unit_id, slot)| (unit_id, slot) != own)
    }
}
