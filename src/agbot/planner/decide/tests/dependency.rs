//! Workloads that start after their parents and stop after their children: A8.

use evenkeel_explain::explain::held_task;
use evenkeel_planner_record::{
    goal::Avail,
    workload::{LastingAction, Task},
};
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

/// A failover workload that prefers a node, with further members.
fn failover(leader: &str, more: &Value) -> Value {
    let mut document = json!({
        "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
        "placement": {"nodesOrder": [leader]},
    });
    let members = document.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    document
}

/// `svc1` runs with the child `svc2`, which runs, too.
fn parent_and_child() -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc1", failover("n1", &json!({"children": ["svc2"]})));
    fleet.put_policy("svc2", failover("n2", &json!({})));
    fleet.run(5);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1", "n2"));
    fleet
}

fn newest<'f>(fleet: &'f Fleet, name: &str) -> &'f Task {
    let of_policy = fleet.tasks().into_iter().filter(|task| task.unit_id.policy == policy(name));
    of_policy.max_by_key(|task| task.generation).expect("the policy has a task")
}

/// A8-S1: also with a ready period, which begins when the parent is up.
#[test]
fn child_starts_after_its_parent() {
    for ready_secs in [0, 16] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.start_secs.insert(policy("svc1"), 30);
        let timers = json!({"readyPeriodSeconds": ready_secs});
        fleet.put_policy("svc2", failover("n2", &json!({"parents": ["svc1"], "timers": timers})));
        fleet.put_policy("svc1", failover("n1", &json!({})));
        fleet.run(20);
        assert_eq!(fleet.monitor("svc2", "n2"), "wait-parents");
        let waits = {
            let waits = evenkeel_explain::explain::Waits::new(&fleet.model, fleet.now);
            held_task(&fleet.model, &waits, (&node("n2"), &policy("svc2"))).expect("it waits")
        };
        assert!(waits.to_string().contains("parent o/svc1"), "{waits}");
        let passed = fleet.run_until(60, |fleet| fleet.running("svc1") == "n1");
        let passed_more = fleet.run_until(60, |fleet| {
            assert!(ready_secs == 0 || fleet.monitor("svc2", "n2") != "wait-parents");
            fleet.running("svc2") == "n2"
        });
        assert!(
            passed >= 9 && (ready_secs..=ready_secs + 3).contains(&passed_more),
            "{passed} {passed_more}"
        );
        let up_at = |name: &str| newest(&fleet, name).running_at;
        assert!(up_at("svc2") >= up_at("svc1"));
        let waits = fleet.events.iter().filter(|event| event.kind == "instance.wait-parents").count();
        assert_eq!(waits, 1, "it is reported once");
    }
}

/// A8-S2.
#[test]
fn parent_stops_after_its_child() {
    let mut fleet = parent_and_child();
    let before = newest(&fleet, "svc1").clone();
    fleet.act("svc1", LastingAction::Stop, false);
    fleet.run(30);
    assert_eq!((fleet.running("svc1").as_str(), fleet.monitor("svc1", "n1")), ("n1", "wait-children"));
    let now = newest(&fleet, "svc1");
    assert_eq!((&now.id, now.desired), (&before.id, before.desired), "its task is untouched");
    assert!(fleet.has_event("instance.wait-children"));
    fleet.act("svc2", LastingAction::Stop, false);
    fleet.run_until(5, |fleet| {
        assert!(fleet.status("svc2").avail == Avail::Down || fleet.running("svc1") == "n1");
        fleet.live("svc1").is_empty()
    });
    fleet.run(5);
    assert_eq!(fleet.model.workload(&policy("svc1")).and_then(|record| record.action.clone()), None);
}

/// A8-S3.
#[test]
fn abort_ends_the_wait_for_children() {
    let mut fleet = parent_and_child();
    fleet.act("svc1", LastingAction::Stop, false);
    fleet.run(3);
    fleet.abort("svc1");
    fleet.run(30);
    assert_eq!((fleet.running("svc1").as_str(), fleet.monitor("svc1", "n1")), ("n1", "idle"));
    let record = fleet.model.workload(&policy("svc1")).unwrap();
    assert_eq!((record.action.as_ref(), record.is_stopped), (None, false));
}

/// A8-S4.
#[test]
fn one_instance_of_a_parent_is_waited_for() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let flex = json!({
        "mode": "flex", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
        "placement": {"nodesOrder": ["n2", "n1"]},
    });
    fleet.put_policy("svc1", flex.clone());
    fleet.put_policy("svc2", failover("n1", &json!({"parents": ["svc1@n1"]})));
    fleet.run(20);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n2", ""));
    assert_eq!(fleet.monitor("svc2", "n1"), "wait-parents");
    let mut both = flex;
    both["flex"] = json!({"min": 1, "max": 2, "target": 2});
    fleet.put_policy("svc1", both);
    fleet.run(5);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1 n2", "n1"));
}

/// A8-S5, and the other changes that do not wait for children.
#[test]
fn update_and_drain_do_not_wait_for_children() {
    let mut fleet = parent_and_child();
    fleet.put_version("svc1", "2.0.0", failover("n1", &json!({"children": ["svc2"]})));
    fleet.run(5);
    assert_eq!((newest(&fleet, "svc1").spec.number, fleet.running("svc1").as_str()), (2, "n1"));
    let bypassed = |fleet: &Fleet| {
        let events = fleet.events.iter().filter(|event| event.kind == "dependency.bypassed");
        events.map(|event| event.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bypassed(&fleet), ["child o/svc2 is up"]);
    fleet.put_node("n1", |facts| facts.availability = evenkeel_planner_record::facts::Availability::Drain);
    fleet.run(5);
    assert_eq!((fleet.running("svc1").as_str(), bypassed(&fleet).len()), ("n2", 2));
}

/// P5: force goes before parents and children.
#[test]
fn force_lifts_the_wait_for_children() {
    let mut fleet = parent_and_child();
    fleet.act("svc1", LastingAction::Stop, true);
    fleet.run(5);
    assert_eq!((fleet.live("svc1").as_str(), fleet.running("svc2").as_str()), ("", "n2"));
    assert!(fleet.has_event("dependency.bypassed"));
}

/// A8.2: scaling to nothing, and deleting the policy, wait for children; a forced removal does not.
#[test]
fn instances_that_are_not_wanted_any_more_wait_for_children() {
    let replicated = |count: u32| json!({"mode": "replicated", "replicas": count, "children": ["svc2"]});
    for is_deleted in [false, true] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("svc1", replicated(2));
        fleet.put_policy("svc2", failover("n2", &json!({})));
        fleet.run(5);
        if is_deleted {
            fleet.remove_policy("svc1");
        } else {
            fleet.put_policy("svc1", replicated(0));
        }
        fleet.run(30);
        assert_eq!(fleet.running("svc1"), "n1 n2");
        fleet.remove_policy("svc2");
        fleet.run(15);
        assert_eq!(fleet.live("svc1"), "");
    }
    let mut fleet = parent_and_child();
    fleet.remove_policy("svc1");
    fleet.run(5);
    assert_eq!(fleet.running("svc1"), "n1");
    fleet.force_removal("svc1");
    fleet.run(5);
    assert_eq!((fleet.live("svc1").as_str(), fleet.running("svc2").as_str()), ("", "n2"));
}

/// A8.6: a missing parent is not up, a missing child is down.
#[test]
fn missing_parent_is_waited_for_and_shown_and_a_missing_child_is_not() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc1", failover("n1", &json!({"parents": ["ghost"], "children": ["spook"]})));
    fleet.run(5);
    assert_eq!(fleet.monitor("svc1", "n1"), "wait-parents");
    let status = fleet.status("svc1");
    assert_eq!(status.warnings, ["parent missing: o/ghost"]);
    fleet.put_policy("ghost", failover("n2", &json!({})));
    fleet.run(10);
    assert_eq!(fleet.running("svc1"), "n1");
    fleet.act("svc1", LastingAction::Stop, false);
    fleet.run(5);
    assert_eq!(fleet.live("svc1"), "");
}

/// A8.7: a workload and its parent may name each other.
#[test]
fn workload_starts_after_the_parent_that_names_it_as_its_child() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc2", failover("n2", &json!({"parents": ["svc1"]})));
    fleet.put_policy("svc1", failover("n1", &json!({"children": ["svc2"]})));
    fleet.run(10);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1", "n2"));
    fleet.act("svc1", LastingAction::Stop, false);
    fleet.run(5);
    fleet.act("svc2", LastingAction::Stop, false);
    fleet.run(5);
    assert_eq!((fleet.live("svc1").as_str(), fleet.live("svc2").as_str()), ("", ""));
    // The child is thawed first, and waits for its parent.
    fleet.act("svc2", LastingAction::Start, false);
    fleet.run(700);
    assert_eq!(fleet.monitor("svc2", "n2"), "wait-parents");
    fleet.act("svc1", LastingAction::Start, false);
    fleet.run(10);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1", "n2"));
}

/// A stop of a workload that waits for its parents needs no children; a parent that is lost takes nothing with it.
#[test]
fn parent_that_goes_down_leaves_its_child_running() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.put_policy("svc2", failover("n2", &json!({"parents": ["svc1"]})));
    fleet.run(10);
    fleet.act("svc1", LastingAction::Stop, false);
    fleet.run(10);
    assert_eq!((fleet.live("svc1").as_str(), fleet.running("svc2").as_str()), ("", "n2"));
    // A restart would have to wait, and so does the update.
    fleet.put_version("svc2", "2.0.0", failover("n2", &json!({"parents": ["svc1"]})));
    fleet.run(10);
    assert_eq!((newest(&fleet, "svc2").spec.number, fleet.running("svc2").as_str()), (1, "n2"));
    fleet.act("svc1", LastingAction::Start, false);
    fleet.run(15);
    assert_eq!((newest(&fleet, "svc2").spec.number, fleet.running("svc2").as_str()), (2, "n2"));
}
