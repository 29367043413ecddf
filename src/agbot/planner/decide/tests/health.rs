//! Reports of the engine about workloads, and effects of reports on updates: D1, D2, D10, D11.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_planner_record::{
    facts::Availability,
    goal::Avail,
    health::{Entity, HealthState, StoredReport},
    workload::{Cause, Requester, RolloutAction, UpdateState, WorkloadAction},
};
use evenkeel_reconcile::user_action::RequestedRecovery;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

fn workload() -> Entity {
    Entity::Workload(policy("w"))
}

fn part() -> Entity {
    Entity::WorkloadUnit(Fleet::unit_id("w"))
}

fn instance(name: &str) -> Entity {
    Entity::Instance(policy("w"), node(name))
}

/// Returns the state of a report that holds, by the rules of the organization.
fn state(fleet: &Fleet, entity: &Entity) -> HealthState {
    fleet.model.health_of(entity, fleet.now)
}

fn reported(fleet: &Fleet, entity: &Entity, property: &str) -> Option<HealthState> {
    fleet.reported(entity, property).map(|report| report.state)
}

fn text<'f>(fleet: &'f Fleet, entity: &Entity, property: &str) -> &'f str {
    fleet.reported(entity, property).map_or("", |report: &StoredReport| &report.description)
}

/// D2-S1: reported as soon as it is so, and gone after the cure.
#[test]
fn violated_constraint_is_reported_while_it_lasts() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let document = |expression: &str| {
        json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
            "placement": {"nodesOrder": ["n1"], "expression": expression, "onViolation": "report"}})
    };
    fleet.put_policy("w", document(""));
    fleet.run(10);
    assert_eq!((fleet.running("w").as_str(), state(&fleet, &workload())), ("n1", HealthState::Ok));
    fleet.put_policy("w", document("{nodename} == n2"));
    fleet.run(3);
    let property = "InstanceConstraintViolation_PlacementConstraint";
    for entity in [part(), instance("n1")] {
        assert_eq!(reported(&fleet, &entity, property), Some(HealthState::Warning), "{entity}");
        let text = text(&fleet, &entity, property);
        assert!(text.contains("instance o/w@n1 violates PlacementConstraint"), "{text}");
        assert!(text.contains("node n1, currentlyUpgrading false"), "{text}");
    }
    assert_eq!(state(&fleet, &workload()), HealthState::Warning);
    assert_eq!(fleet.status("w").overall(), Avail::Warn);
    let written = fleet.reported(&part(), property).map(|report| report.sequence);
    fleet.run(120);
    assert_eq!(fleet.reported(&part(), property).map(|report| report.sequence), written, "stored once");
    assert_eq!(state(&fleet, &part()), HealthState::Warning);
    fleet.put_policy("w", document(""));
    fleet.run(3);
    for entity in [part(), instance("n1")] {
        assert_eq!(reported(&fleet, &entity, property), Some(HealthState::Ok), "{entity}");
    }
    assert_eq!(state(&fleet, &workload()), HealthState::Ok);
    let cured = fleet.reported(&part(), property).expect("the cure is reported").clone();
    assert!(cured.is_gone(fleet.now + SignedDuration::from_secs(65)) && !cured.is_gone(fleet.now));
}

/// C6: an instance that no action helped is in error until it has recovered, whatever is tried meanwhile.
#[test]
fn instance_stays_in_error_while_its_recovery_is_tried_again() {
    let mut fleet = Fleet::new(&["n1"]);
    let probe = json!({"poll_url": "http://{nodename}/", "poll_url_healthy_response": "ok"});
    let detection =
        json!({"type": "NODE_STATUS_POLL_URL", "options": probe, "node_update_timeout": 5, "interval": 10});
    let health = json!({"detection": detection, "recovery": {"action_timeout": 20}});
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1, "healthPolicy": health}));
    fleet.unhealthy.insert((node("n1"), policy("w")));
    let count = |fleet: &Fleet, kind: &str| fleet.events.iter().filter(|event| event.kind == kind).count();
    fleet.run_until(400, |fleet| count(fleet, "health.recovery-failed") == 1);
    fleet.run(2);
    assert_eq!(reported(&fleet, &instance("n1"), "Recovery"), Some(HealthState::Error));
    fleet.run_until(200, |fleet| count(fleet, "health.recover") == 2);
    for _ in 0..20 {
        assert_eq!(reported(&fleet, &instance("n1"), "Recovery"), Some(HealthState::Error));
        fleet.run(1);
    }
}

/// D2: reports about an instance end when the instance has left its node.
#[test]
fn report_ends_on_the_node_that_the_instance_left() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let document = |expression: &str, on_violation: &str| {
        json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
            "placement": {"nodesOrder": ["n1"], "expression": expression, "onViolation": on_violation}})
    };
    fleet.put_policy("w", document("", "report"));
    fleet.run(10);
    fleet.put_policy("w", document("{nodename} == n2", "report"));
    fleet.run(3);
    let property = "InstanceConstraintViolation_PlacementConstraint";
    assert_eq!(reported(&fleet, &instance("n1"), property), Some(HealthState::Warning));
    fleet.put_policy("w", document("{nodename} == n2", "move"));
    fleet.run_until(30, |fleet| fleet.running("w") == "n2");
    fleet.run(5);
    assert_eq!(reported(&fleet, &instance("n1"), property), Some(HealthState::Ok));
    assert_eq!((state(&fleet, &workload()), fleet.status("w").overall()), (HealthState::Ok, Avail::Up));
}

/// D2-S3.
#[test]
fn report_of_an_agbot_that_died_disappears() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2}));
    fleet.run(10);
    assert_eq!(state(&fleet, &part()), HealthState::Warning);
    fleet.is_alive = false;
    let died_at = fleet.now;
    let after = |secs| died_at + SignedDuration::from_secs(secs);
    assert_eq!(fleet.model.health_of(&part(), after(64)), HealthState::Warning);
    assert_eq!(fleet.model.health_of(&part(), after(65)), HealthState::Ok);
}

#[test]
fn what_cannot_be_placed_is_a_warning_and_an_error_after_a_minute() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_policy(
        "w",
        json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 2, "max": 3, "target": 2},
        "timers": {"readyPeriodSeconds": 0}}),
    );
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    assert_eq!(reported(&fleet, &part(), "BelowTarget"), Some(HealthState::Warning));
    assert_eq!(text(&fleet, &part(), "BelowTarget"), "1 of 2 wanted instances run");
    assert_eq!(reported(&fleet, &part(), "Unplaced"), Some(HealthState::Warning));
    let found = text(&fleet, &part(), "Unplaced");
    assert!(found.contains("placed") && found.contains(": n1 ("), "which nodes, and why: {found}");
    fleet.run(65);
    assert_eq!(reported(&fleet, &part(), "Unplaced"), Some(HealthState::Error));
    assert_eq!(state(&fleet, &workload()), HealthState::Error);
    fleet.put_node("n2", |_| {});
    let facts = evenkeel_planner_record::facts::NodePolicyFacts {
        policy: evenkeel_domain::policy::ExternalPolicy::default(),
        ..evenkeel_planner_record::facts::NodePolicyFacts::default()
    };
    let changed = evenkeel_planner_model::event::Event::NodePolicyChanged {
        node: node("n2"),
        policy: Some(Box::new(facts)),
    };
    fleet.handle(&changed);
    fleet.run_until(30, |fleet| fleet.running("w") == "n1 n2");
    fleet.run(3);
    for property in ["BelowTarget", "Unplaced"] {
        assert_eq!(reported(&fleet, &part(), property), Some(HealthState::Ok), "{property}");
    }
}

#[test]
fn unit_of_a_group_that_does_not_exist_is_reported_as_empty() {
    let mut fleet = Fleet::new(&["n1"]);
    let scope = json!({"type": "hagroups", "haGroups": ["none"]});
    fleet.put_policy("w", json!({"mode": "replicated", "scope": scope}));
    fleet.run(3);
    let group = evenkeel_ids::GroupId::new("o", "none");
    let unit_id = evenkeel_planner_record::workload::UnitId {
        policy: policy("w"),
        part: evenkeel_planner_record::workload::Part::Group(group),
    };
    let entity = Entity::WorkloadUnit(unit_id);
    assert_eq!(reported(&fleet, &entity, "EmptyUnit"), Some(HealthState::Warning));
    fleet.remove_policy("w");
    fleet.run(3);
    assert!(fleet.reported(&entity, "EmptyUnit").is_none(), "what is gone has no events");
    assert_eq!(fleet.model.health().len(), 0);
}

/// D1: what was reported about an instance ends with its node, also where no task is planned again.
#[test]
fn reports_about_instances_of_a_deleted_node_are_dropped() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let without_tasks = evenkeel_planner_record::fixture::deployment_policy();
    assert_eq!(without_tasks.id, policy("p"));
    fleet.handle(&evenkeel_planner_model::event::Event::DeploymentPolicyChanged {
        policy: Box::new(without_tasks),
    });
    fleet.run(2);
    let [kept, dropped] = ["n1", "n2"].map(|name| Entity::Instance(policy("p"), node(name)));
    for entity in [&kept, &dropped] {
        fleet.report_health(entity, "dog", "Error");
        assert_eq!(reported(&fleet, entity, "p"), Some(HealthState::Error));
    }
    fleet.run(5);
    fleet.handle(&evenkeel_planner_model::event::Event::NodeRemoved { node: node("n2") });
    fleet.run(5);
    assert_eq!(reported(&fleet, &dropped, "p"), None);
    assert_eq!(reported(&fleet, &kept, "p"), Some(HealthState::Error), "its node is there");
}

/// A9.1, E3: what is reported to be in error runs, and does not count.
#[test]
fn instance_that_is_reported_to_be_in_error_is_a_warning() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2}));
    fleet.run(10);
    assert_eq!(fleet.status("w").avail, Avail::Up);
    fleet.report_health(&instance("n2"), "dog", "Error");
    let status = fleet.status("w");
    let avails: Vec<Avail> = status.parts[0].instances.iter().map(|one| one.avail).collect();
    assert_eq!((status.avail, avails), (Avail::Warn, vec![Avail::Up, Avail::Warn]));
    fleet.report_health(&instance("n2"), "dog", "Ok");
    assert_eq!(fleet.status("w").overall(), Avail::Up);
    // A warning leaves the availability as it is, and shows in the whole.
    fleet.report_health(&part(), "dog", "Warning");
    let status = fleet.status("w");
    assert_eq!((status.avail, status.overall()), (Avail::Up, Avail::Warn));
}

fn rolling(action: &str) -> Value {
    json!({"mode": "replicated", "replicas": 3,
        "update": {"monitorSeconds": 5, "delaySeconds": 3, "failureAction": action}})
}

fn update_state(fleet: &Fleet) -> UpdateState {
    fleet.status("w").update.state
}

/// An update of three instances, of which the first runs the new version.
fn rolling_fleet(action: &str) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy("w", rolling(action));
    fleet.run(10);
    fleet.report_health(&instance("n3"), "old", "Error");
    fleet.run(1);
    fleet.put_version("w", "2.0.0", rolling(action));
    fleet.run_until(30, |fleet| fleet.has_event("update.slot"));
    fleet
}

/// D1-S7 and the end of D1: once per instance. D10-S3: an error from before the update is ignored.
#[test]
fn error_reported_during_an_update_is_a_failure_and_pauses_it() {
    let mut fleet = rolling_fleet("pause");
    assert_eq!(update_state(&fleet), UpdateState::Updating, "an error from before is no failure");
    fleet.report_health(&instance("n1"), "dog", "Error");
    fleet.report_health(&instance("n1"), "cat", "Error");
    fleet.run(1);
    let update = fleet.status("w").update;
    assert_eq!((update.state, update.failed()), (UpdateState::Paused, 1));
    assert!(update.message.contains("reports p of o/w@n1 as Error"), "{}", update.message);
    assert!(fleet.has_event("update.paused"));
    // Reports from before a user resumes the update do not count again.
    let record = fleet.model.workload(&policy("w")).expect("the workload").clone();
    let requester = Requester { actor: "o/ann", now: fleet.now };
    let resume = WorkloadAction::Update(RolloutAction::Resume);
    let next =
        record.act(resume, fleet.model.instance_summary(&policy("w")), requester).expect("it is paused");
    fleet.handle(&evenkeel_planner_model::event::Event::WorkloadRecorded { workload: Box::new(next) });
    fleet.run_until(90, |fleet| update_state(fleet) == UpdateState::Completed);
}

#[test]
fn error_reported_during_an_update_rolls_it_back() {
    let mut fleet = rolling_fleet("rollback");
    fleet.report_health(&workload(), "dog", "Error");
    fleet.run(1);
    assert!(fleet.has_event("update.rollback-started"));
    fleet.run_until(90, |fleet| update_state(fleet) == UpdateState::RollbackCompleted);
}

/// The rules of the organization decide whether the workload is in error.
#[test]
fn error_that_the_organization_tolerates_fails_no_update() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let rules = json!({"healthEvaluation": {"maxPercentUnhealthyInstances": 40}});
    let settings = Box::new(OrgSettings::read(rules).expect("valid"));
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet.put_policy("w", rolling("pause"));
    fleet.run(10);
    fleet.put_version("w", "2.0.0", rolling("pause"));
    fleet.run_until(30, |fleet| fleet.has_event("update.slot"));
    fleet.report_health(&instance("n1"), "dog", "Error");
    fleet.run(2);
    assert_eq!(update_state(&fleet), UpdateState::Updating);
    assert_eq!(fleet.status("w").update.failed(), 0);
}

/// D11, D11-S3: a blocked update is a warning, an error after the time of the organization, and continues
/// when the reason ends.
#[test]
fn blocked_update_is_reported_and_becomes_an_error() {
    let mut fleet = Fleet::new(&["n1"]);
    let document = json!({"mode": "replicated", "replicas": 1, "update": {"monitorSeconds": 0}});
    fleet.put_policy("w", document.clone());
    fleet.run(10);
    let settings = json!({"upgradeBlockedErrorAfterSeconds": 30});
    let settings = Box::new(OrgSettings::read(settings).expect("valid"));
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet.freeze("n1");
    fleet.put_version("w", "2.0.0", document);
    fleet.run(8);
    assert_eq!(reported(&fleet, &workload(), "UpgradeBlocked"), None, "not before ten seconds");
    fleet.run(6);
    assert_eq!(reported(&fleet, &workload(), "UpgradeBlocked"), Some(HealthState::Warning));
    assert!(text(&fleet, &workload(), "UpgradeBlocked").contains("Frozen"));
    assert!(fleet.has_event("update.blocked"));
    fleet.run(30);
    assert_eq!(reported(&fleet, &workload(), "UpgradeBlocked"), Some(HealthState::Error));
    let record = fleet.model.workload(&policy("w")).expect("the workload").clone();
    let requester = Requester { actor: "o/ann", now: fleet.now };
    let summary = fleet.model.instance_summary(&policy("w"));
    let refused = record.act(WorkloadAction::Update(RolloutAction::Resume), summary, requester);
    assert!(refused.is_err(), "resume has no effect");
    let forced = record.act(WorkloadAction::ForceUpdate, summary, requester).expect("force has");
    assert!(forced.update.is_forced && forced.update.is_rolling());
    assert_eq!(update_state(&fleet), UpdateState::Updating, "its own report is no failure of the update");
    fleet.put_node("n1", |facts| (facts.is_frozen, facts.availability) = (false, Availability::Active));
    fleet.run_until(60, |fleet| update_state(fleet) == UpdateState::Completed);
    fleet.run(3);
    assert!(fleet.has_event("update.unblocked"));
    assert_eq!(reported(&fleet, &workload(), "UpgradeBlocked"), Some(HealthState::Ok));
}

/// C7-S4: instances that nothing creates by itself are created when the user wants the count to be right.
#[test]
fn missing_slot_is_created_when_the_capacity_is_checked() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let document = json!({"mode": "flex", "orchestrate": "no", "flex": {"min": 1, "max": 3, "target": 3}});
    fleet.put_policy("w", document);
    for name in ["n1", "n2"] {
        fleet.start_on("w", name);
        fleet.run(10);
    }
    assert_eq!(fleet.running("w"), "n1 n2");
    let checked = RequestedRecovery { examines: true, ..RequestedRecovery::default() };
    fleet.recover("w", &checked);
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1 n2", "nothing has failed");
    fleet.recover("w", &RequestedRecovery { fills_up: true, ..checked });
    fleet.run_until(30, |fleet| fleet.running("w") == "n1 n2 n3");
    fleet.run(5);
    assert!(fleet.model.workload(&policy("w")).is_some_and(|record| record.action.is_none()), "it is over");
}

/// C7: a check that a user orders is made now, and only what it finds unhealthy is recovered.
#[test]
fn recovery_with_a_check_asks_the_nodes_and_recovers_what_fails_now() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let options = json!({"poll_url": "http://{nodename}/", "poll_url_healthy_response": "ok"});
    let health = json!({"detection": {"type": "NODE_STATUS_POLL_URL", "options": options, "interval": 60},
                        "recovery": {"action_timeout": 20}});
    fleet.put_policy("w", json!({"mode": "global", "healthPolicy": health}));
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2 n3");
    let tasks = |fleet: &Fleet| {
        let running = fleet.tasks().into_iter().filter(|task| task.is_running() && task.is_wanted());
        running.map(|task| (task.node.clone(), task.id.clone())).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = tasks(&fleet);
    fleet.failing_checks.insert((node("n2"), policy("w")));
    let checked = RequestedRecovery { examines: true, ..RequestedRecovery::default() };
    fleet.recover("w", &checked);
    fleet.run_until(10, |fleet| fleet.has_event("health.recover"));
    fleet.failing_checks.clear();
    fleet.run_until(60, |fleet| {
        fleet.model.workload(&policy("w")).is_some_and(|record| record.action.is_none())
    });
    assert_eq!((fleet.count("health.checked"), fleet.count("health.recover")), (2, 1));
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2 n3");
    let after = tasks(&fleet);
    let kept = |name: &str| before[&Some(node(name))] == after[&Some(node(name))];
    assert_eq!(["n1", "n2", "n3"].map(kept), [true, false, true]);
}

/// C8-S3, D2: what cannot be fenced is an error until the node is back.
#[test]
fn instance_that_nothing_stops_on_a_lost_node_is_an_error() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.stop_secs = 1;
    let health = json!({"detection": {"type": "LIFECYCLE_EVENTS"}, "recovery": {"fencing": ["COMPUTE"]}});
    let placement = json!({"nodesOrder": ["n1", "n2"]});
    let document =
        json!({"mode": "failover", "orchestrate": "ha", "placement": placement, "healthPolicy": health});
    fleet.put_policy("w", document);
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    fleet.put_node("n1", |facts| facts.is_capable = false);
    fleet.silent.insert(node("n1"));
    fleet.run_until(300, |fleet| fleet.has_event("fence.failed"));
    fleet.run(5);
    assert_eq!(reported(&fleet, &instance("n1"), "Fencing"), Some(HealthState::Error));
    fleet.silent.clear();
    fleet.put_node("n1", |facts| facts.is_capable = true);
    fleet.run(60);
    assert_ne!(reported(&fleet, &instance("n1"), "Fencing"), Some(HealthState::Error), "the node is back");
}

/// The health policy takes over at once from the restart policy: no other event has to come.
#[test]
fn instance_that_ended_is_recovered_although_nothing_else_happens() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let detection = json!({"type": "NODE_STATUS_POLLING", "interval": 1, "node_update_timeout": 3});
    fleet.put_policy(
        "w",
        json!({"mode": "replicated", "replicas": 2, "restart": {"condition": "none"},
            "healthPolicy": {"detection": detection}}),
    );
    fleet.run(30);
    assert_eq!(fleet.running("w"), "n1 n2");
    fleet.crash("w", "n1", true);
    fleet.run(1);
    fleet.crash("w", "n1", false);
    let is_recovered =
        |fleet: &Fleet| fleet.tasks().iter().any(|task| task.is_live() && task.cause == Cause::Health);
    assert!(!is_recovered(&fleet), "it is given time to start again: {:#?}", fleet.tasks());
    fleet.run_unheard(4, false);
    assert!(is_recovered(&fleet), "{:#?}", fleet.tasks());
}
