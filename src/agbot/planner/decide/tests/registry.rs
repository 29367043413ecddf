//! The health registry: C1, C3, C9, C10.

use evenkeel_ids::GroupId;
use evenkeel_planner_record::health::{Entity, Registration};
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

const INTERVAL: u64 = 60;

fn polling(interval: u64) -> Value {
    json!({"detection": {"type": "NODE_STATUS_POLLING", "interval": interval, "node_update_timeout": 10}})
}

fn group(name: &str) -> Entity {
    Entity::Group(GroupId::new("o", name))
}

fn row<'f>(fleet: &'f Fleet, target: &Entity) -> Option<&'f Registration> {
    fleet.model.registration(target)
}

fn checks(fleet: &Fleet) -> u64 {
    let counts = fleet.model.health_counts();
    counts.healthy + counts.unhealthy
}

/// C1-S1.
#[test]
fn target_is_registered_while_it_has_a_health_policy() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let target = Entity::Workload(policy("w"));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1}));
    fleet.run(5);
    assert_eq!(row(&fleet, &target), None);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1, "healthPolicy": polling(90)}));
    fleet.run(5);
    let found = row(&fleet, &target).expect("it is registered");
    assert_eq!((found.interval_secs, found.is_enabled, found.is_checking()), (90, true, true));
    assert_eq!(fleet.count("health.registered"), 1);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1, "healthPolicy": polling(120)}));
    fleet.run(5);
    assert_eq!(row(&fleet, &target).map(|row| row.interval_secs), Some(120));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1}));
    fleet.run(5);
    assert_eq!(row(&fleet, &target), None);
    fleet.put_group("g", &["n1"], Some(polling(90)));
    fleet.run(5);
    assert!(row(&fleet, &group("g")).is_some());
    fleet.put_group("g", &["n1"], None);
    fleet.run(5);
    assert_eq!(row(&fleet, &group("g")), None);
    assert_eq!(fleet.count("health.registered"), 2);
}

/// C9-S1: the rounds continue under the new owner, none of them twice.
#[test]
fn new_owner_adopts_every_group_and_checks_each_once_in_an_interval() {
    let mut fleet = Fleet::new(&["n1"]);
    for number in 0..10 {
        fleet.put_group(&format!("g{number}"), &[], Some(polling(INTERVAL)));
    }
    fleet.put_group("g", &["n1"], Some(polling(INTERVAL)));
    fleet.run(3 * INTERVAL);
    let before = checks(&fleet);
    assert!((2..=3).contains(&before), "{before}");
    fleet.take_over();
    fleet.run(3);
    assert_eq!(fleet.count("health.adopted"), 11);
    fleet.run(100 - 3);
    let after = checks(&fleet) - before;
    assert!((1..=2).contains(&after), "checked within 100 s, and not twice in an interval: {after}");
    assert!((0..10).all(|number| fleet.model.checked_at(&group(&format!("g{number}"))).is_some()));
    assert_eq!(fleet.count("health.registered"), 11);
}

/// C9-S2.
#[test]
fn disabled_target_is_adopted_and_not_checked() {
    let mut fleet = Fleet::new(&["n1"]);
    let mut document = polling(INTERVAL);
    document["enabled"] = json!(false);
    fleet.put_group("g", &["n1"], Some(document));
    fleet.run(2 * INTERVAL);
    fleet.take_over();
    fleet.run(2 * INTERVAL);
    assert_eq!((fleet.count("health.adopted"), checks(&fleet)), (1, 0));
    fleet.put_group("g", &["n1"], Some(polling(INTERVAL)));
    fleet.run(2 * INTERVAL);
    assert!(checks(&fleet) > 0);
}

/// C9-S3: an agbot that was not seen to hold its partitions for longer than a lease checks nothing.
#[test]
fn suspended_owner_checks_nothing_until_it_knows_its_leases() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_group("g", &["n1"], Some(polling(INTERVAL)));
    fleet.run(2 * INTERVAL);
    let before = checks(&fleet);
    fleet.is_alive = false;
    fleet.run(3 * INTERVAL);
    assert_eq!(checks(&fleet), before);
    fleet.put_group("g", &["n1"], None);
    fleet.is_alive = true;
    fleet.run(3 * INTERVAL);
    assert_eq!(checks(&fleet), before);
}

/// C3-S4.
#[test]
fn check_whose_result_cannot_be_written_recovers_nothing() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_group("g", &["n1"], Some(polling(INTERVAL)));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1, "placement": {"nodesOrder": ["n1"]}}));
    fleet.run(30);
    let tasks: Vec<_> = fleet.tasks().into_iter().map(|task| task.id.clone()).collect();
    fleet.refuses_registrations = true;
    fleet.report_health(&Entity::Node(node("n1")), "watchdog", "Error");
    fleet.run(3 * INTERVAL);
    let counts = fleet.model.health_counts();
    assert!(counts.errors >= 2 && counts.unhealthy == 0, "{counts:?}");
    let left: Vec<_> = fleet.tasks().into_iter().map(|task| task.id.clone()).collect();
    assert_eq!(left, tasks);
    fleet.refuses_registrations = false;
    fleet.run_until(2 * INTERVAL, |fleet| fleet.running("w") == "n2");
}

/// C10: what suspends the checks of a workload is read from what is in progress.
#[test]
fn operations_on_a_workload_suspend_its_checks_while_they_last() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let document =
        |count: u32| json!({"mode": "replicated", "replicas": count, "healthPolicy": polling(INTERVAL)});
    let target = Entity::Workload(policy("w"));
    fleet.put_policy("w", document(2));
    fleet.run(20);
    fleet.put_policy("w", document(3));
    fleet.run(10);
    assert_eq!(fleet.count("health.disabled"), 0, "growth suspends nothing");
    fleet.stop_secs = 20;
    fleet.run(2);
    fleet.put_policy("w", document(1));
    fleet.run(5);
    assert_eq!(row(&fleet, &target).and_then(|row| row.suspended_by.as_deref()), Some("scale-in"));
    fleet.take_over();
    fleet.run(40);
    assert_eq!(row(&fleet, &target).and_then(|row| row.suspended_by.as_deref()), None);
    assert_eq!((fleet.count("health.disabled"), fleet.count("health.enabled")), (1, 1));
    fleet.put_version("w", "2.0.0", document(1));
    fleet.run(5);
    assert_eq!(row(&fleet, &target).and_then(|row| row.suspended_by.as_deref()), Some("update"));
    fleet.run(60);
    assert_eq!((fleet.count("health.disabled"), fleet.count("health.enabled")), (2, 2));
}
