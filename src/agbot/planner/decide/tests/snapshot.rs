//! Instances that an upgrade moves away return, and none moves more than twice: D9, D8-S3, P-S7, P-S17.

use serde_json::{Value, json};

use evenkeel_ids::{GroupId, NmpId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    claims::{ClaimRequest, Purpose, Scope},
    facts::{Availability, HaGroupFacts, NodeMonitorState},
    workload::{Cause, Task},
};

use super::fleet::{Fleet, node, policy};

fn failover(placement: Value) -> Value {
    json!({"mode": "failover", "orchestrate": "ha", "placement": placement, "timers": {"readyPeriodSeconds": 1}})
}

fn begin(fleet: &mut Fleet, name: &str) {
    fleet.put_node(name, |facts| {
        (facts.availability, facts.is_in_upgrade) = (Availability::Drain, true);
    });
}

fn end(fleet: &mut Fleet, name: &str) {
    fleet.put_node(name, |facts| {
        (facts.availability, facts.is_in_upgrade) = (Availability::Active, false);
    });
}

/// Returns how often instances of a policy came to another node.
fn moves(fleet: &Fleet, name: &str) -> usize {
    let tasks = fleet.tasks().into_iter().filter(|task| task.unit_id.policy == policy(name));
    tasks
        .filter(|task| matches!(task.cause, Cause::Drain | Cause::Return | Cause::Rebalance | Cause::Cure))
        .count()
}

/// D9-S1.
#[test]
fn instance_moves_out_and_back_while_three_nodes_are_upgraded() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy("w", failover(json!({})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    for name in ["n1", "n2", "n3"] {
        begin(&mut fleet, name);
        fleet.run_until(60, |fleet| !fleet.live("w").contains(name));
        fleet.run(20);
        end(&mut fleet, name);
        fleet.run_until(60, |fleet| fleet.running("w") == "n1");
        fleet.run(20);
    }
    assert_eq!((fleet.running("w").as_str(), moves(&fleet, "w")), ("n1", 2));
    let count = |kind: &str| fleet.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count("snapshot.taken"), count("snapshot.returned")), (1, 1));
}

/// D9-S1: a node that is drained before the instance on it has returned sends it back to its origin.
#[test]
fn instance_on_a_temporary_node_goes_back_to_its_origin_first() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy("w", failover(json!({"nodesOrder": ["n1", "n2", "n3"]})));
    fleet.run(10);
    begin(&mut fleet, "n1");
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    // Both at once: n1 is upgraded, n2 begins.
    end(&mut fleet, "n1");
    begin(&mut fleet, "n2");
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    end(&mut fleet, "n2");
    fleet.run(60);
    assert_eq!((fleet.running("w").as_str(), moves(&fleet, "w")), ("n1", 2));
}

/// D9 (ii): a maintenance that is announced as an upgrade; what moved away because it took too long returns.
#[test]
fn instance_returns_to_a_node_whose_maintenance_was_an_upgrade() {
    for (state, expected) in [(NodeMonitorState::Upgrade, "n1"), (NodeMonitorState::Maintenance, "n2")] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_policy("w", failover(json!({})));
        fleet.run(10);
        assert_eq!(fleet.running("w"), "n1");
        fleet.announce("n1", state);
        fleet.silent.insert(node("n1"));
        fleet.run_until(2_000, |fleet| fleet.running("w") == "n2");
        fleet.silent.clear();
        fleet.announce("n1", NodeMonitorState::Idle);
        fleet.run(60);
        assert_eq!(fleet.running("w"), expected, "{state:?}");
    }
}

/// D9-S2: an emptied node is not refilled while other nodes are upgraded, although the policy rebalances.
#[test]
fn nothing_is_rebalanced_during_an_upgrade() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    // n1 is better than n2, where the instance is because n1 was frozen.
    fleet.freeze("n1");
    fleet.put_policy("w", failover(json!({"rebalance": true})));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n2");
    begin(&mut fleet, "n3");
    fleet.put_node("n1", |facts| facts.is_frozen = false);
    fleet.run(400);
    assert_eq!(fleet.running("w"), "n2", "the upgrade goes on");
    end(&mut fleet, "n3");
    fleet.run_until(310, |fleet| fleet.running("w") == "n1");
}

/// D9-S3: hard constraints hold for temporary destinations, too.
#[test]
fn temporary_destination_keeps_the_constraints() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy(
        "other",
        json!({"mode": "replicated", "replicas": 1, "placement": {"expression": "{nodename} == n3"}}),
    );
    let document =
        json!({"mode": "replicated", "replicas": 1, "placement": {"expression": "{nodename} != n2"}});
    fleet.put_policy("w", document);
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    begin(&mut fleet, "n1");
    fleet.run_until(60, |fleet| fleet.running("w") == "n3");
    end(&mut fleet, "n1");
    fleet.run_until(60, |fleet| fleet.running("w") == "n1");
}

/// D9.4, D6: an origin in whose domain the instance would be packed is not a candidate, and it does not move
/// to and fro.
#[test]
fn instance_does_not_return_into_a_domain_where_it_would_be_packed() {
    let mut fleet = Fleet::new(&["b1", "a1", "b2"]);
    for (name, domain) in [("a1", "fd:/a"), ("b1", "fd:/b"), ("b2", "fd:/b")] {
        fleet.put_node(name, |facts| facts.fault_domain = Some(domain.into()));
    }
    let document = |replicas: u32| {
        let order = json!(["b1", "a1", "b2"]);
        let placement = json!({"policy": "nodes-order", "nodesOrder": order, "onViolation": "move"});
        json!({"mode": "replicated", "replicas": replicas, "placement": placement})
    };
    fleet.put_policy("w", document(1));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "b1");
    fleet.put_node("b2", |facts| facts.availability = Availability::Pause);
    begin(&mut fleet, "b1");
    fleet.run_until(60, |fleet| fleet.running("w") == "a1");
    fleet.put_node("b2", |facts| facts.availability = Availability::Active);
    fleet.put_policy("w", document(2));
    fleet.run_until(60, |fleet| fleet.running("w") == "a1 b2");
    end(&mut fleet, "b1");
    fleet.run(120);
    assert_eq!((fleet.running("w").as_str(), moves(&fleet, "w")), ("a1 b2", 1));
    assert!(fleet.has_event("snapshot.dropped"));
}

/// D9-S4.
#[test]
fn instance_stays_when_its_origin_is_deleted() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_policy("w", failover(json!({})));
    fleet.run(10);
    begin(&mut fleet, "n1");
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    fleet.handle(&Event::NodeRemoved { node: node("n1") });
    fleet.run(120);
    assert_eq!((fleet.running("w").as_str(), moves(&fleet, "w")), ("n2", 1));
    assert!(fleet.has_event("snapshot.dropped"));
    let is_displaced = |task: &&&Task| task.origin.is_some() && task.is_live();
    assert_eq!(fleet.tasks().iter().filter(is_displaced).count(), 0);
}

/// D9-S5: twenty nodes are upgraded in an order that has nothing to do with where the instances are.
#[test]
fn no_instance_moves_more_than_twice_over_an_upgrade_of_twenty_nodes() {
    let names: Vec<String> = (1..=20).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fleet = Fleet::new(&names);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 8, "placement": {"rebalance": true}}));
    fleet.run(15);
    let before = fleet.running("w");
    let mut order: Vec<&str> = names.clone();
    order.sort_by_key(|name| evenkeel_planner_record::stable_hash::stable_hash(&[name]));
    for name in order {
        begin(&mut fleet, name);
        fleet.run_until(60, |fleet| !fleet.live("w").split(' ').any(|one| one == name));
        end(&mut fleet, name);
        // The next one begins before everything is back.
        fleet.run(2);
    }
    fleet.run(60);
    assert_eq!(fleet.running("w"), before);
    for number in 1..=8 {
        let slot = evenkeel_planner_record::workload::Slot::Number(number);
        let tasks = fleet.tasks();
        let moved = tasks.iter().filter(|task| task.slot == slot && task.cause != Cause::Scale).count();
        assert!(moved <= 2, "slot {number} moved {moved} times");
    }
}

/// D9.4: what an update moves because its node cannot hold both versions returns when the update is over; in place nothing moves.
#[test]
fn update_that_moves_an_instance_brings_it_back() {
    let document = || {
        json!({"mode": "replicated", "replicas": 1, "placement": {"policy": "nodes-order"}, "loads": {"memoryMb": 400},
               "update": {"order": "start-first", "monitorSeconds": 3}})
    };
    for (memory, expected) in [(1_000.0, 0), (500.0, 1)] {
        let mut fleet = Fleet::new(&["n1", "n2"]);
        fleet.put_node("n1", |facts| {
            facts.capacities.insert("memoryMb".into(), memory);
        });
        fleet.put_policy("w", document());
        fleet.run(10);
        assert_eq!(fleet.running("w"), "n1");
        fleet.put_version("w", "2.0.0", document());
        fleet.run(60);
        assert!(fleet.has_event("snapshot.taken"));
        let returned = fleet.tasks().iter().filter(|task| task.cause == Cause::Return).count();
        assert_eq!((returned, fleet.live("w").as_str()), (expected, "n1"));
    }
}

/// D8-S3: the origin is over the preferred domain, to which the instance returns after the upgrade.
#[test]
fn origin_outranks_the_preferred_domain_during_an_upgrade() {
    let mut fleet = Fleet::new(&["east1", "west1", "west2"]);
    for (name, domain) in [("east1", "fd:/east/r1"), ("west1", "fd:/west/r1"), ("west2", "fd:/west/r2")] {
        fleet.put_node(name, |facts| facts.fault_domain = Some(domain.into()));
    }
    fleet.freeze("east1");
    fleet.put_policy(
        "w",
        failover(json!({"nodesOrder": ["west1", "west2"], "domains": {"preferredDomain": "fd:/east"}})),
    );
    fleet.run(20);
    assert_eq!(fleet.running("w"), "west1");
    begin(&mut fleet, "west1");
    fleet.run_until(60, |fleet| fleet.running("w") == "west2");
    fleet.put_node("east1", |facts| facts.is_frozen = false);
    begin(&mut fleet, "west2");
    end(&mut fleet, "west1");
    fleet.run_until(60, |fleet| fleet.running("w") == "west1");
    fleet.run(100);
    assert_eq!(fleet.running("w"), "west1", "the upgrade of west2 goes on");
    end(&mut fleet, "west2");
    fleet.run_until(310, |fleet| fleet.running("w") == "east1");
}

/// D8-S4: without the constraint nothing returns.
#[test]
fn nothing_returns_when_the_preferred_location_is_off() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", failover(json!({"constraintPriorities": {"PreferredLocation": -1}})));
    fleet.run(10);
    begin(&mut fleet, "n1");
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    end(&mut fleet, "n1");
    fleet.run(120);
    assert_eq!(fleet.running("w"), "n2");
}

/// P-S7: an instance stays although the workload that it must share its node with is away for an upgrade.
#[test]
fn dependent_stays_while_its_partner_is_away_for_an_upgrade() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("db", failover(json!({"nodesOrder": ["n1", "n2"]})));
    fleet.run(10);
    let with_db = json!({"mode": "replicated", "replicas": 1, "placement": {"affinity": {"hard": ["db"]}}});
    fleet.put_policy("w", with_db);
    fleet.run(10);
    assert_eq!((fleet.running("db").as_str(), fleet.running("w").as_str()), ("n1", "n1"));
    // Only the partner cannot stay: the upgrade is its own.
    let update = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 1},
                        "update": {"monitorSeconds": 60}, "placement": {"nodesOrder": ["n1", "n2"]}});
    fleet.put_version("db", "2.0.0", update);
    fleet.run(2);
    let task = fleet.tasks().into_iter().find(|task| task.unit_id.policy == policy("db") && task.is_live());
    assert!(task.is_some_and(|task| task.spec.number == 2));
    fleet.crash("db", "n1", true);
    fleet.run_until(60, |fleet| fleet.live("db") == "n2");
    fleet.run(5);
    assert_eq!(fleet.running("w"), "n1", "it waits for the end of the upgrade");
    fleet.crash("db", "n1", false);
    fleet.run(200);
    assert_eq!(fleet.running("db"), fleet.running("w"), "they are together again");
}

/// P-S17: the node to which an instance would return is in maintenance.
#[test]
fn return_waits_for_an_origin_in_maintenance_while_the_upgrade_lasts() {
    for returns in [true, false] {
        let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
        fleet.put_policy("w", failover(json!({})));
        fleet.run(10);
        begin(&mut fleet, "n1");
        fleet.run_until(60, |fleet| fleet.running("w") == "n2");
        begin(&mut fleet, "n3");
        fleet.announce("n1", NodeMonitorState::Maintenance);
        end(&mut fleet, "n1");
        fleet.run(20);
        assert_eq!(fleet.running("w"), "n2");
        if returns {
            fleet.announce("n1", NodeMonitorState::Idle);
            fleet.run_until(60, |fleet| fleet.running("w") == "n1");
        } else {
            end(&mut fleet, "n3");
            fleet.run(20);
            fleet.announce("n1", NodeMonitorState::Idle);
            fleet.run(60);
            assert_eq!(fleet.running("w"), "n2", "the upgrade was over");
        }
    }
}

/// D9-S1, E6.4: the agents of a group are upgraded one after the other, and each node is drained first.
#[test]
fn upgrade_of_an_agent_drains_its_node_first_and_the_instance_returns() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    let id = GroupId::new("o", "g");
    let group = HaGroupFacts::new(id.clone(), ["n1", "n2", "n3"].map(node));
    fleet.handle(&Event::HaGroupChanged { group: Box::new(group) });
    let document = json!({"mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": ["g"]},
                          "timers": {"readyPeriodSeconds": 1}});
    fleet.put_policy("w", document);
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    for (number, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        let request = ClaimRequest {
            group: id.clone(),
            scope: Scope::Agent,
            node: node(name),
            purpose: Purpose::AgentUpgrade { nmp: NmpId::new("o", "m"), drains: true },
            version: String::new(),
            deadline: evenkeel_planner_record::time::later(fleet.now, 600),
            seen_running: Vec::new(),
            parallelism: 0,
        };
        let claim = request.into_claim(7 + number as u64, fleet.now);
        let key = claim.key();
        fleet.handle(&Event::ClaimRecorded { claim: Box::new(claim) });
        let elsewhere = if name == "n1" { "n2" } else { "n1" };
        fleet.run_until(30, |fleet| {
            fleet.model.instances_on(&node(name)) == 0 && fleet.running("w") == elsewhere
        });
        fleet.run(10);
        fleet.handle(&Event::ClaimRemoved { key });
        fleet.run_until(60, |fleet| fleet.running("w") == "n1");
    }
    assert_eq!(moves(&fleet, "w"), 2);
}
