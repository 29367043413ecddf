//! Nodes that are away on purpose, and agbots that have just started: A10, A7, E8.

use NodeMonitorState::{Idle, Init, Maintenance, Upgrade};
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_placement::place::NodeState;
use evenkeel_planner_model::{
    event::Event,
    model::{Liveness, UnitRecord},
};
use evenkeel_planner_record::{
    facts::{Availability, NodeMonitorState},
    goal::Avail,
    workload::{Ending, LastingAction, Task, TaskReport, TaskState},
};
use serde_json::json;

use super::fleet::{Fleet, node, policy};

/// A failover workload that runs on `n1` of two nodes.
fn pair() -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", document());
    fleet.run_until(30, |fleet| fleet.running("w") == "n1");
    fleet.events.clear();
    fleet
}

fn document() -> serde_json::Value {
    json!({"mode": "failover", "orchestrate": "ha", "placement": {"nodesOrder": ["n1", "n2"]},
           "restart": {"delaySeconds": 0}})
}

fn leave(fleet: &mut Fleet, name: &str, monitor_state: NodeMonitorState) {
    fleet.announce(name, monitor_state);
    fleet.silent.insert(node(name));
}

/// An agent that had stopped with its services reports first that it has started.
fn come_back(fleet: &mut Fleet, name: &str) {
    fleet.silent.remove(&node(name));
    fleet.put_node(name, |facts| facts.is_stopped = true);
    fleet.announce(name, Init);
    fleet.put_node(name, |facts| facts.is_stopped = false);
    fleet.run(1);
    fleet.announce(name, Idle);
}

fn ids(fleet: &Fleet) -> Vec<String> {
    fleet.tasks().into_iter().map(|task| task.id.to_string()).collect()
}

/// A10-S1.
#[test]
fn agent_that_is_restarted_in_time_changes_nothing() {
    let mut fleet = pair();
    let before = ids(&fleet);
    leave(&mut fleet, "n1", Maintenance);
    fleet.run(40);
    assert_eq!(fleet.status("w").avail, Avail::Up, "what ran is taken to run");
    let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("it exists");
    let state = unit.table.find(&node("n1")).expect("it is a member").state;
    assert!(matches!(state, NodeState::Away { monitor_state: Maintenance, .. }), "{state:?}");
    come_back(&mut fleet, "n1");
    fleet.run(60);
    assert_eq!((ids(&fleet), fleet.running("w").as_str()), (before, "n1"));
    assert!(fleet.events.is_empty(), "{:?}", fleet.events);
    assert_eq!(fleet.status("w").avail, Avail::Up);
}

/// A10-S2.
#[test]
fn node_that_stays_away_is_down_when_its_grace_is_over() {
    let mut fleet = pair();
    leave(&mut fleet, "n1", Maintenance);
    let passed = fleet.run_until(80, |fleet| fleet.live("w") == "n2");
    assert!((60..=62).contains(&passed), "{passed} s");
    assert!(matches!(fleet.model.liveness(&node("n1"), fleet.now), Liveness::Down { .. }));
    let passed = fleet.run_until(30, |fleet| fleet.running("w") == "n2");
    assert!((16..=19).contains(&passed), "{passed} s");
    come_back(&mut fleet, "n1");
    fleet.run(30);
    assert_eq!(fleet.running("w"), "n2");
    let on_first = |task: &&Task| task.node == Some(node("n1")) && !task.state.is_ended();
    assert_eq!(fleet.tasks().into_iter().filter(on_first).count(), 0, "its copy was stopped");
}

/// A10-S3.
#[test]
fn instance_of_a_node_that_was_rebooted_is_restarted_there() {
    let mut fleet = pair();
    let task = fleet.tasks()[0].clone();
    leave(&mut fleet, "n1", Maintenance);
    fleet.run(50);
    fleet.silent.remove(&node("n1"));
    fleet.announce("n1", Init);
    let report = TaskReport {
        node: node("n1"),
        state: TaskState::Ended(Ending::Failed { exit_code: None, error: "gone".into() }),
        seq: task.seq + 1_000,
        at: fleet.now,
    };
    fleet.handle(&Event::NodeTasksChanged {
        node: node("n1"),
        tasks: [(task.id, report)].into(),
        health: std::collections::BTreeMap::new(),
    });
    fleet.announce("n1", Idle);
    fleet.run_until(10, |fleet| fleet.running("w") == "n1");
    assert!(fleet.tasks().iter().all(|task| task.node != Some(node("n2"))));
    assert_eq!(fleet.status("w").placement.word(), "optimal");
}

/// A10-S4.
#[test]
fn node_that_dies_unannounced_is_down_after_the_silence_limit() {
    let mut fleet = pair();
    let settings = Box::new(OrgSettings::read(json!({"nodeDownAfterSeconds": 30})).expect("valid settings"));
    fleet.handle(&Event::OrgSettingsChanged { org: "o".parse().expect("an organization"), settings });
    fleet.silent.insert(node("n1"));
    let passed = fleet.run_until(60, |fleet| fleet.live("w") == "n2");
    assert!((30..=33).contains(&passed), "{passed} s");
}

/// A10-S5.
#[test]
fn nothing_starts_automatically_before_every_node_was_heard_after_an_agbot_start() {
    let started = || {
        let mut fleet = Fleet::started(&["n1", "n2"], &["n2"]);
        fleet.put_policy("w", document());
        fleet
    };
    let mut fleet = started();
    let passed = fleet.run_until(120, |fleet| fleet.running("w") == "n1");
    assert!((90..=95).contains(&passed), "{passed} s");
    let mut fleet = started();
    fleet.run(10);
    fleet.act("w", LastingAction::Start, false);
    // The ready period that began before is not over.
    fleet.run_until(10, |fleet| fleet.running("w") == "n1");
    let mut fleet = started();
    fleet.run(20);
    fleet.silent.clear();
    let passed = fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    assert!(passed <= 20, "{passed} s: all have been heard");
}

/// A10-S6, E6-S8, E8-S1.
#[test]
fn announced_upgrade_of_an_agent_leads_to_no_failover() {
    let mut fleet = pair();
    let before = ids(&fleet);
    leave(&mut fleet, "n1", Upgrade);
    fleet.run(300);
    come_back(&mut fleet, "n1");
    fleet.run(30);
    assert_eq!((ids(&fleet), fleet.running("w").as_str()), (before, "n1"));
}

/// A node that is worked on while its agent runs gets nothing new, keeps what it has, and is not down after the grace.
#[test]
fn node_in_maintenance_whose_agent_runs_keeps_what_it_has() {
    let mut fleet = pair();
    fleet.announce("n1", Maintenance);
    fleet.announce("n2", Maintenance);
    fleet.run(300);
    assert_eq!(fleet.running("w"), "n1");
    fleet.put_policy("x", document());
    fleet.run(60);
    assert_eq!(fleet.live("x"), "", "no node is a candidate");
    fleet.announce("n2", Idle);
    fleet.run_until(60, |fleet| fleet.running("x") == "n2");
}

/// A7-S1: the events and the status.
#[test]
fn different_versions_are_reported() {
    let mut fleet = pair();
    fleet.put_node("n1", |facts| facts.compat_version = Some(12));
    fleet.put_node("n2", |facts| facts.compat_version = Some(13));
    fleet.run(1);
    assert!(fleet.has_event("compat.incompatible") && !fleet.has_event("compat.restored"));
    let status = fleet.status("w");
    assert_eq!((status.is_compatible, status.overall()), (false, Avail::Warn));
    assert_eq!(status.warnings, ["incompatible versions"]);
    fleet.put_node("n1", |facts| facts.compat_version = Some(13));
    fleet.run(1);
    assert!(fleet.has_event("compat.restored"));
    let reports = fleet.events.iter().filter(|event| event.kind.starts_with("compat.")).count();
    assert_eq!((reports, fleet.status("w").overall()), (2, Avail::Up));
}

/// B9.1, P4: nothing else can take the last instance of a group, so it stays until something can.
#[test]
fn last_instance_of_a_group_stays_on_a_drained_node() {
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    for document in [
        json!({"mode": "flex", "orchestrate": "ha", "scope": scope, "flex": {"min": 1, "target": 2}}),
        json!({"mode": "replicated", "replicas": 2, "scope": scope}),
    ] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_group("g", &["n1", "n2"], None);
        fleet.put_policy("w", document.clone());
        fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2");
        fleet.put_node("n2", |facts| facts.availability = Availability::Drain);
        fleet.run_until(30, |fleet| fleet.running("w") == "n1");
        fleet.put_node("n1", |facts| facts.availability = Availability::Drain);
        fleet.run(60);
        assert_eq!(fleet.running("w"), "n1", "{document}");
        let waits = |(_, unit): (_, &UnitRecord)| !unit.blocked.is_empty();
        let has_reason = fleet.model.workload_units_of(&policy("w")).any(waits);
        assert!(has_reason, "what it waits for is known: {document}");
        fleet.put_node("n2", |facts| facts.availability = Availability::Active);
        fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    }
}

/// P4: what is to stop protects no other member, from the moment that this is decided; what is reported to run does from that moment.
#[test]
fn instances_that_stop_do_not_count_for_the_minimum_available_of_their_group() {
    let names = ["n1", "n2", "n3"];
    let mut fleet = Fleet::new(&names);
    fleet.stop_secs = 5;
    fleet.put_group("g", &names, None);
    fleet.put_policy("w", json!({"mode": "global"}));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2 n3");
    for name in names {
        fleet.put_node(name, |facts| facts.availability = Availability::Drain);
    }
    let count = |fleet: &Fleet| fleet.running("w").split_whitespace().count();
    for _ in 0..30 {
        assert!(count(&fleet) >= 1, "{:#?}", fleet.tasks());
        fleet.run(1);
    }
    assert_eq!(count(&fleet), 1, "the others are empty");
}

/// B9.1: a user can still move the last instance off a drained node.
#[test]
fn forced_drain_takes_the_last_instance_of_a_group_off_the_node() {
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    for document in [
        json!({"mode": "global"}),
        json!({"mode": "replicated", "replicas": 2, "scope": scope}),
        json!({"mode": "failover", "orchestrate": "ha", "scope": scope}),
    ] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.stop_secs = 1;
        fleet.put_group("g", &["n1", "n2"], None);
        fleet.put_policy("w", document.clone());
        fleet.run_until(40, |fleet| fleet.running("w").contains("n1"));
        fleet.put_node("n2", |facts| facts.availability = Availability::Drain);
        fleet.run(40);
        fleet.put_node("n1", |facts| facts.availability = Availability::Drain);
        fleet.run(60);
        assert_eq!(fleet.running("w"), "n1", "{document}");
        let waiting = evenkeel_explain::explain::Waits::new(&fleet.model, fleet.now)
            .on_nodes([&node("n1")])
            .pop()
            .expect("it is known what waits");
        assert!(
            waiting.node.name() == "n1"
                && waiting.drained_since.is_some_and(|since| fleet.now.duration_since(since).as_secs() >= 30)
        );
        fleet.put_node("n1", |facts| facts.is_drain_forced = true);
        fleet.run_until(30, |fleet| fleet.running("w").is_empty());
        fleet.put_node("n1", |facts| {
            (facts.availability, facts.is_drain_forced) = (Availability::Active, false);
        });
        fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    }
}

/// P-S4, E3: a member whose instance a user stopped is one of those that should run the service.
#[test]
fn last_instance_stays_on_a_drained_node_while_a_user_has_stopped_the_other_one() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.stop_secs = 1;
    fleet.put_group("g", &["n1", "n2"], None);
    fleet.put_policy("w", json!({"mode": "global"}));
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2");
    fleet.stop_on("w", "n2");
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    fleet.put_node("n1", |facts| facts.availability = Availability::Drain);
    fleet.run(30);
    assert_eq!(fleet.running("w"), "n1");
    fleet.handle(&Event::InstanceRecorded { policy: policy("w"), node: node("n2"), instance: None });
    fleet.run_until(60, |fleet| {
        assert_ne!(fleet.running("w"), "");
        fleet.running("w") == "n2"
    });
}

/// E4: the instances of a group whose members were all cut off from the hub run on, and are left alone when they are back.
#[test]
fn instances_of_a_group_are_kept_on_nodes_that_are_lost() {
    for scope in [json!({"type": "hagroups", "haGroups": ["g"]}), json!({"type": "eligible"})] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.stop_secs = 1;
        fleet.put_group("g", &["n1", "n2"], None);
        fleet.put_policy("w", json!({"mode": "global", "scope": scope}));
        fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2");
        let before = ids(&fleet);
        fleet.silent = [node("n1"), node("n2")].into();
        fleet.run(400);
        assert_eq!((fleet.running("w").as_str(), ids(&fleet)), ("", before.clone()));
        fleet.silent.clear();
        fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2");
        fleet.run(60);
        assert_eq!(ids(&fleet), before, "they go on");
    }
}

/// E4-S2, D11-S1: a member that is down still counts among those that should run the service.
#[test]
fn last_instance_is_not_updated_while_the_other_member_is_down() {
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    for document in [
        json!({"mode": "global", "scope": scope}),
        json!({"mode": "global"}),
        json!({"mode": "replicated", "replicas": 2, "scope": scope}),
        json!({"mode": "flex", "orchestrate": "ha", "scope": scope, "flex": {"min": 1, "target": 2}}),
    ] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.stop_secs = 1;
        fleet.put_group("g", &["n1", "n2"], None);
        fleet.put_policy("w", document.clone());
        fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2");
        fleet.silent.insert(node("n2"));
        fleet.run_until(300, |fleet| fleet.running("w") == "n1");
        fleet.run(10);
        fleet.put_version("w", "2.0.0", document.clone());
        fleet.run_until(30, |fleet| fleet.has_event("update.blocked"));
        assert_eq!(fleet.running("w"), "n1", "{document}");
        let is_old = |task: &&Task| {
            let is_there = task.node == Some(node("n1"));
            is_there && task.is_wanted() && task.is_running() && task.spec.number == 1
        };
        assert_eq!(fleet.tasks().into_iter().filter(is_old).count(), 1, "{document}");
        fleet.silent.clear();
        fleet.run_until(120, |fleet| {
            assert_ne!(fleet.running("w"), "", "{document}");
            let new = fleet.tasks().into_iter().filter(|task| task.is_running() && task.spec.number == 2);
            new.count() == 2
        });
    }
}

/// 1.3: an instance whose node left the workload unit stops when another one runs.
#[test]
fn instance_on_a_node_that_left_stops_after_its_replacement_runs() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.stop_secs = 1;
    fleet.put_group("g", &["n1", "n2"], None);
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1, "scope": scope}));
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    fleet.put_group("g", &["n2"], None);
    for _ in 0..30 {
        assert!(!fleet.running("w").is_empty(), "{:#?}", fleet.tasks());
        fleet.run(1);
    }
    assert_eq!(fleet.live("w"), "n2");
}

/// A9.3: an instance that was stopped because its node is no longer selected is not part of the status.
#[test]
fn instance_that_was_withdrawn_leaves_the_placement_optimal() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", json!({"mode": "global"}));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2");
    fleet.put_node("n2", |facts| facts.availability = Availability::Drain);
    fleet.run_until(30, |fleet| fleet.running("w") == "n1");
    fleet.run(5);
    assert_eq!(fleet.status("w").overall(), Avail::Up);
    assert_eq!(fleet.status("w").parts[0].placement.word(), "optimal");
}

/// P1, A10.3: a node is not silent while heartbeats cannot be received.
#[test]
fn nodes_are_not_lost_while_the_exchange_is_away_or_the_agbot_stands_still() {
    for is_suspended in [false, true] {
        let mut fleet = pair();
        fleet.put_policy("all", json!({"mode": "global"}));
        fleet.run_until(30, |fleet| fleet.running("all") == "n1 n2");
        let (before, down_after) = (ids(&fleet), fleet.model.node_down_after_secs("o"));
        fleet.run_unheard(down_after * 3, is_suspended);
        // They are not given up, and do not count as running.
        let is_unheard = |id| matches!(fleet.model.liveness(id, fleet.now), Liveness::Unheard { .. });
        assert!(fleet.model.nodes().all(|one| is_unheard(&one.facts.id)));
        // The agents need some time to find the exchange again.
        fleet.silent.extend([node("n1"), node("n2")]);
        fleet.run(60);
        fleet.silent.clear();
        fleet.run(60);
        assert_eq!(
            (ids(&fleet), fleet.running("w"), fleet.running("all")),
            (before, "n1".into(), "n1 n2".into())
        );
        // One that is really lost meanwhile is found out afterwards.
        fleet.silent.insert(node("n1"));
        fleet.run_unheard(down_after, is_suspended);
        let passed = fleet.run_until(down_after + 60, |fleet| fleet.live("w") == "n2");
        assert!((down_after - 30..=down_after + 2).contains(&passed), "{passed} s");
    }
}

/// A10.5: nodes get the time to find the hub again although they count as down after a shorter silence.
#[test]
fn nodes_have_time_to_find_the_hub_again() {
    let mut fleet = pair();
    let settings = Box::new(OrgSettings::read(json!({"nodeDownAfterSeconds": 15})).expect("valid settings"));
    fleet.handle(&Event::OrgSettingsChanged { org: "o".parse().expect("an organization"), settings });
    fleet.run(5);
    fleet.run_unheard(60, false);
    fleet.silent.insert(node("n1"));
    let grace = fleet.model.settings().rejoin_grace_secs;
    let passed = fleet.run_until(grace + 30, |fleet| fleet.live("w") == "n2");
    assert!((grace..=grace + 3).contains(&passed), "{passed} s, {grace} s");
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    fleet.silent.clear();
    fleet.run(120);
    // An ordinary silence counts as before.
    fleet.silent.insert(node("n2"));
    let passed = fleet.run_until(60, |fleet| fleet.live("w") == "n1");
    assert!((15..=18).contains(&passed), "{passed} s");
}

/// B9.1, D11: a drain that waits names what it waits for.
#[test]
fn drain_of_the_last_instance_of_a_group_names_what_it_waits_for() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.stop_secs = 1;
    fleet.put_group("g", &["n1", "n2"], None);
    fleet.put_policy("w", json!({"mode": "global", "scope": {"type": "hagroups", "haGroups": ["g"]}}));
    fleet.put_policy(
        "alone",
        json!({"mode": "failover", "orchestrate": "ha", "placement": {"nodesOrder": ["n1", "n2"]}}),
    );
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2" && fleet.running("alone") == "n1");
    fleet.silent.insert(node("n2"));
    fleet.run(300);
    fleet.put_node("n1", |facts| facts.availability = Availability::Drain);
    fleet.run(30);
    for is_owner in [true, false] {
        if !is_owner {
            // Another agbot decides now; this one still knows why.
            fleet.handle(&Event::PartitionsChanged { leases: std::collections::BTreeMap::new() });
        }
        for name in ["w", "alone"] {
            assert_eq!(fleet.running(name), "n1");
            let waits = evenkeel_explain::explain::Waits::new(&fleet.model, fleet.now);
            assert!(
                evenkeel_explain::explain::waiting_drain(&waits, &node("n1"), &policy(name)).is_some(),
                "{name}, {is_owner}"
            );
            let warnings = fleet.status(name).warnings;
            assert!(warnings.iter().any(|one| one.contains("is to leave a node")), "{warnings:?}");
        }
    }
}
