//! A fleet that is read as a whole is that of its events one by one.

use evenkeel_ids::GroupId;
use evenkeel_planner_model::{event::Event, model::Model};
use evenkeel_planner_record::facts::{Availability, HaGroupFacts};
use serde_json::json;

use super::fleet::{Fleet, node};
use crate::decide::decide;

fn node_changed(fleet: &Fleet, name: &str, availability: Availability) -> Event {
    let mut facts = fleet.model.node(&node(name)).expect("a node").facts.clone();
    facts.availability = availability;
    Event::NodeChanged { node: Box::new(facts) }
}

#[test]
fn decision_about_a_fleet_that_is_read_at_once_is_that_about_its_events() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3", "n4", "n5"]);
    fleet.put_group("g", &["n1", "n2"], None);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 3}));
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    fleet.put_policy("each", json!({"mode": "replicated", "replicas": 1, "scope": scope}));
    fleet.run(60);
    let holders = fleet.live("w");
    let group = |members: &[&str]| {
        let members = members.iter().map(|name| node(name));
        Event::HaGroupChanged { group: Box::new(HaGroupFacts::new(GroupId::new("o", "g"), members)) }
    };
    let [first, second, _] = holders.split(' ').collect::<Vec<_>>()[..] else { panic!("{holders}") };
    let events = [
        group(&["n2", "n3"]),
        node_changed(&fleet, first, Availability::Drain),
        Event::NodeRemoved { node: node(second) },
        node_changed(&fleet, "n5", Availability::Pause),
        Event::HeartbeatsSeen { at: [(node("n4"), fleet.now)].into() },
    ];
    let one_by_one = |mut model: Model| {
        for event in &events {
            model.apply(event, fleet.now);
        }
        model.apply(&Event::FullReconcile, fleet.now);
        model
    };
    let at_once = |mut model: Model| {
        model.apply_all(&events, fleet.now);
        model
    };
    let decided = |model: Model| {
        let decision = decide(&model, &Event::FullReconcile, fleet.now, 7);
        assert!(!decision.commands.is_empty());
        format!("{:?}", decision.commands)
    };
    assert_eq!(decided(at_once(fleet.model.clone())), decided(one_by_one(fleet.model.clone())));
}
