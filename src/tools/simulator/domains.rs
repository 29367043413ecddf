//! Fault domains, upgrade domains and capacities of nodes, drawn from the seed, and what must be true of placements on them.
//!
//! Source: orchestration D6, D7; engine 8.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{BufferUse, org_settings::OrgSettings};
use evenkeel_ids::NodeId;
use evenkeel_placement::place::{Buffer, UnitNode, loading};
use evenkeel_planner_record::{
    facts::DeploymentPolicyFacts,
    report::{Blocked, Constraint},
    workload::{Cause, NodeScope, Part, Slot, SlotTasks, Task, UnitId, Workload},
};
use serde_json::{Value, json};

use super::{
    exchange::Resource,
    workload::{is_selected, satisfies_affinity, workload_of},
    workload_chaos::{choose, nodes},
    world::World,
};

/// Share of the capacities that is kept free, in half of the seeds that have them.
const BUFFER: f64 = 0.5;

/// Capacity that instances use.
const METRIC: &str = "memoryMb";

/// Returns whether a seed draws domains and capacities.
fn is_drawn(world: &World) -> bool {
    world.seed % 12 == 3
}

/// Puts the nodes into domains, and limits what they have.
pub(crate) fn build(world: &mut World) {
    if !is_drawn(world) {
        return;
    }
    for node in nodes(world) {
        let fault_domain =
            choose(world, &[None, Some("fd:/a/r1"), Some("fd:/a/r2"), Some("fd:/b/r1"), Some("fd:/c")]);
        let upgrade_domain = choose(world, &[None, Some("u1"), Some("u2"), Some("u3")]);
        let memory = choose(world, &[None, Some(100.0), Some(250.0)]);
        world.trace_line(format!("{node} is in {fault_domain:?} and {upgrade_domain:?}, and has {memory:?}"));
        if let Some(stored) = world.exchange.nodes.get_mut(&node) {
            stored.facts.fault_domain = fault_domain.map(Into::into);
            stored.facts.upgrade_domain = upgrade_domain.map(Into::into);
            stored.facts.capacities.extend(memory.map(|amount| (METRIC.to_owned(), amount)));
        }
        world.exchange.feed.push(Resource::Node(node));
    }
    keep_buffer(world);
}

/// Keeps a part of the capacities free, for upgrades, or also for what takes the place of what is lost.
fn keep_buffer(world: &mut World) {
    let usage = match world.seed / 12 % 4 {
        1 => "upgrade",
        3 => "upgrade-and-failure",
        _ => return,
    };
    let settings = json!({"nodeBufferPercentage": {METRIC: BUFFER}, "bufferUse": usage});
    world.trace_line(format!("the organization has {settings}"));
    match OrgSettings::read(settings) {
        Ok(settings) => world.exchange.put_org_settings(settings),
        Err(error) => world.checker.broke(format!("the drawn settings are refused: {error}")),
    }
}

/// Returns the share of a capacity that the placement of a task may use.
fn usable_share(world: &World, task: &Task) -> f64 {
    let buffer = world.exchange.org_settings.capacity_buffer();
    // In these worlds no drain is an upgrade.
    let is_open = match task.cause {
        Cause::Update | Cause::Rollback | Cause::Return => true,
        Cause::NodeLost => buffer.usage() == BufferUse::UpgradeAndFailure,
        _ => false,
    };
    if is_open { 1.0 } else { 1.0 - buffer.share(METRIC) }
}

/// Draws how a workload is spread, and what its instances use.
pub(crate) fn draw(world: &mut World, document: &mut Value) {
    // One instance on each node is not spread.
    if !is_drawn(world) || document["mode"] == "global" {
        return;
    }
    if world.chance(0.6) {
        document["loads"] = json!({METRIC: choose(world, &[30, 60, 120])});
    }
    let preferred = choose(world, &[None, None, Some("fd:/a"), Some("fd:/b/r1")]);
    document["placement"]["domains"] =
        json!({"requireDomainDistribution": world.chance(0.2), "preferredDomain": preferred});
    document["placement"]["rebalance"] = json!(world.chance(0.3));
    let priorities = choose(world, &[0, 0, 1, 2, -1]);
    document["placement"]["constraintPriorities"] =
        json!({"FaultDomain": priorities, "UpgradeDomain": choose(world, &[0, 1, 2, -1])});
}

/// Returns what the placement of a task breaks: the capacity of its node, or the distribution that is required.
pub(crate) fn broken(world: &World, task: &Task) -> Option<String> {
    let node = task.node.as_ref().filter(|_| is_drawn(world))?;
    // Users place where they like.
    if matches!(task.cause, Cause::User { .. }) {
        return None;
    }
    let workload = workload_of(world, &task.unit_id.policy)?.1;
    if task.cause == Cause::Return {
        return wrong_return(world, task, node);
    }
    overload(world, &workload, task, node).or_else(|| shared_domain(world, &workload, task, node))
}

/// Returns whether the capacities or domains of nodes are among the reasons why instances of a workload unit have no node.
pub(crate) fn lacks_room(world: &World, unit_id: &UnitId) -> bool {
    let limits = [Constraint::NodeCapacity, Constraint::FaultDomain, Constraint::UpgradeDomain];
    let mut known = world.agbots.iter().filter_map(|agbot| agbot.model.workload_unit(unit_id));
    is_drawn(world)
        && known.any(|unit| {
            let mut stages = unit.unplaced.iter().flat_map(|report| &report.sequence);
            // One instance on each node is not placed by choice.
            let is_full = |node: &UnitNode| node.room_left(Buffer::Kept) == 0;
            stages.any(|stage| limits.contains(&stage.constraint)) || unit.table.nodes().any(is_full)
        })
}

/// Returns whether required distribution leaves no domain for the new instances of an update, their nodes too little of a capacity, or their
/// partners no node: that may last (D11-S2, P-S1).
pub(crate) fn holds_update(world: &World, facts: &DeploymentPolicyFacts, workload: &Workload) -> bool {
    let record = world.database.workloads.get(&workload.policy);
    let blocked = record.and_then(|record| record.update.blocked.as_ref());
    let mut slots = blocked.into_iter().flat_map(|blocked| &blocked.slots);
    slots.any(|(_, why)| match why {
        Blocked::Unplaced { .. } => {
            is_drawn(world) && workload.placement.is_distribution_required
                || !has_candidate(world, facts, workload)
        }
        Blocked::NoRoom { .. } => is_drawn(world),
        _ => false,
    })
}

/// Returns whether a node of the workload's open units may have an instance, as far as its policies and partners go.
fn has_candidate(world: &World, facts: &DeploymentPolicyFacts, workload: &Workload) -> bool {
    let record = world.database.workloads.get(&workload.policy);
    let parts = record.into_iter().flat_map(|record| &record.update.parts);
    let open: Vec<&Part> = parts.filter(|(_, share)| share.set_aside > 0).map(|(part, _)| part).collect();
    let is_member = |part: &Part, node: &NodeId| match part {
        Part::All => true,
        // The group may be gone.
        Part::Group(group) => {
            world.exchange.groups.get(group).is_some_and(|group| group.members.contains(node))
        }
    };
    let is_in_scope = |node: &NodeId| match &workload.scope {
        NodeScope::Nodes(nodes) => nodes.contains(node),
        _ => true,
    };
    world.exchange.nodes.keys().any(|node| {
        is_in_scope(node)
            && open.iter().any(|part| is_member(part, node))
            && is_selected(world, node, facts)
            && satisfies_affinity(world, workload, node)
    })
}

/// Returns that an instance did not return to where the instance before it came from.
fn wrong_return(world: &World, task: &Task, node: &NodeId) -> Option<String> {
    let of_slot = |one: &&Task| one.unit_id == task.unit_id && one.slot == task.slot;
    let earlier = world.database.tasks.values().filter(of_slot);
    let before = earlier.filter(|one| one.generation < task.generation).max_by_key(|one| one.generation)?;
    let origin = before.origin.as_ref();
    (origin != Some(node)).then(|| format!("returned to {node}, and its origin was {origin:?}"))
}

/// Returns what those tasks use of a node that are meant.
fn used(world: &World, node: &NodeId, is_meant: impl Fn(&Task) -> bool) -> f64 {
    let mut slots: BTreeMap<(&UnitId, &Slot), SlotTasks> = BTreeMap::new();
    let there = world.database.tasks.values().filter(|task| task.node.as_ref() == Some(node));
    for task in there.filter(|task| is_meant(task)) {
        slots.entry((&task.unit_id, &task.slot)).or_default().put(task.clone());
    }
    let loads = slots.into_iter().filter_map(|((unit_id, _), tasks)| {
        let workload = workload_of(world, &unit_id.policy)?.1;
        let load = |task: &Task| {
            let loads = workload.spec_loads.get(&task.spec.number).unwrap_or(&workload.loads);
            loads.get(METRIC).copied().unwrap_or_default()
        };
        Some(loading(&tasks, node, load))
    });
    loads.sum()
}

fn overload(world: &World, workload: &Workload, task: &Task, node: &NodeId) -> Option<String> {
    workload.loads.get(METRIC).filter(|load| **load > 0.0)?;
    let capacity = *world.exchange.nodes.get(node)?.facts.capacities.get(METRIC)?;
    let capacity = capacity * usable_share(world, task);
    let used = used(world, node, |_| true);
    // The replacement of an instance that uses as much adds nothing.
    let adds = used > self::used(world, node, |one| one.id != task.id);
    (adds && used > capacity)
        .then(|| format!("was placed on {node}, where {METRIC} is {used} of {capacity} then"))
}

fn shared_domain(world: &World, workload: &Workload, task: &Task, node: &NodeId) -> Option<String> {
    if !workload.placement.is_distribution_required {
        return None;
    }
    let facts = &world.exchange.nodes.get(node)?.facts;
    let mut others = world.database.tasks.values().filter(|one| {
        one.unit_id == task.unit_id && one.id != task.id && one.slot != task.slot && one.is_live()
    });
    let found = others.find(|one| {
        let other = one.node.as_ref().and_then(|node| world.exchange.nodes.get(node));
        other.is_some_and(|other| {
            let is_same_fault =
                facts.fault_domain.is_some() && facts.fault_domain == other.facts.fault_domain;
            is_same_fault
                || facts.upgrade_domain.is_some() && facts.upgrade_domain == other.facts.upgrade_domain
        })
    })?;
    Some(format!("was placed on {node}, which shares a domain with task {}", found.id))
}
