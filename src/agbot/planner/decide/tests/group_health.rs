//! Health policies of HA groups: C1, C3, C6, C7, C10.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::health_policy::{ActionKind, RecoveryAction};
use evenkeel_health::{GroupFindings, group_reports, stale_upgrades};
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_model::{event::Event, model::partition_of_group, plan::UnitEvent};
use evenkeel_planner_record::{
    facts::{HaGroupFacts, NmpStatusFacts},
    health::{Entity, GroupAction, GroupCheck, HealthState},
    statistics::{EngineReport, NodeMachine},
    workload::{HubReport, PreparedAction, TaskHealth},
};
use evenkeel_reconcile::user_action::{checked_by, members_to_recover};
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

const INTERVAL: u64 = 60;

fn group() -> Entity {
    Entity::Group(GroupId::new("o", "g"))
}

fn health(actions: Value) -> Value {
    json!({
        "detection": {"type": "NODE_STATUS_POLLING", "interval": INTERVAL, "node_update_timeout": 60},
        "recovery": {"actions": actions},
    })
}

fn recreate() -> Value {
    health(json!([{"name": "RECREATE"}]))
}

/// A group of `n1` and `n2` beside `n3`, and an instance on each of the two nodes that come first.
fn fleet(document: Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_group("g", &["n1", "n2"], Some(document));
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 2, "placement": {"nodesOrder": ["n1", "n2", "n3"]}}),
    );
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n1 n2");
    fleet
}

fn about<'f>(fleet: &'f Fleet, kind: &str, node: &NodeId) -> Vec<&'f UnitEvent> {
    fleet.events.iter().filter(|event| event.kind == kind && event.node.as_ref() == Some(node)).collect()
}

/// Events of the group about a node, not of its instances.
fn of_group(fleet: &Fleet, kind: &str, name: &str) -> usize {
    about(fleet, kind, &node(name)).into_iter().filter(|event| event.slot.is_none()).count()
}

fn task_on(fleet: &Fleet, name: &str) -> evenkeel_ids::TaskId {
    let found = fleet.tasks().into_iter().find(|task| task.is_live() && task.node == Some(node(name)));
    found.expect("there is a task").id.clone()
}

/// C3-S1.
#[test]
fn member_that_is_down_is_recovered_in_the_next_round_and_the_others_are_untouched() {
    let mut fleet = fleet(recreate());
    let untouched = task_on(&fleet, "n1");
    fleet.silent.insert(node("n2"));
    fleet.run(170);
    assert_eq!(of_group(&fleet, "health.check-failed", "n2"), 0, "it is not down yet");
    fleet.run_until(15 + INTERVAL, |fleet| of_group(fleet, "health.recover", "n2") == 1);
    fleet.run_until(20, |fleet| fleet.running("w") == "n1 n3");
    assert_eq!(task_on(&fleet, "n1"), untouched);
    fleet.run_until(20, |fleet| of_group(fleet, "health.recovered", "n2") == 1);
    fleet.run(1200);
    assert_eq!(of_group(&fleet, "health.recover", "n2"), 1, "nothing is left to recover on it");
    assert_eq!(of_group(&fleet, "health.recover", "n1"), 0);
    fleet.silent.clear();
    fleet.run(2 * INTERVAL + 60);
    let row = fleet.model.registration(&group()).expect("it is registered");
    assert!(row.recoveries.is_empty(), "{row:?}");
}

/// C6: a node that reports an error loses its instances, and they are not placed on it again.
#[test]
fn instance_of_a_member_in_error_is_created_again_elsewhere() {
    let mut fleet = fleet(recreate());
    fleet.report_health(&Entity::Node(node("n2")), "watchdog", "Error");
    fleet.run_until(INTERVAL + 10, |fleet| fleet.running("w") == "n1 n3");
    assert_eq!(of_group(&fleet, "health.recover", "n2"), 1);
    let recovered = about(&fleet, "health.recovered", &node("n3"));
    let data = recovered.first().and_then(|event| event.data.as_ref());
    assert_eq!(data.map(|data| data["recreated"].clone()), Some(json!(true)));
    fleet.run_until(10, |fleet| of_group(fleet, "health.recovered", "n2") == 1);
}

/// C6: with nowhere else to go the instance is created again where it was; when that does not help, the member is in error.
#[test]
fn instance_that_can_run_nowhere_else_is_created_again_there_and_the_member_stays_in_error() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_group("g", &["n1"], Some(recreate()));
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1}));
    fleet.run(20);
    let first = task_on(&fleet, "n1");
    fleet.report_health(&Entity::Node(node("n1")), "watchdog", "Error");
    fleet.run_until(INTERVAL + 10, |fleet| fleet.running("w") == "n1" && task_on(fleet, "n1") != first);
    fleet.run_until(80, |fleet| of_group(fleet, "health.recovery-failed", "n1") == 1);
    fleet.run(5);
    let member = Entity::Node(node("n1"));
    let report = fleet.reported(&member, "Recovery").expect("it is reported");
    assert_eq!(report.state, HealthState::Error);
    let second = task_on(&fleet, "n1");
    fleet.run(50);
    assert_eq!(task_on(&fleet, "n1"), second, "the next attempt waits");
    fleet.run_until(2 * INTERVAL, |fleet| of_group(fleet, "health.recover", "n1") == 2);
    fleet.report_health(&member, "watchdog", "Ok");
    fleet.run_until(80, |fleet| of_group(fleet, "health.recovered", "n1") == 1);
    let row = fleet.model.registration(&group()).expect("it is registered");
    assert!(row.recoveries.values().all(|one| one.failures == 0), "the row of failures is over: {row:?}");
    fleet.run(3 * INTERVAL);
    assert_eq!(fleet.reported(&member, "Recovery").map(|report| report.state), Some(HealthState::Ok));
    assert_eq!(of_group(&fleet, "health.recover", "n1"), 2);
}

/// C1, C6: an instance that ends after an action for its node does not wait for the end of the action's time.
#[test]
fn instance_that_ends_during_the_recovery_of_its_node_is_recreated_at_once() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_group("g", &["n1"], Some(health(json!([{"name": "REBOOT"}, {"name": "RECREATE"}]))));
    let events = json!({"detection": {"type": "LIFECYCLE_EVENTS"}});
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 1, "placement": {"nodesOrder": ["n1", "n2"]}, "healthPolicy": events}),
    );
    fleet.run(80);
    let task = task_on(&fleet, "n1");
    fleet.report_health(&Entity::Node(node("n1")), "watchdog", "Error");
    fleet.run_until(INTERVAL + 10, |fleet| of_group(fleet, "health.recover", "n1") == 1);
    fleet.run(5);
    assert_eq!(task_on(&fleet, "n1"), task, "the reboot keeps the task");
    fleet.powered_off.insert(task.clone());
    let passed = fleet.run_until(300, |fleet| fleet.running("w") == "n2");
    assert!(passed <= 10, "{passed} s");
    let failed: Vec<&str> = fleet
        .events
        .iter()
        .filter(|event| event.kind == "health.action-failed")
        .map(|event| event.text.as_str())
        .collect();
    assert_eq!(failed, ["REBOOT failed: the instance ended"]);
}

/// C1-S2.
#[test]
fn recovery_of_the_group_comes_before_that_of_the_workload() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_group("g", &["n1", "n2"], Some(recreate()));
    let probe = json!({"poll_url": "http://{nodename}/", "poll_url_healthy_response": "ok"});
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 1, "placement": {"nodesOrder": ["n1", "n2", "n3"]},
            "healthPolicy": {"detection": {"type": "NODE_STATUS_POLL_URL", "options": probe, "node_update_timeout": 5}}}),
    );
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n1");
    fleet.report_health(&Entity::Node(node("n1")), "watchdog", "Error");
    fleet.unhealthy.insert((node("n1"), policy("w")));
    fleet.run_until(INTERVAL + 10, |fleet| of_group(fleet, "health.recover", "n1") == 1);
    fleet.run_until(20, |fleet| fleet.running("w") == "n2");
    let begun = about(&fleet, "health.recover", &node("n1"));
    assert!(begun.iter().all(|event| event.slot.is_none()), "the workload's never began: {begun:?}");
    let at_once = |health: &TaskHealth| health.recovery.is_some();
    assert!(fleet.tasks().iter().filter(|task| at_once(&task.health)).count() <= 1);
}

/// C1: a group waits for the recovery of an instance that is in progress on its member.
#[test]
fn recovery_of_a_workload_that_is_in_progress_ends_before_that_of_the_group() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_group("g", &["n1", "n2"], Some(recreate()));
    let probe = json!({"poll_url": "http://{nodename}/", "poll_url_healthy_response": "ok"});
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 1, "placement": {"nodesOrder": ["n1", "n2"]},
            "healthPolicy": {
                "detection": {"type": "NODE_STATUS_POLL_URL", "options": probe, "node_update_timeout": 5},
                "recovery": {"actions": [{"name": "REBOOT"}], "action_timeout": 200}}}),
    );
    fleet.run(20);
    fleet.unhealthy.insert((node("n1"), policy("w")));
    fleet.run(5);
    assert_eq!(about(&fleet, "health.recover", &node("n1")).len(), 1);
    fleet.report_health(&Entity::Node(node("n1")), "watchdog", "Error");
    fleet.run(150);
    assert_eq!(of_group(&fleet, "health.recover", "n1"), 0);
    fleet.run_until(150, |fleet| of_group(fleet, "health.recover", "n1") == 1);
    fleet.run_until(30, |fleet| fleet.running("w") == "n2");
}

/// C10-S1.
#[test]
fn removal_of_a_member_suspends_the_checks_until_its_instance_has_stopped() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_group("g", &["n1", "n2"], Some(recreate()));
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 2, "scope": {"type": "hagroups", "haGroups": ["g"]}}),
    );
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n1 n2");
    fleet.stop_secs = 90;
    fleet.run(2);
    fleet.put_group("g", &["n1"], Some(recreate()));
    fleet.report_health(&Entity::Node(node("n2")), "watchdog", "Error");
    fleet.run(10);
    let suspended_by =
        |fleet: &Fleet| fleet.model.registration(&group()).and_then(|row| row.suspended_by.clone());
    assert_eq!(suspended_by(&fleet).as_deref(), Some("delete-nodes"));
    assert!(fleet.has_event("health.disabled"));
    let checked = fleet.model.health_counts().healthy;
    fleet.run(70);
    assert_eq!(fleet.model.health_counts().healthy, checked, "nothing is checked meanwhile");
    fleet.run_until(30, |fleet| suspended_by(fleet).is_none());
    assert!(fleet.has_event("health.enabled"));
    fleet.run_until(INTERVAL, |fleet| fleet.model.health_counts().healthy > checked);
    assert_eq!(of_group(&fleet, "health.recover", "n2"), 0);
}

/// C10: what a user does to the members of a group has a name, and is over when nothing stops for it.
#[test]
fn exchange_and_deletion_of_members_suspend_the_checks_under_their_names() {
    let mut fleet = fleet(recreate());
    fleet.put_group("g", &["n1", "n3"], Some(recreate()));
    fleet.run(10);
    fleet.handle(&Event::NodeRemoved { node: node("n3") });
    fleet.put_group("g", &["n1"], Some(recreate()));
    fleet.run(10);
    let named = |kind: &str| {
        let events = fleet.events.iter().filter(|event| event.kind == kind);
        let data = events.filter_map(|event| event.data.as_ref());
        data.map(|data| data["operation"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(named("health.disabled"), ["replace-nodes", "node-delete"]);
    assert_eq!(named("health.enabled"), named("health.disabled"));
}

/// C7: members that are down, or with a check those that have failed; the end of the action is an event.
#[test]
fn user_recovers_members_with_an_operation_of_the_users_choice() {
    let mut fleet = fleet(health(json!([{"name": "REBOOT"}])));
    let chosen = |fleet: &Fleet, examines| {
        members_to_recover(&fleet.model, &GroupId::new("o", "g"), None, examines, fleet.now)
    };
    assert_eq!(chosen(&fleet, true), Ok(Vec::new()));
    fleet.run(70);
    fleet.report_health(&Entity::Node(node("n2")), "watchdog", "Error");
    assert_eq!(chosen(&fleet, false), Ok(Vec::new()), "its agent is alive");
    let members = chosen(&fleet, true).expect("the group has a policy");
    assert_eq!(members, [node("n2")]);
    let action =
        GroupAction { id: "7".into(), actor: "o/ann".into(), accepted_at: fleet.now, members, check: None };
    let recreate = PreparedAction::from(&RecoveryAction::new(ActionKind::Recreate));
    let known = fleet.model.registration(&group()).expect("it is registered").clone();
    let policy = fleet.model.health_policy_of(&group()).expect("it has one").clone();
    let row = known.ordered(&action, Some(&recreate), &policy).expect("no other action");
    assert!(row.ordered(&action, None, &policy).is_err(), "one at a time");
    let registration = Some(Box::new(row));
    fleet.handle(&Event::RegistrationRecorded { target: group(), registration });
    fleet.run_until(30, |fleet| fleet.running("w") == "n1 n3");
    fleet.run_until(10, |fleet| fleet.has_event("orchestration.ended"));
    let ended = fleet.events.iter().find(|event| event.kind == "orchestration.ended").expect("it is over");
    let data = ended.data.clone().expect("it says what it was");
    assert_eq!((&data["state"], &data["members"]), (&json!("done"), &json!(["o/n2"])));
    fleet.run(5);
    assert!(fleet.has_event("health.disabled") && fleet.has_event("health.enabled"));
}

/// C8: a group that fences gives the instances on its members a lease.
#[test]
fn group_that_fences_gives_instances_of_its_members_a_lease() {
    let mut document = recreate();
    document["recovery"]["fencing"] = json!(["COMPUTE"]);
    let fleet = fleet(document);
    let leases: Vec<_> = fleet
        .tasks()
        .into_iter()
        .filter(|task| task.is_live())
        .map(|task| task.health.supervision.lease_secs)
        .collect();
    assert_eq!(leases, [Some(170), Some(170)]);
}

fn examined_by(detection: Value) -> Value {
    let mut document = recreate();
    let detection = detection.as_object().expect("an object").clone();
    document["detection"].as_object_mut().expect("an object").extend(detection);
    document
}

/// Stops or starts the engine of a node.
fn set_engine(fleet: &mut Fleet, name: &str, is_usable: bool) {
    let engine = Some(EngineReport { is_usable, at: fleet.now });
    let of = [(node(name), NodeMachine { engine, address: None })].into();
    fleet.handle(&Event::MachinesSeen { of });
}

/// C3: the container engine of a member, once in each round.
#[test]
fn member_whose_engine_is_down_is_recovered_in_the_next_round() {
    let mut fleet = fleet(examined_by(json!({"type": "HYPERVISOR_STATUS_POLLING"})));
    set_engine(&mut fleet, "n1", true);
    set_engine(&mut fleet, "n2", false);
    fleet.run_until(INTERVAL + 10, |fleet| fleet.running("w") == "n1 n3");
    assert_eq!((of_group(&fleet, "health.recover", "n2"), of_group(&fleet, "health.recover", "n1")), (1, 0));
}

/// C5: what the agent of a member reports by itself does not wait for a round.
#[test]
fn member_that_reports_that_its_engine_is_down_is_recovered_at_once() {
    let document = json!({"detection": {"type": "LIFECYCLE_EVENTS", "node_update_timeout": 60}});
    let mut fleet = fleet(document);
    fleet.run(INTERVAL + 10);
    for _ in 0..3 {
        set_engine(&mut fleet, "n2", false);
    }
    fleet.run_until(5, |fleet| of_group(fleet, "health.recover", "n2") == 1);
    fleet.run_until(10, |fleet| fleet.running("w") == "n1 n3");
    let failed = about(&fleet, "health.check-failed", &node("n2"));
    assert!(failed[0].text.starts_with("LIFECYCLE_EVENTS: the container engine"), "{failed:?}");
}

/// C3, C4.2: the peers of a member connect to its instances, or poll its URL.
#[test]
fn member_that_its_peer_does_not_reach_is_recovered() {
    let options = json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok"});
    for detection in
        [json!({"type": "LB_STATUS_POLLING"}), json!({"type": "NODE_STATUS_POLL_URL", "options": options})]
    {
        let mut fleet = fleet(examined_by(detection.clone()));
        fleet.put_policy("other", json!({"mode": "replicated", "replicas": 3}));
        fleet.run(2 * INTERVAL);
        assert_eq!(of_group(&fleet, "health.recover", "n2"), 0, "{detection}");
        let is_apart = |name: &str| {
            let of_node = fleet.tasks().into_iter().filter(|task| task.node == Some(node(name)));
            of_node.filter(|task| task.is_live()).all(|task| task.health.supervision.peers.is_none())
        };
        assert!(is_apart("n3") && !is_apart("n1"), "only members examine each other");
        fleet.unreached.insert(node("n2"));
        fleet.run_until(INTERVAL + 10, |fleet| of_group(fleet, "health.recover", "n2") == 1);
        fleet.run_until(20, |fleet| fleet.running("w") == "n1 n3");
    }
}

/// C4.2: the hub polls the URL of a member itself.
#[test]
fn member_whose_url_does_not_respond_to_the_hub_is_recovered() {
    let options =
        json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok", "executor": "hub"});
    let mut fleet = fleet(examined_by(json!({"type": "NODE_STATUS_POLL_URL", "options": options})));
    fleet.run(2 * INTERVAL);
    let polled: Vec<_> = fleet.model.hub_tasks().map(|task| (task.node.clone(), task.id.clone())).collect();
    assert_eq!(polled.iter().map(|(node, _)| node.name()).collect::<Vec<_>>(), ["n1", "n2"]);
    let (_, task) = polled[1].clone();
    let message = Some("responds with \"starting\"".to_owned());
    let report = HubReport::Checked { healthy: false, message };
    fleet.handle(&Event::HubReported { task, report });
    fleet.run_until(INTERVAL + 10, |fleet| fleet.running("w") == "n1 n3");
    let failed = about(&fleet, "health.check-failed", &node("n2"));
    assert!(failed[0].text.contains("responds with \"starting\""), "{failed:?}");
}

/// C4.2, C9: with several agbots the one that decides about the group checks its members, whichever agbots
/// hold their workload units.
#[test]
fn owner_of_the_group_polls_the_members_of_other_agbots() {
    let options =
        json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok", "executor": "hub"});
    let mut fleet = fleet(examined_by(json!({"type": "NODE_STATUS_POLL_URL", "options": options})));
    fleet.put_policy("w2", json!({"mode": "replicated", "placement": {"nodesOrder": ["n1"]}}));
    fleet.run(2 * INTERVAL);
    let of_other = |fleet: &Fleet| -> Option<evenkeel_ids::TaskId> {
        let mut polled = fleet.model.hub_tasks().map(|task| task.id);
        polled
            .find(|id| fleet.model.task(id).is_some_and(|task| task.unit_id.policy == policy("w2")))
            .cloned()
    };
    let task = of_other(&fleet).expect("the hub polls it");
    let model = &fleet.model;
    let of_unit = model.partition_of_unit(&model.task(&task).expect("a task").unit_id);
    let owned = partition_of_group(&GroupId::new("o", "g"), model.settings().partition_count);
    assert_ne!(of_unit, owned, "the test needs two partitions");
    fleet.handle(&Event::PartitionsChanged { leases: [(owned, 1)].into() });
    assert_eq!(of_other(&fleet).as_ref(), Some(&task));
    let report =
        HubReport::Checked { healthy: false, message: Some("responds with \"starting\"".to_owned()) };
    let reported = Event::HubReported { task: task.clone(), report };
    fleet.handle(&reported);
    fleet.run_until(INTERVAL + 10, |fleet| of_group(fleet, "health.recover", "n1") == 1);
    fleet.handle(&Event::PartitionsChanged { leases: [((owned + 1) % 16, 1)].into() });
    assert_eq!(of_other(&fleet), None);

    // A user may have it checked here nevertheless. What that found does not count when the task is looked after here again.
    let found = |fleet: &Fleet| {
        let mut polled = fleet.model.polled_tasks();
        polled.find(|polled| *polled.id == task).expect("it is polled by another agbot").is_healthy
    };
    assert_eq!(found(&fleet), None);
    fleet.handle(&reported);
    assert_eq!(found(&fleet), Some(false));
    fleet.handle(&Event::PartitionsChanged { leases: [(owned, 1)].into() });
    assert_eq!(found(&fleet), None);
}

/// A user orders a recovery that begins with a check.
fn order_check(fleet: &mut Fleet, check: GroupCheck) {
    let action = GroupAction {
        id: "7".into(),
        actor: "o/ann".into(),
        accepted_at: fleet.now,
        members: Vec::new(),
        check: Some(check),
    };
    let known = fleet.model.registration(&group()).expect("it is registered").clone();
    let policy = fleet.model.health_policy_of(&group()).expect("it has one").clone();
    let row = known.ordered(&action, None, &policy).expect("no other action");
    fleet.handle(&Event::RegistrationRecorded { target: group(), registration: Some(Box::new(row)) });
}

/// C7: the reports of peers are older than the order; only what they find after it decides.
#[test]
fn check_that_a_user_orders_waits_for_what_the_peers_find() {
    let mut fleet = fleet(examined_by(json!({"type": "LB_STATUS_POLLING"})));
    fleet.put_policy("other", json!({"mode": "replicated", "replicas": 3}));
    fleet.run(2 * INTERVAL);
    let until = checked_by(&fleet.model, &GroupId::new("o", "g"), fleet.now).expect("peers examine them");
    order_check(&mut fleet, GroupCheck { node: None, operation: None, until });
    fleet.unreached.insert(node("n2"));
    fleet.run(10);
    assert!(!fleet.has_event("orchestration.ended"), "the peers have not examined anything since");
    fleet.run_until(2 * INTERVAL + 60, |fleet| fleet.has_event("orchestration.ended"));
    let ended = fleet.events.iter().find(|event| event.kind == "orchestration.ended").expect("it is over");
    assert_eq!(ended.data.clone().expect("it says what it was")["members"], json!(["o/n2"]));
    assert_eq!(fleet.running("w"), "n1 n3");
}

/// C7: an agbot that does not decide about the group leaves the check to the one that does.
#[test]
fn check_of_the_hub_is_made_by_the_agbot_that_decides_about_the_group() {
    let options =
        json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok", "executor": "hub"});
    let mut fleet = fleet(examined_by(json!({"type": "NODE_STATUS_POLL_URL", "options": options})));
    fleet.run(2 * INTERVAL);
    let id = GroupId::new("o", "g");
    assert_eq!(checked_by(&fleet.model, &id, fleet.now), None, "it polls them itself");
    let owned = partition_of_group(&id, fleet.model.settings().partition_count);
    fleet.handle(&Event::PartitionsChanged { leases: [((owned + 1) % 16, 1)].into() });
    let until = checked_by(&fleet.model, &id, fleet.now).expect("the other one needs time");
    order_check(&mut fleet, GroupCheck { node: Some(node("n2")), operation: None, until });
    assert_eq!(fleet.model.ordered_group_checks().count(), 0);
    fleet.take_over();
    assert_eq!(fleet.model.ordered_group_checks().collect::<Vec<_>>(), [("7", &id)]);
    fleet.run_until(120, |fleet| fleet.has_event("orchestration.ended"));
    assert_eq!(fleet.model.ordered_group_checks().count(), 0);
}

/// E6-S4: a member that goes down during the upgrade of its agent is reported until it is back.
#[test]
fn member_that_goes_down_during_its_upgrade_is_reported() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let group = GroupId::new("o", "g");
    let facts = HaGroupFacts {
        lock_stale_secs: Some(60),
        ..HaGroupFacts::new(group.clone(), [node("n1"), node("n2")])
    };
    fleet.handle(&Event::HaGroupChanged { group: Box::new(facts) });
    let (nmp, status) = (NmpId::new("o", "m"), Some("initiated".to_owned()));
    let status = NmpStatusFacts { nmp, node: node("n1"), status };
    fleet.handle(&Event::NmpStatusChanged { status: Box::new(status) });
    fleet.silent.insert(node("n1"));
    fleet.run(30);
    assert!(stale_upgrades(&fleet.model, fleet.now).is_empty(), "it may come back");
    fleet.run(300);
    let stale = stale_upgrades(&fleet.model, fleet.now).remove(&group).expect("it did not");
    assert_eq!(stale, BTreeSet::from([node("n1")]));
    let findings = GroupFindings { blocked: None, stale };
    let (_, reports) = group_reports(&fleet.model, &group, &findings, fleet.now).expect("that is news");
    assert_eq!((&*reports[0].source, &*reports[0].property), ("System.HAGroup", "AgentUpgradeStale"));
    fleet.silent.clear();
    fleet.run(10);
    assert!(stale_upgrades(&fleet.model, fleet.now).is_empty(), "it is back");
}
