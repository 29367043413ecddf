//! Recovery by single actions, and the detection modes that need more than a report of the node: C3, C5, C6.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_ids::TaskId;
use evenkeel_planner_record::{
    goal::Goal,
    statistics::EngineReport,
    time::later,
    workload::{EndedCommand, PeerVotes},
};
use serde_json::{Value, json};

use super::{
    health::{command_done, count, event, events, policy, running, unhealthy, url},
    simulated::World,
};

/// C5-S2: a paused instance continues; nothing is created again.
#[test]
fn paused_instance_is_unpaused() {
    let (mut world, task) = running(events(json!({})));
    event(&mut world, &task, "PAUSE");
    world.run(1);
    assert_eq!(command_done(&mut world, &task, true), "UNPAUSE");
    event(&mut world, &task, "POWER_ON");
    world.run(1);
    assert_eq!((world.running()[0].id.clone(), count(&world, "health.recovered")), (task, 1));
}

/// C6: the containers are created again for the same task; one that cannot be is left for the next action.
#[test]
fn rebuild_keeps_the_task_unless_it_fails() {
    let actions = json!({"actions": [{"name": "REBUILD"}, {"name": "RECREATE"}]});
    for is_ok in [true, false] {
        let (mut world, task) = running(events(actions.clone()));
        event(&mut world, &task, "SHUTDOWN");
        world.run(1);
        assert_eq!(command_done(&mut world, &task, is_ok), "REBUILD");
        event(&mut world, &task, if is_ok { "POWER_ON" } else { "REBUILD" });
        world.run(10);
        assert_eq!(world.running()[0].id == task, is_ok);
        assert_eq!((count(&world, "health.recover"), count(&world, "health.recovered")), (1, 1));
    }
}

fn workflow(action_timeout: u32) -> Value {
    let params =
        json!({"url": "http://flows/{{ node.name }}", "node_id": "{{ node.physicalid }}", "timeout": 5});
    json!({"actions": [
        {"name": "repair", "type": "MISTRAL_WORKFLOW", "params": params}, {"name": "RECREATE"},
    ], "action_timeout": action_timeout})
}

/// Ends the call of the hub.
fn call_ends(world: &mut World, task: &TaskId, is_ok: bool) {
    let id = world.tasks[task].health.command().expect("there is a call").id.clone();
    world.report_health(task, |health| {
        health.command =
            Some(EndedCommand { id, is_ok, message: Some("the response has status 500".into()) });
    });
}

/// C6-S3: the body names action, target, member and hints; a failed call leads to the next action.
#[test]
fn workflow_that_fails_is_followed_by_the_next_action() {
    let (mut world, task) = running(url(workflow(20)));
    unhealthy(&mut world, &task);
    world.run(1);
    let member = world.tasks[&task].clone();
    let node = member.node.clone().expect("it has a node");
    let call = member.health.command().and_then(|command| command.call.clone()).expect("there is a call");
    assert_eq!((call.url.as_str(), call.timeout_secs), (&*format!("http://flows/{}", node.name()), 5));
    assert_eq!((&call.body["action"], &call.body["target"]), (&json!("repair"), &json!("o/w")));
    assert_eq!(call.body["params"]["node_id"], json!(node.as_str()));
    assert_eq!((&call.body["member"]["taskId"], &call.body["member"]["node"]), (&json!(task), &json!(node)));
    let prepared = world.events.iter().find(|event| event.kind == "health.recover").expect("it recovers");
    let prepared = prepared.data.as_ref().map(|data| data["health"]["recover_action"].clone());
    let prepared = prepared.unwrap_or_default();
    assert_eq!(prepared[0]["params"]["node_id"], json!(node.as_str()), "{prepared}");
    assert_eq!((&prepared[0]["type"], &prepared[1]["name"]), (&json!("WORKFLOW"), &json!("RECREATE")));

    call_ends(&mut world, &task, false);
    world.run_until(10, |world| world.running().first().is_some_and(|one| one.id != task));
    let failed = world.events.iter().find(|event| event.kind == "health.action-failed").expect("it failed");
    assert!(failed.text.contains("repair failed: the response has status 500"), "{}", failed.text);
}

/// A workflow that never responds ends with the time of an action; one that responds and does not help, too.
#[test]
fn workflow_that_does_not_help_in_time_is_followed_by_the_next_action() {
    for responds in [false, true] {
        let (mut world, task) = running(url(workflow(20)));
        unhealthy(&mut world, &task);
        world.run(1);
        if responds {
            call_ends(&mut world, &task, true);
        }
        world.run(17);
        assert_eq!(world.running()[0].id, task, "it still has time");
        world.run_until(10, |world| world.running().first().is_some_and(|one| one.id != task));
    }
}

/// The outcome of a workflow proves nothing about the containers: the recovery ends when their node does.
#[test]
fn workflow_has_helped_when_the_node_says_that_the_containers_run() {
    let (mut world, task) = running(events(workflow(60)));
    event(&mut world, &task, "POWER_OFF");
    world.run(1);
    call_ends(&mut world, &task, true);
    world.run(5);
    assert_eq!(count(&world, "health.recovered"), 0, "nothing runs yet");
    event(&mut world, &task, "POWER_ON");
    world.run(1);
    assert_eq!(count(&world, "health.recovered"), 1);
    assert_eq!(world.running()[0].id, task);
}

fn hypervisor() -> HealthPolicy {
    policy(json!({"type": "HYPERVISOR_STATUS_POLLING", "interval": 60}), json!({"node_force_recreate": true}))
}

/// C3-S3: an engine that is down while the node is alive is a failure, and another node gets the instance.
#[test]
fn engine_that_is_down_moves_the_instance_to_another_node() {
    let (mut world, task) = running(hypervisor());
    let node = world.running()[0].node.clone();
    let at = world.now();
    world.report_health(&task, |health| health.engine = Some(EngineReport { is_usable: true, at }));
    world.run(30);
    assert_eq!(count(&world, "health.recover"), 0);
    world.report_health(&task, |health| health.engine = Some(EngineReport { is_usable: false, at }));
    world.run_until(60, |world| world.running().first().is_some_and(|one| one.id != task));
    assert_ne!(world.running()[0].node, node);
    assert!(world.has_event("health.check-failed"));
}

/// C3: a node that stops reporting its engine has failed; one that never reported it has an agent without that.
#[test]
fn silence_about_the_engine_is_a_failure_only_after_it_was_reported() {
    let (mut world, task) = running(hypervisor());
    world.run(600);
    assert_eq!(count(&world, "health.recover"), 0, "1.9: the agent does not know engines");
    let at = world.now();
    world.report_health(&task, |health| health.engine = Some(EngineReport { is_usable: true, at }));
    let passed = world.run_until(240, |world| world.has_event("health.recover"));
    assert!((180..=185).contains(&passed), "{passed} s");
    assert!(world.now() >= later(at, 180));
}

fn peers() -> HealthPolicy {
    policy(json!({"type": "LB_STATUS_POLLING", "interval": 60, "options": {"port": 80}}), json!({}))
}

fn votes(world: &mut World, task: &TaskId, votes: PeerVotes) {
    world.report_health(task, |health| health.votes = votes);
    world.run(1);
}

/// C3-S5: one of two peers is not a majority, and both are; of a pair the only other member is enough.
#[test]
fn instance_that_a_majority_of_its_peers_does_not_reach_is_recovered() {
    let mut world = World::new(Goal::replicated(3), 4);
    world.edit(|workload| workload.health = Some(peers()));
    world.run(60);
    let tasks: Vec<TaskId> = world.running().iter().map(|task| task.id.clone()).collect();
    for task in &tasks {
        let watch = world.tasks[task].health.supervision.peers.clone().expect("it examines the others");
        let mut seen: Vec<TaskId> = watch.members.iter().map(|peer| peer.task.clone()).collect();
        seen.sort();
        assert_eq!(seen, tasks.iter().filter(|one| *one != task).cloned().collect::<Vec<_>>());
        assert_eq!((watch.port, watch.interval_secs), (Some(80), 60));
    }
    let of = |reports, offline| PeerVotes { reports, offline, is_pair: false };
    votes(&mut world, &tasks[0], of(1, 1));
    votes(&mut world, &tasks[0], of(2, 1));
    assert_eq!(count(&world, "health.recover"), 0);
    votes(&mut world, &tasks[0], of(2, 2));
    assert_eq!(count(&world, "health.recover"), 1);
    assert!(PeerVotes { reports: 1, offline: 1, is_pair: true }.is_offline());
}

/// C3: members leave the failure detection when they stop, and a large unit does not let everyone examine everyone.
#[test]
fn every_member_is_examined_by_a_few_others() {
    let mut world = World::new(Goal::replicated(9), 10);
    world.edit(|workload| workload.health = Some(peers()));
    world.run(10);
    let examined = |world: &World| {
        let watches = world.running().into_iter().filter_map(|task| task.health.supervision.peers.as_ref());
        let mut counts: BTreeMap<TaskId, u32> = BTreeMap::new();
        watches
            .flat_map(|watch| &watch.members)
            .for_each(|peer| *counts.entry(peer.task.clone()).or_default() += 1);
        counts
    };
    assert_eq!(examined(&world).into_values().collect::<Vec<_>>(), [4; 9]);
    world.edit(|workload| workload.goal = Goal::replicated(2));
    world.run(10);
    assert_eq!(examined(&world).into_values().collect::<Vec<_>>(), [1; 2]);
}
