//! Nodes on which a service keeps failing: D4.

use evenkeel_explain::explain::explain_part;
use evenkeel_health as health_checks;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    health::{Entity, HealthState},
    report::{Blocked, Constraint},
    workload::{DesiredState, SlotTasks},
};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

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
fn five_failures_block_the_node_and_the_instance_runs_elsewhere() {
    let mut fleet = blocked_on_n1(replicated(1));
    assert_eq!(last_generation(&fleet, "p"), 6, "five failed, and the next one waits");
    let (_, entry) = fleet.model.blocklist().next().expect("there is a row");
    let (since, until) = (entry.since.expect("it is blocked"), entry.until.expect("it is blocked"));
    assert_eq!(until.duration_since(since).as_secs(), 5, "as long as a restart waits");
    assert!(entry.last_failure.contains("broken on o/n1"), "{}", entry.last_failure);
    let part = Fleet::unit_id("p");
    let question = Question { part: &part, node: Some(&node("n1")), is_complete: false, now: fleet.now };
    let found = explain_part(&fleet.model, question).expect("the node belongs to it");
    assert_eq!(found.sequence[0].constraint, Constraint::Blocklist);
    assert!(found.summary.contains("Blocklist o/p 1.0.0 keeps failing"), "{}", found.summary);
    fleet.run_until(20, |fleet| fleet.running("p") == "n2");
}

/// D4-S2, D4.1: while all nodes are blocked nothing starts, then one task probes each of them.
#[test]
fn service_that_fails_everywhere_is_probed_less_and_less_often() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    for name in ["n1", "n2", "n3"] {
        fleet.crash("p", name, true);
    }
    fleet.put_policy("p", replicated(1));
    fleet.run(1_800);
    let starts = last_generation(&fleet, "p");
    assert!((30..90).contains(&starts), "{starts} starts in half an hour, and not one every 5 s");
    let blocks = fleet.model.blocklist().map(|(_, entry)| entry.blocks);
    assert!(blocks.min() >= Some(4), "{:?}", fleet.model.blocklist().collect::<Vec<_>>());
    for name in ["n1", "n2", "n3"] {
        fleet.crash("p", name, false);
    }
    // The next probe is the last.
    let next = fleet.model.blocklist().filter_map(|(_, entry)| entry.until).min().expect("blocked");
    let passed = fleet.run_until(1_800, |fleet| !fleet.running("p").is_empty());
    assert!(passed <= next.duration_since(fleet.now).as_secs().unsigned_abs() + 1_800);
    fleet.run(20);
    let running = fleet.running("p");
    assert!(!fleet.blocked("p").contains(&running), "its node is free again");
}

fn blocks(fleet: &Fleet) -> u32 {
    fleet.model.blocklist().next().map_or(0, |(_, entry)| entry.blocks)
}

/// D4-S3, D4.1.
#[test]
fn failed_probes_double_the_block_and_one_that_runs_ends_it() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.crash("p", "n1", true);
    fleet.put_policy("p", replicated(1));
    for (number, expected) in [(1, 5), (2, 10), (3, 20), (4, 40)] {
        fleet.run_until(120, |fleet| blocks(fleet) == number);
        let (_, entry) = fleet.model.blocklist().next().expect("there is a row");
        let (since, until) = entry.since.zip(entry.until).expect("it is blocked");
        assert_eq!(until.duration_since(since).as_secs(), expected);
        let starts = last_generation(&fleet, "p");
        assert!(starts <= u64::from(5 + number), "{starts}: one probe for each block");
    }
    fleet.crash("p", "n1", false);
    fleet.run_until(60, |fleet| fleet.running("p") == "n1");
    fleet.run_until(15, |fleet| fleet.model.blocklist().count() == 0);
}

/// D4.1: what a missing dependency has blocked runs soon after it is back.
#[test]
fn block_ends_with_its_cause() {
    for mode in [replicated(2), json!({"mode": "global", "restart": {"delaySeconds": 5}})] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("p", mode);
        fleet.run_until(30, |fleet| fleet.running("p") == "n1 n2");
        fleet.run(400);
        for is_away in [true, false] {
            for name in ["n1", "n2"] {
                fleet.crash("p", name, is_away);
            }
            let passed = fleet.run_until(60, |fleet| {
                !is_away && fleet.running("p") == "n1 n2" || is_away && fleet.now.as_second() % 61 == 60
            });
            assert!(is_away || passed <= 45, "{passed} s");
        }
    }
}

/// D4.1: one probe at a time.
#[test]
fn node_whose_block_is_over_is_tried_by_one_instance_before_the_others_follow() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.crash("p", "n1", true);
    fleet.start_secs.insert(policy("p"), 3);
    let mut document = replicated(3);
    document["maxPerNode"] = json!(3);
    fleet.put_policy("p", document);
    fleet.run_until(120, |fleet| blocks(fleet) == 1);
    let started = |fleet: &Fleet| {
        let tasks = fleet.tasks();
        tasks.iter().filter(|task| task.is_live() && task.desired == DesiredState::Running).count()
    };
    let is_tried_by_one = |fleet: &Fleet, until: u32| {
        assert!(started(fleet) <= 1, "{:#?}", fleet.tasks());
        blocks(fleet) == until
    };
    fleet.run_until(60, |fleet| is_tried_by_one(fleet, 2));
    fleet.run_until(60, |fleet| is_tried_by_one(fleet, 3));
    fleet.crash("p", "n1", false);
    fleet.run_until(60, |fleet| is_tried_by_one(fleet, 3) && fleet.running("p") == "n1");
    for _ in 0..8 {
        assert_eq!(started(&fleet), 1);
        fleet.run(1);
    }
    fleet.run_until(15, |fleet| started(fleet) == 3);
}

/// D4-S4.
#[test]
fn another_service_still_starts_on_the_blocked_node() {
    let mut fleet = blocked_on_n1(replicated(1));
    fleet.put_policy("q", replicated(2));
    fleet.run_until(30, |fleet| fleet.running("q") == "n1 n2");
}

/// D4-S5.
#[test]
fn new_version_is_started_on_the_node_at_once() {
    let mut fleet = blocked_on_n1(replicated(2));
    fleet.run_until(30, |fleet| fleet.running("p") == "n2");
    fleet.crash("p", "n1", false);
    fleet.put_version("p", "2.0.0", replicated(2));
    fleet.run_until(60, |fleet| fleet.running("p") == "n1 n2");
    assert_eq!(blocks(&fleet), 1, "the row of the old version stays");
}

/// D4-S6: the node is used as soon as the row is removed.
#[test]
fn node_is_used_as_soon_as_the_row_is_removed() {
    let mut fleet = blocked_on_n1(replicated(2));
    fleet.run(30);
    assert_eq!(fleet.running("p"), "n2");
    fleet.crash("p", "n1", false);
    let (key, _) = fleet.model.blocklist().next().expect("there is a row");
    fleet.handle(&Event::BlocklistRecorded { key: key.clone(), entry: None });
    fleet.run_until(10, |fleet| fleet.running("p") == "n1 n2");
}

#[test]
fn instance_of_every_node_waits_on_the_blocked_node() {
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
fn user_starts_on_a_blocked_node_and_that_ends_the_block() {
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
fn frozen_instances_are_not_blocklisted() {
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
fn nodes_that_get_no_start_are_reported_and_a_workload_without_any_is_in_error() {
    let workload = Entity::Workload(policy("p"));
    let property = "Blocklist_o/p";
    let mut fleet = blocked_on_n1(replicated(1));
    fleet.run(2);
    assert_eq!(fleet.reported(&workload, property).map(|report| report.state), Some(HealthState::Warning));
    assert_eq!(node_reports(&fleet, "n1"), ["Blocklist_o/p"]);
    assert!(node_reports(&fleet, "n2").is_empty());
    // What failed is over when nothing wants the version.
    let wanted = fleet.model.policy(&policy("p")).cloned().expect("the policy");
    let none = evenkeel_planner_model::event::Event::DeploymentPolicyRemoved { policy: policy("p") };
    let (mut model, now) = (fleet.model.clone(), fleet.now);
    model.apply(&none, now);
    assert!(reports_of(&model, "n1", now).is_empty());
    model.apply(
        &evenkeel_planner_model::event::Event::DeploymentPolicyChanged { policy: Box::new(wanted) },
        now,
    );
    assert_eq!(reports_of(&model, "n1", now), ["Blocklist_o/p"]);
    fleet.crash("p", "n2", true);
    let state = |fleet: &Fleet| fleet.reported(&workload, property).map(|report| report.state);
    fleet.run_until(600, |fleet| state(fleet) == Some(HealthState::Error));
    let report = fleet.reported(&workload, property).expect("it is reported");
    assert!(report.description.contains("broken on o/n1"), "{}", report.description);
    fleet.crash("p", "n1", false);
    fleet.crash("p", "n2", false);
    fleet.run_until(400, |fleet| !fleet.running("p").is_empty());
    fleet.run_until(700, |fleet| fleet.blocked("p").is_empty());
    fleet.run(10);
    assert_ne!(fleet.reported(&workload, property).map(|report| report.state), Some(HealthState::Error));
}

/// Returns the properties that are to be reported about a node.
fn node_reports(fleet: &Fleet, name: &str) -> Vec<String> {
    reports_of(&fleet.model, name, fleet.now)
}

fn reports_of(model: &evenkeel_planner_model::model::Model, name: &str, now: jiff::Timestamp) -> Vec<String> {
    let (conditions, _) = model.node_conditions(None, 100, now);
    let condition = conditions.into_iter().find(|one| one.node == node(name)).expect("the node was heard");
    let found =
        health_checks::node_reports(model, &condition).map(|(_, reports)| reports).unwrap_or_default();
    found.into_iter().map(|report| report.property).collect()
}
