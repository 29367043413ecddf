//! Lost messages and lost state: committed effects are carried out, and reports of nodes are compared with the records.

use super::{
    agbot, agent,
    chaos::{add_agbots, add_node, add_service, put_policy},
    deliberate::DeliberateFaults,
    invariants,
    scenarios::{node, policy, runs},
    world::{Faults, Quality, World},
};
use evenkeel_ids::AgreementId;
use evenkeel_planner_record::agreement::AgreementState;

/// A node without a group that runs policy `w`, and one agbot.
fn lab(deliberate: DeliberateFaults) -> World {
    let mut world = World::new(1, deliberate);
    add_node(&mut world, "n", "north", 1_000);
    for version in ["1.0.0", "2.0.0"] {
        add_service(&mut world, "s", version, Quality::Good);
    }
    put_policy(&mut world, "w", "s", "1.0.0", "site == north");
    add_agbots(&mut world, 1);
    world.run_for(40);
    assert_eq!(runs(&world, "n", "w").as_deref(), Some("1.0.0"));
    world
}

/// Creates the agbot crash right after its next commit.
fn die_after_commit(world: &mut World) {
    world.faults = Faults { crash_after_commit: 1.0, ..Faults::default() };
    assert!(world.run_until(30, |world| !world.agbots[0].is_up), "the agbot commits something");
    world.faults = Faults::default();
}

/// Deletes the policy, and makes the agbot crash between the commit that ends the agreement and the message.
fn die_after_the_end_of_the_policy(world: &mut World) {
    world.exchange.remove_policy(&policy("w"));
    die_after_commit(world);
    let ended = |state: &AgreementState| matches!(state, AgreementState::Ended { .. });
    assert!(world.database.agreements.values().all(|agreement| ended(&agreement.state)));
    assert_eq!(runs(world, "n", "w").as_deref(), Some("1.0.0"), "the node was not notified yet");
    agbot::start(world, 0);
}

#[test]
fn message_of_a_command_that_committed_is_sent_by_the_next_agbot() {
    let mut world = lab(DeliberateFaults { trusts_records: true, ..DeliberateFaults::default() });
    die_after_the_end_of_the_policy(&mut world);
    assert!(world.run_until(15, |world| runs(world, "n", "w").is_none()));
    assert!(world.database.outbox.is_empty());
}

#[test]
fn version_change_goes_on_after_a_crash_between_commit_and_message() {
    let mut world = lab(DeliberateFaults { trusts_records: true, ..DeliberateFaults::default() });
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    for _ in 0..3 {
        die_after_commit(&mut world);
        agbot::start(&mut world, 0);
    }
    assert!(world.run_until(60, |world| runs(world, "n", "w").as_deref() == Some("2.0.0")));
    world.run_for(10);
    assert_eq!(invariants::waiting(&world), Vec::<String>::new());
}

#[test]
fn agreement_that_is_over_and_still_reported_is_canceled_again_after_a_restart() {
    let mut world = lab(DeliberateFaults { loses_messages: true, ..DeliberateFaults::default() });
    die_after_the_end_of_the_policy(&mut world);
    world.run_for(20);
    assert_eq!(runs(&world, "n", "w").as_deref(), Some("1.0.0"), "a node gets time to stop");
    assert!(world.run_until(30, |world| runs(world, "n", "w").is_none()));
}

#[test]
fn instance_would_run_forever_without_outbox_and_reports() {
    let deliberate =
        DeliberateFaults { loses_messages: true, trusts_records: true, ..DeliberateFaults::default() };
    let mut world = lab(deliberate);
    die_after_the_end_of_the_policy(&mut world);
    world.run_for(3_600);
    let waiting = invariants::waiting(&world);
    assert!(waiting.iter().any(|text| text.contains("without an owner")), "{waiting:?}");
}

#[test]
fn cancel_is_repeated_with_growing_intervals() {
    let mut world = lab(DeliberateFaults::default());
    // The node never receives anything again, and still sends heartbeats.
    world.faults = Faults { lost: 1.0, ..Faults::default() };
    world.exchange.remove_policy(&policy("w"));
    world.run_for(3_600);
    let repeated = world.trace.iter().filter(|line| line.contains("repeat ")).count();
    assert!((8..=12).contains(&repeated), "{repeated} repetitions in an hour");
    world.faults = Faults::default();
    assert!(world.run_until(700, |world| runs(world, "n", "w").is_none()));
}

#[test]
fn agreement_that_the_node_lost_is_ended_and_made_again() {
    let mut world = lab(DeliberateFaults::default());
    let lost = world.agents[&node("n")].held.keys().next().unwrap().clone();
    world.agents.get_mut(&node("n")).unwrap().held.clear();
    agent::kill_process(&mut world, &node("n"));
    agent::start(&mut world, &node("n"));
    assert!(world.run_until(120, |world| runs(world, "n", "w").as_deref() == Some("1.0.0")));
    assert!(!world.agents[&node("n")].held.contains_key(&lost));
    world.run_for(10);
    assert_eq!(invariants::waiting(&world), Vec::<String>::new());
}

#[test]
fn agreements_of_other_agbots_are_left_alone() {
    let mut world = lab(DeliberateFaults::default());
    let held = &mut world.agents.get_mut(&node("n")).unwrap().held;
    let own = held.values().next().unwrap().clone();
    let id = AgreementId::from_text("foreign");
    held.insert(id.clone(), agent::Held { policy: policy("theirs"), is_foreign: true, ..own });
    agent::report(&mut world, &node("n"));
    world.run_for(600);
    assert!(world.agents[&node("n")].held.contains_key(&id));
    let is_about = |line: &String| line.contains("repeat ") || line.contains("verify ");
    assert!(!world.trace.iter().any(is_about), "nothing is sent about it");
}
