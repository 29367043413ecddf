//! The recovery of members of an HA group that a user orders.
//!
//! Source: orchestration C7.

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{health::Entity, time::later, workload::Task};
use jiff::Timestamp;

use super::ActionRefusal;
use crate::recovery::check::{REPORT_SECS, attempt_secs};

/// Returns the members of an HA group that a user's order is about.
///
/// # Shape
/// `node`: only this member. `examines`: the members that have failed by the health policy; without it those that are down.
/// # Errors
/// When the group has no health policy, or the node is not one of its members.
pub fn members_to_recover(
    model: &Model,
    group: &GroupId,
    node: Option<&NodeId>,
    examines: bool,
    now: Timestamp,
) -> Result<Vec<NodeId>, ActionRefusal> {
    let target = Entity::Group(group.clone());
    let (Some(facts), Some(policy)) = (model.group(group), model.health_policy_of(&target)) else {
        let text = format!("{group} has no health policy: give it one in orchestration.healthPolicy first");
        return Err(ActionRefusal::Conflict(text));
    };
    if let Some(node) = node.filter(|node| !facts.members.contains(node)) {
        return Err(ActionRefusal::NoNode { node: node.clone(), part: None });
    }
    let has_failed = |member: &NodeId| match examines {
        true => model.examine_node(policy, member, now).failure().is_some(),
        false => model.is_down(member, now),
    };
    let meant = facts.members.iter().filter(|member| node.is_none_or(|node| node == *member));
    Ok(meant.filter(|member| has_failed(member)).cloned().collect())
}

/// Returns when every member of an HA group will have been examined again; none when this agbot has done that already.
///
/// Peers examine each other at their interval. What the hub polls the agbot that decides about the group polls at once: this one may have done
/// so, another one has to read the order first.
pub fn checked_by(model: &Model, group: &GroupId, now: Timestamp) -> Option<Timestamp> {
    let policy = model.health_policy_of(&Entity::Group(group.clone()))?;
    let (by_peers, by_other) = (policy.node_peer_mode().is_some(), model.lease_for_group(group).is_none());
    let secs_of = |task: &Task| {
        let supervision = &task.health.supervision;
        let watch = supervision.peers.as_ref().filter(|_| by_peers).map(|watch| {
            let attempts = watch.probe.as_ref().map_or(REPORT_SECS, attempt_secs);
            attempts.saturating_add(u64::from(watch.interval_secs))
        });
        let polled =
            supervision.hub_probe.as_deref().filter(|_| by_other && supervision.is_polled_for(policy));
        watch.max(polled.map(attempt_secs))
    };
    let tasks = model.group(group)?.members.iter().flat_map(|node| model.tasks_of(node));
    let secs = tasks.filter(|task| task.is_wanted() && task.is_running()).filter_map(secs_of).max()?;
    Some(later(now, secs))
}
