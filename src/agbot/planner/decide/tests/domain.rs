//! Instances that are spread over fault domains and upgrade domains, and constraints that give way: D5, D6.

use std::collections::BTreeMap;

use evenkeel_explain::explain::explain_part;
use evenkeel_planner_record::{health::Entity, report::Constraint, workload::Part};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

const FAULT_PACKING: &str = "InstanceConstraintViolation_FaultDomain";
const UPGRADE_PACKING: &str = "InstanceConstraintViolation_UpgradeDomain";

fn replicated(replicas: u32, placement: Value) -> Value {
    let mut document =
        json!({"mode": "replicated", "replicas": replicas, "placement": {"onViolation": "move"}});
    document["placement"].as_object_mut().expect("an object").extend(placement.as_object().cloned().unwrap());
    document
}

/// A fleet whose nodes are in these fault domains.
fn in_fault_domains(domains: &[(&str, &str)]) -> Fleet {
    let names: Vec<&str> = domains.iter().map(|(name, _)| *name).collect();
    let mut fleet = Fleet::new(&names);
    for (name, domain) in domains {
        fleet.put_node(name, |facts| facts.fault_domain = Some((*domain).into()));
    }
    fleet
}

fn in_upgrade_domains(domains: &[(&str, &str)]) -> Fleet {
    let names: Vec<&str> = domains.iter().map(|(name, _)| *name).collect();
    let mut fleet = Fleet::new(&names);
    for (name, domain) in domains {
        fleet.put_node(name, |facts| facts.upgrade_domain = Some((*domain).into()));
    }
    fleet
}

/// Three fault domains with three nodes each.
const NINE: [(&str, &str); 9] = [
    ("a1", "fd:/a"),
    ("a2", "fd:/a"),
    ("a3", "fd:/a"),
    ("b1", "fd:/b"),
    ("b2", "fd:/b"),
    ("b3", "fd:/b"),
    ("c1", "fd:/c"),
    ("c2", "fd:/c"),
    ("c3", "fd:/c"),
];

/// Returns the number of running instances by the first letter of their node.
fn counts(fleet: &Fleet, policy: &str) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for name in fleet.running(policy).split_whitespace() {
        *counts.entry(name.chars().next().unwrap_or('?')).or_default() += 1;
    }
    counts
}

fn reasons(fleet: &Fleet, policy: &str) -> Vec<(Constraint, String)> {
    let question = Question { part: &Fleet::unit_id(policy), node: None, is_complete: false, now: fleet.now };
    let explained = explain_part(&fleet.model, question).expect("the workload unit exists");
    let stages = explained.sequence.into_iter();
    stages
        .flat_map(|stage| stage.eliminated.into_iter().map(move |one| (stage.constraint, one.reason)))
        .collect()
}

fn unit() -> Entity {
    Entity::WorkloadUnit(Fleet::unit_id("w"))
}

/// D6-S1.
#[test]
fn each_fault_domain_gets_one_instance() {
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(3, json!({})));
    fleet.run(10);
    assert_eq!(counts(&fleet, "w"), BTreeMap::from([('a', 1), ('b', 1), ('c', 1)]));
}

/// D6-S1: also where the order of the nodes is another one.
#[test]
fn listed_nodes_are_used_in_their_order_within_the_domains() {
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(3, json!({"policy": "nodes-order", "nodesOrder": ["b2", "b1", "c3"]})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "a1 b2 c3");
    let status = fleet.status("w");
    let part = &status.parts[0];
    let leaders: Vec<&str> = part.natural_leaders.iter().map(evenkeel_ids::NodeId::name).collect();
    assert_eq!((leaders, part.placement.word()), (vec!["b2", "c3", "a1"], "optimal"));
}

/// D6-S2.
#[test]
fn the_fourth_instance_makes_no_domain_exceed_another_by_two() {
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(4, json!({})));
    fleet.run(10);
    assert_eq!(counts(&fleet, "w").into_values().max(), Some(2));
    assert_eq!(counts(&fleet, "w").len(), 3);
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(8, json!({})));
    fleet.run(10);
    assert_eq!(counts(&fleet, "w").into_values().min(), Some(2), "many are placed at once as few are");
}

/// D6-S3: the instances are packed while two domains are down, and spread again.
#[test]
fn lost_instances_are_packed_and_spread_again_when_their_domains_return() {
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(3, json!({})));
    fleet.run(10);
    for name in ["b1", "b2", "b3", "c1", "c2", "c3"] {
        fleet.silent.insert(node(name));
    }
    fleet.run_until(400, |fleet| counts(fleet, "w") == BTreeMap::from([('a', 3)]));
    fleet.run(5);
    let report = fleet.reported(&unit(), FAULT_PACKING).expect("the packing is reported");
    assert!(report.description.contains("distribution policy Packing"), "{report:?}");
    fleet.silent.clear();
    let spread = BTreeMap::from([('a', 1), ('b', 1), ('c', 1)]);
    fleet.run_until(120, |fleet| counts(fleet, "w") == spread);
    fleet.run(60);
    assert_eq!(counts(&fleet, "w"), spread, "and nothing moves any more");
}

/// D6-S3: with `requireDomainDistribution` what does not fit stays unplaced.
#[test]
fn required_distribution_leaves_instances_unplaced() {
    let mut fleet = in_fault_domains(&NINE);
    fleet.put_policy("w", replicated(3, json!({"domains": {"requireDomainDistribution": true}})));
    fleet.run(10);
    for name in ["b1", "b2", "b3", "c1", "c2", "c3"] {
        fleet.silent.insert(node(name));
    }
    fleet.run(400);
    assert_eq!(counts(&fleet, "w"), BTreeMap::from([('a', 1)]));
    let reasons = reasons(&fleet, "w");
    let of_domain = "fd:/a has an instance, distribution policy Required".to_owned();
    assert!(reasons.contains(&(Constraint::FaultDomain, of_domain)), "{reasons:?}");
    assert!(fleet.reported(&unit(), "Unplaced").is_some());
}

/// D6-S4.
#[test]
fn nodes_without_domains_are_not_spread() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let mut document = replicated(4, json!({"policy": "nodes-order", "nodesOrder": ["n1", "n2"]}));
    document["maxPerNode"] = json!(2);
    fleet.put_policy("w", document);
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1 n2");
    assert_eq!(fleet.tasks().len(), 4, "two on each of them");
}

/// D6-S5.
#[test]
fn instance_of_a_lost_domain_is_packed_and_reported() {
    let domains = [("n0", "UD0"), ("n1", "UD1"), ("n2", "UD2"), ("n3", "UD3"), ("n4", "UD4"), ("n5", "UD0")];
    let mut fleet = in_upgrade_domains(&domains);
    fleet.put_policy("w", replicated(5, json!({"policy": "nodes-order"})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n0 n1 n2 n3 n4");
    fleet.silent.insert(node("n4"));
    fleet.run_until(400, |fleet| fleet.running("w") == "n0 n1 n2 n3 n5");
    fleet.run(5);
    let report = fleet.reported(&unit(), UPGRADE_PACKING).expect("the packing is reported");
    let text = &*report.description;
    assert!(text.contains("UD0 has 2 instances") && text.contains("Packing"), "{text}");
}

/// D6: every level of fault domains counts.
#[test]
fn racks_and_data_centers_are_spread_over() {
    let mut fleet = in_fault_domains(&[
        ("a1", "fd:/a/r1"),
        ("a2", "fd:/a/r1"),
        ("a3", "fd:/a/r2"),
        ("b1", "fd:/b/r1"),
        ("b2", "fd:/b/r2"),
    ]);
    fleet.put_policy("w", replicated(4, json!({"policy": "nodes-order"})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "a1 a3 b1 b2", "a second instance of a data center gets its own rack");
}

/// D5: hard by default. D6: a packed instance moves as soon as another node is in a domain of its own.
#[test]
fn node_that_is_put_into_a_domain_takes_an_instance_over() {
    let mut fleet = in_fault_domains(&[("a1", "fd:/a"), ("a2", "fd:/a"), ("b1", "fd:/a")]);
    fleet.put_policy("w", replicated(2, json!({"policy": "nodes-order"})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "a1 a2");
    fleet.put_node("b1", |facts| facts.fault_domain = Some("fd:/b".into()));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "a1 b1");
}

/// Two nodes, of which the one beside the partner is full.
fn with_full_partner(priorities: Value) -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    for name in ["n1", "n2"] {
        fleet.put_node(name, |facts| {
            facts.capacities.insert("memoryMb".into(), if name == "n1" { 100.0 } else { 1000.0 });
        });
    }
    let on_n1 = json!({"mode": "replicated", "replicas": 1, "placement": {"policy": "nodes-order"}});
    fleet.put_policy("db", on_n1);
    fleet.run(10);
    let placement = json!({"affinity": {"hard": ["db"]}, "constraintPriorities": priorities});
    let mut document = replicated(1, placement);
    document["loads"] = json!({"memoryMb": 500});
    fleet.put_policy("w", document);
    fleet.run(10);
    fleet
}

/// D5-S1: hard by default, so that nothing starts; with Affinity 1 the instance starts elsewhere.
#[test]
fn soft_affinity_gives_way_to_a_hard_capacity() {
    assert_eq!(with_full_partner(json!({})).running("w"), "");
    let fleet = with_full_partner(json!({"Affinity": 1, "NodeCapacity": 0}));
    assert_eq!(fleet.running("w"), "n2");
    let event = fleet
        .events
        .iter()
        .find(|event| event.kind == "placement.violation")
        .expect("the violation is reported");
    assert_eq!(event.text, "Affinity: level soft");
}

/// D5-S2, D5-S3.
#[test]
fn soft_domains_are_packed_with_a_warning_unless_they_are_off() {
    let domains = [("n1", "u1"), ("n2", "u1"), ("n3", "u2")];
    let start = |priorities: Value| {
        let mut fleet = in_upgrade_domains(&domains);
        fleet.put_node("n3", |facts| facts.is_frozen = true);
        fleet.put_policy("w", replicated(2, json!({"constraintPriorities": priorities})));
        fleet.run(20);
        assert_eq!(fleet.running("w"), "n1 n2");
        fleet
    };
    let fleet = start(json!({}));
    assert!(fleet.reported(&unit(), UPGRADE_PACKING).is_some());
    let unit_id = Fleet::unit_id("w");
    let question = Question { part: &unit_id, node: None, is_complete: false, now: fleet.now };
    let explained = explain_part(&fleet.model, question).expect("the workload unit exists");
    assert_eq!(explained.relaxed, [Constraint::UpgradeDomain]);
    let fleet = start(json!({"UpgradeDomain": -1}));
    assert!(fleet.reported(&unit(), UPGRADE_PACKING).is_none());
}

/// D5-S3: packing without a word where the constraint is off.
#[test]
fn fault_domains_with_priority_off_are_ignored() {
    let mut fleet = in_fault_domains(&[("a1", "fd:/a"), ("a2", "fd:/a"), ("b1", "fd:/b")]);
    let off = json!({"policy": "nodes-order", "constraintPriorities": {"FaultDomain": -1}});
    fleet.put_policy("w", replicated(2, off));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "a1 a2");
    assert!(fleet.reported(&unit(), FAULT_PACKING).is_none());
    assert!(!fleet.has_event("placement.violation"));
}

/// D5-S6: of two soft constraints the one that is tested later gives way.
#[test]
fn later_soft_constraint_is_sacrificed_first() {
    let mut fleet = in_upgrade_domains(&[("n1", "u1"), ("n2", "u1"), ("n3", "u2")]);
    // "db" runs beside the first two; n1 is not in question, and n3 lacks the partner.
    let on_two = json!({"mode": "replicated", "replicas": 2, "placement": {
        "policy": "nodes-order", "nodesOrder": ["n1", "n2"], "constraintPriorities": {"UpgradeDomain": -1}}});
    fleet.put_policy("db", on_two);
    fleet.run(10);
    assert_eq!(fleet.running("db"), "n1 n2");
    let placement = json!({"affinity": {"hard": ["db"]}, "policy": "nodes-order",
                           "constraintPriorities": {"Affinity": 1, "UpgradeDomain": 1}});
    fleet.put_policy("w", replicated(2, placement));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n1 n2", "n3 violates Affinity, n2 UpgradeDomain");
}

/// D5: the settings of the organization apply where the policy has none.
#[test]
fn organization_says_which_constraints_are_hard() {
    let mut fleet = in_fault_domains(&[("a1", "fd:/a"), ("a2", "fd:/a"), ("b1", "fd:/b")]);
    let settings =
        json!({"constraintPriorities": [{"name": "FaultDomainConstraintPriority", "value": "-1"}]});
    let settings = serde_json::from_value(settings).expect("valid settings");
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet.put_policy("w", replicated(2, json!({"policy": "nodes-order"})));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "a1 a2");
}

/// P-S8: a domain is compared with those that are alive; where distribution is required, with all.
#[test]
fn only_domain_that_is_left_takes_the_instances_unless_distribution_is_required() {
    let nodes = [("a1", "fd:/a"), ("b1", "fd:/b"), ("b2", "fd:/b")];
    let lose = |document: Value| {
        let mut fleet = in_fault_domains(&nodes);
        fleet.put_policy("w", document);
        fleet.run(20);
        fleet.silent.insert(node("a1"));
        fleet.run(240);
        fleet
    };
    let failover = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 1}});
    assert_eq!(lose(failover).running("w"), "b1");
    let fleet = lose(replicated(2, json!({"policy": "nodes-order"})));
    assert!(fleet.running("w").ends_with("b1 b2"));
    assert!(fleet.reported(&unit(), FAULT_PACKING).is_some());
    let required = json!({"policy": "nodes-order", "domains": {"requireDomainDistribution": true}});
    let fleet = lose(replicated(2, required));
    assert!(fleet.running("w").ends_with("b1"), "{}", fleet.running("w"));
}

/// D6: explaining one node names its domain and one with fewer instances.
#[test]
fn node_of_a_packed_domain_is_explained() {
    let mut fleet = in_fault_domains(&[("a1", "fd:/a"), ("a2", "fd:/a"), ("b1", "fd:/b")]);
    fleet.put_policy("w", replicated(1, json!({"policy": "nodes-order"})));
    fleet.run(10);
    let unit_id = Fleet::unit_id("w");
    assert_eq!(unit_id.part, Part::All);
    let found = evenkeel_placement::place::explain_node(
        &fleet.model.workload_unit(&unit_id).expect("the workload unit exists").table,
        &node("a2"),
    );
    let why = "fd:/a has 1 instances, fd:/b has 0".to_owned();
    assert_eq!(found, Ok(Some((Constraint::FaultDomain, why))));
}

/// D6: where distribution is required the levels above the leaves are spread as well.
#[test]
fn required_distribution_spreads_the_levels_above_the_leaves() {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
    let domains = ["fd:/a/1", "fd:/a/2", "fd:/b/1", "fd:/b/2", "fd:/c/1", "fd:/c/2"];
    let mut fleet = Fleet::new(&names);
    for (name, domain) in names.into_iter().zip(domains) {
        fleet.put_node(name, |facts| facts.fault_domain = Some(domain.into()));
    }
    let placement = json!({"nodesOrder": names, "domains": {"requireDomainDistribution": true}});
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 3, "placement": placement}));
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n3 n5");
}

/// Engine 9: an instance on every node is not spread, however many nodes a domain has.
#[test]
fn global_workload_is_not_packed_where_a_domain_has_more_nodes() {
    for placement in [json!({}), json!({"domains": {"requireDomainDistribution": true}})] {
        let mut fleet =
            in_fault_domains(&[("a1", "fd:/a"), ("a2", "fd:/a"), ("a3", "fd:/a"), ("b1", "fd:/b")]);
        fleet.put_policy("w", json!({"mode": "global", "placement": placement}));
        fleet.run(60);
        assert_eq!(fleet.running("w"), "a1 a2 a3 b1");
        assert_eq!(fleet.status("w").warnings, Vec::<String>::new(), "{placement}");
        for name in ["a1", "a2", "a3", "b1"] {
            assert!(!fleet.flags("w", name).contains('C'), "{placement} {name}");
        }
        let unit = Entity::WorkloadUnit(Fleet::unit_id("w"));
        assert!(fleet.reported(&unit, FAULT_PACKING).is_none(), "{placement}");
    }
}
