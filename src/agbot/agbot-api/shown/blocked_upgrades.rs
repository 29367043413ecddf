//! Blocked updates, drains and agent upgrades of an HA group, as they are shown.
//!
//! Source: orchestration D11.

use std::collections::BTreeSet;

use evenkeel_agbot::{BlockedMember, EngineHandle, GroupUpgrades};
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::facts::Availability;
use evenkeel_wire::agbot::orchestration::{BlockedSlot, SlotName, UpdateBlocked};

use super::SeenNodes;
use super::hidden;
use super::workload_shape::{Shape, drain_hint, hint, most_actionable, time};

/// Returns what has been blocked for long enough.
pub(crate) fn blocked(
    engine: &EngineHandle,
    upgrades: &GroupUpgrades<'_>,
    seen: &SeenNodes,
) -> Option<UpdateBlocked> {
    let found = engine.blocked_members(upgrades);
    let since = found.iter().map(|one| one.since).min()?;
    let none = PolicyId::new(upgrades.group.org(), "");
    let shape = Shape { policy: &none, seen, now: engine.now() };
    let mut slots: Vec<BlockedSlot> = found.into_iter().map(|one| slot(&shape, one)).collect();
    slots.dedup();
    let rules: BTreeSet<String> = slots.iter().map(|slot| slot.reason.clone()).collect();
    let rules: Vec<String> = rules.into_iter().collect();
    let drained = drained_members(engine, upgrades, &shape);
    let is_drained = |slot: &BlockedSlot| slot.node.as_ref().is_some_and(|node| drained.contains(node));
    let hint = match slots.first() {
        Some(first) if slots.iter().all(is_drained) => drain_hint(first),
        // What a user may lift in the update of one policy is no advice for the group.
        _ => most_actionable(&rules).map(|rule| hint(rule, &slots, false)).unwrap_or_default(),
    };
    Some(UpdateBlocked { since: time(since), slots, rules, hint })
}

/// Returns the members that are being drained, as they are shown.
fn drained_members(
    engine: &EngineHandle,
    upgrades: &GroupUpgrades<'_>,
    shape: &Shape<'_>,
) -> BTreeSet<String> {
    let model = engine.model();
    let is_drained =
        |id: &&NodeId| model.node(id).is_some_and(|node| node.facts.availability == Availability::Drain);
    upgrades.members.iter().filter(is_drained).map(|node| shape.node(node)).collect()
}

fn slot(shape: &Shape<'_>, found: BlockedMember) -> BlockedSlot {
    let shown = BlockedMember { blocked: hidden::reason(found.blocked, shape.seen), ..found };
    let name = shape.node(&shown.node);
    BlockedSlot {
        slot: SlotName::Node(name.clone()),
        reason: shown.blocked.upgrade_rule().to_owned(),
        detail: shown.text(&name),
        node: Some(name),
    }
}
