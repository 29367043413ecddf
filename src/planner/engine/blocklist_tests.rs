//! Nodes on which a service keeps failing: D4.

use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};
use crate::{
    event::Event,
    health::{Entity, HealthState},
    place::Constraint,
    report::Blocked,
    status::{Question, explain_part},
    workload::{DesiredState, SlotTasks},
};

fn replicated(count: u32) -> Value {
    json!({"mode": "replicated", "replicas": count, "restart": {"delaySeconds": 5}})
}

/// Returns how many tasks of a policy there were on a node, as far as they are kept.
fn last_generation(fleet: &Fleet, name: &str) -> u64 {
    let tasks = fleet.tasks();
    tasks
        .iter()
        .filter(|task| task.unit_id.policy == policy(name))
        .map(|task| task.generation)
        .max()
        .unwrap_or(0)
}

/// `p` runs nowhere because it fails on `n1`, which is blocked.
fn blocked_on_n1(document: Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.crash("p", "n1", true);
    fleet.put_policy("p", document);
    fleet.run_until(120, |fleet| fleet.blocked("p") == "n1");
    fleet
}

/// D4-S1, P-S9: whatever recreates the instance, it comes up on another node.
#[test]
fn d4_s1_p_s9_five_failures_block_the_node_and_the_instance_runs_elsewhere() {
    let mut fleet = blocked_on_n1(replicated(1));
    assert_eq!(last_generation(&fleet, "p"), 6, "five failed, and the next one waits");
    let (_, entry) = fleet.model.blocklist().next().expect("there is a row");
    let (since, until) = (entry.since.expect("it is blocked"), entry.until.expect("it is blocked"));
    assert_eq!(until.duration_since(since).as_secs(), 300);
    assert!(entry.last_failure.contains("broken on o/n1"), "{}", entry.last_failure);
    fleet.run_until(20, |fleet| fleet.running("p") == "n2");
    let part = Fleet::unit_id("p");
    let question = Question { part: &part, node: Some(&node("n1")), is_complete: false, now: fleet.now };
    let found = explain_part(&fleet.model, question).expect("the node belongs to it");
    assert_eq!(found.sequence[0].constraint, Constraint::Blocklist);
    assert!(found.summary.contains("Blocklist o/p 1.0.0 keeps failing"), "{}", found.summary);
}

/// D4-S2.
#[test]
fn d4_s2_service_that_fails_everywhere_rests_and_is_tried_on_one_node_after_the_block() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    for name in ["n1", "n2", "n3"] {
        fleet.crash("p", name, true);
    }
    fleet.put_policy("p", replicated(1));
    fleet.run_until(400, |fleet| fleet.blocked("p") == "n1 n2 n3");
    let blocked_at = fleet.now;
    let tried = last_generation(&fleet, "p");
    assert!(tried <= 16, "{tried} tasks: fifteen failures, and one that waits");
    let first_end = fleet.model.blocklist().filter_map(|(_, entry)| entry.until).min().expect("blocked");
    while fleet.now < first_end {
        assert!(fleet.live("p").is_empty(), "nothing is placed while all nodes are blocked");
        fleet.run(1);
    }
    assert!(fleet.now.duration_since(blocked_at).as_secs() >= 150);
    fleet.run_until(30, |fleet| last_generation(fleet, "p") > tried || !fleet.live("p").is_empty());
    assert!(fleet.model.blocklist().filter(|(_, entry)| entry.until.is_none()).count() >= 1);
    assert!(fleet.live("p").split(' ').count() <= 1, "one node is tried");
}

/// D4-S3.
#[test]
fn d4_s3_second_block_is_twice_as_long() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.crash("p", "n1", true);
    fleet.put_policy("p", replicated(1));
    let length = |fleet: &Fleet| {
        let (_, entry) = fleet.model.blocklist().next().expect("there is a row");
        entry.until.zip(entry.since).map(|(until, since)| until.duration_since(since).as_secs())
    };
    fleet.run_until(120, |fleet| fleet.blocked("p") == "n1");
    assert_eq!(length(&fleet), Some(300));
    fleet.run_until(400, |fleet| fleet.blocked("p").is_empty());
    fleet.run_until(120, |fleet| fleet.blocked("p") == "n1");
    assert_eq!(length(&fleet), Some(600));
    // It is mended: after it has run for long enough the number of blocks is reset.
    fleet.crash("p", "n1", false);
    let passed = fleet.run_until(700, |fleet| fleet.running("p") == "n1");
    assert!(passed >= 590, "{passed} s");
    fleet.run_until(310, |fleet| fleet.model.blocklist().count() == 0);
}

/// D4-S4.
#[test]
fn d4_s4_another_service_still_starts_on_the_blocked_node() {
    let mut fleet = blocked_on_n1(replicated(1));
    fleet.put_policy("q", replicated(2));
    fleet.run_until(30, |fleet| fleet.running("q") == "n1 n2");
}

/// D4-S5.
#[test]
fn d4_s5_new_version_is_started_on_the_node_at_once() {
    let mut fleet = blocked_on_n1(replicated(2));
    fleet.run_until(30, |fleet| fleet.running("p") == "n2");
    fleet.crash("p", "n1", false);
    fleet.put_version("p", "2.0.0", replicated(2));
    fleet.run_until(60, |fleet| fleet.running("p") == "n1 n2");
    assert_eq!(fleet.blocked("p"), "n1", "the old version is still blocked");
}

/// D4-S6: the node is used as soon as the row is removed.
#[test]
fn d4_s6_node_is_used_as_soon_as_the_row_is_removed() {
    let mut fleet = blocked_on_n1(replicated(2));
    fleet.run(30);
    assert_eq!(fleet.running("p"), "n2");
    fleet.crash("p", "n1", false);
    let (key, _) = fleet.model.blocklist().next().expect("there is a row");
    fleet.handle(&Event::BlocklistRecorded { key: key.clone(), entry: None });
    fleet.run_until(10, |fleet| fleet.running("p") == "n1 n2");
}

#[test]
fn d4_instance_of_every_node_waits_on_the_blocked_node() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.crash("p", "n1", true);
    fleet.put_policy("p", json!({"mode": "global", "restart": {"delaySeconds": 6}}));
    fleet.run_until(120, |fleet| fleet.blocked("p") == "n1");
    fleet.run(60);
    assert_eq!(fleet.running("p"), "n2");
    let wanted = fleet.tasks().into_iter().find(|task| task.is_live() && task.node == Some(node("n1")));
    assert!(wanted.is_none_or(|task| task.desired == DesiredState::Ready));
    let unit = fleet.model.workload_unit(&Fleet::unit_id("p")).expect("the unit exists");
    let is_blocked = |blocked: &Blocked| matches!(blocked, Blocked::Blocklisted { .. });
    assert!(wanted.is_none() || unit.blocked.iter().any(|(_, blocked)| is_blocked(blocked)));
    fleet.crash("p", "n1", false);
    fleet.run_until(330, |fleet| fleet.running("p") == "n1 n2");
}

#[test]
fn d4_user_starts_on_a_blocked_node_and_that_ends_the_block() {
    let mut fleet = blocked_on_n1(json!({
        "mode": "flex", "flex": {"min": 0, "max": 2, "target": 1}, "orchestrate": "ha",
        "restart": {"delaySeconds": 5, "onExhausted": "none"}, "timers": {"readyPeriodSeconds": 0},
    }));
    fleet.run_until(30, |fleet| fleet.running("p") == "n2");
    fleet.crash("p", "n1", false);
    fleet.start_on("p", "n1");
    fleet.run_until(30, |fleet| fleet.running("p").contains("n1"));
    assert_eq!(fleet.model.blocklist().count(), 0);
}

#[test]
fn d4_frozen_instances_are_not_blocklisted() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_policy("p", replicated(1));
    fleet.run_until(20, |fleet| fleet.running("p") == "n1");
    fleet.freeze("n1");
    fleet.crash("p", "n1", true);
    fleet.run(60);
    assert_eq!(fleet.model.blocklist().count(), 0);
    let unit = fleet.model.workload_unit(&Fleet::unit_id("p")).expect("the unit exists");
    assert!(unit.slots.values().flat_map(SlotTasks::iter).all(|task| task.generation == 1));
}

/// D2: on the nodes and on the workload, an error once no node is left, and over when the block is.
#[test]
fn d2_nodes_that_get_no_start_are_reported_and_a_workload_without_any_is_in_error() {
    let workload = Entity::Workload(policy("p"));
    let property = "Blocklist_o/p";
    let mut fleet = blocked_on_n1(replicated(1));
    fleet.run(5);
    assert_eq!(fleet.reported(&workload, property).map(|report| report.state), Some(HealthState::Warning));
    assert_eq!(node_reports(&fleet, "n1"), ["Blocklist_o/p"]);
    assert!(node_reports(&fleet, "n2").is_empty());
    fleet.crash("p", "n2", true);
    fleet.run_until(200, |fleet| fleet.blocked("p") == "n1 n2");
    fleet.run(5);
    let report = fleet.reported(&workload, property).expect("it is reported");
    assert_eq!(report.state, HealthState::Error);
    assert!(report.description.contains("broken on o/n1"), "{}", report.description);
    fleet.crash("p", "n1", false);
    fleet.run_until(400, |fleet| fleet.running("p") == "n1");
    fleet.run_until(700, |fleet| fleet.blocked("p").is_empty());
    fleet.run(10);
    assert_ne!(fleet.reported(&workload, property).map(|report| report.state), Some(HealthState::Error));
}

/// Returns the properties that are to be reported about a node.
fn node_reports(fleet: &Fleet, name: &str) -> Vec<String> {
    let (conditions, _) = fleet.model.node_conditions(None, 100, fleet.now);
    let condition = conditions.into_iter().find(|one| one.node == node(name)).expect("the node was heard");
    let found = fleet.model.node_reports(&condition).map(|(_, reports)| reports).unwrap_or_default();
    found.into_iter().map(|report| report.property).collect()
}
