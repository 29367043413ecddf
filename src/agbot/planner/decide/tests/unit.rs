//! Workload units: nodes that move between them, updates that go through all of them, and what stays as it is meanwhile.

use std::collections::BTreeMap;

use evenkeel_domain::policy::ExternalPolicy;
use evenkeel_ids::GroupId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    facts::NodePolicyFacts,
    workload::{LastingAction, Part, UnitId},
};
use evenkeel_reconcile::user_action::{RequestedAction, accept};
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};

const GIVEBACK: RequestedAction<'_> = RequestedAction {
    kind: LastingAction::Giveback,
    part: None,
    node: None,
    destinations: &[],
    is_forced: false,
    recovery: None,
};

fn in_groups(replicas: u32) -> Value {
    let scope = json!({"type": "hagroups", "haGroups": ["*"]});
    let update = json!({"parallelism": 1, "monitorSeconds": 1, "delaySeconds": 0});
    json!({"mode": "replicated", "replicas": replicas, "scope": scope, "update": update})
}

fn unit(group: &str) -> UnitId {
    UnitId { policy: policy("w"), part: Part::Group(GroupId::new("o", group)) }
}

fn nodes_of(fleet: &Fleet, group: &str) -> Vec<String> {
    let unit_id = unit(group);
    let tasks = fleet.tasks().into_iter().filter(|task| task.unit_id == unit_id && task.is_live());
    tasks.filter_map(|task| task.node.as_ref()).map(|node| node.name().to_owned()).collect()
}

#[test]
fn node_whose_agent_holds_one_instance_gets_none_of_its_new_unit_while_it_has_one_of_the_old() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    // The instances have agreements, which outlive their membership.
    fleet.stop_secs = 1;
    fleet.put_group("g1", &["n1", "n2"], None);
    fleet.put_group("g2", &["n3"], None);
    fleet.put_policy("w", in_groups(2));
    fleet.run(10);
    assert_eq!([nodes_of(&fleet, "g1"), nodes_of(&fleet, "g2")].concat(), ["n1", "n2", "n3"]);
    fleet.put_node("n1", |facts| facts.is_capable = false);
    fleet.put_group("g1", &["n2"], None);
    fleet.put_group("g2", &["n1", "n3"], None);
    assert_eq!(nodes_of(&fleet, "g2"), ["n3"], "the agent of n1 would refuse a second instance");
    assert!(fleet.model.runs_in_another_unit(&node("n1"), &unit("g2")));
}

#[test]
fn update_that_goes_through_several_workload_units_has_one_start_and_one_end() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_group("g1", &["n1", "n2"], None);
    fleet.put_group("g2", &["n3"], None);
    fleet.put_group("g3", &[], None);
    fleet.put_policy("w", in_groups(1));
    fleet.run(10);
    fleet.put_version("w", "2.0.0", in_groups(1));
    fleet.run(60);
    let seen = ["update.started", "update.completed", "update.blocked"].map(|kind| fleet.count(kind));
    assert_eq!(seen, [1, 1, 0]);
}

/// 1.5: decisions that an agbot made before another one took over are no longer its status.
#[test]
fn status_of_a_unit_of_another_agbot_follows_the_nodes() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 3}));
    fleet.run(10);
    let warning = "all: 0 of 1 placed: maxPerNode removed 2";
    assert_eq!(fleet.status("w").warnings, [warning]);
    fleet.handle(&Event::PartitionsChanged { leases: BTreeMap::new() });
    assert_eq!(fleet.status("w").warnings, ["all: 2 of 3 placed: maxPerNode removed 2"]);
    fleet.put_node("n3", |_| {});
    let facts = NodePolicyFacts { policy: ExternalPolicy::default(), ..NodePolicyFacts::default() };
    fleet.handle(&Event::NodePolicyChanged { node: node("n3"), policy: Some(Box::new(facts)) });
    fleet.handle(&Event::Tick);
    assert_eq!(fleet.status("w").warnings, Vec::<String>::new());
}

/// A2: what a user's start adds is not stopped while it is in progress.
#[test]
fn instance_that_a_user_starts_beside_the_wanted_number_ends_the_action_and_the_other_one_stops() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let flex = json!({"min": 1, "max": 2, "target": 1});
    let document =
        json!({"mode": "flex", "orchestrate": "ha", "flex": flex, "placement": {"nodesOrder": ["n1", "n2"]}});
    fleet.put_policy("w", document);
    fleet.run_until(30, |fleet| fleet.running("w") == "n1");
    fleet.start_on("w", "n2");
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n2");
    assert!(fleet.model.workload(&policy("w")).is_some_and(|row| row.action.is_none()));
    assert_eq!(fleet.count("scale.down"), 1);
    assert!(accept(&fleet.model, &policy("w"), &GIVEBACK, fleet.now).is_ok());
}

/// A6.4: where there are too few leaders, a giveback moves nothing below the wanted number.
#[test]
fn giveback_without_enough_leaders_stops_nothing() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let flex = json!({"min": 2, "max": 2, "target": 2});
    fleet.put_policy("w", json!({"mode": "flex", "orchestrate": "ha", "flex": flex}));
    fleet.run_until(30, |fleet| fleet.running("w") == "n1 n2");
    let placement = json!({"expression": "\"{nodename}\" == \"n1\"", "onViolation": "report"});
    fleet.put_policy("w", json!({"mode": "flex", "orchestrate": "ha", "flex": flex, "placement": placement}));
    fleet.run(5);
    assert!(accept(&fleet.model, &policy("w"), &GIVEBACK, fleet.now).is_err());
}

/// P-S1: a version that uses more than its node has is not started there, and the one before it stays; so does what runs beside it.
#[test]
fn version_that_uses_more_than_its_node_has_waits() {
    let modes = [json!({"mode": "replicated", "replicas": 1}), json!({"mode": "global"})];
    for (mode, order) in
        modes.iter().flat_map(|mode| ["stop-first", "start-first"].map(|order| (mode, order)))
    {
        let mut fleet = Fleet::new(&["n1"]);
        fleet.put_node("n1", |facts| facts.capacities = BTreeMap::from([("m".into(), 1000.0)]));
        let document = |load: f64| {
            let mut document = mode.clone();
            document["loads"] = json!({"m": load});
            document["update"] = json!({"order": order, "monitorSeconds": 1});
            document
        };
        fleet.put_policy("beside", json!({"mode": "global", "loads": {"m": 150}}));
        fleet.put_policy("w", document(200.0));
        fleet.run_until(30, |fleet| fleet.running("w") == "n1");
        fleet.put_policy("w", document(5000.0));
        fleet.run(20);
        let of_w = |fleet: &Fleet| -> Vec<u64> {
            let tasks = fleet.tasks().into_iter().filter(|task| task.unit_id.policy == policy("w"));
            tasks.filter(|task| task.is_wanted() && task.is_running()).map(|task| task.spec.number).collect()
        };
        assert_eq!(of_w(&fleet), [1], "{mode} {order}");
        assert_eq!(fleet.running("beside"), "n1");
        let update = fleet.status("w").update;
        let blocked = update.blocked.as_ref().expect("it is blocked");
        assert_eq!(blocked.slots[0].1.upgrade_rule(), "Capacity");
        assert_eq!(blocked.node_of(&blocked.slots[0].0), Some(&node("n1")));
        let written = ["update.order-degraded", "placement.violation"].map(|kind| fleet.count(kind));
        assert_eq!(written, [0, 0], "nothing was replaced, and nothing uses more than there is");
        fleet.put_policy("w", document(800.0));
        fleet.run_until(60, |fleet| of_w(fleet) == [3]);
        fleet.put_policy("w", document(100.0));
        fleet.run_until(60, |fleet| of_w(fleet) == [4]);
    }
}
