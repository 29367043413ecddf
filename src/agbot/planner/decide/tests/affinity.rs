//! Workloads that share nodes, or must not: A4.

use evenkeel_explain::explain::explain_part;
use evenkeel_planner_record::{
    report::{Blocked, Constraint},
    workload::DesiredState,
};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

/// A failover workload on `n1` and `n2` that prefers one of them.
fn failover(leader: &str, affinity: &Value) -> Value {
    json!({
        "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
        "placement": {"nodesOrder": [leader], "affinity": affinity},
    })
}

/// `svc1` runs on `n1`; then `frozen` nodes are frozen, and `svc2` is created.
fn beside_svc1(leader: &str, affinity: &Value, frozen: &[&str]) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.run(5);
    assert_eq!(fleet.running("svc1"), "n1");
    frozen.iter().for_each(|name| fleet.freeze(name));
    fleet.put_policy("svc2", failover(leader, affinity));
    fleet.run(5);
    fleet
}

/// Asserts where `svc2` starts.
fn assert_starts(on: &str, list: &str, leader: &str, frozen: &[&str]) -> Fleet {
    let fleet = beside_svc1(leader, &json!({list: ["svc1"]}), frozen);
    assert_eq!(fleet.running("svc2"), on, "{list} with the leader {leader}: {:#?}", fleet.tasks());
    assert_eq!(fleet.running("svc1"), "n1");
    fleet
}

/// A4-S1, A4-S2.
#[test]
fn hard_affinity_starts_beside_the_partner_whatever_the_order() {
    assert_starts("n1", "hard", "n1", &[]);
    assert_starts("n1", "hard", "n2", &[]);
}

/// A4-S3.
#[test]
fn nothing_starts_when_the_node_of_the_partner_is_frozen() {
    let fleet = assert_starts("", "hard", "n1", &["n1"]);
    assert_eq!((fleet.flags("svc2", "n1").as_str(), fleet.flags("svc2", "n2").as_str()), ("FL", "A"));
    let status = fleet.status("svc2");
    let warning = status.warnings.iter().any(|warning| warning.contains("Affinity 1"));
    assert!(warning, "{:?}", status.warnings);
}

/// A4-S4, A4-S5.
#[test]
fn hard_anti_affinity_starts_on_another_node_whatever_the_order() {
    assert_starts("n2", "hardAnti", "n2", &[]);
    assert_starts("n2", "hardAnti", "n1", &[]);
}

/// A4-S6.
#[test]
fn nothing_starts_when_only_the_node_of_the_partner_is_left() {
    let fleet = assert_starts("", "hardAnti", "n2", &["n2"]);
    assert_eq!((fleet.flags("svc2", "n1").as_str(), fleet.flags("svc2", "n2").as_str()), ("A", "FL"));
}

/// A4-S7, A4-S8.
#[test]
fn soft_affinity_starts_beside_the_partner_whatever_the_order() {
    assert_starts("n1", "soft", "n1", &[]);
    let fleet = assert_starts("n1", "soft", "n2", &[]);
    assert!(!fleet.has_event("placement.violation"));
}

/// A4-S9.
#[test]
fn soft_affinity_starts_elsewhere_when_the_node_of_the_partner_is_frozen() {
    let fleet = assert_starts("n2", "soft", "n1", &["n1"]);
    // The only candidate is taken without regard to the list.
    assert!(!fleet.has_event("placement.violation"));
    assert_eq!(fleet.flags("svc2", "n2"), "", "no other node could satisfy the list");
}

/// A4-S10, A4-S11.
#[test]
fn soft_anti_affinity_starts_on_another_node_whatever_the_order() {
    assert_starts("n2", "softAnti", "n2", &[]);
    assert_starts("n2", "softAnti", "n1", &[]);
}

/// A4-S12.
#[test]
fn soft_anti_affinity_starts_beside_the_partner_when_nothing_else_is_left() {
    assert_starts("n1", "softAnti", "n2", &["n2"]);
}

fn ready_pair(soft_of_first: &Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let ready = |leader: &str, affinity: &Value| {
        json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 16},
               "placement": {"nodesOrder": [leader], "affinity": affinity}})
    };
    fleet.put_policy("svc1", ready("n1", soft_of_first));
    fleet.put_policy("svc2", ready("n2", &json!({"soft": ["svc1"]})));
    fleet
}

/// A4-S13.
#[test]
fn start_waits_until_the_soft_partner_is_up() {
    let mut fleet = ready_pair(&json!({}));
    let passed = fleet.run_until(40, |fleet| {
        assert!(fleet.live("svc2").is_empty() || fleet.running("svc1") == "n1", "{:#?}", fleet.tasks());
        !fleet.live("svc2").is_empty()
    });
    assert!((17..=30).contains(&passed), "{passed} s");
    fleet.run(20);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1", "n1"));
}

#[test]
fn wait_for_a_soft_partner_that_never_starts_is_limited() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.start_secs.insert(super::fleet::policy("svc1"), 1_000);
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.put_policy("svc2", failover("n2", &json!({"soft": ["svc1"]})));
    let unit = fleet.model.workload_unit(&Fleet::unit_id("svc2")).unwrap();
    assert!(matches!(unit.blocked[0].1, Blocked::AffinityWait { .. }), "{:?}", unit.blocked);
    let passed = fleet.run_until(90, |fleet| !fleet.live("svc2").is_empty());
    assert!((58..=62).contains(&passed), "{passed} s");
    assert_eq!(fleet.live("svc2"), "n2");
    let event = fleet.events.iter().find(|event| event.kind == "placement.violation").unwrap();
    assert_eq!(event.text, "soft affinity: o/svc1 does not run here");
}

#[test]
fn workloads_that_wait_for_each_other_start() {
    let mut fleet = ready_pair(&json!({"soft": ["svc2"]}));
    fleet.run(100);
    assert_eq!((fleet.running("svc1").is_empty(), fleet.running("svc2").is_empty()), (false, false));
}

/// A4-S14.
#[test]
fn missing_partner_blocks_hard_affinity_and_satisfies_anti_affinity() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("svc2", failover("n1", &json!({"hard": ["ghost"]})));
    fleet.put_policy("svc3", failover("n1", &json!({"hardAnti": ["ghost"], "softAnti": ["ghost"]})));
    fleet.run(5);
    assert_eq!((fleet.live("svc2").as_str(), fleet.running("svc3").as_str()), ("", "n1"));
    let part = Fleet::unit_id("svc2");
    let explained = |fleet: &Fleet| {
        let question = Question { part: &part, node: None, is_complete: false, now: fleet.now };
        explain_part(&fleet.model, question).unwrap()
    };
    let found = explained(&fleet);
    assert_eq!((found.sequence.len(), found.sequence[0].constraint), (1, Constraint::Affinity));
    let reasons: Vec<&str> = found.sequence[0].eliminated.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons, ["o/ghost is missing", "o/ghost is missing"]);
    // The policy is written, and runs.
    fleet.put_policy("ghost", failover("n2", &json!({})));
    assert_eq!(explained(&fleet).sequence[0].eliminated[0].reason, "o/ghost does not run here");
    fleet.run(15);
    assert_eq!(fleet.running("svc2"), "n2");
    fleet.remove_policy("ghost");
    fleet.run(5);
    assert_eq!(fleet.running("svc2"), "n2", "what runs stays");
    assert_eq!(fleet.flags("svc2", "n2"), "A");
}

/// A4.8: what runs stays when its partner leaves, unless violations are corrected.
#[test]
fn instance_follows_its_partner_only_with_the_correction_of_violations() {
    for (on_violation, expected) in [("report", "n1"), ("move", "n2")] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("svc1", failover("n1", &json!({})));
        let mut document = failover("n1", &json!({"hard": ["svc1"]}));
        document["placement"]["onViolation"] = json!(on_violation);
        fleet.put_policy("svc2", document);
        fleet.run(15);
        assert_eq!(fleet.running("svc2"), "n1");
        fleet.put_policy("svc1", {
            let mut document = failover("n2", &json!({}));
            document["placement"]["onViolation"] = json!("move");
            document["placement"]["expression"] = json!("{nodename} == n2");
            document
        });
        fleet.run(30);
        assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n2", expected));
        let is_flagged = fleet.flags("svc2", expected).contains('A');
        assert_eq!(is_flagged, on_violation == "report");
    }
}

/// A claim on a node is given up when a workload that must not be there comes first.
#[test]
fn instance_that_has_not_started_yields_to_an_unwanted_neighbor() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let mut document = failover("n1", &json!({"hardAnti": ["svc1"]}));
    document["timers"]["readyPeriodSeconds"] = json!(16);
    fleet.put_policy("svc2", document);
    assert_eq!(fleet.live("svc2"), "n1");
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.run(30);
    assert_eq!((fleet.running("svc1").as_str(), fleet.running("svc2").as_str()), ("n1", "n2"));
}

/// Each node runs an instance unless a partner forbids it, and gets one when the partner leaves.
#[test]
fn instances_on_every_node_follow_the_affinity_of_each_node() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.run(5);
    fleet.put_policy("each", json!({"placement": {"affinity": {"hardAnti": ["svc1"]}}}));
    fleet.run(5);
    assert_eq!(fleet.running("each"), "n2 n3");
    fleet.remove_policy("svc1");
    fleet.run(5);
    assert_eq!(fleet.running("each"), "n1 n2 n3");
}

/// B4: the change of an instance concerns workload units that name its workload, and no other one.
#[test]
fn change_of_a_partner_concerns_only_workloads_that_name_it() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("other", failover("n2", &json!({"hard": ["ghost"]})));
    fleet.put_policy("svc2", failover("n2", &json!({"hard": ["svc1"]})));
    fleet.run(20);
    let decided = |fleet: &Fleet, name: &str| {
        fleet.model.decision_counts().get(&Fleet::unit_id(name).policy).map(|counts| counts.of_units)
    };
    let before = decided(&fleet, "other");
    fleet.put_policy("svc1", failover("n1", &json!({})));
    fleet.run(3);
    assert_eq!(fleet.live("svc2"), "n1");
    assert_eq!(decided(&fleet, "other"), before);
    assert_eq!(fleet.model.node(&node("n1")).map(|_| ()), Some(()));
    let started = fleet.tasks().into_iter().filter(|task| task.desired == DesiredState::Running).count();
    assert_eq!(started, 2);
}

/// B4-S1, B4-S2, B6-S3: what the two numbers count.
#[test]
fn writes_are_counted_once_and_the_failure_of_a_task_by_what_is_ordered() {
    let document =
        |replicas: u32| json!({"mode": "replicated", "replicas": replicas, "restart": {"delaySeconds": 2}});
    let mut fleet = Fleet::new(&["n1", "n2", "n3", "n4", "n5"]);
    let counts = |fleet: &Fleet| {
        let counts = fleet.model.decision_counts()[&Fleet::unit_id("w").policy];
        (counts.followed, counts.acted)
    };
    fleet.put_policy("w", document(4));
    fleet.run(30);
    assert_eq!(counts(&fleet).0, 1);
    let before = counts(&fleet).1;
    fleet.crash("w", "n2", true);
    fleet.run(1);
    fleet.crash("w", "n2", false);
    fleet.run(30);
    assert_eq!(fleet.live("w").split(' ').count(), 4);
    let acted = counts(&fleet).1 - before;
    assert!((1..=3).contains(&acted), "{acted}");
    for (writes, replicas) in [(2, 5), (3, 5)] {
        fleet.put_policy("w", document(replicas));
        fleet.run(30);
        assert_eq!(counts(&fleet).0, writes);
    }
}
