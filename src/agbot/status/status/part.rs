//! The status of a workload unit with tasks.
//!
//! Source: orchestration A1, A6 (placement), A9.3.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::place::{Elimination, NodeState, NodeTable, UnitNode, leaders_of};
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    facts::Availability,
    goal::{Avail, InstanceState, avail_of, placement_state},
    report::{Blocked, Constraint},
    workload::{ActionGoal, NodeOrder, NodeScope, Slot, SlotTasks, Task, UnitId, Workload, WorkloadRecord},
};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{
    MonitorState, PartStatus, Window,
    instance::{Instance, is_restart},
    listed,
    placement::{Question, explain_unit, given_up, why_given_up},
};

/// Natural leaders that are listed.
const LEADER_COUNT: usize = 100;

/// The workload of a workload unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub model: &'a Model,
    pub workload: &'a Workload,
    pub record: &'a WorkloadRecord,
    pub now: Timestamp,
}

impl<'a> Source<'a> {
    /// Returns the workload of a policy; none when the policy has no tasks.
    pub fn new(model: &'a Model, policy: &PolicyId, now: Timestamp) -> Option<Self> {
        Some(Self { model, workload: model.workload_of(policy)?, record: model.workload(policy)?, now })
    }

    /// Returns the availability of the instance on one node.
    pub fn avail_on(&self, unit: &'a UnitRecord, node: &NodeId) -> Avail {
        let Some(number) = unit.table.number(node) else { return Avail::Down };
        let tasks = tasks_by_number(unit);
        let waits = BTreeMap::new();
        self.instance(unit, tasks.get(&number).map_or(&[], Vec::as_slice), number, &waits).avail()
    }

    pub fn instance<'t>(
        &self,
        unit: &'t UnitRecord,
        tasks: &'t [&'t Task],
        number: u32,
        waits: &'t BTreeMap<&'t Slot, MonitorState>,
    ) -> Instance<'t>
    where
        'a: 't,
    {
        let row = unit.table.node(number);
        let agreement = tasks.first().and_then(|task| self.model.agreement(task.agreement.as_ref()?));
        Instance {
            row,
            version: agreement.map(|agreement| agreement.version.as_str()),
            table: &unit.table,
            tasks,
            waits,
            expression: self.workload.placement.expression.as_str(),
            is_leader: false,
            is_placing: false,
            is_frozen: self.is_frozen(&row.id),
            is_unhealthy: self.model.is_unhealthy(&self.workload.policy, &row.id, self.now),
            has_better_neighbors: false,
            now: self.now,
        }
    }

    pub fn status(&self, id: &UnitId, unit: &'a UnitRecord, window: &Window) -> PartStatus {
        let (table, goal) = (&unit.table, &self.workload.goal);
        let tasks = tasks_by_number(unit);
        let leaders = leaders_of(self.workload, id, table, &|number| tasks.contains_key(&number));
        let natural: RoaringBitmap = leaders.natural.iter().copied().collect();
        let action_goal = self.record.action.as_ref().and_then(|action| action.goal_of(&id.part));
        let available = Elimination::with_instances(table);
        let best = table.preferred(&available).min().map(|number| table.weight(number));
        let waits = waits(unit);
        let instance = |number: u32| Instance {
            is_leader: natural.contains(number),
            is_placing: matches!(action_goal, Some(ActionGoal::Placed { .. })),
            has_better_neighbors: best.is_some_and(|best| best < table.weight(number)),
            ..self.instance(unit, tasks.get(&number).map_or(&[], Vec::as_slice), number, &waits)
        };
        let states = states(&tasks, table, leaders.of_giveback(goal), &instance);
        let target = goal.wanted(selected(table));
        let is_updating = self.record.update.is_rolling();
        let order =
            tasks.keys().copied().chain(table.members().iter().filter(|one| !tasks.contains_key(one)));
        let instance_count = table.members().union_len(&tasks.keys().copied().collect()) as usize;
        let (shown, next) = listed(order, instance_count, window);
        PartStatus {
            id: id.clone(),
            avail: avail_of(goal, &states, target, is_updating),
            target,
            up: states.iter().filter(|one| one.avail == Avail::Up).count() as u32,
            placement: placement_state(goal, &states, self.workload.placement.order != NodeOrder::Unranked),
            natural_leaders: leaders
                .natural
                .iter()
                .take(LEADER_COUNT)
                .map(|number| table.node(*number).id.clone())
                .collect(),
            instance_count,
            instances: shown.into_iter().map(|number| instance(number).status()).collect(),
            next,
            frozen_count: self.frozen_count(table),
            warnings: self.warnings(id, unit, target),
        }
    }

    fn warnings(&self, id: &UnitId, unit: &UnitRecord, target: u32) -> Vec<String> {
        let mut warnings = Vec::new();
        let unusable = self.model.unusable_versions(&id.policy);
        if !unusable.is_empty() {
            warnings.extend(unusable);
        } else if let Some(group) = self.model.gone_group(id) {
            warnings.push(Blocked::GroupGone { group: group.clone() }.to_string());
        } else if unit.table.members().is_empty() {
            warnings.push("no node belongs to it".to_owned());
        } else if !is_frozen_everywhere(&unit.table) {
            warnings.extend(self.unplaced(id, unit, target));
        }
        if let NodeScope::Nodes(nodes) = &self.workload.scope {
            let unknown: Vec<&NodeId> = nodes.iter().filter(|node| self.model.node(node).is_none()).collect();
            let first = unknown.first();
            warnings.extend(first.map(|first| {
                format!("{} nodes of scope.nodes are not known, such as {first}", unknown.len())
            }));
        }
        warnings.extend(self.record.update.failing_text(&id.part));
        let is_drained = |task: &&Task| {
            let row = task.node.as_ref().and_then(|node| unit.table.find(node));
            task.is_live() && row.is_some_and(|row| row.availability == Availability::Drain)
        };
        match unit.slots.values().flat_map(SlotTasks::iter).filter(is_drained).count() {
            0 => {}
            1 => warnings.push("1 instance is to leave a node that is being drained".to_owned()),
            count => warnings.push(format!("{count} instances are to leave nodes that are being drained")),
        }
        let ended = unit.slots.values().filter_map(given_up);
        let given_up = why_given_up(&unit.table, ended).into_iter();
        warnings.extend(given_up.map(|(why, count)| format!("{count} {why}")));
        warnings.into_iter().map(|warning| format!("{}: {warning}", id.name())).collect()
    }

    /// Returns what no node takes. An agbot that does not decide about the workload unit finds it by what it knows of the nodes.
    fn unplaced(&self, id: &UnitId, unit: &UnitRecord, target: u32) -> Option<String> {
        if self.model.lease_for_unit(id).is_none() {
            let question = Question { part: id, node: None, is_complete: false, now: self.now };
            let found = explain_unit(self.model, (unit, self.workload), question, &[])
                .filter(|one| one.placed < one.requested)?;
            return Some(found.numbers());
        }
        let summary = &unit.unplaced.as_ref()?.summary;
        let mut tasks = unit.slots.values().flat_map(SlotTasks::iter);
        // An instance that should leave its node stays there.
        Some(match tasks.any(|task| task.is_live() && task.node.is_none()) {
            false if unit.slots.len() as u32 >= target => {
                format!("no other node can take an instance that should move: {summary}")
            }
            _ => summary.clone(),
        })
    }

    fn is_frozen(&self, node: &NodeId) -> bool {
        let row = self.model.instance(&self.workload.policy, node);
        self.record.is_frozen || self.record.is_stopped || row.is_some_and(|row| row.is_frozen)
    }

    fn frozen_count(&self, table: &NodeTable) -> usize {
        let rows = self.model.instances_of(&self.workload.policy);
        let is_member = |node: &NodeId| table.number(node).is_some_and(|one| table.members().contains(one));
        rows.iter().filter(|(node, row)| row.is_frozen && is_member(node)).count()
    }
}

/// Returns the slots that wait for a parent or a child.
fn waits(unit: &UnitRecord) -> BTreeMap<&Slot, MonitorState> {
    let found = unit.blocked.iter().filter_map(|(step, blocked)| match blocked {
        Blocked::ParentNotUp { .. } => Some((&step.slot, MonitorState::WaitParents)),
        Blocked::ChildUp { .. } => Some((&step.slot, MonitorState::WaitChildren)),
        _ => None,
    });
    found.collect()
}

/// Returns the tasks to be shown: those that have not ended, the newest of each slot, and those that it
/// restarts. Tasks that were stopped because their node may not have them are left out.
pub(super) fn tasks_by_number(unit: &UnitRecord) -> BTreeMap<u32, Vec<&Task>> {
    let available = LazyCell::new(|| Elimination::with_instances(&unit.table));
    let mut tasks: BTreeMap<u32, Vec<&Task>> = BTreeMap::new();
    for of_slot in unit.slots.values() {
        let newest = of_slot.newest();
        let shown = |task: &&Task| {
            let is_last = newest.is_some_and(|newest| newest.id == task.id || is_restart(newest, task));
            !task.state.is_ended() || is_last
        };
        for task in SlotTasks::iter(of_slot).filter(shown) {
            let number = task.bound_node().and_then(|node| unit.table.number(node));
            let is_over = |number| {
                let is_withdrawn = task.state.is_ended() && !task.is_wanted() && !task.ended_by_itself();
                is_withdrawn && !available.contains(number)
            };
            if let Some(number) = number.filter(|number| !is_over(*number)) {
                tasks.entry(number).or_default().push(task);
            }
        }
    }
    for of_node in tasks.values_mut() {
        of_node.sort_by_key(|task| (task.state.is_ended(), std::cmp::Reverse(task.created_at)));
    }
    tasks
}

/// Returns what decides about availability and placement: every instance with tasks, the leaders, and one node for all others.
fn states<'a>(
    tasks: &BTreeMap<u32, Vec<&Task>>,
    table: &NodeTable,
    leaders: &[u32],
    instance: &dyn Fn(u32) -> Instance<'a>,
) -> Vec<InstanceState> {
    let state = |number: u32| {
        let found = instance(number);
        InstanceState {
            avail: found.avail(),
            is_leader: leaders.is_empty() || leaders.contains(&number),
            is_frozen: found.is_frozen || found.row.frozen.is_some(),
        }
    };
    let mut states = Vec::new();
    for number in tasks.keys().copied() {
        let count = instance(number).running().max(1);
        states.extend(std::iter::repeat_n(state(number), count));
    }
    let other_leaders = leaders.iter().copied().filter(|number| !tasks.contains_key(number));
    states.extend(other_leaders.map(&state));
    let leader_set: RoaringBitmap = leaders.iter().copied().collect();
    let others = (table.members() - leader_set).into_iter().filter(|number| !tasks.contains_key(number));
    let candidate = others.map(&state).find(|one| one.avail != Avail::NotApplicable);
    states.extend(candidate.filter(|_| !leaders.is_empty() || states.is_empty()));
    states
}

/// Returns the number of nodes that should run an instance if there is one on each.
pub(super) fn selected(table: &NodeTable) -> u32 {
    let members = table.members().iter().map(|number| table.node(number));
    members.filter(|node| is_selected(node)).count() as u32
}

/// Returns whether a node of the workload unit should run an instance if there is one on each.
pub(super) fn is_selected(node: &UnitNode) -> bool {
    node.eligibility.is_passed()
        && node.expression.is_passed()
        && node.affinity.hard.is_none()
        && node.state == NodeState::Ready
        && node.availability != Availability::Drain
}

/// Returns whether every node is frozen: then it is intended that nothing is placed, and there is no warning.
///
/// # Source
/// Orchestration A12.
pub(super) fn is_frozen_everywhere(table: &NodeTable) -> bool {
    let frozen = table.removed_by(Constraint::Frozen).filter(|_| !table.members().is_empty());
    frozen.is_some_and(|frozen| table.members().is_subset(frozen))
}
