//! The preferred domain of the first instance, and moves to nodes that rank better: D5-S5, D8, D9.5.

use evenkeel_explain::explain::explain_part;
use evenkeel_planner_record::{health::Entity, report::Constraint, workload::Cause};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

fn failover(placement: Value) -> Value {
    json!({"mode": "failover", "orchestrate": "ha", "placement": placement, "timers": {"readyPeriodSeconds": 2}})
}

fn preferring_east(more: Value) -> Value {
    let mut placement = json!({"domains": {"preferredDomain": "fd:/east"}});
    placement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    failover(placement)
}

/// The node in the west comes first in the order.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new(&["east1", "west1"]);
    fleet.put_node("east1", |facts| facts.fault_domain = Some("fd:/east/r1".into()));
    fleet.put_node("west1", |facts| facts.fault_domain = Some("fd:/west/r1".into()));
    let settings = serde_json::from_value(json!({"nodeDownAfterSeconds": 20})).expect("valid settings");
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet
}

fn order() -> Value {
    json!({"nodesOrder": ["west1", "east1"]})
}

fn relaxed(fleet: &Fleet) -> Vec<Constraint> {
    let unit_id = Fleet::unit_id("w");
    let question = Question { part: &unit_id, node: None, is_complete: false, now: fleet.now };
    explain_part(&fleet.model, question).expect("the workload unit exists").relaxed
}

/// D8-S1, D8-S2.
#[test]
fn instance_starts_in_the_preferred_domain_and_returns_to_it() {
    let mut fleet = fleet();
    fleet.put_policy("w", preferring_east(order()));
    fleet.run(20);
    assert_eq!((fleet.running("w").as_str(), relaxed(&fleet)), ("east1", vec![]));
    fleet.silent.insert(node("east1"));
    fleet.run_until(60, |fleet| fleet.live("w") == "west1" && fleet.running("w") == "west1");
    assert_eq!(relaxed(&fleet), [Constraint::PreferredLocation]);
    fleet.silent.clear();
    let passed = fleet.run_until(310, |fleet| fleet.running("w") == "east1");
    assert!(passed <= 300 + 16);
    fleet.run(600);
    assert_eq!(fleet.running("w"), "east1");
    let moves = fleet.tasks().iter().filter(|task| task.cause == Cause::Rebalance).count();
    assert_eq!(moves, 1);
}

/// D8-S2.
#[test]
fn other_domain_is_used_without_a_warning_when_the_preferred_one_is_full() {
    let mut fleet = fleet();
    fleet.freeze("east1");
    fleet.put_policy("w", preferring_east(order()));
    fleet.run(60);
    assert_eq!(fleet.running("w"), "west1");
    assert!(!fleet.has_event("placement.violation"));
    let unit = Entity::WorkloadUnit(Fleet::unit_id("w"));
    assert!(fleet.reported(&unit, "InstanceConstraintViolation_PreferredLocation").is_none());
}

/// D8-S4.
#[test]
fn preferred_domain_that_is_off_changes_nothing() {
    let mut off = order();
    off["constraintPriorities"] = json!({"PreferredLocation": -1});
    let mut fleet = fleet();
    fleet.put_policy("w", preferring_east(off));
    fleet.run(400);
    assert_eq!((fleet.running("w").as_str(), relaxed(&fleet)), ("west1", vec![]));
    assert!(!fleet.tasks().iter().any(|task| task.cause == Cause::Rebalance));
}

/// D5: with priority 0 it is never given up.
#[test]
fn hard_preferred_domain_is_not_left() {
    let mut hard = order();
    hard["constraintPriorities"] = json!({"PreferredLocation": 0});
    let mut fleet = fleet();
    fleet.freeze("east1");
    fleet.put_policy("w", preferring_east(hard));
    fleet.run(60);
    assert_eq!(fleet.live("w"), "");
    let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("it exists");
    let report = unit.unplaced.as_ref().expect("it is unplaced");
    assert!(report.summary.ends_with("Frozen removed 1, PreferredLocation 1"), "{}", report.summary);
}

/// D5-S5: a violates UpgradeDomain, because c is in the same one, and b violates PreferredLocation.
#[test]
fn preferred_location_gives_way_before_the_upgrade_domain() {
    let mut fleet = Fleet::new(&["a", "b", "c", "d"]);
    let domains =
        [("a", "fd:/x/1", "u1"), ("b", "fd:/y/1", "u2"), ("c", "fd:/z/1", "u1"), ("d", "fd:/x/2", "u2")];
    for (name, fault, upgrade) in domains {
        fleet.put_node(name, |facts| {
            (facts.fault_domain, facts.upgrade_domain) = (Some(fault.into()), Some(upgrade.into()));
        });
    }
    fleet.freeze("a");
    fleet.freeze("b");
    let placement = json!({"policy": "nodes-order", "domains": {"preferredDomain": "fd:/x"}});
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2, "placement": placement}));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "c d");
    for name in ["a", "b"] {
        fleet.put_node(name, |facts| facts.is_frozen = false);
    }
    fleet.handle(&evenkeel_planner_model::event::Event::NodeRemoved { node: node("d") });
    assert_eq!(fleet.live("w"), "b c");
    fleet.run(20);
    assert_eq!(fleet.live("w"), "a b", "from c to a: the preferred location, and domains of their own");
}

/// D9.5: an automatic giveback, one instance at a time.
#[test]
fn instance_is_moved_to_the_better_node_only_if_the_policy_says_so() {
    for is_rebalanced in [false, true] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.freeze("n1");
        fleet.put_policy("w", failover(json!({"rebalance": is_rebalanced})));
        fleet.run(20);
        assert_eq!(fleet.running("w"), "n2");
        fleet.put_node("n1", |facts| facts.is_frozen = false);
        fleet.run(310);
        assert_eq!(fleet.running("w"), if is_rebalanced { "n1" } else { "n2" });
    }
}

/// D9.5: what a user placed stays.
#[test]
fn pinned_instance_is_not_rebalanced() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy(
        "w",
        json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 0, "target": 1},
        "placement": {"rebalance": true}, "timers": {"readyPeriodSeconds": 0}}),
    );
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    fleet.start_on("w", "n2");
    fleet.run(700);
    assert!(fleet.running("w").contains("n2"), "{}", fleet.running("w"));
}

/// D8 (b): at most one return in each interval, however short the history of the slot is.
#[test]
fn return_to_the_preferred_domain_keeps_its_interval() {
    let mut fleet = fleet();
    let settings =
        json!({"nodeDownAfterSeconds": 20, "taskHistoryRetentionLimit": 1, "rebalanceIntervalSeconds": 300});
    let settings = serde_json::from_value(settings).expect("valid settings");
    let org = "o".parse().expect("an organization");
    fleet.handle(&evenkeel_planner_model::event::Event::OrgSettingsChanged { org, settings });
    fleet.put_policy("w", preferring_east(order()));
    fleet.run(20);
    let mut returns = Vec::new();
    for _ in 0..3 {
        fleet.silent.insert(node("east1"));
        fleet.run_until(60, |fleet| fleet.running("w") == "west1");
        fleet.silent.clear();
        fleet.run_until(400, |fleet| fleet.running("w") == "east1");
        returns.push(fleet.now);
    }
    for pair in returns.windows(2) {
        let passed = pair[1].duration_since(pair[0]).as_secs();
        assert!(passed >= 300, "{passed} s");
    }
}

/// D9.1: what is hard holds for a move to a better node as well, and another better node is taken.
#[test]
fn instance_is_not_moved_where_that_violates_a_hard_constraint() {
    for (has_other, expected) in [(true, "c1 d1"), (false, "b1 c1")] {
        let domains = [("a1", "fd:/c"), ("d1", "fd:/d"), ("b1", "fd:/b"), ("c1", "fd:/c")];
        let mut fleet = Fleet::new(&["a1", "d1", "b1", "c1"]);
        for (name, domain) in domains {
            fleet.put_node(name, |facts| facts.fault_domain = Some(domain.into()));
        }
        fleet.freeze("a1");
        fleet.freeze("d1");
        let placement = json!({"policy": "nodes-order", "nodesOrder": ["c1", "a1", "d1", "b1"], "rebalance": true,
            "domains": {"requireDomainDistribution": true}});
        let document = json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 2, "max": 2, "target": 2},
            "placement": placement, "timers": {"readyPeriodSeconds": 0}});
        fleet.put_policy("w", document);
        fleet.run(20);
        assert_eq!(fleet.running("w"), "b1 c1");
        fleet.put_node("a1", |facts| facts.is_frozen = false);
        if has_other {
            fleet.put_node("d1", |facts| facts.is_frozen = false);
        }
        for _ in 0..70 {
            fleet.run(10);
            let running = fleet.running("w");
            assert!(!running.contains("a1"), "{running}");
        }
        assert_eq!(fleet.running("w"), expected);
    }
}
