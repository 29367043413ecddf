//! A user starts workloads whose instances ended: A6, A12, B10.

use evenkeel_planner_model::model::Liveness;
use evenkeel_planner_record::workload::LastingAction;
use serde_json::json;

use super::fleet::{Fleet, node, policy};

/// Returns true if no action of a user is in progress.
fn is_over(fleet: &Fleet) -> bool {
    fleet.model.workload(&policy("w")).is_some_and(|record| record.action.is_none())
}

/// A6, B10: what the restart policy gave up runs again when a user starts the workload.
#[test]
fn start_runs_what_the_restart_policy_gave_up() {
    for document in [
        json!({"mode": "replicated", "replicas": 2, "restart": {"condition": "none"}}),
        json!({"mode": "global", "restart": {"condition": "none"}}),
        json!({"mode": "global", "restart": {"maxAttempts": 1, "delaySeconds": 0}}),
    ] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("w", document.clone());
        fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2");
        for name in ["n1", "n2"] {
            fleet.crash("w", name, true);
        }
        fleet.run(30);
        assert_eq!(fleet.live("w"), "", "{document}");
        for name in ["n1", "n2"] {
            fleet.crash("w", name, false);
        }
        fleet.run(30);
        assert_eq!(fleet.live("w"), "", "nothing starts by itself: {document}");
        fleet.act("w", LastingAction::Start, false);
        fleet.run_until(30, |fleet| fleet.running("w") == "n1 n2");
        fleet.run(5);
        assert!(is_over(&fleet), "{document}");
    }
}

/// A9.6, A9.7: a start that fails is not a restart: another node is tried, regardless of the restart policy.
#[test]
fn failed_start_is_tried_elsewhere_without_restarts() {
    let placement = json!({"nodesOrder": ["n1", "n2"]});
    let restart = json!({"condition": "none"});
    let document =
        json!({"mode": "failover", "orchestrate": "ha", "placement": placement, "restart": restart});
    let by_user = |fleet: &mut Fleet| fleet.act("w", LastingAction::Start, false);
    let on_node = |fleet: &mut Fleet| fleet.start_on("w", "n1");
    for start in [None, Some(by_user as fn(&mut Fleet)), Some(on_node)] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("w", document.clone());
        if start.is_some() {
            fleet.act("w", LastingAction::Stop, false);
            fleet.run_until(60, is_over);
        }
        fleet.crash("w", "n1", true);
        start.inspect(|start| start(&mut fleet));
        fleet.run_until(90, |fleet| fleet.running("w") == "n2");
        fleet.crash("w", "n2", true);
        fleet.run(60);
        assert_eq!(fleet.live("w"), "", "what has run and ended is not started again");
    }
}

/// A12: a start does not thaw a node; another node takes over what ended on a frozen one.
#[test]
fn start_leaves_a_frozen_node() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let placement = json!({"nodesOrder": ["n1", "n2"]});
    fleet.put_policy("w", json!({"mode": "failover", "orchestrate": "ha", "placement": placement}));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
    fleet.freeze("n1");
    fleet.crash("w", "n1", true);
    fleet.run(30);
    assert_eq!(fleet.running("w"), "", "nothing starts by itself");
    fleet.act("w", LastingAction::Start, false);
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    fleet.run_until(10, is_over);
}

/// A12: when all nodes are frozen after it was accepted it is over.
#[test]
fn start_ends_when_every_node_is_frozen() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_policy("w", json!({"mode": "failover", "orchestrate": "ha", "restart": {"condition": "none"}}));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
    fleet.crash("w", "n1", true);
    fleet.run(10);
    fleet.act("w", LastingAction::Start, false);
    fleet.freeze("n1");
    fleet.run_until(60, is_over);
}

/// A6-S5: what a user stopped stays so in another mode.
#[test]
fn workload_that_was_stopped_stays_stopped_in_another_mode() {
    let forms = [
        json!({"mode": "replicated", "replicas": 2}),
        json!({"mode": "global"}),
        json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}}),
    ];
    for (before, after, runs) in [(0, 1, "n1 n2"), (1, 0, "n1 n2"), (1, 2, "n1")] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("w", forms[before].clone());
        fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2");
        fleet.act("w", LastingAction::Stop, false);
        fleet.run_until(60, is_over);
        fleet.put_policy("w", forms[after].clone());
        fleet.run(60);
        assert_eq!((fleet.live("w").as_str(), fleet.tasks().len()), ("", 0));
        fleet.act("w", LastingAction::Start, false);
        fleet.run_until(60, |fleet| fleet.running("w") == runs);
    }
}

/// A pair whose switch from `n1` has failed, because the instance takes so long to stop.
fn failed_switch(stop_secs: u64) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.stop_secs = stop_secs;
    let placement = json!({"nodesOrder": ["n1", "n2"]});
    let timers = json!({"stopTimeoutSeconds": 4, "readyPeriodSeconds": 0});
    fleet.put_policy(
        "w",
        json!({"mode": "failover", "orchestrate": "ha", "placement": placement, "timers": timers}),
    );
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
    fleet.act("w", LastingAction::Switch, false);
    fleet.run_until(30, is_over);
    fleet
}

/// A6.5: after an action whose stop failed, the instance starts again soon after the stop is confirmed.
#[test]
fn instance_starts_soon_after_a_late_stop() {
    for stop_secs in [9, 22, 47] {
        let mut fleet = failed_switch(stop_secs);
        let stopped =
            |fleet: &Fleet| fleet.tasks().iter().all(|task| task.state.is_ended() || task.is_wanted());
        fleet.run_until(60, stopped);
        let passed = fleet.run_until(60, |fleet| !fleet.running("w").is_empty());
        assert!(passed <= 5, "{passed} s after a stop that took {stop_secs} s");
    }
}

/// A6.5, B9: so it does when the node that did not stop it is lost.
#[test]
fn instance_starts_soon_after_the_loss_of_the_node_that_did_not_stop_it() {
    let mut fleet = failed_switch(10_000);
    fleet.silent.insert(node("n1"));
    let down = |fleet: &Fleet| matches!(fleet.model.liveness(&node("n1"), fleet.now), Liveness::Down { .. });
    fleet.run_until(400, down);
    let passed = fleet.run_until(100, |fleet| fleet.running("w") == "n2");
    assert!(passed <= 5, "{passed} s");
}
