//! The status of a policy with what its instances and rollouts wait for.
//!
//! Source: orchestration 1.5, A9, D11.

use evenkeel_ids::PolicyId;
use evenkeel_placement::place::NodeState;
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    claims::Scope,
    report::Blocked,
    rollout::{Rollout, RolloutState},
    workload::{Slot, Task, UpdateBlocked, UpdateState, UpdateStatus},
};
use evenkeel_status::status::{Window, WorkloadStatus, lost_instance_wait, observed_status_of};
use jiff::Timestamp;

use super::{explain, waits::Waits};

/// Returns the status of a deployment policy; none when the model does not know it.
pub fn status_of(
    model: &Model,
    policy: &PolicyId,
    window: &Window,
    now: Timestamp,
) -> Option<WorkloadStatus> {
    let mut status = observed_status_of(model, policy, window, now)?;
    if status.record.is_none() {
        status.update.blocked = blocked_rollouts(model, policy, now);
        return Some(status);
    }
    let Some(workload) = model.workload_of(policy) else { return Some(status) };
    let waits = Waits::new(model, now);
    for (unit_id, unit) in model.workload_units_of(policy).filter(|(_, unit)| unit.is_wanted) {
        // Another agbot plans the workload unit to find the reason.
        let is_known = model.lease_for_unit(unit_id).is_some() || workload.goal.is_exclusive();
        if is_known && !runs_everywhere(unit) {
            let wait = lost_instance_wait(&waits.of_unit(unit_id, unit), None);
            status.warnings.extend(wait.map(|text| format!("{}: {text}", unit_id.name())));
        }
    }
    Some(status)
}

/// Returns whether an instance runs in every slot, on a node that is there.
fn runs_everywhere(unit: &UnitRecord) -> bool {
    let runs = |task: &Task| {
        let row = task.node.as_ref().and_then(|node| unit.table.find(node));
        task.is_running() && row.is_some_and(|row| row.state == NodeState::Ready)
    };
    unit.slots.values().all(|tasks| tasks.wanted().next().is_some_and(runs))
}

/// Returns the update of a policy; none when there is none.
pub fn update_of(model: &Model, policy: &PolicyId, now: Timestamp) -> Option<UpdateStatus> {
    match model.workload(policy) {
        Some(record) => Some(record.update.clone()),
        None => blocked_update(model, policy, now),
    }
}

/// Returns what keeps a rollout from continuing; none while a member is being changed.
///
/// # Source
/// Orchestration D11.
fn blocked(model: &Model, rollout: &Rollout, now: Timestamp) -> Option<UpdateBlocked> {
    let claim =
        model.claims_of(&rollout.group).find(|claim| claim.scope == Scope::Policy(rollout.policy.clone()));
    if rollout.state != RolloutState::Updating || claim.is_some() {
        return None;
    }
    let waiting = model.group(&rollout.group)?.members.iter().filter_map(|member| {
        model.live_agreement(member, &rollout.policy)?;
        let blocked = explain(model, member, &rollout.policy, now).blocked().cloned()?;
        let lasts = matches!(
            blocked,
            Blocked::HaMinimum { .. }
                | Blocked::HaLock { .. }
                | Blocked::UpdateParallelism { .. }
                | Blocked::NodeDown { .. }
                | Blocked::NodePaused
        );
        lasts.then(|| (Slot::Node(member.clone()), blocked))
    });
    let slots: Vec<(Slot, Blocked)> = waiting.collect();
    let since = rollout.last_step_at.unwrap_or(rollout.started_at);
    (!slots.is_empty()).then_some(UpdateBlocked {
        since,
        slots,
        nodes: std::collections::BTreeMap::new(),
        is_announced: true,
    })
}

/// Rollouts that are examined for what blocks them.
const EXAMINED: usize = 50;

/// Returns an update with what keeps every rollout of a policy from continuing; none while one continues.
fn blocked_update(model: &Model, policy: &PolicyId, now: Timestamp) -> Option<UpdateStatus> {
    let open = model.rollouts().filter(|one| one.policy == *policy && one.state == RolloutState::Updating);
    let open: Vec<&Rollout> = open.take(EXAMINED).collect();
    let scope = Scope::Policy(policy.clone());
    if open.is_empty() || model.groups_in_work(&scope, now).next().is_some() {
        return None;
    }
    let found = combined(open.into_iter().filter_map(|rollout| blocked(model, rollout, now)));
    Some(UpdateStatus { blocked: found, state: UpdateState::Updating, ..UpdateStatus::default() })
}

/// Returns what keeps the rollouts of a policy through its groups from continuing.
fn blocked_rollouts(model: &Model, policy: &PolicyId, now: Timestamp) -> Option<UpdateBlocked> {
    let rollouts = model.rollouts().filter(|rollout| rollout.policy == *policy);
    combined(rollouts.filter_map(|rollout| blocked(model, rollout, now)))
}

fn combined(each: impl Iterator<Item = UpdateBlocked>) -> Option<UpdateBlocked> {
    each.reduce(|mut known, one| {
        known.since = known.since.min(one.since);
        known.slots.extend(one.slots);
        known
    })
}
