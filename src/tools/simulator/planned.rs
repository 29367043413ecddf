//! Plans compared with what happens: when everything has come to rest, a user asks for the plan of a write, and then writes.
//!
//! What changes afterwards is what the plan has listed, slot by slot. Source: orchestration D3 (`plan`).

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_explain::preview::preview;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, PolicyOrchestration},
    workload::Task,
};
use evenkeel_reconcile::reconcile::ExpectedChange;
use serde_json::{Value, json};

use super::{
    chaos::{add_service, pick},
    invariants,
    workload::tasks_of,
    workload_chaos::choose,
    world::{Quality, World},
};

/// Time until agbots know what was written, and until they have carried it out, seconds.
const READ_SECS: u64 = 5;
const CARRY_OUT_SECS: u64 = 600;

/// Writes that are planned.
#[derive(Debug, Clone, Copy)]
enum Write {
    /// Another version of the service.
    Version,
    /// Constraints that fewer or more nodes satisfy.
    Constraint(&'static str),
    /// Another number of instances, if the policy has one.
    Number,
}

/// A slot of a policy: of a workload unit, or of a node when the policy has no tasks.
type SlotName = String;

/// Where the instance of a slot is.
type Instances = BTreeMap<SlotName, (NodeId, String)>;

/// Node of a slot before and after.
type Changes = BTreeMap<SlotName, (Option<NodeId>, Option<NodeId>)>;

/// Plans a write, writes, and compares.
pub(crate) fn check(world: &mut World) {
    let policies: Vec<PolicyId> = world.exchange.policies.keys().cloned().collect();
    let Some(policy) = pick(world, &policies) else { return };
    let writes = [
        Write::Version,
        Write::Version,
        Write::Constraint("site == north"),
        Write::Constraint("site in \"north,south\""),
        Write::Constraint("site == nowhere"),
        Write::Number,
        Write::Number,
    ];
    let write = choose(world, &writes);
    let Some(facts) = written(world, &policy, write) else { return };
    world.run_for(READ_SECS);
    world.run_until(CARRY_OUT_SECS, |world| world.steps.is_multiple_of(64) && is_at_rest(world));
    let Some(expected) = expected(world, &facts) else { return };
    let before = instances(world, &policy);
    world.trace_line(format!("a user plans {write:?} of {policy}, which lists {expected:?}, and writes it"));
    world.exchange.put_policy(facts);
    world.edited_at_millis = world.millis;
    // Some moves wait for a time of the policy.
    let is_carried_out = |world: &World| {
        world.steps.is_multiple_of(16)
            && is_at_rest(world)
            && changes(&before, &instances(world, &policy)) == expected
    };
    world.run_for(READ_SECS);
    world.run_until(CARRY_OUT_SECS, is_carried_out);
    world.run_for(READ_SECS);
    if world.checker.violation.is_some() {
        return;
    }
    let happened = changes(&before, &instances(world, &policy));
    if happened != expected {
        world
            .checker
            .broke(format!("the plan of {policy} listed {expected:?}, and this happened: {happened:?}"));
    }
}

/// Returns whether everything wanted runs and no update is in progress.
fn is_at_rest(world: &World) -> bool {
    let is_rolling = world.database.workloads.values().any(|record| record.update.is_rolling());
    !is_rolling && invariants::waiting(world).is_empty()
}

/// Returns a policy as a user writes it; none when the write is none for this policy.
fn written(world: &mut World, policy: &PolicyId, write: Write) -> Option<DeploymentPolicyFacts> {
    let mut facts = world.exchange.policies.get(policy)?.clone();
    facts.last_updated = Some(world.now());
    match write {
        Write::Version => {
            let version = format!("{}.0.0", world.number());
            add_service(world, facts.service.name(), &version, Quality::Good);
            facts.versions.first_mut()?.version = version;
        }
        Write::Constraint(constraint) => {
            facts.policy.constraints = [constraint].into_iter().collect();
        }
        Write::Number => {
            let mut document = serde_json::to_value(facts.orchestration.document.as_deref()?).ok()?;
            let number = world.between(0, 3);
            match document["mode"].as_str()? {
                "replicated" => document["replicas"] = json!(number),
                "flex" => document["flex"]["target"] = json!(number.max(1)),
                _ => return None,
            }
            facts.orchestration = PolicyOrchestration::of(policy, &read(policy, document)?);
        }
    }
    Some(facts)
}

fn read(policy: &PolicyId, document: Value) -> Option<Orchestration> {
    Orchestration::of_policy(policy, document).ok()
}

/// Returns what the plan of an agbot lists; none when it leaves something open.
fn expected(world: &World, facts: &DeploymentPolicyFacts) -> Option<Changes> {
    let agbot = world.agbots.iter().find(|agbot| agbot.is_up)?;
    let document = facts.orchestration.document.as_deref().cloned().unwrap_or_default();
    let written = [Event::DeploymentPolicyChanged { policy: Box::new(facts.clone()) }];
    let plan = preview(agbot.model.clone(), &facts.id, &written, &document, world.now());
    if plan.workload_units.iter().any(|unit| !unit.run.is_complete) {
        return None;
    }
    let has_tasks = facts.orchestration.document.is_some();
    let mut found = Changes::new();
    for unit in &plan.workload_units {
        for change in &unit.run.changes {
            let name = if has_tasks {
                format!("{} {}", unit.id.name(), change.slot)
            } else {
                node_of(change)?.to_string()
            };
            let entry = found.entry(name).or_insert((change.from.clone(), None));
            entry.1.clone_from(&change.to);
        }
    }
    // A slot that gets a task for which there is no node has no instance.
    found.retain(|_, (from, to)| from.is_some() || to.is_some());
    Some(found)
}

fn node_of(change: &ExpectedChange) -> Option<&NodeId> {
    change.to.as_ref().or(change.from.as_ref())
}

/// Returns where the instances of a policy are, each with its id.
fn instances(world: &World, policy: &PolicyId) -> Instances {
    let has_tasks =
        world.exchange.policies.get(policy).is_some_and(|facts| facts.orchestration.document.is_some());
    if !has_tasks {
        let live = world.database.agreements.values().filter(|one| one.is_live() && one.policy == *policy);
        return live.map(|one| (one.node.to_string(), (one.node.clone(), format!("{:?}", one.id)))).collect();
    }
    let mut newest: BTreeMap<SlotName, &Task> = BTreeMap::new();
    for task in tasks_of(world, policy).filter(|task| task.is_wanted() && task.node.is_some()) {
        let name = format!("{} {}", task.unit_id.name(), task.slot);
        let known = newest.entry(name).or_insert(task);
        if known.generation < task.generation {
            *known = task;
        }
    }
    let placed = |(name, task): (SlotName, &Task)| Some((name, (task.node.clone()?, task.id.to_string())));
    newest.into_iter().filter_map(placed).collect()
}

fn changes(before: &Instances, after: &Instances) -> Changes {
    let names = before.keys().chain(after.keys());
    let changed = names.filter(|name| before.get(*name) != after.get(*name));
    let node = |found: Option<&(NodeId, String)>| found.map(|(node, _)| node.clone());
    changed.map(|name| (name.clone(), (node(before.get(name)), node(after.get(name))))).collect()
}
