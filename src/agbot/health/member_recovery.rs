//! Recoveries of members of an HA group: nodes that have failed by the health policy of their group.
//!
//! The recovery of a node is an order to the tasks that are wanted on it. Each task carries it out like a recovery of its own
//! ([`evenkeel_reconcile::recovery::recover`]); the row of the group follows until all are done. Source: orchestration C1, C3, C6, C7.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_planner_model::model::Liveness;
use evenkeel_planner_record::{
    health::{Entity, GroupAction, MemberRecovery},
    time::later,
    workload::{PreparedAction, Task},
};
use evenkeel_reconcile::recovery::{recover::built_in, retry::retry_pause};
use serde_json::json;

use super::registry::Draft;

/// Follows the recoveries of an HA group, and the action of a user on it.
pub(super) fn follow(draft: &mut Draft<'_>) {
    if !matches!(draft.row.target, Entity::Group(_)) {
        return;
    }
    let members = draft.row.members.clone();
    draft.row.recoveries.retain(|node, _| members.contains_key(node));
    begin_checked(draft);
    if !draft.policy.enabled {
        forget_own(draft);
    }
    let nodes: Vec<NodeId> = draft.row.recoveries.keys().cloned().collect();
    for node in &nodes {
        match draft.row.recoveries.get(node).cloned() {
            Some(recovery) if recovery.is_open() => follow_one(draft, node, recovery),
            Some(recovery) => forget_one(draft, node, &recovery),
            None => {}
        }
    }
    end_action(draft);
}

/// Begins what a user ordered when the check that it begins with is over: its members are those that have failed by then.
fn begin_checked(draft: &mut Draft<'_>) {
    let Some(action) = draft.row.action.clone() else { return };
    let Some(check) = &action.check else { return };
    if draft.now < check.until {
        return draft.wake(check.until);
    }
    let (model, policy, now) = (draft.model, draft.policy, draft.now);
    let is_meant = |node: &&NodeId| check.node.as_ref().is_none_or(|one| one == *node);
    let has_failed = |node: &&NodeId| model.examine_node(policy, node, now).failure().is_some();
    let members: Vec<NodeId> =
        draft.row.members.keys().filter(is_meant).filter(has_failed).cloned().collect();
    for node in &members {
        draft.emit("health.recover", Some(node), format!("ordered by {}", action.actor));
    }
    let begun = GroupAction { members, check: None, ..action.clone() };
    draft.row.begin(&begun, check.operation.as_ref(), policy, now);
    draft.recheck();
}

/// Forgets what a policy began by itself before it was disabled. One that is enabled later starts afresh.
fn forget_own(draft: &mut Draft<'_>) {
    draft.row.withheld = None;
    let recoveries = std::mem::take(&mut draft.row.recoveries);
    let (ordered, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
        recoveries.into_iter().partition(|(_, one)| one.ordered_by.is_some());
    draft.row.recoveries = ordered;
    for (node, recovery) in own.into_iter().filter(|(_, one)| one.is_open()) {
        let text = format!("the health policy is disabled; the recovery is over: {}", recovery.reason);
        draft.emit("health.canceled", Some(&node), text);
    }
}

/// Ends a recovery when all instances of the node are done with it.
fn follow_one(draft: &mut Draft<'_>, node: &NodeId, recovery: MemberRecovery) {
    let (model, policy, now) = (draft.model, draft.policy, draft.now);
    let wanted = || model.tasks_of(node).filter(|task| task.is_wanted());
    let has_waiting = wanted().any(|task| !task.health.has_begun_for_group(&recovery.id));
    let begin_by = later(recovery.since, policy.recovery.action_timeout);
    let is_in_progress =
        model.tasks_of_recovery(&recovery.id).any(|one| one.health.carries_out(&recovery.id));
    if is_in_progress || has_waiting && now < begin_by {
        return draft.recheck();
    }
    let ended = |task: &Task| task.health.ended_group_order.clone().filter(|one| one.id == recovery.id);
    let failure = model.tasks_of_recovery(&recovery.id).filter_map(ended).find_map(|ended| ended.failure);
    let not_begun = || has_waiting.then(|| "an instance did not begin it in time".to_owned());
    // An instance left on a node that still fails has not been recovered.
    let still_failed =
        || model.examine_node(policy, node, now).failure().filter(|_| wanted().next().is_some());
    let failure = failure.or_else(not_begun).or_else(still_failed);
    let operation = recovery.actions.first().map(|action| action.kind.word());
    match &failure {
        Some(why) => draft.emit("health.recovery-failed", Some(node), format!("recovery failed: {why}")),
        None => {
            let had_instance = model.tasks_of_recovery(&recovery.id).next().is_some();
            let what = if had_instance {
                "the instances of the node are recovered"
            } else {
                "no instance of the node has a task, so nothing was recovered"
            };
            let text = format!("{what}: {}", recovery.reason);
            draft.emit_with("health.recovered", Some(node), text, Some(json!({"operation": operation})));
        }
    }
    // A recovery that helped ends the row of failures.
    let failures = if failure.is_some() { recovery.failures } else { 0 };
    let ended = MemberRecovery { ended_at: Some(now), failure, failures, ..recovery };
    draft.row.recoveries.insert(node.clone(), ended);
}

/// Forgets a recovery that is over when its node is healthy, and has been left alone for a while.
fn forget_one(draft: &mut Draft<'_>, node: &NodeId, recovery: &MemberRecovery) {
    let Some(ended_at) = recovery.ended_at else { return };
    if draft.model.examine_node(draft.policy, node, draft.now).failure().is_some() {
        return;
    }
    let until = later(ended_at, draft.policy.detection.node_update_timeout);
    if draft.now < until {
        return draft.wake(until);
    }
    draft.row.recoveries.remove(node);
}

/// Ends the action of a user when all its recoveries are over.
fn end_action(draft: &mut Draft<'_>) {
    let Some(action) = draft.row.action.clone().filter(|action| action.check.is_none()) else { return };
    let mut of_action =
        draft.row.recoveries.values().filter(|one| one.ordered_by.as_deref() == Some(&action.id));
    if of_action.clone().any(MemberRecovery::is_open) {
        return draft.recheck();
    }
    let failure = of_action.find_map(|one| one.failure.clone());
    let (state, text) = match &failure {
        Some(why) => ("failed", format!("recover failed: {why}")),
        None => ("done", "recover is done".to_owned()),
    };
    let data = json!({
        "actor": action.actor, "action": "recover", "actionId": action.id, "state": state,
        "startedAt": format!("{:.3}", action.accepted_at), "members": action.members,
    });
    draft.emit_with("orchestration.ended", None, text, Some(data));
    draft.row.action = None;
    draft.recheck();
}

/// Checks the members of an HA group, and begins the recovery of those that have failed. Returns how many are healthy, and how many not.
///
/// The recovery of a member that is up interrupts its instances. Therefore no more of these members are
/// recovered at once than the policy allows, and none while most of them fail at once.
pub(super) fn check_members(draft: &mut Draft<'_>) -> (u64, u64) {
    let (model, policy, now) = (draft.model, draft.policy, draft.now);
    let members: Vec<NodeId> = draft.row.members.keys().cloned().collect();
    let is_up = |node: &NodeId| model.liveness(node, now) == Liveness::Alive;
    let failed = members.iter().filter_map(|node| {
        let reason = model.examine_node(policy, node, now).failure()?;
        Some((node.clone(), reason))
    });
    let mut failed: Vec<(NodeId, String)> = failed.collect();
    // Those whose recovery did not help come after those that had none.
    failed.sort_by_key(|(node, _)| draft.row.recoveries.get(node).map(|recovery| recovery.ended_at));
    withhold(draft, &members, &failed, is_up);
    let unhealthy = failed.len() as u64;
    for (node, reason) in failed {
        if may_begin(draft, &node) && (!is_up(&node) || may_take_away(draft, is_up)) {
            begin(draft, &node, reason);
        }
    }
    (members.len() as u64 - unhealthy, unhealthy)
}

/// Records whether most members that are up fail at once, and reports that it has begun.
fn withhold(
    draft: &mut Draft<'_>,
    members: &[NodeId],
    failed: &[(NodeId, String)],
    is_up: impl Fn(&NodeId) -> bool,
) {
    let up = members.iter().filter(|node| is_up(node)).count();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, reason) in failed.iter().filter(|(node, _)| is_up(node)) {
        *reasons.entry(reason).or_default() += 1;
    }
    let failing = reasons.values().sum();
    let likely = reasons.iter().max_by_key(|(_, count)| **count).map(|(reason, _)| *reason);
    let common = likely.filter(|_| draft.policy.recovery.is_common_cause(failing, up));
    let withheld = common.map(|reason| {
        format!(
            "{failing} of {up} members that are up fail at once, most of them so: {reason}; a check that is wrong, or something that all of \
             them need, is the likely cause, so none of them is recovered"
        )
    });
    if let Some(text) = withheld.clone().filter(|_| draft.row.withheld.is_none()) {
        draft.emit("health.common-cause", None, text);
    }
    draft.row.withheld = withheld;
}

/// Returns whether the recovery of one more member that is up may begin.
fn may_take_away(draft: &Draft<'_>, is_up: impl Fn(&NodeId) -> bool) -> bool {
    let open = draft.row.recoveries.iter().filter(|(node, one)| one.is_open() && is_up(node)).count();
    draft.row.withheld.is_none() && open < draft.policy.recovery.limit(1) as usize
}

/// Returns whether the recovery of a node that has failed may begin: it was not changed recently, and no
/// instance of it is recovered.
fn may_begin(draft: &Draft<'_>, node: &NodeId) -> bool {
    let detection = &draft.policy.detection;
    let joined_at = draft.row.members.get(node).copied().flatten();
    if joined_at.is_some_and(|at| draft.now < later(at, detection.node_update_timeout)) {
        return false;
    }
    let mut tasks = draft.model.tasks_of(node);
    if tasks.any(|task| task.health.is_recovering()) {
        return false;
    }
    match draft.row.recoveries.get(node) {
        None => true,
        Some(recovery) => {
            // Nothing is left to recover on a node that lost its instances.
            let has_instance = draft.model.tasks_of(node).any(Task::is_wanted);
            let pause = retry_pause(detection, recovery.failures_so_far());
            has_instance && recovery.ended_at.is_some_and(|at| draft.now >= later(at, pause))
        }
    }
}

fn begin(draft: &mut Draft<'_>, node: &NodeId, reason: String) {
    let actions: Vec<PreparedAction> =
        draft.policy.recovery.actions.iter().map(PreparedAction::from).collect();
    draft.emit("health.check-failed", Some(node), reason.clone());
    let shown = |action: &PreparedAction| match &action.workflow {
        // Placeholders for an instance are filled in for each of them.
        Some(one) => json!({"name": one.name, "type": "WORKFLOW", "params": one.params}),
        None => built_in(action),
    };
    let list: Vec<_> = actions.iter().map(shown).collect();
    let operation = actions.first().map(|action| action.kind.word());
    let data = json!({"operation": operation, "health": {"recover_action": list}});
    draft.emit_with("health.recover", Some(node), reason.clone(), Some(data));
    let before = draft.row.recoveries.get(node).map_or(0, MemberRecovery::failures_so_far);
    let recovery =
        MemberRecovery { failures: before, ..MemberRecovery::new(node, reason, actions, draft.now) };
    draft.row.recoveries.insert(node.clone(), recovery);
    draft.recheck();
}
