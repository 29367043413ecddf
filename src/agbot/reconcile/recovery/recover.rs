//! Recovers failed members: one action after the other, one recovery at a time for each member.
//!
//! The state of a recovery is stored with the task, so that the agbot that takes the workload unit over
//! continues with it.
//! Source: orchestration C5, C6, C10.

use evenkeel_domain::orchestration::health_policy::{ActionKind, DetectionType, HealthPolicy};
use evenkeel_ids::TaskId;
use evenkeel_planner_record::{
    health::detect::{self, Failure, Verdict},
    time::later,
    workload::{
        Cause, DesiredState, EndedOrder, LifecycleEvent, PreparedAction, Recovery, Slot, Supervision, Task,
        TaskHealth,
    },
};
use serde_json::json;

use super::{
    actions::{call, command, replace},
    check,
    order::Order,
    peers,
    retry::retry_pause,
    workflow,
};
use crate::unit_pass::{UnitPass, examine};

/// Time after which a member checks again whether it is the next to be recovered on its node.
pub(super) const NEXT_ON_NODE_SECS: u64 = 5;

/// Follows the health of the members of a slot.
pub(crate) fn follow(pass: &mut UnitPass<'_>, slot: &Slot) {
    if is_unsupervised(pass, slot) && Order::of(pass, slot).is_none() {
        // Without a policy events are only recorded (C5).
        if let Some(task) = member(pass, slot) {
            see_events(pass, slot, task, false);
        }
        return;
    }
    carry_over(pass, slot);
    recover(pass, slot);
    // The outcome of the recovery decides what the nodes do.
    supervise(pass, slot);
}

/// Examines the member of a slot, and continues with its recovery.
fn recover(pass: &mut UnitPass<'_>, slot: &Slot) {
    let workload = pass.facts.workload;
    let order = Order::of(pass, slot);
    if let Some(order) = order.filter(|order| !order.has_begun(pass, slot)) {
        return order.begin(pass, slot);
    }
    let Some(task) = member(pass, slot) else { return };
    let task = note_check(pass, slot, task);
    let recovery = task.health.recovery.as_deref();
    let of_group = recovery.and_then(|recovery| recovery.of_group.as_ref());
    let is_ordered = recovery.is_some_and(|recovery| recovery.order.is_some() || of_group.is_some());
    let is_of_user = recovery.is_some_and(|recovery| recovery.order.is_some())
        || of_group.is_some_and(|order| pass.facts.recovery.ordered.contains(&order.id));
    let without_checks = HealthPolicy::without_checks();
    let policy = match of_group {
        Some(order) => pass.facts.recovery.policies.get(&order.group).map(|policy| &**policy),
        None => workload.health.as_ref(),
    };
    let policy = policy.or(is_of_user.then_some(&without_checks));
    let Some(policy) = policy.filter(|policy| policy.enabled || is_of_user) else {
        let task = forget(pass, slot, task);
        see_events(pass, slot, task, false);
        return;
    };
    let is_suspended = is_suspended(pass);
    let is_examined = examine::is_examined(pass, &task);
    let verdict = match is_examined {
        _ if of_group.is_some() => examine::examine_node_of(pass, &task),
        true if !is_suspended => examine::examine(pass, policy, &task),
        _ => Verdict::Healthy,
    };
    let is_new = matches!(verdict, Verdict::Failed(_)) && recovery.is_none();
    if is_new && !is_next_on_node(pass, &task) {
        // Reports are examined in their turn.
        return pass.wake(later(pass.now, NEXT_ON_NODE_SECS));
    }
    let task = see_events(pass, slot, task, is_suspended || !is_examined);
    match (task.health.recovery.clone(), verdict) {
        (Some(recovery), _) if is_suspended && !is_ordered => {
            if examine::is_seen_healthy(pass, policy, &task) {
                end(pass, &task, &recovery);
            }
        }
        (Some(recovery), verdict) => go_on(pass, policy, &task, *recovery, verdict),
        (None, Verdict::Failed(failure)) => begin(pass, policy, &task, failure, 0),
        (None, Verdict::NotBefore(until)) => pass.wake(until),
        (None, Verdict::Healthy) => wait_for_engine(pass, policy, &task),
    }
}

/// Ends the recovery of a member that no policy covers any longer. A policy that is attached later starts
/// afresh.
fn forget(pass: &mut UnitPass<'_>, slot: &Slot, task: Task) -> Task {
    let Some(recovery) = &task.health.recovery else { return task };
    let text =
        format!("no health policy covers the instance any longer; its recovery is over: {}", recovery.reason);
    pass.emit("health.canceled", Some(slot), task.node.as_ref(), text);
    let health = TaskHealth { recovery: None, is_missed: false, is_withheld: false, ..task.health.clone() };
    pass.set_health(slot, &task.id, health.clone());
    Task { health, ..task }
}

/// Records that the check of a member is broken, or works again. This proves nothing about the member.
fn note_check(pass: &mut UnitPass<'_>, slot: &Slot, task: Task) -> Task {
    let is_checked =
        task.is_live() && pass.facts.workload.health.as_ref().is_some_and(|policy| policy.enabled);
    let reported = pass.facts.health.get(&task.id).filter(|_| is_checked);
    let error = reported.and_then(|reported| reported.check_error.clone());
    if task.health.check_error == error {
        return task;
    }
    if let Some(error) = error.as_ref().filter(|_| task.health.check_error.is_none()) {
        let text = format!("the check is broken and proves nothing about the instance: {error}");
        pass.emit("health.check-broken", Some(slot), task.node.as_ref(), text);
    }
    let health = TaskHealth { check_error: error, ..task.health.clone() };
    pass.set_health(slot, &task.id, health.clone());
    Task { health, ..task }
}

/// Examines a member again when its node will have been silent about its container engine for too long.
fn wait_for_engine(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task) {
    if policy.has_mode(DetectionType::HypervisorStatusPolling) {
        let engine = pass.facts.health.get(&task.id).and_then(|reported| reported.engine);
        let silent_at = engine.map(|engine| detect::engine_silent_at(policy, engine));
        silent_at.filter(|at| *at > pass.now).into_iter().for_each(|at| pass.wake(at));
    }
}

/// Returns whether no policy covers a slot and nothing is left of one.
fn is_unsupervised(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    pass.facts.workload.health.is_none()
        && pass.facts.recovery.policies.is_empty()
        && pass.tasks(slot).iter().all(|task| task.health.is_unsupervised())
}

/// Applies the supervision that the policies ask for to the tasks of a slot. A task is supervised from its
/// start on.
pub(crate) fn supervise(pass: &mut UnitPass<'_>, slot: &Slot) {
    if is_unsupervised(pass, slot) {
        return;
    }
    let settings = pass.facts.settings;
    let (down_after, longest) = (settings.node_down_after_secs, settings.health_interval_max_secs);
    let policy = pass.facts.workload.health.as_ref();
    let of_workload = policy.map(|policy| Supervision::of(policy, down_after, longest));
    let of_workload = of_workload.unwrap_or_default();
    let wanted: Vec<Task> = pass.tasks(slot).wanted().cloned().collect();
    for task in wanted {
        let peers = peers::watch(pass, &task).map(Box::new);
        let lifecycle = of_workload.lifecycle && !is_left_to_restart(pass, &task);
        let restart = task.health.supervision.restart;
        let mut supervision = Supervision { peers, lifecycle, restart, ..of_workload.clone() };
        let of_group = task.node.as_ref().and_then(|node| pass.facts.recovery.policy_of(node));
        let of_group = of_group.map(|policy| Supervision::of(policy, down_after, longest));
        if let Some(of_group) = of_group {
            if supervision.probe.is_none() {
                supervision.hub_probe = supervision.hub_probe.or(of_group.hub_probe);
            }
            supervision.lease_secs = supervision.lease_secs.or(of_group.lease_secs);
        }
        if task.health.supervision != supervision {
            let health = TaskHealth { supervision, ..task.health.clone() };
            pass.set_health(slot, &task.id, health);
        }
    }
}

/// Returns whether the restart policy decides about a member that was reported down: no recovery does while recovery is suspended, or for a
/// while after all actions have failed. Its node then reports that the task has ended.
///
/// # Source
/// Orchestration P9, P-S15.
fn is_left_to_restart(pass: &UnitPass<'_>, task: &Task) -> bool {
    let policy = pass.facts.workload.health.as_ref();
    let is_down = policy.is_some_and(|policy| examine::is_reported_down(pass, policy, task));
    is_down
        && match &task.health.recovery {
            Some(recovery) => recovery.failed_until.is_some(),
            None => task.health.is_missed,
        }
}

/// Returns whether an operation of a user changes the workload: what instances report meanwhile is not a
/// failure.
///
/// # Source
/// Orchestration C10.
pub(super) fn is_suspended(pass: &UnitPass<'_>) -> bool {
    pass.update.is_rolling() || pass.action_goal.is_some() || pass.facts.recovery.is_suspended
}

/// Returns whether a member may be recovered by its own policy now: one recovery at a time on a node, that of its HA group first.
///
/// # Source
/// Orchestration C1.
fn is_next_on_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    let Some(node) = &task.node else { return true };
    let is_busy = pass.recovering.get(node).is_some_and(|slot| *slot != task.slot);
    let around = pass.facts.recovery;
    !is_busy && !around.is_of_group(node) && !around.is_busy(node, (pass.facts.unit_id, &task.slot))
}

/// Returns the task of a slot that is the member: the one that is wanted, or the one that ended and that nothing starts again.
pub(super) fn member(pass: &UnitPass<'_>, slot: &Slot) -> Option<Task> {
    let tasks = pass.tasks(slot);
    let given_up =
        || tasks.newest().filter(|task| task.desired != DesiredState::Remove && task.ended_by_itself());
    tasks.wanted().next().or_else(given_up).cloned()
}

/// Lets the task that took the place of a member in recovery continue with the recovery.
fn carry_over(pass: &mut UnitPass<'_>, slot: &Slot) {
    let Some(task) = member(pass, slot).filter(|task| task.health.recovery.is_none()) else { return };
    let older = pass.tasks(slot).iter().find(|one| one.health.recovery.is_some());
    let Some(older) = older.filter(|one| one.generation < task.generation).cloned() else { return };
    let recovery =
        older.health.recovery.clone().map(|recovery| Box::new(Recovery { command: None, ..*recovery }));
    pass.set_health(slot, &older.id, TaskHealth { recovery: None, ..older.health.clone() });
    // An update gives the slot another version, which has not failed yet.
    if !task.cause.is_update() {
        pass.set_health(slot, &task.id, TaskHealth { recovery, ..task.health.clone() });
    }
}

/// Records that the life-cycle events so far were examined, or that a failure waits until its member is examined again.
fn see_events(pass: &mut UnitPass<'_>, slot: &Slot, task: Task, is_postponed: bool) -> Task {
    let Some(reported) = pass.facts.health.get(&task.id) else { return task };
    let is_new = reported.events > task.health.events_seen;
    if !is_new && (is_postponed || !task.health.is_missed) {
        return task;
    }
    let is_failure = reported.lifecycle.as_ref().is_some_and(LifecycleEvent::is_failure);
    let is_missed = is_postponed && is_failure && task.health.recovery.is_none();
    if let Some(event) = reported.lifecycle.as_ref().filter(|_| is_new) {
        let text = format!("{} of {} reported by {}", event.event, event.instance_id, event.publisher);
        pass.emit_with(event.kind(), Some(slot), task.node.as_ref(), text, Some(json!(event)));
    }
    let health = TaskHealth { events_seen: reported.events, is_missed, ..task.health.clone() };
    pass.set_health(slot, &task.id, health.clone());
    Task { health, ..task }
}

/// Begins a recovery with the first action; `failures`: the number of those before it that did not help.
fn begin(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task, failure: Failure, failures: u32) {
    let reason = failure.text();
    if matches!(failure, Failure::Check { .. }) {
        pass.emit("health.check-failed", Some(&task.slot), task.node.as_ref(), reason.clone());
    }
    let hint = match failure {
        Failure::Event(event) => Some(event),
        Failure::Check { .. } | Failure::Node(_) => None,
    };
    let mut actions: Vec<PreparedAction> = policy.recovery.actions.iter().map(PreparedAction::from).collect();
    let light = hint.as_ref().and_then(LifecycleEvent::light_action);
    if let Some(kind) = light.filter(|_| policy.recovery.has_default_actions()) {
        actions.insert(0, PreparedAction::new(kind));
    }
    let recovery = Recovery { hint, failures, ..Recovery::new(reason, actions, pass.now) };
    start(pass, policy, task, recovery);
}

/// Reports a recovery and carries out its first action.
pub(super) fn start(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task, recovery: Recovery) {
    // The recovery of a node was reported when the group began it.
    if recovery.of_group.is_none() {
        let (reason, data) = (recovery.reason.clone(), hints(&recovery, task));
        pass.emit_with("health.recover", Some(&task.slot), task.node.as_ref(), reason, Some(data));
    }
    act(pass, policy, task, recovery);
}

/// Returns the hints of a recovery: those of the event, and the first action.
///
/// # Source
/// Orchestration C5, C6.
fn hints(recovery: &Recovery, task: &Task) -> serde_json::Value {
    let operation = recovery.actions.first().map(PreparedAction::name);
    let mut data = match &recovery.hint {
        Some(event) => json!(event),
        None => json!({}),
    };
    data["operation"] = json!(operation);
    let list: Vec<_> = recovery.actions.iter().map(|action| shown(action, task)).collect();
    data["health"] = json!({"recover_action": list});
    data
}

/// Returns a prepared action as a policy would name it.
fn shown(action: &PreparedAction, task: &Task) -> serde_json::Value {
    match &action.workflow {
        // An instance that cannot be replaced is noticed when the action is executed.
        Some(one) => json!({
            "name": one.name, "type": "WORKFLOW",
            "params": workflow::params(one, task).unwrap_or_else(|_| one.params.clone()),
        }),
        None => built_in(action),
    }
}

/// Returns a prepared action that is not a workflow as a policy would name it.
pub fn built_in(action: &PreparedAction) -> serde_json::Value {
    match action.kind {
        ActionKind::Reboot => {
            let kind = if action.hard { "HARD" } else { "SOFT" };
            match action.is_of_host {
                true => json!({"name": action.name(), "params": {"type": kind, "scope": "host"}}),
                false => json!({"name": action.name(), "params": {"type": kind}}),
            }
        }
        _ => json!({"name": action.name()}),
    }
}

/// Goes on with a recovery.
fn go_on(
    pass: &mut UnitPass<'_>,
    policy: &HealthPolicy,
    task: &Task,
    mut recovery: Recovery,
    verdict: Verdict,
) {
    let has_failed = matches!(verdict, Verdict::Failed(_));
    // An instance that still fails its check, and may do so for a while, is not healthy.
    let is_healthy = matches!(verdict, Verdict::Healthy);
    if let Some(until) = recovery.failed_until {
        return match verdict {
            Verdict::Failed(failure) if pass.now >= until => {
                begin(pass, policy, task, failure, recovery.failures);
            }
            _ if is_healthy && examine::is_seen_healthy(pass, policy, task) => end(pass, task, &recovery),
            Verdict::NotBefore(at) => pass.wake(until.max(at)),
            _ => pass.wake(until),
        };
    }
    if recovery.of_group.is_some() && recovery.action_since.is_none() && !has_failed {
        // The node is healthy again before anything was done.
        let health = TaskHealth { recovery: None, ..task.health.clone() };
        return pass.set_health(&task.slot, &task.id, with_order_ended(health, &recovery, None));
    }
    let Some(since) = recovery.action_since else {
        // It waited for its turn: what is healthy by now needs no action, unless a user ordered it.
        return match verdict {
            _ if recovery.order.is_none() && is_healthy && examine::is_seen_healthy(pass, policy, task) => {
                end(pass, task, &recovery);
            }
            Verdict::NotBefore(until) => pass.wake(until),
            _ => act(pass, policy, task, recovery),
        };
    };
    let ended = pass.facts.health.get(&task.id).and_then(|reported| reported.command.as_ref());
    let command = recovery.command.as_ref();
    let ended = ended.filter(|ended| command.is_some_and(|command| command.id == ended.id));
    if command.is_some_and(|command| command.kind == ActionKind::Check) {
        return check::go_on(pass, policy, task, recovery.clone(), (ended, since));
    }
    let is_done = command.is_none() || ended.is_some_and(|ended| ended.is_ok);
    if let Verdict::NotBefore(until) = verdict {
        pass.wake(until);
    }
    if is_done && is_healthy && examine::is_seen_healthy(pass, policy, task) {
        return end(pass, task, &recovery);
    }
    let until = later(since, policy.recovery.action_timeout);
    let deletion = open_deletion(pass, task).filter(|_| !policy.recovery.node_force_recreate);
    let deleted_by = later(since, policy.recovery.node_delete_timeout);
    if open_deletion(pass, task).is_some() {
        pass.wake(deleted_by);
    }
    let why = match ended {
        // Nothing would make it healthy: waiting for the end of the time helps nobody.
        _ if is_done && has_failed && is_given_up(task) => "the instance ended again".to_owned(),
        _ if is_done && recovery.of_group.is_some() && is_down(pass, task) => "the instance ended".to_owned(),
        Some(ended) if !ended.is_ok => ended.message.clone().unwrap_or_else(|| "the node failed".to_owned()),
        _ if deletion.is_some() && pass.now >= deleted_by => {
            let secs = policy.recovery.node_delete_timeout;
            format!("the old instance was not seen stopped within {secs} s")
        }
        _ if pass.now >= until => format!("not healthy after {} s", policy.recovery.action_timeout),
        _ => return pass.wake(until),
    };
    fail_action(pass, task, &mut recovery, &why);
    act(pass, policy, task, recovery);
}

/// Returns whether an instance has ended, and its restart policy does not start it again.
fn is_given_up(task: &Task) -> bool {
    task.state.is_ended() && !task.is_wanted()
}

/// Returns whether an instance has ended, or is reported to have, so that nothing but its recovery starts it again.
fn is_down(pass: &UnitPass<'_>, task: &Task) -> bool {
    let own = pass.facts.workload.health.as_ref();
    task.state.is_ended() || own.is_some_and(|own| examine::is_reported_down(pass, own, task))
}

/// Returns the task that has to stop before one that took its place starts.
///
/// # Source
/// Orchestration C6.
fn open_deletion(pass: &UnitPass<'_>, task: &Task) -> Option<TaskId> {
    let older = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    let mut open = older.filter(|one| !one.is_wanted() && !one.is_stopped() && !pass.is_node_lost(one));
    open.next().filter(|_| task.desired == DesiredState::Ready).map(|one| one.id.clone())
}

fn fail_action(pass: &mut UnitPass<'_>, task: &Task, recovery: &mut Recovery, why: &str) {
    let name = recovery.action().map_or("", PreparedAction::name);
    let text = format!("{name} failed: {why}");
    let data = json!({"operation": name});
    pass.emit_with("health.action-failed", Some(&task.slot), task.node.as_ref(), text, Some(data));
    recovery.step += 1;
    recovery.action_since = None;
    recovery.command = None;
}

fn end(pass: &mut UnitPass<'_>, task: &Task, recovery: &Recovery) {
    let name = if recovery.failed_until.is_some() && task.cause == Cause::TaskFailed {
        "the restart policy".to_owned()
    } else {
        // When all had failed, the last one may have helped late.
        let action = recovery.action().or(recovery.actions.last());
        action.map_or("", PreparedAction::name).to_owned()
    };
    let has_waited = recovery.failed_until.is_none() && recovery.action_since.is_none();
    let text = match has_waited {
        true => format!("the instance is healthy again before {name} was begun: {}", recovery.reason),
        false => format!("{name} recovered the instance: {}", recovery.reason),
    };
    let data = json!({"recreated": recovery.is_recreated, "operation": name});
    pass.emit_with("health.recovered", Some(&task.slot), task.node.as_ref(), text, Some(data));
    let health = TaskHealth { recovery: None, is_withheld: false, ..task.health.clone() };
    pass.set_health(&task.slot, &task.id, with_order_ended(health, recovery, None));
}

/// Returns the health of a task after the end of a recovery, as the user who ordered it will read it.
pub(super) fn with_order_ended(
    health: TaskHealth,
    recovery: &Recovery,
    failure: Option<String>,
) -> TaskHealth {
    let ended = |id: String| Box::new(EndedOrder { id, failure: failure.clone(), is_checked: false });
    let of_user = recovery.order.clone().map(ended);
    let of_group = recovery.of_group.as_ref().map(|order| ended(order.id.clone()));
    TaskHealth {
        ended_order: of_user.or(health.ended_order.clone()),
        ended_group_order: of_group.or(health.ended_group_order.clone()),
        ..health
    }
}

/// Carries out the next action that is possible, or records that all have failed.
pub(super) fn act(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task, mut recovery: Recovery) {
    while let Some(action) = recovery.action().cloned() {
        let outcome = match action.kind {
            kind if kind.is_in_place() => command(pass, task, &mut recovery, &action),
            ActionKind::Workflow => call(pass, policy, task, &mut recovery, &action),
            kind => replace(pass, task, &mut recovery, kind),
        };
        match outcome {
            Ok(()) => return,
            Err(why) => fail_action(pass, task, &mut recovery, &why),
        }
    }
    recovery.failures = recovery.failures.saturating_add(1);
    let until = later(pass.now, retry_pause(&policy.detection, recovery.failures));
    recovery.failed_until = Some(until);
    let text = format!("recovery failed: {}", recovery.reason);
    pass.emit("health.recovery-failed", Some(&task.slot), task.node.as_ref(), text);
    pass.wake(until);
    let names: Vec<&str> = recovery.actions.iter().map(PreparedAction::name).collect();
    let failure = format!("none of its actions helped: {}", names.join(", "));
    let health = with_order_ended(task.health.clone(), &recovery, Some(failure));
    recovery.order = None;
    // Without a policy there would be no retry.
    let is_kept = pass.facts.workload.health.is_some() && recovery.of_group.is_none();
    let health = TaskHealth { recovery: is_kept.then(|| Box::new(recovery)), ..health };
    pass.set_health(&task.slot, &task.id, health);
}
