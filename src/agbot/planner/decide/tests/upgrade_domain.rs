//! Updates that go through upgrade domains one after the other: B11.4, D9.3, D10.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use evenkeel_ids::GroupId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    facts::HaGroupFacts,
    health::Entity,
    workload::{Task, UpdateState},
};

use super::fleet::{Fleet, node, policy};

fn document(update: &Value) -> Value {
    json!({"mode": "replicated", "replicas": 6, "placement": {"policy": "nodes-order"}, "update": update})
}

/// Six nodes in three upgrade domains, with an instance on each.
fn fleet(update: &Value) -> Fleet {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
    let mut fleet = Fleet::new(&names);
    for (name, domain) in names.iter().zip(["u2", "u1", "u3", "u1", "u2", "u3"]) {
        fleet.put_node(name, |facts| facts.upgrade_domain = Some(domain.into()));
    }
    fleet.put_policy("w", document(update));
    fleet.run(10);
    fleet
}

/// Returns the upgrade domains with an instance of the second version, running or not.
fn reached(fleet: &Fleet) -> BTreeSet<String> {
    let is_new = |task: &&&Task| task.is_live() && task.spec.number > 1;
    let tasks = fleet.tasks();
    let nodes = tasks.iter().filter(is_new).filter_map(|task| task.node.clone());
    nodes
        .filter_map(|node| fleet.model.node(&node)?.facts.upgrade_domain.as_deref().map(str::to_owned))
        .collect()
}

fn state(fleet: &Fleet) -> UpdateState {
    fleet.status("w").update.state
}

fn message(fleet: &Fleet) -> String {
    fleet.status("w").update.message.clone()
}

/// Returns what the slots of the update wait for.
fn blocked(fleet: &Fleet) -> String {
    let blocked = fleet.status("w").update.blocked;
    let slots = blocked.into_iter().flat_map(|blocked| blocked.slots);
    slots.map(|(_, why)| why.to_string()).collect::<Vec<_>>().join("; ")
}

fn workload() -> Entity {
    Entity::Workload(policy("w"))
}

/// B11.4: all slots at once, but never those of two domains, and the next domain only after the one before was monitored.
#[test]
fn update_goes_through_one_domain_after_the_other() {
    let update = json!({"parallelism": 0, "monitorSeconds": 5});
    let mut fleet = fleet(&update);
    fleet.put_version("w", "2.0.0", document(&update));
    let mut order = Vec::new();
    fleet.run_until(200, |fleet| {
        let reached = reached(fleet).len();
        if order.last() != Some(&reached) {
            order.push(reached);
        }
        state(fleet) == UpdateState::Completed
    });
    assert_eq!(order.last(), Some(&3));
    assert!(order.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{order:?}");
    let starts: Vec<_> = fleet.events.iter().filter(|event| event.kind == "update.slot").collect();
    assert_eq!(starts.len(), 6);
}

/// D9.3: a domain waits for the earlier one also when that one is blocked, and reports it.
#[test]
fn domain_that_is_blocked_keeps_the_later_ones_waiting() {
    let update = json!({"parallelism": 0, "monitorSeconds": 1});
    let mut fleet = fleet(&update);
    fleet.freeze("n2");
    fleet.put_version("w", "2.0.0", document(&update));
    fleet.run(60);
    assert_eq!(reached(&fleet), BTreeSet::from(["u1".to_owned()]));
    let blocked = blocked(&fleet);
    assert!(blocked.contains("upgrade domain u2 is updated after u1"), "{blocked}");
    fleet.put_node("n2", |facts| facts.is_frozen = false);
    fleet.run_until(200, |fleet| state(fleet) == UpdateState::Completed);
}

/// D11: a workload unit that is done does not take back what another one waits for, and the row is not written again and again.
#[test]
fn blocked_group_stays_blocked_while_the_other_one_is_done() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3", "n4"]);
    for (name, members) in [("g1", ["n1", "n2"]), ("g2", ["n3", "n4"])] {
        let group = HaGroupFacts::new(GroupId::new("o", name), members.map(node));
        fleet.handle(&Event::HaGroupChanged { group: Box::new(group) });
    }
    let document = || {
        json!({"mode": "replicated", "replicas": 1, "scope": {"type": "hagroups", "haGroups": ["g1", "g2"]},
               "placement": {"policy": "nodes-order"}, "update": {"monitorSeconds": 1, "parallelism": 0}})
    };
    fleet.put_policy("w", document());
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1 n3");
    fleet.freeze("n1");
    fleet.put_version("w", "2.0.0", document());
    fleet.run(20);
    let revision = |fleet: &Fleet| fleet.model.workload(&policy("w")).map(|record| record.revision);
    let before = revision(&fleet);
    fleet.run(60);
    assert_eq!(revision(&fleet), before, "nothing changes, so nothing is written");
    assert!(blocked(&fleet).contains("frozen"), "{}", blocked(&fleet));
    fleet.put_node("n1", |facts| facts.is_frozen = false);
    fleet.run_until(200, |fleet| state(fleet) == UpdateState::Completed);
}

/// D10-S1: an error on an instance of the first domain after its update.
#[test]
fn error_in_the_first_domain_pauses_the_update_before_the_second_one() {
    let update = json!({"parallelism": 0, "monitorSeconds": 20});
    let mut fleet = fleet(&update);
    fleet.put_version("w", "2.0.0", document(&update));
    fleet.run_until(60, |fleet| reached(fleet).len() == 1);
    fleet.run(3);
    fleet.report_health(&Entity::Instance(policy("w"), node("n2")), "dog", "Error");
    fleet.run(120);
    assert_eq!(state(&fleet), UpdateState::Paused);
    assert_eq!(reached(&fleet), BTreeSet::from(["u1".to_owned()]), "the second domain is not begun");
    assert!(message(&fleet).contains("dog reports p of"), "{}", message(&fleet));
}

/// D10-S2: what is tolerated as a failure still keeps the next domain waiting, until it is over.
#[test]
fn next_domain_proceeds_when_the_error_is_cleared_in_time() {
    let update = json!({"parallelism": 0, "monitorSeconds": 10, "maxFailureRatio": 0.5});
    let mut fleet = fleet(&update);
    fleet.put_version("w", "2.0.0", document(&update));
    fleet.run_until(60, |fleet| reached(fleet).len() == 1);
    fleet.run(3);
    fleet.report_health(&workload(), "dog", "Error");
    fleet.run(25);
    assert_eq!((state(&fleet), reached(&fleet).len()), (UpdateState::Updating, 1));
    let blocked = blocked(&fleet);
    assert!(blocked.contains("for the end of an error: dog reports p of"), "{blocked}");
    fleet.report_health(&workload(), "dog", "Ok");
    fleet.run_until(200, |fleet| state(fleet) == UpdateState::Completed);
}

/// D10-S1: an error that is tolerated and not cleared within the monitoring time and 30 seconds.
#[test]
fn error_that_is_not_cleared_in_time_fails_the_update() {
    let update =
        json!({"parallelism": 0, "monitorSeconds": 10, "maxFailureRatio": 0.5, "failureAction": "rollback"});
    let mut fleet = fleet(&update);
    fleet.put_version("w", "2.0.0", document(&update));
    fleet.run_until(60, |fleet| reached(fleet).len() == 1);
    fleet.run(3);
    fleet.report_health(&workload(), "dog", "Error");
    fleet.run_until(60, |fleet| state(fleet) == UpdateState::RollbackStarted);
    assert!(message(&fleet).contains("dog reports p of"), "{}", message(&fleet));
    fleet.run_until(300, |fleet| state(fleet) == UpdateState::RollbackCompleted);
}

/// D11: of two groups that wait in one update, one says what for, and nothing is written while nothing changes.
#[test]
fn groups_that_wait_in_one_update_do_not_replace_each_others_reasons() {
    let document = json!({"mode": "global", "scope": {"type": "hagroups", "haGroups": ["g", "h"]}});
    let mut fleet = Fleet::new(&["n1", "n2", "n3", "n4"]);
    fleet.put_group("g", &["n1", "n2"], None);
    fleet.put_group("h", &["n3", "n4"], None);
    fleet.put_version("w", "1.0.0", document.clone());
    fleet.run_until(40, |fleet| fleet.running("w") == "n1 n2 n3 n4");
    ["n1", "n2", "n3", "n4"].iter().for_each(|name| fleet.freeze(name));
    fleet.put_version("w", "2.0.0", document);
    fleet.run(60);
    assert_eq!(state(&fleet), UpdateState::Updating);
    assert!(blocked(&fleet).contains("frozen"), "{}", blocked(&fleet));
    let revision = |fleet: &Fleet| fleet.model.workload(&policy("w")).map(|record| record.revision);
    let before = revision(&fleet);
    fleet.run(60);
    assert_eq!(revision(&fleet), before);
}
