//! Blocked updates, drains and agent upgrades of an HA group.
//!
//! Source: orchestration D11.

use std::collections::BTreeSet;

use evenkeel_agbot_store::claim::WaitRow;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::claims::{Claim, Scope};
use evenkeel_planner::facts::Availability;
use evenkeel_planner::report::{Blocked, Placement};
use evenkeel_planner::status::Waits;
use evenkeel_planner::workload::{Slot, SlotTasks, WorkloadRecord};
use evenkeel_wire::agbot::orchestration::{BlockedSlot, SlotName, UpdateBlocked};
use jiff::{SignedDuration, Timestamp};

pub(crate) use super::caller::SeenNodes;
use super::hidden;
use super::workload_shape::{Shape, drain_hint, hint, time};
use crate::context::Context;

/// Time after which a waiting operation is shown.
const SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// A member that has not asked for this time has given its upgrade up.
const ASKED_LATELY: SignedDuration = SignedDuration::from_mins(10);
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
pub(super) fn blocked(context: &Context, asking: &Asking<'_>, seen: &SeenNodes) -> Option<UpdateBlocked> {
    let (since, slots) = found(context, asking, seen)?;
    let rules: BTreeSet<String> = slots.iter().map(|slot| slot.reason.clone()).collect();
    let drained = drained_members(context, asking, seen);
    let is_drained = |slot: &BlockedSlot| slot.node.as_ref().is_some_and(|node| drained.contains(node));
    let hint = match slots.first() {
        Some(first) if slots.iter().all(is_drained) => drain_hint(first),
        _ => rules.first().map(|rule| hint(rule, &slots)).unwrap_or_default(),
    };
    Some(UpdateBlocked { since: time(since), slots, rules: rules.into_iter().collect(), hint })
}

/// Returns the members that are being drained, as they are shown.
fn drained_members(context: &Context, asking: &Asking<'_>, seen: &SeenNodes) -> BTreeSet<String> {
    let none = PolicyId::new(asking.group.org(), "");
    let shape = Shape { policy: &none, seen, now: context.now() };
    let model = context.model();
    let is_drained =
        |id: &&NodeId| model.node(id).is_some_and(|node| node.facts.availability == Availability::Drain);
    asking.members.iter().filter(is_drained).map(|node| shape.node(node)).collect()
}

/// Returns the members that have been blocked for long enough, and since when the first of them has been.
pub(crate) fn found(
    context: &Context,
    asking: &Asking<'_>,
    seen: &SeenNodes,
) -> Option<(Timestamp, Vec<BlockedSlot>)> {
    let now = context.now();
    let none = PolicyId::new(asking.group.org(), "");
    let shape = Shape { policy: &none, seen, now };
    let mut found = of_agents(asking, &shape, now);
    found.extend(of_pairs(context, asking, &shape));
    found.extend(of_workloads(context, asking, &shape));
    found.extend(of_drains(context, asking, &shape));
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

/// Members that were refused an agent upgrade, and would ask again.
fn of_agents(asking: &Asking<'_>, shape: &Shape<'_>, now: Timestamp) -> Vec<(Timestamp, BlockedSlot)> {
    let lately = asking.waits.iter().filter(|wait| now.duration_since(wait.refreshed_at) < ASKED_LATELY);
    let waits = lately.map(|wait| {
        let node = shape.node(&wait.node);
        let holder = asking.claims.iter().find(|claim| claim.node != wait.node);
        let (reason, detail) = match holder {
            Some(claim) => {
                ("HALock", format!("{} holds the claim for the {}", shape.node(&claim.node), claim.task()))
            }
            None => ("HAMinimum", "too few other members run what it runs".to_owned()),
        };
        let detail = format!("the agent upgrade of {node} waits: {detail}");
        let slot = SlotName::Node(node.clone());
        (wait.since, BlockedSlot { slot, node: Some(node), reason: reason.to_owned(), detail })
    });
    waits.collect()
}

/// Members that wait with an agreement: for the update of a policy without tasks, or to be drained.
fn of_pairs(context: &Context, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let mut found = Vec::new();
    for node in asking.members {
        for (policy, placement) in context.placements_of(node) {
            let is_going_on = asking.claims.iter().any(|claim| claim.scope == Scope::Policy(policy.clone()));
            let Placement::Waiting { blocked, .. } = placement else { continue };
            if !is_going_on
                && RULES.contains(&blocked.upgrade_rule())
                && let Some(since) = context.waiting_since(node, &policy)
            {
                found.push((since, slot(shape, node, &blocked)));
            }
        }
    }
    found
}

/// Members on which the update of a workload is blocked.
fn of_workloads(context: &Context, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let model = context.model();
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
fn of_drains(context: &Context, asking: &Asking<'_>, shape: &Shape<'_>) -> Vec<(Timestamp, BlockedSlot)> {
    let model = context.model();
    let waiting = Waits::new(&model, context.now()).on_nodes(asking.members);
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
