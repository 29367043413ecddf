//! Workloads: what must be true of policies with tasks, and agents that are replaced.
//!
//! Source: engine 8.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::{OnExhausted, OnViolation};
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    facts::{Availability, DeploymentPolicyFacts, Mode},
    goal::{Count, StartMode},
    report::Blocked,
    workload::{
        Cause, DesiredState, HubDefaults, NodeOrder, Part, Partner, Slot, Task, UnitId, Workload,
        workload_units,
    },
};

use super::{
    agent::Container, agent_tasks, database::Row, domains, invariants, moves::MoveWatch,
    recovery_watch::RecoveryWatch, task_health, user_actions, world::World,
};

/// Tasks of one slot that may be wanted at once: the one that starts, and the one that stops after it.
const MOST_WANTED: usize = 2;
/// Tasks of a workload without a node: more than were ever on the nodes of a schedule, and far fewer than some policies ask for.
const MOST_WITHOUT_NODE: usize = 100;

/// Replaces an agent by one that reads tasks, or by one that does not.
pub(crate) fn replace_agent(world: &mut World, node: &NodeId, is_capable: bool) {
    world.trace_line(format!("the agent of {node} is replaced; it reads tasks: {is_capable}"));
    if let Some(agent) = world.agents.get_mut(node) {
        agent.tasks.clear();
    }
    world.exchange.set_capable(node, is_capable);
    // The agbots compare what is published to a node when its agent begins to read tasks.
    let tasks = world.database.tasks.values().filter(|task| is_capable && task.node.as_ref() == Some(node));
    let tasks: Vec<_> = tasks.map(|task| task.id.clone()).collect();
    tasks.iter().for_each(|task| agent_tasks::publish(world, node, task));
}

/// Returns a policy with tasks as the engine sees it.
pub(crate) fn workload_of<'w>(
    world: &'w World,
    policy: &PolicyId,
) -> Option<(&'w DeploymentPolicyFacts, Workload)> {
    let facts = world.exchange.policies.get(policy)?;
    let in_force = world.database.workloads.get(policy)?.in_force(facts);
    Some((facts, written_workload(world, in_force.as_ref().unwrap_or(facts))?))
}

/// Returns a workload as a policy describes it.
fn written_workload(world: &World, facts: &DeploymentPolicyFacts) -> Option<Workload> {
    let hub = HubDefaults { update: world.settings.update, ..HubDefaults::default() };
    world.database.workloads.get(&facts.id)?.workload(facts, &hub)
}

pub(crate) fn tasks_of<'w>(world: &'w World, policy: &'w PolicyId) -> impl Iterator<Item = &'w Task> {
    world.database.tasks.values().filter(move |task| task.unit_id.policy == *policy)
}

/// The rows of tasks as they were checked last.
#[derive(Debug, Default)]
pub(crate) struct TaskWatch {
    position: usize,
    seen: BTreeMap<TaskId, Task>,
    in_work: BTreeMap<PolicyId, BTreeSet<(Part, Slot)>>,
    moves: MoveWatch,
    recoveries: RecoveryWatch,
}

impl TaskWatch {
    /// Returns what the changed rows break.
    pub fn check(&mut self, world: &World) -> Option<String> {
        let rows: BTreeSet<&Row> = world.database.log[self.position..].iter().collect();
        self.position = world.database.log.len();
        let mut policies = BTreeSet::new();
        let mut changed: BTreeMap<PolicyId, Vec<Task>> = BTreeMap::new();
        self.recoveries.note_reports(world);
        for row in rows {
            match row {
                Row::Workload(policy) if world.database.workloads.contains_key(policy) => {
                    policies.insert(policy.clone());
                }
                Row::Workload(policy) => {
                    self.in_work.remove(policy);
                    self.seen.retain(|_, task| task.unit_id.policy != *policy);
                }
                Row::Task(id) => {
                    let before = self.seen.get(id);
                    let stored = world.database.tasks.get(id);
                    let began = stored.filter(|task| {
                        task.running_at.is_some() && before.is_none_or(|before| before.running_at.is_none())
                    });
                    let moved = began.and_then(|task| self.moves.check(world, task));
                    let broken = broken_task(world, before, stored)
                        .or(moved)
                        .or_else(|| unwanted_neighbor(world, &self.seen, before, stored?))
                        .or_else(|| misplaced(world, before, stored?));
                    if let Some(what) = broken {
                        return Some(format!("task {}: {what}", id.as_str()));
                    }
                    policies.extend(stored.map(|task| task.unit_id.policy.clone()));
                    let before = match stored.cloned() {
                        Some(task) => self.seen.insert(id.clone(), task),
                        None => self.seen.remove(id),
                    };
                    changed
                        .entry(stored.or(before.as_ref())?.unit_id.policy.clone())
                        .or_default()
                        .extend(before);
                }
                _ => {}
            }
        }
        let mut changed = changed.iter();
        let recovered = changed.find_map(|(policy, before)| self.recoveries.check(world, policy, before));
        recovered.or_else(|| self.broken_policy(world, &policies))
    }

    fn broken_policy(&mut self, world: &World, policies: &BTreeSet<PolicyId>) -> Option<String> {
        policies.iter().find_map(|policy| {
            self.too_many_in_work(world, policy).or_else(|| broken_workload(world, policy))
        })
    }

    /// Returns a violation when an update takes a slot into work beyond its parallelism, across all agbots.
    fn too_many_in_work(&mut self, world: &World, policy: &PolicyId) -> Option<String> {
        let (_, workload) = workload_of(world, policy)?;
        let update = &world.database.workloads.get(policy)?.update;
        let settings = if update.is_rollback() { &workload.rollback } else { &workload.update };
        let in_work: BTreeSet<(Part, Slot)> =
            update.tickets().map(|(part, slot, _)| (part.clone(), slot.clone())).collect();
        let before = self.in_work.insert(policy.clone(), in_work.clone()).unwrap_or_default();
        let (count, limit) = (in_work.len(), settings.parallelism as usize);
        // A user may have lowered the limit; what is in work stays in work.
        let is_taken = limit > 0 && count > limit && !in_work.is_subset(&before);
        (is_taken && !invariants::was_just_edited(world))
            .then(|| format!("{count} slots of {policy} are in progress, {limit} may be"))
    }
}

/// Returns what is wrong with the change of one task's row.
fn broken_task(world: &World, before: Option<&Task>, stored: Option<&Task>) -> Option<String> {
    if stored.is_some_and(|task| is_started_early(world, before, task)) {
        return Some("was started before its time".to_owned());
    }
    match (before, stored) {
        (None, Some(task)) => {
            is_restarted_early(world, task).then(|| format!("is restarted without its delay: {task:?}"))
        }
        (Some(before), Some(task)) => {
            let is_back = task.desired < before.desired
                || task.state != before.state && !before.state.may_become(&task.state);
            let is_other = before.node.is_some() && task.node != before.node
                || (&task.unit_id, &task.slot, task.spec) != (&before.unit_id, &before.slot, before.spec);
            if is_back {
                Some(format!("went back from {:?} to {:?}", before.state, task.state))
            } else {
                is_other.then(|| format!("is another task now: {before:?}, {task:?}"))
            }
        }
        (Some(before), None) => {
            let node = before.node.as_ref()?;
            let held = world.agents.get(node)?.held.get(before.agreement.as_ref()?)?;
            let is_kept = world.database.workloads.contains_key(&before.unit_id.policy);
            let runs = held.container == Container::Running && !invariants::counts_as_lost(world, node);
            // Instances on a deleted node continue until its agent has learned of the deletion.
            let runs = runs && world.exchange.nodes.contains_key(node);
            (is_kept && runs).then(|| format!("was deleted and runs on {node}"))
        }
        (None, None) => None,
    }
}

/// Returns whether a node was chosen for a task now, by what holds for its workload now; one that stays on its node is not placed.
fn is_placed(world: &World, before: Option<&Task>, stored: &Task) -> bool {
    let is_new = before.is_none_or(|before| before.node.is_none());
    let stays = || {
        tasks_of(world, &stored.unit_id.policy).any(|one| {
            let is_same_slot = one.unit_id == stored.unit_id && one.slot == stored.slot;
            is_same_slot && one.generation < stored.generation && one.node == stored.node
        })
    };
    is_new && !invariants::was_just_edited(world) && !stays()
}

/// Returns what the placement of a task breaks of domains and capacities.
fn misplaced(world: &World, before: Option<&Task>, stored: &Task) -> Option<String> {
    is_placed(world, before, stored).then(|| domains::broken(world, stored)).flatten()
}

/// Returns the instance of a `hardAnti` partner that was on the node when a task was placed there. An instance that stays on its node, or
/// that a user placed, is not placed by the affinity.
fn unwanted_neighbor(
    world: &World,
    seen: &BTreeMap<TaskId, Task>,
    before: Option<&Task>,
    stored: &Task,
) -> Option<String> {
    let node = stored.node.as_ref()?;
    let is_chosen = matches!(stored.cause, Cause::User { .. });
    if is_chosen || !is_placed(world, before, stored) {
        return None;
    }
    let (_, workload) = workload_of(world, &stored.unit_id.policy)?;
    let partners = &workload.placement.affinity.hard_anti;
    let is_partner = |task: &&Task| partners.contains(&Partner::Policy(task.unit_id.policy.clone()));
    let was_there = |task: &&Task| seen.get(&task.id).is_some_and(|seen| seen.node.as_ref() == Some(node));
    let mut live = world.database.tasks.values().filter(|task| !task.state.is_ended() && was_there(task));
    let found = live.find(is_partner)?;
    Some(format!("was placed on {node} next to {}", found.unit_id.policy))
}

/// Returns whether a task that replaces one that ended by itself is created to start before the delay is over.
fn is_restarted_early(world: &World, task: &Task) -> bool {
    let Some((facts, workload)) = workload_of(world, &task.unit_id.policy) else { return false };
    let earlier = tasks_of(world, &workload.policy).find(|one| {
        one.slot == task.slot && one.unit_id == task.unit_id && one.generation + 1 == task.generation
    });
    let node = earlier.and_then(|earlier| world.exchange.nodes.get(earlier.node.as_ref()?));
    let is_left = node.is_none_or(|node| node.facts.availability == Availability::Drain);
    // One that had not started when its node was given to another workload keeps its time.
    let keeps_time = earlier.is_some_and(|earlier| {
        earlier.cause == Cause::TaskFailed && !earlier.ended_by_itself() && task.start_at >= earlier.start_at
    });
    // A rollback that begins with the failure brings other rules into force.
    let written = written_workload(world, facts);
    let delay_secs = u64::try_from(task.start_at.as_second() - task.created_at.as_second()).unwrap_or(0);
    let is_too_early = [Some(&workload), written.as_ref()].into_iter().flatten().all(|workload| {
        workload.restart.on_exhausted == OnExhausted::None && delay_secs < workload.restart.delay_seconds
    });
    task.cause == Cause::TaskFailed
        && is_too_early
        && !is_left
        && !keeps_time
        && !invariants::was_just_edited(world)
}

/// Returns what the rows of a workload break: too many tasks.
fn broken_workload(world: &World, policy: &PolicyId) -> Option<String> {
    let without_node = tasks_of(world, policy).filter(|task| task.is_live() && task.node.is_none()).count();
    if without_node > MOST_WITHOUT_NODE {
        return Some(format!("{without_node} tasks of {policy} have no node, which are to be a number"));
    }
    let mut slots: BTreeMap<(&UnitId, &Slot), Vec<&Task>> = BTreeMap::new();
    for task in tasks_of(world, policy).filter(|task| task.is_live()) {
        slots.entry((&task.unit_id, &task.slot)).or_default().push(task);
    }
    let ((_, slot), tasks) = slots.into_iter().find(|(_, tasks)| tasks.len() > MOST_WANTED)?;
    let texts: Vec<String> = tasks.iter().map(|task| task_text(task)).collect();
    Some(format!("slot {slot} of {policy} has {} tasks: {}", tasks.len(), texts.join("; ")))
}

fn task_text(task: &Task) -> String {
    let Task { generation, spec, node, desired, state, cause, created_at, .. } = task;
    let node = node.as_ref().map_or("no node", NodeId::as_str);
    let number = spec.number;
    format!(
        "{generation} of version {number} on {node}, {state:?}, wanted {desired:?}, for {cause:?} at {created_at}"
    )
}

/// Returns whether a task starts now that is to start later, although no user lifted the gates.
fn is_started_early(world: &World, before: Option<&Task>, task: &Task) -> bool {
    let starts = before.is_none_or(|before| before.desired != DesiredState::Running);
    let record = world.database.workloads.get(&task.unit_id.policy);
    let action = record.and_then(|record| record.action.as_ref());
    let is_forced =
        action.is_some_and(|action| action.is_forced) || user_actions::is_forced([task].into_iter());
    starts
        && !is_forced
        && task.desired == DesiredState::Running
        && task.desired_at.is_some_and(|at| at < task.start_at)
}

/// Returns what must never be seen on the nodes: two instances where there is to be one.
pub(crate) fn broken(world: &World) -> Option<String> {
    let is_exclusive = |facts: &&DeploymentPolicyFacts| facts.orchestration.mode() == Mode::Failover;
    let policies = world.database.workloads.keys().filter_map(|policy| world.exchange.policies.get(policy));
    policies.filter(is_exclusive).find_map(|facts| second_instance(world, &facts.id))
}

fn second_instance(world: &World, policy: &PolicyId) -> Option<String> {
    // Most often there is one.
    instances(world, policy).nth(1)?;
    let mut known: BTreeMap<Option<&UnitId>, &NodeId> = BTreeMap::new();
    let is_fenced = task_health::is_fencing(world);
    for (node, agreement, _) in instances(world, policy) {
        // An instance on a node that was down when another one was started is stopped as soon as the node is back. A policy that fences
        // starts no other one before the first has stopped.
        if !is_fenced && invariants::counts_as_lost(world, node) {
            continue;
        }
        let unit_id = task_of(world, policy, agreement).map(|task| &task.unit_id);
        let of_unit = tasks_of(world, policy).filter(|task| Some(&task.unit_id) == unit_id);
        if user_actions::is_forced(of_unit) {
            continue;
        }
        if let Some(first) = known.insert(unit_id, node) {
            return Some(format!("{policy} runs on {first} and on {node}"));
        }
    }
    None
}

/// Returns the task that an agreement carries out.
fn task_of<'w>(world: &'w World, policy: &'w PolicyId, agreement: &AgreementId) -> Option<&'w Task> {
    let named = world.database.agreements.get(agreement).and_then(|record| record.task.as_ref());
    let found = named.and_then(|task| world.database.tasks.get(task));
    found.or_else(|| tasks_of(world, policy).find(|task| task.agreement.as_ref() == Some(agreement)))
}

/// Returns the running instances of a policy: node, agreement and version.
fn instances<'w>(
    world: &'w World,
    policy: &'w PolicyId,
) -> impl Iterator<Item = (&'w NodeId, &'w AgreementId, &'w str)> {
    world.agents.iter().flat_map(move |(node, agent)| {
        let running = agent
            .held
            .iter()
            .filter(move |(_, held)| held.policy == *policy && held.container == Container::Running);
        running.map(move |(agreement, held)| (node, agreement, held.version.as_str()))
    })
}

/// Returns what is not as the policies with tasks want it yet.
pub(crate) fn waiting(world: &World) -> Vec<String> {
    let mut waiting = Vec::new();
    for policy in world.database.workloads.keys() {
        match workload_of(world, policy) {
            _ if waits_for_others(world, policy) => {}
            Some((facts, workload)) if domains::holds_update(world, facts, &workload) => {}
            Some((facts, workload)) => waiting.extend(waiting_in(world, facts, &workload)),
            None => waiting.push(format!("the rows of {policy} are still there")),
        }
    }
    waiting.extend(user_actions::unexplained(world));
    waiting
}

/// Returns whether a workload names a parent for which it waits, or a child that still runs: that may last.
fn waits_for_others(world: &World, policy: &PolicyId) -> bool {
    let runs = |child: &str| {
        let child = PolicyId::from_text(child);
        instances(world, &child).next().is_some()
    };
    let known = world.agbots.iter().flat_map(|one| one.model.workload_units_of(policy));
    known.flat_map(|(_, unit)| &unit.blocked).any(|(_, blocked)| match blocked {
        Blocked::ParentNotUp { .. } => true,
        Blocked::ChildUp { child } => runs(child),
        _ => false,
    })
}

fn waiting_in(world: &World, facts: &DeploymentPolicyFacts, workload: &Workload) -> Vec<String> {
    let policy = &facts.id;
    let mut waiting = Vec::new();
    let best = facts.versions.first().map(|entry| entry.version.as_str());
    let selected: BTreeSet<NodeId> =
        world.exchange.nodes.keys().filter(|node| is_selected(world, node, facts)).cloned().collect();
    let mut found: BTreeMap<Option<&UnitId>, Vec<&NodeId>> = BTreeMap::new();
    for (node, agreement, version) in instances(world, policy) {
        // Instances on nodes where the new version would not be placed stay.
        let may_have = may_start_on(world, workload, node) && !has_left(world, policy, node);
        let is_outdated = Some(version) != best && may_have;
        // What nothing has replaced stays.
        let task = task_of(world, policy, agreement);
        let is_unreplaced = task.is_some_and(|task| lacks_node(world, task));
        if (is_outdated || !selected.contains(node)) && !is_unreplaced {
            waiting.push(format!("{node} runs {policy} {version} and should not; wanted is {best:?}"));
        }
        found.entry(task.map(|task| &task.unit_id)).or_default().push(node);
    }
    let parts = workload_units(policy, &workload.scope, &selected, &world.exchange.groups);
    for unit in &parts {
        let nodes: Vec<&NodeId> = unit.nodes.iter().filter(|node| selected.contains(*node)).collect();
        let (lowest, highest) = bounds(world, workload, &nodes);
        let on = found.remove(&Some(&unit.id)).unwrap_or_default();
        let lacks_room = || on.len() < lowest && domains::lacks_room(world, &unit.id);
        if (on.len() < lowest || on.len() > highest) && !lacks_room() {
            let wanted = format!("{lowest} to {highest} instances of {best:?}");
            waiting.push(format!("{} should have {wanted} and has {on:?}", unit_text(&unit.id)));
        }
    }
    waiting.extend(
        found
            .into_iter()
            .map(|(unit, on)| format!("{policy} runs on {on:?}, outside of its units: {unit:?}")),
    );
    let mut slots: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for task in tasks_of(world, policy).filter(|task| task.is_live() && !lacks_node(world, task)) {
        slots.entry((&task.unit_id, &task.slot)).or_default().insert(task.id.as_str());
    }
    let doubled = slots.into_iter().find(|(_, tasks)| tasks.len() > 1);
    waiting.extend(doubled.map(|((_, slot), tasks)| format!("slot {slot} of {policy} has {tasks:?}")));
    waiting
}

/// Returns whether the replacement in the slot of a task has no node.
fn lacks_node(world: &World, task: &Task) -> bool {
    let of_slot = |one: &&Task| one.unit_id == task.unit_id && one.slot == task.slot && one.is_wanted();
    tasks_of(world, &task.unit_id.policy).filter(of_slot).any(|one| one.node.is_none())
}

/// Returns the rows of the workloads that wait, for the report.
pub(crate) fn records(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for (policy, record) in &world.database.workloads {
        let waits = workload_of(world, policy)
            .is_none_or(|(facts, workload)| !waiting_in(world, facts, &workload).is_empty());
        if waits {
            lines.push(format!("update of {policy}: {:?}", record.update));
            lines.extend(tasks_of(world, policy).map(|task| format!("{task:?}")));
            for (unit_id, unit) in world.agbots.iter().flat_map(|one| one.model.workload_units_of(policy)) {
                let blocked = unit.blocked.iter().map(|(step, why)| format!("{} {why}", step.slot));
                let blocked: Vec<String> = blocked.collect();
                lines.push(format!("{} waits for {blocked:?}", unit_text(unit_id)));
            }
        }
    }
    lines
}

fn unit_text(id: &UnitId) -> String {
    format!("{} ({})", id.policy, id.name())
}

/// Returns how few and how many instances a workload unit may have when no more events happen.
fn bounds(world: &World, workload: &Workload, nodes: &[&NodeId]) -> (usize, usize) {
    let goal = &workload.goal;
    let current = workload.versions.current.number;
    // The drawn expressions are true on northern nodes only.
    let is_true = |node: &NodeId| workload.placement.expression.is_empty() || is_northern(world, node);
    let most = |node: &NodeId| {
        let is_capable = world.exchange.nodes.get(node).is_some_and(|stored| stored.facts.is_capable);
        if is_capable && !goal.is_per_node() { workload.placement.max_per_node as usize } else { 1 }
    };
    let is_failed = |node: &NodeId| {
        let row = world.database.instances.get(&(workload.policy.clone(), node.clone()));
        row.and_then(|row| row.failed.as_ref()).is_some_and(|failed| failed.version == current)
    };
    let instances_on = |node: &NodeId| {
        let on_node = |task: &&Task| task.is_live() && task.node.as_ref() == Some(node);
        tasks_of(world, &workload.policy).filter(on_node).count()
    };
    let rules = &workload.placement.affinity;
    let is_per_node = goal.is_per_node();
    // Instances on a node that has left its group take up room there.
    let left_on = |node: &NodeId| {
        let on_node = |task: &&Task| task.is_live() && task.node.as_ref() == Some(node);
        tasks_of(world, &workload.policy).filter(on_node).filter(|task| is_left(world, task, node)).count()
    };
    // Instances stay when their partners change, and nothing joins them.
    let room_on = |node: &NodeId| match satisfies_affinity(world, workload, node) {
        true => most(node).saturating_sub(left_on(node)),
        false if is_per_node => 0,
        false => instances_on(node).min(most(node)),
    };
    let fits = |node: &&&NodeId| is_true(node) && !is_failed(node);
    let has_hard_rules = !rules.hard.is_empty() || !rules.hard_anti.is_empty();
    let room: usize = nodes.iter().filter(fits).map(|node| room_on(node)).sum();
    let wanted = match goal.count {
        Count::PerNode if has_hard_rules || workload.placement.on_violation == OnViolation::Report => {
            return (room, nodes.len());
        }
        Count::PerNode => return (room, room),
        Count::Exactly(count) => count as usize,
        Count::Between { target, .. } => target as usize,
    };
    // Natural leaders on which the expression is false keep instances from starting elsewhere.
    let is_unranked = workload.placement.order == NodeOrder::Unranked;
    let may_be_no_candidate = !workload.placement.expression.is_empty() || has_hard_rules;
    let is_held_back = goal.start == StartMode::NaturalLeader && may_be_no_candidate;
    let lowest = if is_unranked || is_held_back { 0 } else { wanted.min(room) };
    // The last instance of each HA group stays (P-S16).
    let groups: BTreeSet<&GroupId> = nodes
        .iter()
        .filter_map(|node| world.exchange.group_of(node))
        .filter(|group| group.members.len() > 1)
        .map(|group| &group.id)
        .collect();
    let highest = if wanted == 0 { 0 } else { wanted.max(groups.len()) };
    (lowest, if goal.removes_surplus() { highest } else { usize::MAX })
}

/// Returns whether an instance is of an HA group that its node has left.
fn has_left(world: &World, policy: &PolicyId, node: &NodeId) -> bool {
    let mut tasks = world.database.tasks.values().filter(|task| task.unit_id.policy == *policy);
    tasks.any(|task| task.node.as_ref() == Some(node) && task.is_live() && is_left(world, task, node))
}

/// Returns whether a task is of an HA group that a node is not in.
fn is_left(world: &World, task: &Task, node: &NodeId) -> bool {
    let Part::Group(group) = &task.unit_id.part else { return false };
    let members = world.exchange.groups.get(group).map(|group| &group.members);
    members.is_none_or(|members| !members.contains(node))
}

/// Returns whether an instance of a workload may be placed on a node, as to what lasts.
fn may_start_on(world: &World, workload: &Workload, node: &NodeId) -> bool {
    let is_true = workload.placement.expression.is_empty() || is_northern(world, node);
    is_true && satisfies_affinity(world, workload, node)
}

/// Returns whether the hard lists allow an instance on a node.
pub(crate) fn satisfies_affinity(world: &World, workload: &Workload, node: &NodeId) -> bool {
    let rules = &workload.placement.affinity;
    let on_node = |task: &&Task| task.node.as_ref() == Some(node) && !task.state.is_ended();
    let tasks = |partner: &Partner| -> Vec<&Task> {
        let Partner::Policy(policy) = partner else { return Vec::new() };
        world.database.tasks.values().filter(|task| task.unit_id.policy == *policy).filter(on_node).collect()
    };
    let runs = |partner: &Partner| match partner {
        Partner::Policy(policy) => instances(world, policy).any(|(on, ..)| on == node),
        Partner::Service(_) => false,
    };
    let agreements = |partner: &Partner| {
        let Partner::Policy(policy) = partner else { return false };
        let mut found = world.database.agreements.values().filter(|one| one.is_live() && one.node == *node);
        found.any(|one| one.policy == *policy && one.task.is_none())
    };
    let is_up = |partner: &Partner| match tasks(partner) {
        found if found.is_empty() => agreements(partner) && runs(partner),
        found => found.iter().any(|task| task.is_wanted() && task.is_running()),
    };
    let is_there = |partner: &Partner| !tasks(partner).is_empty() || agreements(partner);
    rules.hard.iter().all(is_up) && !rules.hard_anti.iter().any(is_there)
}

pub(crate) fn is_selected(world: &World, node: &NodeId, facts: &DeploymentPolicyFacts) -> bool {
    let Some(stored) = world.exchange.nodes.get(node) else { return false };
    let mut properties = stored.policy.policy.properties.clone();
    properties.set_ha_group(world.exchange.group_of(node).map(|group| group.id.name()));
    facts.policy.constraints.is_satisfied_by(&properties).unwrap_or(false)
}

fn is_northern(world: &World, node: &NodeId) -> bool {
    let stored = world.exchange.nodes.get(node);
    stored.is_some_and(|stored| {
        let mut sites = stored.policy.policy.properties.iter().filter(|property| property.name == "site");
        sites.any(|property| property.value == "north")
    })
}
