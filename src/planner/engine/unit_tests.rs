//! Several workload units of one workload: nodes that move between them, and updates that go through all of them.

use evenkeel_ids::GroupId;
use serde_json::{Value, json};

use super::fleet::{Fleet, node, policy};
use crate::workload::{Part, UnitId};

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

fn count(fleet: &Fleet, kind: &str) -> usize {
    fleet.events.iter().filter(|event| event.kind == kind).count()
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
fn update_that_goes_through_several_units_is_told_once() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    fleet.put_group("g1", &["n1", "n2"], None);
    fleet.put_group("g2", &["n3"], None);
    fleet.put_group("g3", &[], None);
    fleet.put_policy("w", in_groups(1));
    fleet.run(10);
    fleet.put_version("w", "2.0.0", in_groups(1));
    fleet.run(60);
    let seen = ["update.started", "update.completed", "update.blocked"].map(|kind| count(&fleet, kind));
    assert_eq!(seen, [1, 1, 0]);
}
