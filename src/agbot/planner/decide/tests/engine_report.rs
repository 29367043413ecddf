//! Reports of the engine about a workload unit and about a recovery.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::health::{Entity, HealthState};
use serde_json::json;

use super::fleet::Fleet;

/// A12-S3.
#[test]
fn no_placement_warning_while_every_node_is_frozen() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    ["n1", "n2"].into_iter().for_each(|name| fleet.freeze(name));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2}));
    fleet.run(10);
    let unit = Entity::WorkloadUnit(Fleet::unit_id("w"));
    assert!(fleet.model.workload_unit(&Fleet::unit_id("w")).is_some_and(|unit| unit.unplaced.is_some()));
    let state = |fleet: &Fleet, property: &str| fleet.reported(&unit, property).map(|report| report.state);
    assert_eq!((state(&fleet, "Unplaced"), state(&fleet, "BelowTarget")), (None, None));
    assert_eq!(fleet.status("w").warnings, Vec::<String>::new());
    fleet.put_node("n1", |facts| facts.is_frozen = false);
    fleet.run(10);
    assert_eq!(state(&fleet, "Unplaced"), Some(HealthState::Warning));
    assert_eq!(state(&fleet, "BelowTarget"), Some(HealthState::Warning));
    // Reports end when the last node is frozen, too.
    fleet.freeze("n1");
    fleet.run(10);
    assert_eq!(state(&fleet, "Unplaced"), Some(HealthState::Ok));
    assert_eq!(state(&fleet, "BelowTarget"), Some(HealthState::Ok));
}

/// A7, D2.
#[test]
fn different_compatibility_versions_are_reported_until_they_are_equal() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_node("n1", |facts| facts.compat_version = Some(12));
    fleet.put_policy("w", json!({"mode": "failover", "orchestrate": "ha"}));
    fleet.run(30);
    let unit = Entity::WorkloadUnit(Fleet::unit_id("w"));
    assert!(fleet.reported(&unit, "CompatVersion").is_none(), "one agent announces none");
    fleet.put_node("n2", |facts| facts.compat_version = Some(13));
    fleet.run(5);
    let report = fleet.reported(&unit, "CompatVersion").expect("it is reported");
    assert_eq!((report.source.as_str(), report.state), ("System.Orchestrator", HealthState::Warning));
    assert!(report.description.contains("12, 13"), "{}", report.description);
    fleet.put_node("n1", |facts| facts.compat_version = Some(13));
    fleet.run(5);
    assert_eq!(fleet.reported(&unit, "CompatVersion").map(|report| report.state), Some(HealthState::Ok));
}

/// D2: the source and the property of a recovery that failed, on a member of a group. It is no reason for the next recovery.
#[test]
fn failed_recovery_is_reported_by_system_health() {
    let mut fleet = Fleet::new(&["n1"]);
    let policy = json!({
        "detection": {"type": "NODE_STATUS_POLLING", "interval": 60, "node_update_timeout": 60},
        "recovery": {"actions": [{"name": "RECREATE"}]},
    });
    fleet.put_group("g", &["n1"], Some(policy));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1}));
    fleet.run(20);
    let member = Entity::Node(NodeId::new("o", "n1"));
    fleet.report_health(&member, "watchdog", "Error");
    fleet.run_until(300, |fleet| fleet.reported(&member, "Recovery").is_some());
    let report = fleet.reported(&member, "Recovery").expect("it is reported");
    assert_eq!((report.source.as_str(), report.state), ("System.Health", HealthState::Error));
    let found = fleet.model.error_to_recover(&member, fleet.now).map(|event| &*event.source);
    assert_eq!(found, Some("watchdog"));
    fleet.report_health(&member, "watchdog", "Ok");
    assert!(fleet.model.error_to_recover(&member, fleet.now).is_none());
}
