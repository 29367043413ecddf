//! Policies that a third-party agbot is configured to serve as well.
//!
//! Source: agbot 1.2; design 1.1 (the last instance stays up while the agbot changes).

use super::{
    agbot, agent,
    chaos::add_node,
    scenarios::{lab, lab_with, node, policy, running_count, runs, why},
    world::World,
};
use evenkeel_ids::AgbotId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{other_agbots::OtherAgbots, report::Blocked};

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];
const OTHER: &str = "o/other";

fn configure(world: &mut World, is_configured: bool) {
    let mut others = OtherAgbots::default();
    if is_configured {
        others.add_policy(&AgbotId::from_text(OTHER), "o", "*", "o");
    }
    agbot::handle(world, 0, &Event::OtherAgbotsChanged { others: Box::new(others) }, None);
}

fn is_left(world: &World, name: &str) -> bool {
    matches!(why(world, name, "w"), Some(Blocked::LeftToAgbot { agbot }) if agbot.as_str() == OTHER)
}

fn is_empty(world: &World, name: &str) -> bool {
    world.agents[&node(name)].held.is_empty()
}

#[test]
fn members_change_their_agbot_one_at_a_time_and_the_last_instance_stays() {
    let mut world = lab(&MEMBERS);
    configure(&mut world, true);
    let mut taken_over = 0;
    for second in 1..=200 {
        world.run_for(1);
        assert!(running_count(&world, &MEMBERS, "w") >= 1, "after {taken_over} members");
        // The other agbot is slow, and makes its agreement when the node is free.
        let is_its_turn = |member: &&str| second % 5 == 0 && is_empty(&world, member);
        for member in MEMBERS.into_iter().filter(is_its_turn).collect::<Vec<_>>() {
            agent::agree_with_another_agbot(&mut world, &node(member), &policy("w"), "1.0.0");
            taken_over += 1;
        }
    }
    assert_eq!(taken_over, 3);
    assert!(MEMBERS.into_iter().all(|member| is_left(&world, member)));
    assert!(world.agbots[0].model.claims().next().is_none());
}

#[test]
fn last_member_keeps_its_instance_while_the_other_agbot_makes_no_agreement() {
    let mut world = lab(&MEMBERS);
    configure(&mut world, true);
    world.run_for(200);
    let last: Vec<_> = MEMBERS.into_iter().filter(|member| runs(&world, member, "w").is_some()).collect();
    assert_eq!(last.len(), 1);
    let blocked = why(&world, last[0], "w");
    assert!(
        matches!(&blocked, Some(Blocked::HaMinimum { missing, .. }) if missing.values().all(|why| why.contains("other agbot"))),
        "{blocked:?}"
    );
    // Nodes without an agreement of the other agbot are served again as soon as the configuration is gone.
    configure(&mut world, false);
    world.run_for(60);
    assert_eq!(running_count(&world, &MEMBERS, "w"), 3);
}

#[test]
fn node_outside_groups_is_left_at_once() {
    let mut world = lab_with(&MEMBERS, |world| add_node(world, "solo", "north", 1_000));
    assert!(runs(&world, "solo", "w").is_some());
    configure(&mut world, true);
    assert!(world.run_until(10, |world| runs(world, "solo", "w").is_none()));
    assert!(is_left(&world, "solo"));
}
