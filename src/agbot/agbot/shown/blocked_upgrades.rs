//! Blocked updates, drains and agent upgrades of an HA group.
//!
//! Source: orchestration D11.

use std::collections::BTreeSet;

use evenkeel_agbot_store::claim::WaitRow;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::agent_upgrade::Refusal;
use evenkeel_planner::claims::{Claim, Scope};
use evenkeel_planner::explain::Waits;
use evenkeel_planner::facts::Availability;
use evenkeel_planner::report::{Blocked, Placement};
use evenkeel_planner::workload::{Slot, SlotTasks, WorkloadRecord};
use evenkeel_wire::agbot::orchestration::{BlockedSlot, SlotName, UpdateBlocked};
use jiff::{SignedDuration, Timestamp};

use super::SeenNodes;
use super::hidden;
use super::workload_shape::{Shape, drain_hint, hint, most_actionable, time};
use crate::context::EngineHandle;

/// Time after which a waiting operation is shown.
const SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// The rules that keep an upgrade from continuing until something changes.
const RULES: [&str; 7] =
    ["HAMinimum", "HALock", "NoCandidate", "Capacity", "NodePaused", "NodeDown", "Frozen"];

/// A group with what is known of its claims.
pub(crate) struct Asking<'a> {
    pub(crate) group: &'a GroupId,
    /// The members that the caller may read.
    pub(crate) members: &'a BTreeSet<NodeId>,
    pub(crate) claims: &'a [Claim],
    /// Members whose agent upgrade was refused.
    pub(crate) waits: Vec<WaitRow>,
}

/// Returns what has been blocked for long enough.
pub(crate) fn blocked(engine: &EngineHandle, asking: &Asking<'_>, seen: &SeenNodes) -> Option<UpdateBlocked> {
    let (since, slots) = found(engine, asking, seen)?;
    let rules: BTreeSet<String> = slots.iter().map(|slot| slot.reason.clone()).collect();
    let rules: Vec<String> = rules.into_iter().collect();
    let drained = drained_members(engine, asking, seen);
    let is_drained = |slot: &BlockedSlot| slot.node.as_ref().is_some_and(|node| drained.contains(node));
    let hint = match slots.first() {
        Some(first) if slots.iter().all(is_drained) => drain_hint(first),
        // What a user may lift in the update of one policy is no advice for the group.
        _ => most_actionable(&rules).map(|rule| hint(rule, &slots, false)).unwrap_or_default(),
    };
    Some(UpdateBlocked { since: time(since), slots, rules, hint })
}

/// Returns the members that are being drained, as they are shown.
fn drained_members(engine: &EngineHandle, asking: &Asking<'_>, seen: &SeenNodes) -> BTreeSet<String> {
    let none = PolicyId::new(asking.group.org(), "");
    let shape = Shape { policy: &none, seen, now: engine.now() };
    let model = engine.model();
    let is_drained =
        |id: &&NodeId| model.node(id).is_some_and(|node| node.facts.availability == Availability::Drain);
    asking.members.iter().filter(is_drained).map(|node| shape.node(node)).collect()
}

/// Returns the members that have been blocked for long enough, and since when the first of them has been.
pub(crate) fn found(
    engine: &EngineHandle,
    asking: &Asking<'_>,
    seen: &SeenNodes,
) -> Option<(Timestamp, Vec<BlockedSlot>)> {
    let now = engine.now();
    let none = PolicyId::new(asking.group.org(), "");
    let shape = Shape { policy: &none, seen, now };
    let mut found = of_agents(engine, asking, &shape);
    found.extend(of_pairs(engine, asking, &shape));
    found.extend(of_workloads(engine, asking, &shape));
    found.extend(of_drains(engine, asking, &shape));
    found.retain(|(since, _)| now.duration_since(*since) >= SHOWN_AFTER);
    let since = found.iter().map(|(since, _)| *since).min()?;
    let mut slots: Vec<BlockedSlot> = found.into_iter().map(|(_, slot)| slot).collect();
    slots.dedup();
    Some((since, slots))
}

fn slot(shape: &Shape<'_>, node: &NodeId, blocked: &Blocked) -> BlockedSlot {
    let blocked = hidden::reason(blocked.clone(), shape.seen);
    BlockedSlot {
        slot: SlotName::Node(shape.node(node)),
        node: Some(shape.node(node)),
        reason: blocked.upgrade_rule().to_owned(),
        detail: blocked.to_string(),
    }
}

/// Members whose agent upgrades were refused and would be refused now.
fn of_agents(engine: &EngineHandle, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let refusal = |wait: &WaitRow| Refusal {
        node: wait.node.clone(),
        first_at: wait.since,
        last_at: wait.refreshed_at,
    };
    let refusals: Vec<Refusal> = asking.waits.iter().map(refusal).collect();
    let model = engine.model();
    let found = refusals.iter().filter_map(|one| {
        let blocked = model.agent_upgrade_wait(asking.group, &refusals, &one.node, shape.now)?;
        let found = slot(shape, &one.node, &blocked);
        let detail = format!("the agent upgrade of {} waits: {}", shape.node(&one.node), found.detail);
        Some((one.first_at, BlockedSlot { detail, ..found }))
    });
    found.collect()
}

/// Members that wait with an agreement: for the update of a policy without tasks, or to be drained.
fn of_pairs(engine: &EngineHandle, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let mut found = Vec::new();
    for node in asking.members {
        for (policy, placement) in engine.placements_of(node) {
            let is_going_on = asking.claims.iter().any(|claim| claim.scope == Scope::Policy(policy.clone()));
            let Placement::Waiting { blocked, .. } = placement else { continue };
            if !is_going_on
                && RULES.contains(&blocked.upgrade_rule())
                && let Some(since) = engine.waiting_since(node, &policy)
            {
                found.push((since, slot(shape, node, &blocked)));
            }
        }
    }
    found
}

/// Members on which the update of a workload is blocked.
fn of_workloads(
    engine: &EngineHandle,
    asking: &Asking<'_>,
    shape: &Shape<'_>,
) -> Vec<(Timestamp, BlockedSlot)> {
    let model = engine.model();
    let mut found = Vec::new();
    for record in model.workloads() {
        let Some(update) = record.update.blocked.as_ref() else { continue };
        for (at, blocked) in &update.slots {
            let node = node_of(&model, record, at);
            if let Some(node) = node.filter(|node| asking.members.contains(node)) {
                found.push((update.since, slot(shape, &node, blocked)));
            }
        }
    }
    found
}

/// Members whose drain waits with the instance of a workload.
fn of_drains(engine: &EngineHandle, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let model = engine.model();
    let waiting = Waits::new(&model, engine.now()).on_nodes(asking.members);
    let drains = waiting.into_iter();
    drains.filter_map(|one| Some((one.drained_since?, slot(shape, &one.node, &one.blocked)))).collect()
}

fn node_of(model: &evenkeel_planner::model::Model, record: &WorkloadRecord, slot: &Slot) -> Option<NodeId> {
    if let Slot::Node(node) = slot {
        return Some(node.clone());
    }
    let mut slots = model.workload_units_of(&record.policy).filter_map(|(_, found)| found.slots.get(slot));
    slots.find_map(|tasks| {
        SlotTasks::iter(tasks).find(|task| task.is_live()).and_then(|task| task.node.clone())
    })
}
