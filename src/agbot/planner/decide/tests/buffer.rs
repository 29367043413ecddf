//! The buffer of the capacities: kept free, but for upgrades and, if wanted, failures: D7.

use evenkeel_explain::explain::explain_part;
use evenkeel_planner_record::{facts::Availability, report::Constraint};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

/// Two nodes with 1000 MB each, of which a fifth is kept free.
fn fleet(settings: Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    for name in ["n1", "n2"] {
        fleet.put_node(name, |facts| {
            facts.capacities.insert("memoryMb".into(), 1_000.0);
        });
    }
    let mut all = json!({"nodeBufferPercentage": {"memoryMb": 0.2}, "nodeDownAfterSeconds": 20});
    all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let settings = serde_json::from_value(all).expect("valid settings");
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet
}

fn on(only: &str, replicas: u32, memory: u32) -> Value {
    let expression = if only.is_empty() { String::new() } else { format!("{{nodename}} == {only}") };
    json!({"mode": "replicated", "replicas": replicas, "maxPerNode": 5, "loads": {"memoryMb": memory},
           "placement": {"policy": "nodes-order", "expression": expression}})
}

/// Returns what the instances of both policies use of a node.
fn used(fleet: &Fleet, name: &str, loads: &[(&str, u32)]) -> u32 {
    let there = fleet.tasks().into_iter().filter(|task| !task.state.is_ended());
    let there = there.filter(|task| task.node == Some(node(name)));
    let load = |policy: &str| loads.iter().find(|(name, _)| *name == policy).map_or(0, |(_, load)| *load);
    there.map(|task| load(task.unit_id.policy.name())).sum()
}

fn drain(fleet: &mut Fleet, name: &str, is_upgrade: bool) {
    fleet.put_node(name, |facts| {
        (facts.availability, facts.is_in_upgrade) = (Availability::Drain, is_upgrade);
    });
}

fn activate(fleet: &mut Fleet, name: &str) {
    fleet.put_node(name, |facts| {
        (facts.availability, facts.is_in_upgrade) = (Availability::Active, false);
    });
}

/// D7-S1.
#[test]
fn buffer_is_kept_free_and_the_reason_shows_what_is_usable() {
    let mut fleet = fleet(json!({}));
    fleet.put_policy("w", on("n1", 3, 400));
    fleet.run(20);
    let running = fleet.tasks().iter().filter(|task| task.is_running()).count();
    assert_eq!(running, 2);
    let unit_id = Fleet::unit_id("w");
    let question = Question { part: &unit_id, node: None, is_complete: false, now: fleet.now };
    let explained = explain_part(&fleet.model, question).expect("the workload unit exists");
    let stage = explained.sequence.iter().find(|stage| stage.constraint == Constraint::NodeCapacity);
    assert_eq!(stage.expect("capacities remove a node").eliminated[0].reason, "memoryMb 800+400 > 800");
}

/// D7-S2, D7-S3.
#[test]
fn move_of_an_upgrade_uses_the_buffer_and_the_return_frees_it() {
    let loads = [("a", 400), ("w", 200)];
    let mut fleet = fleet(json!({}));
    fleet.put_policy("a", on("n2", 2, 400));
    fleet.put_policy("w", on("", 1, 200));
    fleet.run(20);
    assert_eq!((fleet.running("w").as_str(), used(&fleet, "n2", &loads)), ("n1", 800));
    drain(&mut fleet, "n1", true);
    fleet.run_until(30, |fleet| fleet.running("w") == "n2");
    assert_eq!(used(&fleet, "n2", &loads), 1_000);
    fleet.run(60);
    assert_eq!(fleet.running("w"), "n2", "it stays as long as the upgrade lasts");
    activate(&mut fleet, "n1");
    fleet.run_until(30, |fleet| fleet.running("w") == "n1" && used(fleet, "n2", &loads) == 800);
    assert!(fleet.has_event("snapshot.returned"));
}

/// D7-S2: what is more than the whole capacity is no more possible, and a drain that is not an upgrade leaves
/// the buffer alone.
#[test]
fn whole_capacity_is_the_limit_of_an_upgrade_and_other_drains_keep_the_buffer() {
    for (memory, is_upgrade) in [(250, true), (200, false)] {
        let mut fleet = fleet(json!({}));
        fleet.put_policy("a", on("n2", 2, 400));
        fleet.put_policy("w", on("", 1, memory));
        fleet.run(20);
        drain(&mut fleet, "n1", is_upgrade);
        fleet.run(60);
        assert!(!fleet.live("w").contains("n2"), "{memory} {is_upgrade}");
    }
}

/// D7-S4.
#[test]
fn failure_uses_the_buffer_only_if_the_organization_says_so() {
    for (usage, expected) in [("upgrade", ""), ("upgrade-and-failure", "n2")] {
        let mut fleet = fleet(json!({"bufferUse": usage}));
        fleet.put_policy("a", on("n2", 2, 400));
        fleet.put_policy("w", on("", 1, 200));
        fleet.run(20);
        fleet.silent.insert(node("n1"));
        fleet.run(60);
        assert_eq!(fleet.running("w").replace("n1", ""), expected, "{usage}");
    }
}

/// P-S1: the copy of an update that starts first may use the buffer.
#[test]
fn surge_of_an_update_fits_into_the_buffer() {
    let document = || {
        let mut document = on("n1", 1, 450);
        document["update"] = json!({"order": "start-first", "monitorSeconds": 1});
        document
    };
    let mut fleet = fleet(json!({}));
    fleet.put_policy("w", document());
    fleet.run(20);
    fleet.put_version("w", "2.0.0", document());
    fleet.run_until(120, |fleet| {
        fleet.tasks().iter().any(|task| task.is_wanted() && task.is_running() && task.spec.number == 2)
    });
    assert!(!fleet.has_event("update.order-degraded"), "900 of 1000 are used for a while");
}
