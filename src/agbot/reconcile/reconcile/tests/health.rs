//! Health policies: C4 to C8.

use evenkeel_domain::orchestration::{HealthPolicy, health_policy::Target};
use evenkeel_ids::{GroupId, TaskId};
use evenkeel_planner_record::{
    facts::Guardian,
    goal::{Goal, StartMode},
    health::MemberRecovery,
    report::{Blocked, NoLease},
    workload::{
        ActionGoal, Cause, DesiredState, EndedCommand, LifecycleEvent, NodeOrder, PreparedAction, Slot,
        TaskHealth, UserAction,
    },
};
use serde_json::{Value, json};

use super::simulated::*;
use crate::unit_pass::CoveredNode;

const UPDATE_TIMEOUT: u64 = 20;

pub(super) fn policy(detection: Value, recovery: Value) -> HealthPolicy {
    let mut detection = detection;
    detection["node_update_timeout"] = json!(UPDATE_TIMEOUT);
    let document = json!({"detection": detection, "recovery": recovery});
    HealthPolicy::read("healthPolicy", document, Target::Workload).expect("the document is valid")
}

pub(super) fn url(recovery: Value) -> HealthPolicy {
    let options = json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok"});
    policy(json!({"type": "NODE_STATUS_POLL_URL", "options": options}), recovery)
}

pub(super) fn events(recovery: Value) -> HealthPolicy {
    policy(json!({"type": "LIFECYCLE_EVENTS"}), recovery)
}

/// One instance that runs for longer than the update timeout.
pub(super) fn running(health: HealthPolicy) -> (World, TaskId) {
    let mut world = World::new(Goal::replicated(1), 2);
    world.edit(|workload| workload.health = Some(health));
    world.run(UPDATE_TIMEOUT + 5);
    let task = world.running()[0].id.clone();
    (world, task)
}

pub(super) fn unhealthy(world: &mut World, task: &TaskId) {
    world.report_health(task, |health| {
        (health.healthy, health.message) = (Some(false), Some("responds with \"starting\"".into()));
    });
}

fn healthy(world: &mut World, task: &TaskId) {
    world.report_health(task, |health| health.healthy = Some(true));
}

pub(super) fn command_done(world: &mut World, task: &TaskId, is_ok: bool) -> String {
    let command = world.tasks[task].health.command().expect("there is a command").clone();
    let ended = EndedCommand { id: command.id, is_ok, message: None };
    world.report_health(task, |health| health.command = Some(ended));
    command.kind.word().to_owned()
}

pub(super) fn event(world: &mut World, task: &TaskId, name: &str) {
    let event = LifecycleEvent {
        event: name.into(),
        state: "stopped".into(),
        instance_id: "c1".into(),
        timestamp: "2026-01-01T00:00:00Z".into(),
        publisher: "docker:n1".into(),
    };
    world.report_health(task, |health| {
        health.events += 1;
        health.lifecycle = Some(event);
    });
}

pub(super) fn count(world: &World, kind: &str) -> usize {
    world.events.iter().filter(|event| event.kind == kind).count()
}

/// C4-S2: the recovery waits until the member has not changed for a while.
#[test]
fn failed_check_recreates_the_instance_after_the_grace_of_a_change() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.edit(|workload| workload.health = Some(url(json!({}))));
    world.run(3);
    let (task, node) = (world.running()[0].id.clone(), world.running()[0].node.clone());
    unhealthy(&mut world, &task);
    world.run(UPDATE_TIMEOUT - 5);
    assert_eq!(count(&world, "health.recover"), 0, "it has just been started");
    world.run_until(30, |world| world.running().first().is_some_and(|one| one.id != task));
    let next = world.running()[0].clone();
    assert_eq!(next.node, node, "the same node is preferred");
    assert_eq!(count(&world, "health.recovered"), 0, "it was not seen healthy");
    healthy(&mut world, &next.id);
    world.run(1);
    let recovered = world.events.iter().find(|event| event.kind == "health.recovered").expect("it recovered");
    assert_eq!(recovered.data.as_ref().map(|data| data["recreated"].clone()), Some(json!(true)));
    assert!(world.has_event("health.check-failed"));
}

/// The HA group of two members recovers a node.
fn recovers(world: &mut World, name: &str) {
    let document = json!({"detection": {"type": "NODE_STATUS_POLLING"}});
    let policy = HealthPolicy::read("healthPolicy", document, Target::Group).expect("the document is valid");
    let group = GroupId::new("o", "g");
    let actions = policy.recovery.actions.iter().map(PreparedAction::from).collect();
    let recovery = MemberRecovery::new(&node(name), "failed".into(), actions, world.now());
    let covered = CoveredNode {
        group: group.clone(),
        failure: Some("failed".into()),
        is_checked: true,
        recovery: Some(recovery),
    };
    world.recovery.nodes.insert(node(name), covered);
    world.recovery.policies.insert(group, std::sync::Arc::new(policy));
    world.edit(|_| {});
}

/// E8: what runs on a member that has failed counts for the minimum available.
#[test]
fn last_running_instance_of_a_group_is_not_stopped_by_the_recovery_of_its_node() {
    let mut world = World::new(Goal::global(), 2);
    world.group(&["n1", "n2"]);
    world.run(5);
    world.take_down("n1");
    recovers(&mut world, "n2");
    world.run(60);
    assert_eq!(world.running_nodes(), ["n2"]);
    let (step, blocked) = world.last.blocked.first().expect("the recovery waits").clone();
    assert_eq!(step.slot, Slot::Node(node("n2")));
    assert!(matches!(blocked, Blocked::HaMinimum { .. }), "{blocked}");
    let task = world.running()[0].id.clone();
    world.bring_back("n1");
    world.run_until(30, |world| world.running().iter().all(|one| one.id != task));
    world.run_until(30, |world| world.running_nodes() == ["n1", "n2"]);
}

/// P-S9: the blocklist goes before the recovery: with another node the instance moves there, without one it waits.
#[test]
fn recovery_starts_nothing_on_a_node_that_is_blocked() {
    for (count, expected) in [(2, vec!["n2"]), (1, vec![])] {
        let mut world = World::new(Goal::replicated(1), count);
        world.edit(|workload| workload.health = Some(url(json!({}))));
        world.run(UPDATE_TIMEOUT + 5);
        let task = world.running()[0].id.clone();
        assert_eq!(world.running_nodes(), ["n1"]);
        let (service, until) =
            (evenkeel_ids::ServiceKey::new("o", "s"), world.now() + jiff::SignedDuration::from_hours(1));
        world.change_node("n1", |node| {
            node.marks.blocklisted = Some(Box::new(Blocked::Blocklisted {
                service,
                version: "1.0.0".into(),
                until,
                failure: "broken".into(),
            }));
        });
        unhealthy(&mut world, &task);
        world.run(10);
        assert_eq!(world.running_nodes(), expected, "{:#?}", world.summary());
        let is_unplaced = |blocked: &Blocked| matches!(blocked, Blocked::Unplaced { .. });
        assert_eq!(world.last.blocked.iter().any(|(_, blocked)| is_unplaced(blocked)), expected.is_empty());
    }
}

/// C6-S1: a reboot that helps keeps the task.
#[test]
fn reboot_that_helps_is_the_only_action() {
    let actions = json!({"actions": [{"name": "REBOOT", "params": {"type": "SOFT"}}, {"name": "RECREATE"}]});
    let (mut world, task) = running(url(actions));
    unhealthy(&mut world, &task);
    world.run(1);
    assert_eq!(command_done(&mut world, &task, true), "REBOOT");
    world.run(1);
    healthy(&mut world, &task);
    world.run(60);
    assert_eq!(world.running()[0].id, task);
    assert_eq!((count(&world, "health.recover-action"), count(&world, "health.recovered")), (1, 1));
    assert_eq!(world.tasks[&task].health.recovery, None);
}

/// C6-S2: the next action follows after the timeout of the first one.
#[test]
fn recreation_follows_a_reboot_that_does_not_help() {
    let recovery = json!({"actions": [{"name": "REBOOT"}, {"name": "RECREATE"}], "action_timeout": 30});
    let (mut world, task) = running(url(recovery));
    unhealthy(&mut world, &task);
    world.run(1);
    command_done(&mut world, &task, true);
    world.run(25);
    assert_eq!(world.running()[0].id, task, "the reboot still has time");
    world.run_until(20, |world| world.running().first().is_some_and(|one| one.id != task));
    assert_eq!((count(&world, "health.recover"), count(&world, "health.recover-action")), (1, 2));
    assert!(world.has_event("health.action-failed"));
}

#[test]
fn pause_after_all_actions_failed_doubles_with_every_attempt() {
    let (mut world, task) = running(url(json!({"actions": [{"name": "REBOOT"}], "action_timeout": 10})));
    unhealthy(&mut world, &task);
    world.run(1);
    for (attempt, pause) in [(1, 60), (2, 120), (3, 240)] {
        command_done(&mut world, &task, false);
        world.run(1);
        assert_eq!(count(&world, "health.recovery-failed"), attempt);
        world.run(pause - 10);
        assert_eq!(count(&world, "health.recover"), attempt);
        world.run_until(20, |world| count(world, "health.recover") == attempt + 1);
    }
}

/// C5-S1, C5-S5: a hint chooses a lighter action, and the event has all hints.
#[test]
fn stopped_instance_is_started_at_once() {
    let (mut world, task) = running(events(json!({})));
    event(&mut world, &task, "POWER_OFF");
    world.run(1);
    assert_eq!(command_done(&mut world, &task, true), "START");
    world.run(1);
    assert_eq!(count(&world, "health.recovered"), 0, "it is not seen running");
    event(&mut world, &task, "POWER_ON");
    world.run(1);
    assert_eq!((world.running()[0].id.clone(), count(&world, "health.recovered")), (task, 1));
    let recover = world.events.iter().find(|event| event.kind == "health.recover").expect("it recovers");
    let data = recover.data.clone().expect("it has hints");
    for key in ["event", "state", "instance_id", "timestamp", "publisher", "operation"] {
        assert!(data[key].is_string(), "{key} of {data}");
    }
    assert_eq!(data["operation"], "START");
}

/// C6-S5, C5: other events, and a second trigger, recover nothing.
#[test]
fn second_trigger_is_merged_and_other_events_are_only_recorded() {
    let (mut world, task) = running(events(json!({"actions": [{"name": "REBOOT"}]})));
    event(&mut world, &task, "START");
    world.run(1);
    assert_eq!((count(&world, "health.recover"), count(&world, "lifecycle.other")), (0, 1));
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    assert_eq!(count(&world, "health.recover"), 1);
}

/// C10-S2: nothing is recovered while an update replaces instances.
#[test]
fn update_suspends_recovery() {
    let (mut world, task) = running(events(json!({})));
    world.edit(|workload| workload.update.monitor_secs = 30);
    world.write(2);
    world.reconcile();
    event(&mut world, &task, "SHUTDOWN");
    world.run(10);
    assert_eq!(count(&world, "health.recover"), 0);
    world.run(60);
    let next = world.running()[0].id.clone();
    event(&mut world, &next, "SHUTDOWN");
    world.run(1);
    assert_eq!(count(&world, "health.recover"), 1);
}

fn is_watched(world: &World, task: &TaskId) -> bool {
    world.tasks[task].health.supervision.lifecycle
}

/// An instance that fails in its first second is not lost.
#[test]
fn what_may_start_is_supervised_already() {
    let mut world = World::new(Goal::replicated(2), 2);
    world.edit(|workload| workload.health = Some(events(json!({}))));
    let plan = world.plan(None);
    let started = plan.records.iter().filter(|task| task.desired == DesiredState::Running);
    let are_supervised: Vec<bool> = started.map(|task| task.health.supervision.lifecycle).collect();
    assert_eq!(are_supervised, [true, true]);
}

/// P-S15: the restart policy decides only after the recovery has failed.
#[test]
fn restart_policy_follows_a_recovery_by_events_that_failed() {
    let (mut world, task) = running(events(json!({"actions": [{"name": "REBOOT"}]})));
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    assert!(is_watched(&world, &task), "its node keeps it for the recovery");
    assert_eq!(command_done(&mut world, &task, false), "REBOOT");
    world.run(1);
    assert_eq!((count(&world, "health.recovery-failed"), is_watched(&world, &task)), (1, false));
    // This is what the node does then.
    world.fail(&task, 1);
    world.run_until(30, |world| world.running().iter().any(|one| one.id != task));
    world.run(1);
    let next = world.running()[0].clone();
    assert_eq!((&next.cause, next.health.recovery.is_none()), (&Cause::TaskFailed, true));
    assert!(is_watched(&world, &next.id), "the next failure is recovered first again");
    let recovered = world.events.iter().find(|event| event.kind == "health.recovered").expect("it recovered");
    assert!(recovered.text.starts_with("the restart policy recovered"), "{}", recovered.text);
}

/// P-S15: while recovery is suspended the restart policy decides, and what it cannot see is recovered afterwards.
#[test]
fn restart_policy_decides_while_recovery_is_suspended() {
    let (mut world, task) = running(events(json!({})));
    world.recovery.is_suspended = true;
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    assert_eq!((count(&world, "health.recover"), is_watched(&world, &task)), (0, false));
    event(&mut world, &task, "POWER_ON");
    world.run(1);
    assert!(is_watched(&world, &task), "it runs again");
    event(&mut world, &task, "PAUSE");
    world.run(1);
    assert_eq!(
        (
            count(&world, "health.recover"),
            count(&world, "lifecycle.shutdown") + count(&world, "lifecycle.pause")
        ),
        (0, 2)
    );
    world.recovery.is_suspended = false;
    world.edit(|_| {});
    world.run(1);
    assert_eq!(command_done(&mut world, &task, true), "UNPAUSE");
    event(&mut world, &task, "POWER_ON");
    world.run(2);
    assert_eq!((count(&world, "health.recovered"), is_watched(&world, &task)), (1, true));
}

/// C6-S4: a deletion that is not confirmed in time fails the action, unless the policy forces the new instance.
#[test]
fn unconfirmed_deletion_fails_the_action_unless_the_policy_forces_it() {
    for is_forced in [false, true] {
        let recovery =
            json!({"node_delete_timeout": 20, "node_force_recreate": is_forced, "action_timeout": 60});
        let (mut world, task) = running(url(recovery));
        let node = world.running()[0].node.clone().expect("it has a node");
        world.stuck.insert(node);
        unhealthy(&mut world, &task);
        world.run(18);
        assert_eq!((world.running().len(), count(&world, "health.action-failed")), (0, 0), "it has time");
        world.run(6);
        let is_failed = count(&world, "health.action-failed") == 1;
        assert_eq!((world.running().len(), is_failed), if is_forced { (1, false) } else { (0, true) });
    }
}

/// C10-S3: more instances suspend nothing.
#[test]
fn scaling_up_does_not_suspend_recovery() {
    let (mut world, task) = running(events(json!({})));
    world.edit(|workload| workload.goal = Goal::replicated(2));
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    assert_eq!(count(&world, "health.recover"), 1);
}

/// C10-S4: what the engine does by itself suspends nothing.
#[test]
fn replacement_of_a_failed_task_does_not_suspend_recovery() {
    let mut world = World::new(Goal::replicated(2), 3);
    world.edit(|workload| workload.health = Some(events(json!({}))));
    world.run(UPDATE_TIMEOUT + 5);
    let task =
        world.running().into_iter().find(|task| task.slot == Slot::Number(2)).map(|task| task.id.clone());
    let task = task.expect("two instances run");
    world.fail_slot(1, 1);
    event(&mut world, &task, "SHUTDOWN");
    world.run(1);
    assert_eq!(count(&world, "health.recover"), 1);
    assert!(world.running().len() < 2, "the other instance is being replaced");
}

fn status_and_url(conditional: &str) -> HealthPolicy {
    let options = json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok"});
    let modes =
        json!([{"type": "NODE_STATUS_POLLING"}, {"type": "NODE_STATUS_POLL_URL", "options": options}]);
    policy(json!({"detection_modes": modes, "recovery_conditional": conditional}), json!({}))
}

/// C3-S2: with ALL_FAILED the state must have failed, too.
#[test]
fn one_failed_mode_is_enough_only_with_any_failed() {
    for (conditional, expected) in [("ALL_FAILED", 0), ("ANY_FAILED", 1)] {
        let (mut world, task) = running(status_and_url(conditional));
        unhealthy(&mut world, &task);
        world.run(5);
        assert_eq!(count(&world, "health.recover"), expected, "{conditional}");
    }
}

/// C3, P15: the state is failed when the restart policy has given the instance up.
#[test]
fn instance_that_is_not_started_again_is_recreated_when_its_state_is_polled() {
    let (mut world, task) = running(policy(json!({"type": "NODE_STATUS_POLLING"}), json!({})));
    world
        .edit(|workload| workload.restart.condition = evenkeel_domain::orchestration::RestartCondition::None);
    world.fail(&task, 1);
    world.run(UPDATE_TIMEOUT - 5);
    assert_eq!((count(&world, "health.recover"), world.running().len()), (0, 0), "it has just changed");
    world.run_until(20, |world| world.running().len() == 1);
    world.run(1);
    assert_eq!((count(&world, "health.recover"), count(&world, "health.recovered")), (1, 1));
}

/// Three instances, of which two have failed, and a user who orders a recovery.
fn ordered(operation: Option<PreparedAction>, is_url: bool) -> (World, Vec<TaskId>) {
    let mut world = World::new(Goal::replicated(3), 3);
    world.edit(|workload| {
        workload.restart.condition = evenkeel_domain::orchestration::RestartCondition::None;
        workload.health = is_url.then(|| url(json!({})));
    });
    world.run(UPDATE_TIMEOUT + 5);
    let tasks: Vec<TaskId> = world.running().iter().map(|task| task.id.clone()).collect();
    let slots = world.tasks.values().map(|task| task.slot.clone()).collect::<Vec<_>>();
    if is_url {
        tasks.iter().for_each(|task| healthy(&mut world, task));
    } else {
        world.fail_slot(1, 1);
        world.fail_slot(2, 1);
    }
    world.run(2);
    let slots = slots.into_iter().filter(|slot| *slot != Slot::Number(3)).collect();
    let goal = ActionGoal::Recovered {
        slots,
        nodes: std::collections::BTreeSet::new(),
        operation,
        fills_up: false,
        checks: std::collections::BTreeSet::new(),
    };
    let action = UserAction {
        id: "7".into(),
        name: "recover".into(),
        actor: "o/ann".into(),
        unit_name: None,
        accepted_at: world.now(),
        is_forced: false,
        goals: vec![(None, goal)],
    };
    world.edit(|workload| workload.action = Some(action));
    (world, tasks)
}

/// C7-S1: what runs is left alone.
#[test]
fn two_failed_instances_are_recovered_and_the_third_is_untouched() {
    let (mut world, _) = ordered(None, false);
    let kept = world.running()[0].id.clone();
    assert_eq!(world.running().len(), 1, "nothing starts the others again");
    world.run_until(10, |world| world.running().len() == 3);
    world.run(3);
    assert_eq!((count(&world, "health.recover"), count(&world, "health.recovered")), (2, 2));
    assert!(world.running().iter().any(|task| task.id == kept));
    let is_over = |health: &TaskHealth| health.is_over("7");
    assert_eq!(world.running().iter().filter(|task| is_over(&task.health)).count(), 2);
}

/// C7-S3: the operation replaces the actions of the policy for this time.
#[test]
fn operation_of_the_user_is_carried_out_instead_of_the_policy() {
    let operation = PreparedAction {
        workflow: None,
        kind: evenkeel_domain::orchestration::health_policy::ActionKind::Reboot,
        hard: false,
        is_of_host: false,
    };
    let (mut world, tasks) = ordered(Some(operation), true);
    let slot_of = |world: &World, task: &TaskId| world.tasks[task].slot.clone();
    for task in
        tasks.iter().filter(|task| slot_of(&world, task) != Slot::Number(3)).cloned().collect::<Vec<_>>()
    {
        // One after the other.
        world.run(6);
        assert_eq!(command_done(&mut world, &task, true), "REBOOT");
    }
    world.run(2);
    assert_eq!(count(&world, "health.recovered"), 2);
    let now: Vec<TaskId> = world.running().iter().map(|task| task.id.clone()).collect();
    assert_eq!(now, tasks, "nothing was created again");
    assert_eq!(world.workload.health, Some(url(json!({}))), "the policy is unchanged");
}

fn failover(is_fencing: bool) -> World {
    let mut world = World::new(Goal::failover(StartMode::BestAvailable, 0), 2);
    let recovery = if is_fencing { json!({"fencing": ["COMPUTE"]}) } else { json!({}) };
    world.settings.node_down_after_secs = 60;
    world.edit(|workload| {
        workload.placement.order = NodeOrder::Listed;
        workload.health = Some(url(recovery));
    });
    world.run_until(10, |world| world.running_nodes() == ["n1"]);
    world
}

/// C8-S1: the other node waits until the lease of the lost one is over.
#[test]
fn failover_waits_for_the_end_of_the_lease() {
    let mut world = failover(true);
    world.take_down("n1");
    let passed = world.run_until(100, |world| world.running_nodes().contains(&"n2"));
    assert!((70..=75).contains(&passed), "{passed} s");
    assert_eq!((count(&world, "fence.requested"), count(&world, "fence.confirmed")), (1, 1));
}

/// C8.2: a recovery that starts elsewhere waits until a node that is reached has confirmed the stop, however long that takes.
#[test]
fn fenced_recovery_starts_elsewhere_only_after_a_stop_that_is_confirmed() {
    let recovery = json!({"fencing": ["COMPUTE"], "actions": [{"name": "MIGRATE"}], "action_timeout": 1000,
        "node_delete_timeout": 1000});
    let (mut world, task) = running(url(recovery));
    let node = world.running()[0].node.clone().expect("it has a node");
    world.stuck.insert(node.clone());
    unhealthy(&mut world, &task);
    world.run(300);
    assert_eq!(world.running().len(), 0, "nothing starts while it may run");
    assert_eq!((count(&world, "fence.requested"), count(&world, "fence.confirmed")), (1, 0));
    world.stuck.remove(&node);
    world.run(5);
    assert_eq!(world.running().len(), 1);
    assert_eq!((count(&world, "fence.requested"), count(&world, "fence.confirmed")), (1, 1));
}

/// C8-S2: without fencing it does not wait.
#[test]
fn failover_without_fencing_does_not_wait() {
    let mut world = failover(false);
    world.take_down("n1");
    let passed = world.run_until(20, |world| world.running_nodes().contains(&"n2"));
    assert!(passed <= 5, "{passed} s");
}

/// A lease that no guardian enforces is none: the other node waits, and the cause is shown.
#[test]
fn failover_stays_away_when_no_guardian_enforces_the_lease() {
    let cases = [
        (Guardian::Absent, true, NoLease::NoGuardian),
        (Guardian::Silent, true, NoLease::SilentGuardian),
        (Guardian::Running, false, NoLease::Unconfirmed),
    ];
    for (guardian, confirms_leases, cause) in cases {
        let mut world = failover(true);
        world.confirms_leases = confirms_leases;
        world.change_node("n1", |node| node.guardian = guardian);
        world.take_down("n1");
        world.run(600);
        assert!(!world.running_nodes().contains(&"n2"), "{cause:?}");
        assert_eq!((count(&world, "fence.failed"), count(&world, "fence.confirmed")), (1, 0), "{cause:?}");
        let is_reason =
            |blocked: &Blocked| matches!(blocked, Blocked::FenceFailed { cause: why, .. } if *why == cause);
        assert!(world.last.blocked.iter().any(|(_, blocked)| is_reason(blocked)), "{cause:?}");
        let event = world.events.iter().find(|event| event.kind == "fence.failed").expect("an event");
        assert!(event.text.contains(cause.text()), "{}", event.text);
    }
}

/// The length that the agent has confirmed applies, even if the policy asks for another one meanwhile.
#[test]
fn lease_has_the_length_that_its_guardian_enforces() {
    let mut world = failover(true);
    world.confirms_leases = false;
    let task = world.running()[0].id.clone();
    world.report_health(&task, |reported| reported.lease_secs = Some(100));
    world.take_down("n1");
    let passed = world.run_until(150, |world| world.running_nodes().contains(&"n2"));
    assert!((110..=115).contains(&passed), "{passed} s");
}

/// C8-S3: nothing stops an instance on a node whose agent knows no lease.
#[test]
fn failover_stays_away_when_the_node_cannot_be_fenced() {
    let mut world = failover(true);
    world.change_node("n1", |node| node.is_capable = false);
    world.take_down("n1");
    world.run(600);
    assert!(!world.running_nodes().contains(&"n2"));
    assert_eq!(count(&world, "fence.failed"), 1, "it is reported once");
    let is_reason = |blocked: &Blocked| matches!(blocked, Blocked::FenceFailed { .. });
    assert!(world.last.blocked.iter().any(|(_, blocked)| is_reason(blocked)));

    let now = world.now();
    world.change_node("n1", |node| node.marks.fenced_at = Some(now));
    let passed = world.run_until(20, |world| world.running_nodes().contains(&"n2"));
    assert!(passed <= 5, "{passed} s after a user said that the node is dead");
}

/// An instance that was never seen running may run as well: its fencing is requested and confirmed like that of any other.
#[test]
fn instance_that_was_never_seen_running_is_fenced_before_it_runs_elsewhere() {
    let mut world = failover(true);
    world.fail_slot(1, 1);
    world.node_behaviors.insert(node("n1"), Behavior::Hangs);
    world.run(20);
    assert!(world.running().is_empty());
    world.take_down("n1");
    let passed = world.run_until(100, |world| world.running_nodes().contains(&"n2"));
    assert!((70..=75).contains(&passed), "{passed} s");
    assert_eq!((count(&world, "fence.requested"), count(&world, "fence.confirmed")), (1, 1));
}
