//! Version lists of workloads: B11.10.

use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{facts::VersionChoice, usage::WorkloadUsage, workload::UpdateState};
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

fn entry(version: &str, priority: u32) -> VersionChoice {
    VersionChoice {
        version: version.into(),
        priority,
        retries: 1,
        retry_secs: 3_600,
        ..VersionChoice::default()
    }
}

fn replicated(failure_action: &str) -> Value {
    json!({"mode": "replicated", "replicas": 1, "update": {"failureAction": failure_action}})
}

fn chosen(fleet: &Fleet) -> String {
    let number = fleet.model.workload(&policy("w")).expect("the workload exists").versions.current.number;
    evenkeel_planner_model::model::selection::choose(
        &fleet.model,
        &node("n1"),
        &policy("w"),
        number,
        fleet.now,
    )
    .expect("the node fits")
    .version
}

/// The best version failed as often as it may on the node.
fn fail(fleet: &mut Fleet, spec: u64) {
    let usage = WorkloadUsage {
        priority: 1,
        retry_count: 1,
        retry_secs: 3_600,
        first_try_at: fleet.now,
        latest_retry_at: Some(fleet.now),
        has_unmet_requirements: false,
        spec,
    };
    let (node, policy) = (node("n1"), policy("w"));
    fleet.handle(&Event::UsageRecorded { node, policy, usage: Some(usage), backoff: None });
}

fn set_update(fleet: &mut Fleet, state: UpdateState) {
    let mut workload = fleet.model.workload(&policy("w")).expect("the workload exists").clone();
    workload.update.state = state;
    workload.revision += 1;
    fleet.model.apply(&Event::WorkloadRecorded { workload: Box::new(workload) }, fleet.now);
}

#[test]
fn lower_version_follows_the_failures_of_the_best_one_of_the_same_task_spec() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_versions("w", vec![entry("2.0.0", 1), entry("1.0.0", 2)], replicated("pause"));
    fleet.run(5);
    assert_eq!(chosen(&fleet), "2.0.0");
    fail(&mut fleet, 0);
    assert_eq!(chosen(&fleet), "2.0.0", "what failed before the policy had tasks counts no more");
    fail(&mut fleet, 1);
    assert_eq!(chosen(&fleet), "1.0.0");
    fleet.put_versions("w", vec![entry("3.0.0", 1), entry("1.0.0", 2)], replicated("pause"));
    assert_eq!(chosen(&fleet), "3.0.0", "another version has its own attempts");
}

#[test]
fn no_version_is_lowered_while_an_update_judges_it_unless_failures_are_ignored() {
    for (action, lowered) in [("pause", "2.0.0"), ("rollback", "2.0.0"), ("continue", "1.0.0")] {
        let mut fleet = Fleet::new(&["n1"]);
        fleet.put_versions("w", vec![entry("2.0.0", 1), entry("1.0.0", 2)], replicated(action));
        fleet.run(5);
        fail(&mut fleet, 1);
        for state in [UpdateState::Updating, UpdateState::Paused] {
            set_update(&mut fleet, state);
            assert_eq!(chosen(&fleet), lowered, "{action}, {state:?}");
        }
        set_update(&mut fleet, UpdateState::Completed);
        assert_eq!(chosen(&fleet), "1.0.0", "{action}");
    }
}

#[test]
fn version_that_waits_for_the_next_agreement_replaces_nothing_that_runs() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let document = json!({"mode": "replicated", "replicas": 2});
    fleet.put_versions("w", vec![entry("1.0.0", 1)], document.clone());
    fleet.run(10);
    let patient = VersionChoice { keeps_running: true, ..entry("2.0.0", 1) };
    fleet.put_versions("w", vec![patient], document.clone());
    fleet.run(60);
    let numbers = |fleet: &Fleet| {
        let live = fleet.tasks().into_iter().filter(|task| task.is_live());
        live.map(|task| task.spec.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&fleet), [1, 1]);
    assert!(!fleet.has_event("update.started"));
    fleet.crash("w", "n1", true);
    fleet.run(2);
    fleet.crash("w", "n1", false);
    fleet.run(30);
    let mut now = numbers(&fleet);
    now.sort_unstable();
    assert_eq!(now, [1, 2], "the instance that ended runs the new version");
    fleet.put_versions("w", vec![entry("2.0.0", 1)], document);
    fleet.run(60);
    assert_eq!(numbers(&fleet), [2, 2], "without a request to wait it is an update like any other");
}

/// B11.5, B11.6: what takes the place of an update's task whose node is lost is judged in its place.
#[test]
fn version_that_fails_after_the_loss_of_its_first_node_is_rolled_back() {
    let document = json!({
        "mode": "replicated", "replicas": 1, "placement": {"nodesOrder": ["n1", "n2"]},
        "update": {"monitorSeconds": 4, "failureAction": "rollback"},
    });
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", document.clone());
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
    fleet.silent.insert(node("n1"));
    fleet.put_version("w", "2.0.0", document);
    fleet.crash("w", "n2", true);
    let is_over =
        |fleet: &Fleet| fleet.has_event("update.rollback-started") || fleet.has_event("update.completed");
    fleet.run_until(400, is_over);
    assert!(fleet.has_event("update.rollback-started") && !fleet.has_event("update.completed"));
}

fn listed(document: Value, retries: u32) -> Fleet {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.broken_versions.insert((policy("w"), "2.0.0".to_owned()));
    let better = VersionChoice { retries, ..entry("2.0.0", 1) };
    let lower = VersionChoice { retries: 100, ..entry("1.0.0", 2) };
    fleet.put_versions("w", vec![better, lower], document);
    fleet
}

/// B11.10: what is blocked on a node for one version gives the next one of the list its turn.
#[test]
fn next_version_of_the_list_follows_when_the_node_is_blocked_for_the_best_one() {
    for mode in ["global", "replicated"] {
        let document = json!({"mode": mode, "restart": {"delaySeconds": 1}});
        let mut fleet = listed(document, 100);
        let passed = fleet.run_until(60, |fleet| fleet.running("w") == "n1");
        assert!(passed < 30, "{passed} s");
        assert_eq!(chosen(&fleet), "1.0.0");
        fleet.run(600);
        assert_eq!((fleet.running("w").as_str(), fleet.live("w").as_str()), ("n1", "n1"), "it goes on");
    }
}

/// B11.10: failures count for `retries`, whatever they lead to.
#[test]
fn next_version_of_the_list_follows_after_the_retries_of_the_one_that_fails() {
    let document = json!({"mode": "replicated", "restart": {"delaySeconds": 2}});
    let mut fleet = listed(document, 2);
    fleet.run_until(20, |fleet| fleet.running("w") == "n1");
    let tasks = fleet.tasks().len();
    assert_eq!(tasks, 3, "two tries, and the one that runs");
    let (_, entry) = fleet.model.blocklist().next().expect("the failures are counted");
    assert_eq!((entry.failure_count, entry.until), (2, None));
}

/// B11.10: a node is given up for a start that failed when no version of the list is left.
#[test]
fn first_start_that_fails_tries_the_next_version_of_the_list_before_another_node() {
    let document = json!({"mode": "failover", "orchestrate": "ha", "restart": {"delaySeconds": 1},
        "timers": {"readyPeriodSeconds": 0}});
    let mut fleet = listed(document, 1);
    fleet.run_until(20, |fleet| fleet.running("w") == "n1");
    assert!(!fleet.has_event("instance.start-failed"));
    fleet.broken_versions.insert((policy("w"), "3.0.0".to_owned()));
    fleet.broken_versions.insert((policy("w"), "2.5.0".to_owned()));
    let document = json!({"mode": "failover", "orchestrate": "ha", "restart": {"delaySeconds": 1},
        "timers": {"readyPeriodSeconds": 0}, "update": {"failureAction": "continue"}});
    fleet.put_versions("w", vec![entry("3.0.0", 1), entry("2.5.0", 2)], document);
    fleet.run(60);
    assert_eq!(fleet.running("w"), "");
}

/// B11.10: the attempts of the restart policy are those of one version.
#[test]
fn each_version_of_the_list_has_the_attempts_of_the_restart_policy() {
    let document = json!({"mode": "replicated", "restart": {"delaySeconds": 1, "maxAttempts": 1}});
    let mut fleet = listed(document.clone(), 100);
    fleet.run_until(20, |fleet| fleet.running("w") == "n1");
    assert!(!fleet.has_event("restart.exhausted"));
    assert_eq!(fleet.tasks().len(), 3, "one start and one restart of the version that fails");
    let mut fleet = listed(document, 100);
    fleet.broken_versions.insert((policy("w"), "1.0.0".to_owned()));
    fleet.run_until(30, |fleet| fleet.has_event("restart.exhausted"));
    fleet.run(60);
    let starts = fleet.tasks().iter().map(|task| task.generation).max();
    assert_eq!(starts, Some(4), "two tries of each version");
}

/// D4.4: what a node rejects has failed there.
#[test]
fn rejected_tasks_block_the_node() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.rejecting.insert((node("n1"), policy("w")));
    fleet.put_policy("w", json!({"mode": "replicated", "restart": {"delaySeconds": 1}}));
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    let (key, entry) = fleet.model.blocklist().next().expect("there is a row");
    assert_eq!((&key.node, entry.blocks, entry.failure_count), (&node("n1"), 1, 5));
}
