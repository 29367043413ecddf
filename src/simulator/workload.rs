//! Workloads: what must be true of policies with tasks, and agents that are replaced.
//!
//! Source: engine 8.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner::{
    change::Cause,
    facts::DeploymentPolicyFacts,
    goal::Count,
    workload::{DesiredState, HubDefaults, Task, Workload},
};

use super::{agent::Container, invariants, world::World};

/// Replaces an agent by one that reads tasks, or by one that does not.
#[cfg(test)]
pub(crate) fn replace_agent(world: &mut World, node: &NodeId, is_capable: bool) {
    world.note(format!("the agent of {node} is replaced; it reads tasks: {is_capable}"));
    if let Some(agent) = world.agents.get_mut(node) {
        agent.tasks.clear();
    }
    world.exchange.set_capable(node, is_capable);
    // The agbots compare what is published to a node when its agent begins to read tasks.
    let tasks = world.database.tasks.values().filter(|task| is_capable && task.node.as_ref() == Some(node));
    let tasks: Vec<_> = tasks.map(|task| task.id.clone()).collect();
    tasks.iter().for_each(|task| super::agent_tasks::publish(world, node, task));
}

/// Returns the policies with tasks, as the engine sees them.
fn workloads(world: &World) -> Vec<(&DeploymentPolicyFacts, Workload)> {
    let hub = HubDefaults { update: world.settings.update, ..HubDefaults::default() };
    let of_row = |record: &evenkeel_planner::workload::WorkloadRecord| {
        let facts = world.exchange.policies.get(&record.policy)?;
        Some((facts, record.workload(facts, &hub)?))
    };
    world.database.workloads.values().filter_map(of_row).collect()
}

/// Returns what must never be: too many slots in work, a restart before its delay, a second instance of one.
pub(crate) fn broken(world: &World) -> Option<String> {
    workloads(world).into_iter().find_map(|(facts, workload)| {
        let policy = &facts.id;
        let update = &world.database.workloads.get(policy)?.update;
        let settings = if update.is_rollback() { &workload.rollback } else { &workload.update };
        let in_work = update.tickets().count();
        if settings.parallelism > 0 && in_work > settings.parallelism as usize {
            return Some(format!("{in_work} slots of {policy} are in work, {} may be", settings.parallelism));
        }
        if let Some(task) = world.database.tasks.values().find(|task| is_early(task, &workload)) {
            return Some(format!("task {} of {policy} was restarted before its delay", task.id.as_str()));
        }
        if workload.goal.is_exclusive() { second_instance(world, policy) } else { None }
    })
}

fn is_early(task: &Task, workload: &Workload) -> bool {
    let is_started = task.desired == DesiredState::Running && task.unit_id.policy == workload.policy;
    is_started && task.cause == Cause::TaskFailed && task.desired_at.is_some_and(|at| at < task.start_at)
}

fn second_instance(world: &World, policy: &PolicyId) -> Option<String> {
    let running: Vec<&NodeId> = instances(world, policy).map(|(node, _)| node).collect();
    let mut known = running.iter().filter(|node| !invariants::counts_as_lost(world, node));
    // An instance on a node that was down when another one was started is stopped as soon as the node is back.
    let (first, second) = (known.next()?, known.next()?);
    Some(format!("{policy} runs on {first} and on {second}"))
}

/// Returns the running instances of a policy: node and version.
fn instances<'w>(world: &'w World, policy: &'w PolicyId) -> impl Iterator<Item = (&'w NodeId, &'w str)> {
    world.agents.iter().flat_map(move |(node, agent)| {
        let running = agent
            .held
            .values()
            .filter(move |held| held.policy == *policy && held.container == Container::Running);
        running.map(move |held| (node, held.version.as_str()))
    })
}

/// Returns what is not as the policies with tasks want it yet.
pub(crate) fn waiting(world: &World) -> Vec<String> {
    let mut waiting = Vec::new();
    for (facts, workload) in workloads(world) {
        let selected = world.exchange.nodes.values().filter(|stored| {
            let mut properties = stored.policy.policy.properties.clone();
            properties.set_ha_group(world.exchange.group_of(&stored.facts.id).map(|group| group.id.name()));
            facts.policy.constraints.is_satisfied_by(&properties).unwrap_or(false)
        });
        let most = |is_capable: bool| if is_capable { workload.placement.max_per_node } else { 1 };
        let capacity: u32 = selected.map(|stored| most(stored.facts.is_capable)).sum();
        let wanted = match workload.goal.count {
            Count::PerNode => capacity,
            Count::Exactly(count) => count.min(capacity),
            Count::Between { target, .. } => target.min(capacity),
        };
        let best = facts.versions.first().map(|entry| entry.version.as_str());
        let found: Vec<(&NodeId, &str)> = instances(world, &facts.id).collect();
        let right = found.iter().filter(|(_, version)| Some(*version) == best).count();
        if (right, found.len()) != (wanted as usize, wanted as usize) {
            waiting.push(format!("{} should run {wanted} times as {best:?} and runs {found:?}", facts.id));
        }
        let mut slots: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for task in
            world.database.tasks.values().filter(|task| task.unit_id.policy == facts.id && task.is_live())
        {
            slots.entry((&task.unit_id, &task.slot)).or_default().insert(task.id.as_str());
        }
        let doubled = slots.into_iter().find(|(_, tasks)| tasks.len() > 1);
        waiting
            .extend(doubled.map(|((_, slot), tasks)| format!("slot {slot} of {} has {tasks:?}", facts.id)));
    }
    waiting
}
