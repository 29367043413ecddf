//! Running instances keep running: after a start of the hub, without a group that a scope names, and beside
//! instances that no node can take. Deleted nodes.
//!
//! Source: orchestration B9.2.

use std::collections::BTreeMap;

use evenkeel_explain::explain::explain_part;
use evenkeel_ids::GroupId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    departure::Departure,
    facts::AgentFacts,
    fixture::at,
    health::{Entity, HealthState},
    workload::{Part, SlotTasks, UnitId},
};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

/// A failover workload whose first node was off long before the hub stopped.
fn started_with_a_dead_node(alive_at: Option<i64>) -> Fleet {
    let mut fleet = Fleet::started(&["n2", "n3"], &[]);
    if let Some(second) = alive_at {
        fleet.handle(&Event::HubWasAlive { at: at(second) });
    }
    fleet.silent.insert(node("n1"));
    fleet.register("n1", |facts| facts.last_heartbeat = Some(at(700)));
    fleet.put_policy(
        "w",
        json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}}),
    );
    fleet
}

#[test]
fn grace_after_a_start_is_for_nodes_that_were_up_when_the_hub_stopped() {
    let waited =
        |alive_at| started_with_a_dead_node(alive_at).run_until(200, |fleet| !fleet.running("w").is_empty());
    assert!(waited(Some(990)) < 30, "the node was down before the hub stopped");
    assert!(waited(Some(705)) > 60, "the node was up when the hub was last alive");
    assert!(waited(None) > 60, "nobody knows when the hub was last alive");
}

/// Two instances in a group that a scope names.
fn scoped() -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_group("g", &["n1", "n2", "n3"], None);
    put_scoped(&mut fleet, "1.0.0", 2);
    fleet.run_until(60, |fleet| fleet.running("w").len() == 5);
    fleet.run(60);
    fleet
}

fn put_scoped(fleet: &mut Fleet, version: &str, count: u32) {
    let document = json!({
        "mode": "replicated", "replicas": count, "scope": {"type": "hagroups", "haGroups": ["g"]},
        "restart": {"delaySeconds": 0}, "update": {"parallelism": 1, "monitorSeconds": 5},
    });
    fleet.put_version("w", version, document);
}

fn remove_group(fleet: &mut Fleet) {
    fleet.handle(&Event::HaGroupRemoved { group: GroupId::new("o", "g") });
}

fn versions(fleet: &Fleet) -> Vec<u64> {
    let running = fleet.tasks().into_iter().filter(|task| task.is_wanted() && task.is_running());
    running.map(|task| task.spec.number).collect()
}

#[test]
fn what_runs_in_a_group_that_is_gone_stays_and_nothing_new_starts() {
    let mut fleet = scoped();
    let before = fleet.running("w");
    remove_group(&mut fleet);
    fleet.run(300);
    assert_eq!(fleet.running("w"), before);
    put_scoped(&mut fleet, "2.0.0", 3);
    fleet.run(300);
    assert_eq!((fleet.running("w"), versions(&fleet)), (before.clone(), vec![1, 1]));
    let unit = UnitId { policy: policy("w"), part: Part::Group(GroupId::new("o", "g")) };
    let warnings = fleet.status("w").warnings;
    assert!(warnings.iter().any(|one| one.contains("HA group o/g does not exist")), "{unit:?} {warnings:?}");
    fleet.put_group("g", &["n1", "n2", "n3"], None);
    fleet.run_until(300, |fleet| versions(fleet) == [2, 2, 2]);
}

#[test]
fn instance_of_a_group_that_is_gone_is_restarted_where_it_was() {
    let mut fleet = scoped();
    let before = fleet.running("w");
    remove_group(&mut fleet);
    let first = before.split(' ').next().expect("an instance").to_owned();
    fleet.crash("w", &first, true);
    fleet.run(3);
    fleet.crash("w", &first, false);
    fleet.run_until(120, |fleet| fleet.running("w") == before);
}

#[test]
fn users_end_what_runs_in_a_group_that_is_gone() {
    let mut fleet = scoped();
    remove_group(&mut fleet);
    put_scoped(&mut fleet, "1.0.0", 1);
    fleet.run_until(60, |fleet| versions(fleet).len() == 1);
    fleet.remove_policy("w");
    fleet.run_until(60, |fleet| versions(fleet).is_empty());
}

#[test]
fn instances_without_a_candidate_are_a_number_with_one_reason() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let events = fleet.events.len();
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 100_000, "restart": {"delaySeconds": 0}}));
    fleet.run(120);
    assert_eq!(fleet.running("w"), "n1 n2 n3");
    assert_eq!(fleet.tasks().len(), 3, "the others have no rows");
    assert!(fleet.events.len() < events + 20, "{} events", fleet.events.len() - events);
    let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("it exists");
    assert_eq!(unit.slots.values().filter(|tasks| !SlotTasks::is_empty(tasks)).count(), 3);
    let status = fleet.status("w");
    assert_eq!(
        status.warnings.iter().filter(|one| one.contains("placed")).count(),
        1,
        "{:?}",
        status.warnings
    );
    fleet.register("n4", |_| {});
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2 n3 n4");
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2, "restart": {"delaySeconds": 0}}));
    fleet.run_until(60, |fleet| fleet.running("w").len() == 5);
}

/// A failover workload on `n1`, which is deleted while its agent is alive.
fn deleted() -> Fleet {
    deleted_with(json!({}))
}

/// The same; `more` are further members of its document.
fn deleted_with(more: Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let mut document = json!({"mode": "failover", "orchestrate": "ha", "placement": {"nodesOrder": ["n1", "n2"]},
                              "timers": {"readyPeriodSeconds": 0}});
    for (name, value) in more.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    fleet.put_policy("w", document);
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    let departure = Departure { deleted_at: fleet.now, seen_at: fleet.now, leases: BTreeMap::new() };
    departures(&mut fleet, [(node("n1"), departure)].into());
    fleet.handle(&Event::NodeRemoved { node: node("n1") });
    fleet
}

fn departures(fleet: &mut Fleet, nodes: BTreeMap<evenkeel_ids::NodeId, Departure>) {
    let org = "o".parse().expect("an organization");
    fleet.handle(&Event::DeparturesRead { org, nodes });
}

fn runs_on_second(fleet: &Fleet) -> bool {
    let mut tasks = fleet.tasks().into_iter();
    tasks.any(|task| task.node == Some(node("n2")) && task.is_wanted() && task.is_running())
}

#[test]
fn only_instance_of_a_deleted_node_starts_elsewhere_when_the_agent_has_confirmed_the_end() {
    let mut fleet = deleted();
    fleet.run(100);
    assert!(!runs_on_second(&fleet), "the agent may still run it");
    departures(&mut fleet, BTreeMap::new());
    assert!(fleet.run_until(30, runs_on_second) < 15);
}

#[test]
fn agent_of_a_deleted_node_that_says_nothing_counts_as_dead_like_a_silent_one() {
    let mut fleet = deleted();
    let waited = fleet.run_until(400, runs_on_second);
    assert!((180..300).contains(&waited), "{waited}");
}

/// A failover workload on `n1`, which has been silent for a while; the next node to run it is missing. True if its policy asks for fencing.
fn silent(is_fencing: bool) -> Fleet {
    let mut fleet = Fleet::new(&["n1"]);
    let mut document = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    if is_fencing {
        document["healthPolicy"] =
            json!({"detection": {"type": "LIFECYCLE_EVENTS"}, "recovery": {"fencing": ["COMPUTE"]}});
    }
    fleet.put_policy("w", document);
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    fleet.silent.insert(node("n1"));
    fleet
}

/// Deletes `n1`, whose guardian had confirmed leases of this length, when the node has been silent for some seconds.
fn delete_silent(fleet: &mut Fleet, silent_secs: u64, lease_secs: Option<u32>) {
    let seen_at = fleet.now;
    fleet.run(silent_secs);
    let tasks = fleet.tasks().into_iter().filter(|task| task.node == Some(node("n1")));
    let leases = tasks.filter_map(|task| Some((task.id.clone(), lease_secs?))).collect();
    let departure = Departure { deleted_at: fleet.now, seen_at, leases };
    departures(fleet, [(node("n1"), departure)].into());
    fleet.handle(&Event::NodeRemoved { node: node("n1") });
}

#[test]
fn deletion_of_a_silent_node_is_no_fencing() {
    let mut fleet = silent(true);
    fleet.put_node("n1", |facts| facts.agent = Some(AgentFacts::default().into()));
    delete_silent(&mut fleet, 300, None);
    fleet.register("n2", |_| {});
    fleet.run(2_000);
    assert!(!runs_on_second(&fleet), "nobody has confirmed that it does not run");
    assert!(fleet.has_event("fence.failed"));
    departures(&mut fleet, BTreeMap::new());
    assert!(fleet.run_until(30, runs_on_second) < 15);
}

#[test]
fn deletion_of_a_silent_node_delays_nothing_without_fencing_or_after_the_end_of_a_lease() {
    for (is_fencing, lease_secs) in [(false, None), (true, Some(170))] {
        let mut fleet = silent(is_fencing);
        delete_silent(&mut fleet, 300, lease_secs);
        fleet.register("n2", |_| {});
        let waited = fleet.run_until(60, runs_on_second);
        assert!(waited < 30, "{is_fencing}: {waited}");
    }
}

#[test]
fn deletion_of_a_silent_node_withdraws_no_permit_of_the_instance_that_replaced_its_own() {
    let mut fleet = silent(false);
    fleet.register("n2", |_| {});
    fleet.run_until(300, runs_on_second);
    delete_silent(&mut fleet, 0, None);
    fleet.crash("w", "n2", true);
    fleet.run(3);
    fleet.crash("w", "n2", false);
    fleet.run_until(120, runs_on_second);
    assert!(!fleet.has_event("fence.failed"));
}

/// Where the policy asks for fencing, the event, the reason and the health say what ends the wait; nothing else does.
#[test]
fn departure_that_needs_fencing_says_what_to_do_until_it_is_confirmed() {
    let health = json!({"detection": {"type": "LIFECYCLE_EVENTS"}, "recovery": {"fencing": ["COMPUTE"]}});
    let mut fleet = deleted_with(json!({"healthPolicy": health}));
    fleet.run(2_000);
    assert!(!runs_on_second(&fleet), "nobody has confirmed that it does not run");
    let advice = "hzn exchange node remove n1 --force";
    let reasons = |fleet: &Fleet, kind: &str| -> Vec<String> {
        let of_kind = fleet.events.iter().filter(|event| event.kind == kind);
        of_kind.map(|event| event.text.clone()).collect()
    };
    let failed = reasons(&fleet, "fence.failed");
    assert!(failed.len() == 1 && failed[0].contains(advice), "{failed:?}");
    let blocked = |fleet: &Fleet| {
        let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("a unit");
        unit.blocked.iter().map(|(_, blocked)| blocked.to_string()).collect::<Vec<_>>().join("; ")
    };
    assert!(blocked(&fleet).contains(advice), "{}", blocked(&fleet));
    let found = fleet.reported(&Entity::WorkloadUnit(Fleet::unit_id("w")), "Fencing");
    assert!(found.is_some_and(|report| report.state == HealthState::Error), "{found:?}");
    departures(&mut fleet, BTreeMap::new());
    assert!(fleet.run_until(30, runs_on_second) < 15);
    assert_eq!(reasons(&fleet, "fence.confirmed").len(), 1);
    fleet.run(60);
    assert!(!blocked(&fleet).contains(advice), "{}", blocked(&fleet));
}

/// The reason, the status and the explanation say the same.
#[test]
fn start_that_waits_for_a_lost_instance_is_explained_in_the_status_as_well() {
    let mut fleet = silent(true);
    fleet.register("n2", |_| {});
    fleet.run(400);
    assert!(!runs_on_second(&fleet), "nobody has confirmed that it does not run");
    let why = "its start waits: another node is down and its instance cannot be fenced: ";
    let warnings = fleet.status("w").warnings;
    assert!(warnings.iter().any(|text| text.starts_with(&format!("all: {why}"))), "{warnings:?}");
    let summary = explained(&fleet, Part::All);
    assert!(summary.contains(why) && !summary.contains("n1"), "{summary}");
}

fn explained(fleet: &Fleet, part: Part) -> String {
    let unit_id = UnitId { policy: policy("w"), part };
    let question = Question { part: &unit_id, node: None, is_complete: false, now: fleet.now };
    explain_part(&fleet.model, question).expect("the workload unit exists").summary
}

#[test]
fn explanation_says_what_becomes_of_instances_beyond_the_wanted_number() {
    let of_group = || {
        let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
        fleet.put_group("g", &["n1", "n2", "n3"], None);
        let scope = json!({"type": "hagroups", "haGroups": ["g"]});
        fleet.put_policy("w", json!({"mode": "global", "scope": scope}));
        fleet.run(10);
        assert_eq!(fleet.running("w"), "n1 n2 n3");
        fleet
    };
    let group = GroupId::new("o", "g");
    let part = || Part::Group(GroupId::new("o", "g"));
    let mut fleet = of_group();
    assert!(explained(&fleet, part()).starts_with("3 of 3 placed: "));
    // What is frozen is not stopped.
    fleet.freeze("n3");
    fleet.put_group("g", &["n1", "n2"], None);
    fleet.run(5);
    let summary = explained(&fleet, part());
    assert!(summary.starts_with("3 placed, 2 wanted: "), "{summary}");
    assert!(summary.ends_with("; 1 of them is to be removed"), "{summary}");
    let mut fleet = of_group();
    fleet.handle(&Event::HaGroupRemoved { group });
    fleet.run(5);
    let summary = explained(&fleet, part());
    assert!(summary.starts_with("3 placed, 0 wanted: "), "{summary}");
    assert!(summary.contains("; HA group o/g does not exist: what runs there stays"), "{summary}");
}
