//! Limits and the end of recoveries by the health policies of HA groups: C6.

use evenkeel_ids::GroupId;
use evenkeel_planner_record::{
    health::{Entity, HealthState},
    report::Blocked,
};
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];

fn document(actions: &Value, more: &Value) -> Value {
    let mut recovery = json!({"actions": actions, "action_timeout": 120});
    recovery.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({
        "detection": {"type": "NODE_STATUS_POLLING", "interval": 60, "node_update_timeout": 60},
        "recovery": recovery,
    })
}

fn reboot_of_hosts() -> Value {
    json!([{"name": "REBOOT", "params": {"type": "HARD", "scope": "host"}}])
}

/// A group of three nodes with an instance on each.
fn fleet(document: &Value) -> Fleet {
    let mut fleet = Fleet::new(&MEMBERS);
    fleet.put_group("g", &MEMBERS, Some(document.clone()));
    fleet.put_policy("w", json!({"mode": "global"}));
    fleet.run(130);
    assert_eq!(fleet.running("w"), "n1 n2 n3");
    fleet
}

fn report(fleet: &mut Fleet, name: &str, state: &str) {
    fleet.report_health(&Entity::Node(node(name)), "watchdog", state);
}

fn open_recoveries(fleet: &Fleet) -> Vec<String> {
    let row = fleet.model.registration(&Entity::Group(GroupId::new("o", "g")));
    let open = row.into_iter().flat_map(|row| &row.recoveries).filter(|(_, one)| one.is_open());
    open.map(|(node, _)| node.name().to_owned()).collect()
}

#[test]
fn hosts_that_fail_at_once_are_not_rebooted_and_the_common_cause_is_named() {
    let mut fleet = fleet(&document(&reboot_of_hosts(), &json!({})));
    MEMBERS.iter().for_each(|name| report(&mut fleet, name, "Error"));
    fleet.run(300);
    assert_eq!((fleet.count("health.recover"), fleet.count("health.recover-action")), (0, 0));
    assert_eq!(fleet.count("health.common-cause"), 1, "it is reported once");
    let shown = |fleet: &Fleet| {
        let found = fleet.reported(&Entity::Group(GroupId::new("o", "g")), "Recovery");
        found.map(|report| report.state)
    };
    assert_eq!(shown(&fleet), Some(HealthState::Error));
    MEMBERS.iter().for_each(|name| report(&mut fleet, name, "Ok"));
    fleet.run(130);
    assert_eq!((fleet.count("health.recover"), fleet.running("w").as_str()), (0, "n1 n2 n3"));
    assert_ne!(shown(&fleet), Some(HealthState::Error), "what is over is shown no more");
}

#[test]
fn hosts_are_rebooted_one_at_a_time() {
    let mut fleet = fleet(&document(&reboot_of_hosts(), &json!({"maxUnhealthyRatio": 1})));
    MEMBERS.iter().for_each(|name| report(&mut fleet, name, "Error"));
    let mut rebooted = std::collections::BTreeSet::new();
    for _ in 0..900 {
        fleet.run(1);
        let open = open_recoveries(&fleet);
        assert!(open.len() <= 1, "{open:?}");
        rebooted.extend(open);
    }
    assert_eq!(rebooted.len(), 3, "each has its turn: {rebooted:?}");
    assert!(fleet.count("health.recover-action") >= 3);
}

/// A host takes the instances of all policies with it.
#[test]
fn host_with_the_last_running_instance_of_another_policy_is_not_rebooted() {
    let mut fleet = Fleet::new(&MEMBERS);
    fleet.stop_secs = 1;
    fleet.put_group("g", &MEMBERS, Some(document(&reboot_of_hosts(), &json!({}))));
    fleet.put_policy("w", json!({"mode": "global"}));
    for name in ["n2", "n3"] {
        fleet.crash("other", name, true);
    }
    fleet.put_policy("other", json!({"mode": "global", "restart": {"delaySeconds": 5}}));
    fleet.run(130);
    assert_eq!((fleet.running("w").as_str(), fleet.running("other").as_str()), ("n1 n2 n3", "n1"));
    report(&mut fleet, "n1", "Error");
    fleet.run(110);
    assert_eq!(open_recoveries(&fleet), ["n1"]);
    assert_eq!(fleet.count("health.recover-action"), 0);
    let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("the workload unit exists");
    let waits = |blocked: &Blocked| matches!(blocked, Blocked::HaMinimum { service, .. } if service.name() == "other");
    assert!(unit.blocked.iter().any(|(_, blocked)| waits(blocked)), "{:?}", unit.blocked);
}

/// A recovery that the policy of a group began by itself is over for good when the policy is detached or disabled.
#[test]
fn recovery_of_a_member_ends_with_the_policy_of_the_group() {
    let actions = json!([{"name": "REBOOT"}, {"name": "RECREATE"}]);
    let attached = document(&actions, &json!({}));
    let mut disabled = attached.clone();
    disabled["enabled"] = json!(false);
    for next in [None, Some(disabled)] {
        let mut fleet = fleet(&attached);
        let before: Vec<_> = fleet.tasks().into_iter().map(|task| task.id.clone()).collect();
        report(&mut fleet, "n2", "Error");
        fleet.run_until(70, |fleet| fleet.count("health.recover-action") == 1);
        fleet.run(5);
        fleet.put_group("g", &MEMBERS, next.clone());
        fleet.run(600);
        let after: Vec<_> = fleet.tasks().into_iter().map(|task| task.id.clone()).collect();
        assert_eq!(after, before, "nothing was created again: {next:?}");
        assert_eq!((fleet.count("health.action-failed"), fleet.count("health.recover-action")), (0, 1));
        assert!(fleet.has_event("health.canceled"));
        assert!(open_recoveries(&fleet).is_empty());
        assert!(fleet.tasks().iter().all(|task| task.health.recovery.is_none()));
        // Attached again it starts afresh.
        fleet.put_group("g", &MEMBERS, Some(attached.clone()));
        fleet.run_until(130, |fleet| fleet.count("health.recover-action") == 2);
    }
}
