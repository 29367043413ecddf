//! Recoveries that must not make it worse: C6.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::RestartCondition;
use evenkeel_domain::orchestration::health_policy::ActionKind;
use evenkeel_ids::TaskId;
use evenkeel_planner_record::{
    goal::Goal,
    report::Blocked,
    workload::{ActionGoal, EndedCommand, RecoveryCommand, UserAction},
};
use serde_json::{Value, json};

use super::{
    health::{policy, url},
    simulated::*,
};

/// Instances whose URL is polled, all healthy and running for long enough.
fn polled(count: u32, recovery: Value) -> World {
    let mut world = World::new(Goal::replicated(count), count as usize);
    world.edit(|workload| workload.health = Some(url(recovery)));
    world.run_until(10, |world| world.running().len() == count as usize);
    world.run(25);
    report_all(&mut world, Some(true));
    world
}

fn tasks(world: &World) -> Vec<TaskId> {
    world.running().iter().map(|task| task.id.clone()).collect()
}

fn report_all(world: &mut World, healthy: Option<bool>) {
    for task in tasks(world) {
        world.report_health(&task, |reported| reported.healthy = healthy);
    }
}

fn fail(world: &mut World, task: &TaskId) {
    world.report_health(task, |reported| {
        reported.healthy = Some(false);
        reported.message = Some("the body does not contain ok".to_owned());
    });
}

/// The commands that nodes carry out now.
fn commands(world: &World) -> Vec<(TaskId, RecoveryCommand)> {
    let command = |task: &&evenkeel_planner_record::workload::Task| {
        Some((task.id.clone(), task.health.command()?.clone()))
    };
    world.running().iter().filter_map(command).collect()
}

/// The node of a task has carried its command out, and the check succeeds again.
fn succeed(world: &mut World, (task, command): &(TaskId, RecoveryCommand)) {
    let ended = EndedCommand { id: command.id.clone(), is_ok: true, message: None };
    world.report_health(task, |reported| {
        reported.command = Some(ended);
        reported.healthy = Some(true);
    });
}

fn count(world: &World, kind: &str) -> usize {
    world.events.iter().filter(|event| event.kind == kind).count()
}

fn is_blocked(world: &World, is_it: impl Fn(&Blocked) -> bool) -> bool {
    world.last.blocked.iter().any(|(_, blocked)| is_it(blocked))
}

/// A user orders the recovery of every instance.
fn order_recovery(world: &mut World) {
    let slots = world.running().iter().map(|task| task.slot.clone()).collect();
    let goal = ActionGoal::Recovered {
        slots,
        nodes: BTreeSet::new(),
        operation: None,
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
}

fn reboot(more: Value) -> Value {
    let mut recovery = json!({"actions": [{"name": "REBOOT"}], "action_timeout": 1000});
    recovery.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    recovery
}

#[test]
fn check_that_fails_everywhere_recovers_nothing_and_names_the_cause() {
    for recovery in [json!({}), reboot(json!({}))] {
        let mut world = polled(20, recovery);
        let before = tasks(&world);
        for task in &before {
            fail(&mut world, task);
        }
        world.run(600);
        assert_eq!(tasks(&world), before, "nothing was created again");
        assert_eq!((commands(&world).len(), count(&world, "health.recover-action")), (0, 0));
        assert_eq!(count(&world, "health.common-cause"), 1, "it is reported once");
        let event =
            world.events.iter().find(|event| event.kind == "health.common-cause").expect("it is reported");
        assert!(
            event.text.contains("20 of 20") && event.text.contains("does not contain ok"),
            "{}",
            event.text
        );
        assert!(event.text.contains("NODE_STATUS_POLL_URL (http://{nodename}/h)"), "{}", event.text);
        assert!(is_blocked(&world, |blocked| matches!(
            blocked,
            Blocked::CommonCause { failing: 20, running: 20, .. }
        )));
        // The check is corrected: everything is well without an action.
        report_all(&mut world, Some(true));
        world.run(10);
        assert_eq!(tasks(&world), before);
        assert_eq!((commands(&world).len(), count(&world, "health.recovered")), (0, 20));
        assert!(world.last.blocked.is_empty());
    }
}

#[test]
fn first_instances_of_a_spreading_failure_are_recovered_one_at_a_time() {
    let mut world = polled(10, reboot(json!({})));
    let all = tasks(&world);
    for (number, task) in all.iter().enumerate() {
        fail(&mut world, task);
        world.run(3);
        assert!(commands(&world).len() <= 1, "after {number}");
    }
    world.run(100);
    assert_eq!(count(&world, "health.recover-action"), 1);
}

#[test]
fn next_instance_is_recovered_when_the_one_before_runs_again() {
    let mut world = polled(4, json!({}));
    world.behaviors.insert(1, Behavior::Hangs);
    let all = tasks(&world);
    for task in &all[..2] {
        fail(&mut world, task);
    }
    world.run(40);
    assert_eq!(world.running().len(), 3, "what was recreated has not started: {:#?}", world.summary());
}

#[test]
fn no_more_running_instances_are_recovered_at_once_than_the_policy_allows() {
    for (more, update_parallelism, limit) in
        [(json!({}), 1, 1), (json!({}), 2, 2), (json!({}), 0, 1), (json!({"parallelism": 3}), 1, 3)]
    {
        let mut world = polled(10, reboot(more));
        world.edit(|workload| workload.update.parallelism = update_parallelism);
        for task in &tasks(&world)[..4] {
            fail(&mut world, task);
        }
        world.run(10);
        assert_eq!(commands(&world).len(), limit, "{update_parallelism}");
        assert_eq!(
            is_blocked(&world, |blocked| matches!(blocked, Blocked::RecoveryBudget { .. })),
            limit < 4
        );
        let mut done = 0;
        while let Some(command) = commands(&world).first().cloned() {
            succeed(&mut world, &command);
            done += 1;
            world.run(6);
            assert!(commands(&world).len() <= limit);
        }
        assert_eq!(done, 4, "each has its turn");
    }
}

/// Queued recoveries ask again: what is healthy by then is left alone.
#[test]
fn member_that_is_healthy_when_its_turn_comes_is_not_recovered() {
    let mut world = polled(10, json!({"action_timeout": 1000}));
    let before = tasks(&world);
    for task in &before[..4] {
        fail(&mut world, task);
    }
    world.run(3);
    assert_eq!(count(&world, "health.recover-action"), 1);
    report_all(&mut world, Some(true));
    world.run(120);
    let left: Vec<TaskId> = tasks(&world).into_iter().filter(|task| before.contains(task)).collect();
    assert_eq!((left.len(), count(&world, "health.recover-action")), (9, 1));
    assert_eq!(count(&world, "health.recovered"), 4);
}

#[test]
fn instances_that_have_ended_are_recovered_together() {
    let mut world = World::new(Goal::replicated(6), 6);
    world.edit(|workload| {
        workload.restart.condition = RestartCondition::None;
        workload.health = Some(policy(json!({"type": "NODE_STATUS_POLLING"}), json!({})));
    });
    world.run_until(10, |world| world.running().len() == 6);
    world.run(25);
    (1..=5).for_each(|slot| world.fail_slot(slot, 1));
    let passed = world.run_until(30, |world| world.running().len() == 6);
    assert!(passed <= 25, "{passed} s");
    assert_eq!(count(&world, "health.common-cause"), 0, "nothing that runs is taken away");
}

#[test]
fn user_who_orders_a_recovery_is_not_kept_from_it_by_a_common_cause() {
    let mut world = polled(4, reboot(json!({})));
    for task in tasks(&world) {
        fail(&mut world, &task);
    }
    world.run(30);
    assert_eq!(commands(&world).len(), 0);
    order_recovery(&mut world);
    world.run(2);
    assert_eq!(commands(&world).len(), 1, "one at a time");
}

/// C6 in an HA group: every action asks for the claim and the minimum available.
#[test]
fn members_of_a_group_are_rebooted_one_at_a_time_and_never_below_the_minimum() {
    for kind in [ActionKind::Reboot, ActionKind::Rebuild, ActionKind::Start] {
        let mut world = World::new(Goal::global(), 4);
        world.group(&["n1", "n2", "n3", "n4"]);
        let actions =
            json!({"actions": [{"name": kind.word()}], "action_timeout": 1000, "maxUnhealthyRatio": 1});
        world.edit(|workload| {
            workload.update.min_running = 2;
            workload.health = Some(url(actions));
        });
        world.run_until(10, |world| world.running().len() == 4);
        world.run(25);
        for task in tasks(&world) {
            fail(&mut world, &task);
        }
        world.run(60);
        assert_eq!(commands(&world).len(), 1, "{kind:?}");
        let first = commands(&world)[0].clone();
        // With one member down three others are left, of which two must run.
        let other = world.running().into_iter().find(|task| task.id != first.0).expect("another one");
        let name = other.node.as_ref().expect("it has a node").name().to_owned();
        world.take_down(&name);
        succeed(&mut world, &first);
        world.run(60);
        assert_eq!(commands(&world).len(), 1, "two others run");
    }
}

/// C6 in an HA group: what runs is not taken away when fewer than the minimum available would be left, although it fails its checks.
#[test]
fn member_that_the_minimum_needs_is_not_rebooted() {
    for kind in [ActionKind::Reboot, ActionKind::Rebuild, ActionKind::Start] {
        let mut world = World::new(Goal::global(), 4);
        world.group(&["n1", "n2", "n3", "n4"]);
        world.edit(|workload| {
            workload.update.min_running = 2;
            workload.health = Some(url(json!({"actions": [{"name": kind.word()}], "maxUnhealthyRatio": 1})));
        });
        world.run_until(10, |world| world.running().len() == 4);
        world.run(25);
        world.take_down("n3");
        world.take_down("n4");
        let on_lost = |node: &str| ["n3", "n4"].contains(&node);
        let left = world
            .running()
            .into_iter()
            .filter(|task| !task.node.as_ref().is_some_and(|node| on_lost(node.name())));
        let left: Vec<TaskId> = left.map(|task| task.id.clone()).collect();
        assert_eq!(left.len(), 2);
        left.iter().for_each(|task| fail(&mut world, task));
        world.run(60);
        assert_eq!(commands(&world).len(), 0, "only one other one would run: {kind:?}");
        assert!(is_blocked(&world, |blocked| matches!(blocked, Blocked::HaMinimum { .. })));
    }
}

/// The recovery of a workload whose health policy is taken away is over, also when another one is attached later.
#[test]
fn recovery_ends_with_the_policy() {
    for is_disabled in [true, false] {
        let mut world = polled(5, reboot(json!({})));
        let task = tasks(&world)[0].clone();
        fail(&mut world, &task);
        world.run(2);
        assert_eq!(commands(&world).len(), 1);
        let attached = world.workload.health.clone();
        world.edit(|workload| match (&mut workload.health, is_disabled) {
            (Some(policy), true) => policy.enabled = false,
            (health, _) => *health = None,
        });
        world.run(2);
        assert_eq!(commands(&world).len(), 0);
        assert_eq!(count(&world, "health.canceled"), 1);
        report_all(&mut world, Some(true));
        world.edit(|workload| workload.health = attached);
        world.run(60);
        assert_eq!((commands(&world).len(), count(&world, "health.recovered")), (0, 0));
    }
}
