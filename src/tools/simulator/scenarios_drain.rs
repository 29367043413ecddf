//! Nodes that their operator pauses or drains.
//!
//! Source: orchestration B9, E4 (drains are planned disruptions), P (drain of the node with the last instance).

use super::{
    agbot, agent,
    chaos::{add_node, put_policy, set_availability},
    scenarios::{agreements, claims, lab, lab_with, lowest, node, running_count, runs, why},
    world::World,
};
use evenkeel_planner_record::{facts::Availability, report::Blocked};

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];

fn set(world: &mut World, name: &str, availability: Availability) {
    set_availability(world, &node(name), availability);
}

#[test]
fn instance_leaves_a_drained_member_and_returns_when_it_is_active() {
    let mut world = lab(&MEMBERS);
    set(&mut world, "n2", Availability::Drain);
    assert_eq!(lowest(&mut world, 60, &MEMBERS, "w"), 2);
    assert_eq!(runs(&world, "n2", "w"), None);
    assert!(agreements(&world, "n2").is_empty() && claims(&world).is_empty());
    assert!(matches!(why(&world, "n2", "w"), Some(Blocked::NodeDraining)));
    set(&mut world, "n2", Availability::Active);
    assert_eq!(lowest(&mut world, 60, &MEMBERS, "w"), 2);
    assert_eq!(running_count(&world, &MEMBERS, "w"), 3);
}

/// P: members drained at the same time leave one by one, and the last instance waits with its reason.
#[test]
fn last_instance_stays_when_all_members_are_drained() {
    let mut world = lab(&MEMBERS);
    MEMBERS.iter().for_each(|member| set(&mut world, member, Availability::Drain));
    assert_eq!(lowest(&mut world, 180, &MEMBERS, "w"), 1);
    let last = MEMBERS.into_iter().find(|member| runs(&world, member, "w").is_some()).unwrap();
    let blocked = why(&world, last, "w");
    assert!(
        matches!(&blocked, Some(Blocked::HaMinimum { missing, .. }) if missing.values().all(|why| why.ends_with("drained"))),
        "{blocked:?}"
    );
    // As soon as another member runs it again, it leaves.
    let other = MEMBERS.into_iter().find(|member| *member != last).unwrap();
    set(&mut world, other, Availability::Active);
    assert_eq!(lowest(&mut world, 120, &MEMBERS, "w"), 1);
    assert!(runs(&world, other, "w").is_some() && runs(&world, last, "w").is_none());
}

/// E4.4: a peer that is down does not run the service.
#[test]
fn instance_stays_on_a_drained_member_while_its_peer_is_down() {
    let mut world = lab(&["n1", "n2"]);
    agent::kill_machine(&mut world, &node("n2"));
    world.run_for(30);
    set(&mut world, "n1", Availability::Drain);
    assert_eq!(lowest(&mut world, 60, &["n1"], "w"), 1);
    assert!(matches!(why(&world, "n1", "w"), Some(Blocked::HaMinimum { .. })));
    agent::start(&mut world, &node("n2"));
    assert!(lowest(&mut world, 120, &["n1", "n2"], "w") >= 1);
    assert_eq!(runs(&world, "n1", "w"), None);
}

#[test]
fn node_outside_groups_is_emptied_at_once() {
    let mut world = lab_with(&MEMBERS, |world| add_node(world, "solo", "north", 1_000));
    assert!(runs(&world, "solo", "w").is_some());
    set(&mut world, "solo", Availability::Drain);
    assert!(world.run_until(10, |world| runs(world, "solo", "w").is_none()));
    assert_eq!(running_count(&world, &MEMBERS, "w"), 3);
}

/// B8-S3: a paused member keeps its version, the rollout ends without it, and it follows when it is active.
#[test]
fn paused_member_keeps_what_it_has() {
    let mut world = lab(&MEMBERS);
    let before = agreements(&world, "n3");
    set(&mut world, "n3", Availability::Pause);
    world.run_for(5);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert_eq!(lowest(&mut world, 120, &MEMBERS, "w"), 2);
    assert_eq!(agreements(&world, "n3"), before);
    assert!(matches!(why(&world, "n3", "w"), Some(Blocked::NodePaused)));
    assert!(["n1", "n2"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("2.0.0")));
    assert!(world.database.rollouts.values().all(|rollout| !rollout.is_open()));
    set(&mut world, "n3", Availability::Active);
    assert_eq!(lowest(&mut world, 60, &MEMBERS, "w"), 2);
    assert_eq!(runs(&world, "n3", "w").as_deref(), Some("2.0.0"));
}

/// A drained member does not block the rollout, and the drain comes first.
#[test]
fn drain_during_a_rollout_keeps_an_instance_up_and_both_end() {
    let mut world = lab(&MEMBERS);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(4);
    set(&mut world, "n3", Availability::Drain);
    assert!(lowest(&mut world, 150, &MEMBERS, "w") >= 1);
    assert_eq!(runs(&world, "n3", "w"), None);
    assert!(["n1", "n2"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("2.0.0")));
    assert!(world.database.rollouts.values().all(|rollout| !rollout.is_open()));
    assert!(claims(&world).is_empty());
}

/// The operator reverts the drain before anything was stopped.
#[test]
fn drain_that_is_reverted_while_it_waits_changes_nothing() {
    let mut world = lab(&["n1", "n2"]);
    let before = agreements(&world, "n1");
    agent::kill_machine(&mut world, &node("n2"));
    world.run_for(30);
    set(&mut world, "n1", Availability::Drain);
    world.run_for(20);
    set(&mut world, "n1", Availability::Active);
    agent::start(&mut world, &node("n2"));
    world.run_for(60);
    assert_eq!(agreements(&world, "n1"), before);
}

/// The agbot that carries out the drain crashes, and another one continues.
#[test]
fn drain_goes_on_when_its_agbot_dies() {
    let mut world = lab(&MEMBERS);
    let second = agbot::Agbot::new(&world);
    world.agbots.push(second);
    agbot::start(&mut world, 1);
    world.run_for(10);
    set(&mut world, "n1", Availability::Drain);
    assert!(world.run_until(20, |world| !claims(world).is_empty()));
    agbot::kill(&mut world, 0);
    assert!(lowest(&mut world, 120, &MEMBERS, "w") >= 2);
    assert_eq!(runs(&world, "n1", "w"), None);
    assert!(claims(&world).is_empty());
}
