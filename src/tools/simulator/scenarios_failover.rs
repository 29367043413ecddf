//! One instance in each group, which moves by stopping here and then starting there.
//!
//! Source: orchestration A2, E4, E8, P1.

use super::{
    agbot, agent,
    chaos::{add_service, put_group, put_policy, set_availability},
    scenarios::{agreements, claims, hold_agent_claim, lab_with, move_site, node, policy, runs, why},
    world::{Quality, World},
};
use evenkeel_domain::orchestration::Orchestration;
use evenkeel_planner_record::{
    agreement::AgreementState,
    facts::{Availability, PolicyOrchestration},
    report::Blocked,
    workload::UpdateState,
};
use serde_json::json;

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];

/// Writes failover policy `f` for a version of `t` in group `g`.
fn put_failover(world: &mut World, version: &str) {
    put_policy(world, "f", "t", version, "site == north");
    let mut facts = world.exchange.policies[&policy("f")].clone();
    let document = json!({
        "mode": "failover",
        "orchestrate": "ha",
        "scope": {"type": "hagroups", "haGroups": ["g"]},
        "timers": {"readyPeriodSeconds": 0},
    });
    let document = Orchestration::of_policy(&facts.id, document).expect("the document is valid");
    facts.orchestration = PolicyOrchestration::of(&facts.id, &document);
    world.exchange.put_policy(facts);
}

fn failover_lab() -> World {
    let mut world = lab_with(&MEMBERS, |world| {
        // As long as in production, in proportion to the silences here.
        world.settings.lock_stale_secs = 1_800;
        for version in ["1.0.0", "2.0.0"] {
            add_service(world, "t", version, Quality::Good);
        }
        put_failover(world, "1.0.0");
    });
    world.run_for(20);
    world
}

/// Returns the nodes where instances of `f` run, in order.
fn locations(world: &World) -> Vec<&'static str> {
    MEMBERS.into_iter().filter(|member| runs(world, member, "f").is_some()).collect()
}

/// Returns whether a step of the policy waits for such a reason.
fn waits(world: &World, is_meant: impl Fn(&Blocked) -> bool) -> bool {
    let id = policy("f");
    let parts = world.agbots.iter().flat_map(|agbot| agbot.model.workload_units_of(&id));
    parts.flat_map(|(_, unit)| &unit.blocked).any(|(_, blocked)| is_meant(blocked))
}

/// Returns whether the start of the instance waits until `n1` confirms the stop of its own.
fn waits_for_the_stop(world: &World) -> bool {
    waits(
        world,
        |blocked| matches!(blocked, Blocked::TaskStopping { node: holder, agreement: Some(_), .. } if *holder == node("n1")),
    )
}

/// Runs the world and returns the distinct sets of nodes with an instance, in order of time.
fn journey(world: &mut World, secs: u64) -> Vec<Vec<&'static str>> {
    let end = world.millis + secs * 1000;
    let mut seen = vec![locations(world)];
    while world.millis < end && world.step() {
        let now = locations(world);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(world.checker.violation, None);
    seen
}

/// A2, A3.1: the first member has it, the reasons of the others name it.
#[test]
fn first_member_alone_gets_the_instance_and_keeps_it() {
    let mut world = failover_lab();
    assert_eq!(journey(&mut world, 120), [["n1"]]);
    assert!(
        MEMBERS.iter().all(|member| runs(&world, member, "w").is_some()),
        "other policies run everywhere"
    );
}

/// E4-S6: the instance of a drained member moves with one stop and one start, in this order.
#[test]
fn instance_moves_from_a_drained_member_with_one_stop_and_one_start() {
    let mut world = failover_lab();
    set_availability(&mut world, &node("n1"), Availability::Drain);
    assert_eq!(journey(&mut world, 120), [vec!["n1"], vec![], vec!["n2"]]);
    assert!(claims(&world).is_empty());
    set_availability(&mut world, &node("n1"), Availability::Active);
    assert_eq!(journey(&mut world, 120), [["n2"]], "it does not go back by itself");
}

/// E4, last paragraph: a planned move needs another member that can take over the instance.
#[test]
fn instance_stays_on_a_drained_member_until_another_can_take_over() {
    let mut world = failover_lab();
    set_availability(&mut world, &node("n2"), Availability::Pause);
    agent::kill_machine(&mut world, &node("n3"));
    world.run_for(40);
    set_availability(&mut world, &node("n1"), Availability::Drain);
    assert_eq!(journey(&mut world, 120), [["n1"]]);
    assert!(waits(&world, |blocked| matches!(blocked, Blocked::NoCandidate { .. })));
    set_availability(&mut world, &node("n2"), Availability::Active);
    assert_eq!(journey(&mut world, 120), [vec!["n1"], vec![], vec!["n2"]]);
}

/// E4.7: an instance that its policy no longer wants on a member leaves it like a drained one.
#[test]
fn instance_moves_from_a_member_no_longer_selected_with_one_stop_and_one_start() {
    let mut world = failover_lab();
    move_site(&mut world, "n1", "south");
    assert_eq!(journey(&mut world, 120), [vec!["n1"], vec![], vec!["n2"]]);
    move_site(&mut world, "n1", "north");
    assert_eq!(journey(&mut world, 120), [["n2"]], "it does not go back by itself");
}

/// The agbot polls a node while a decision waits for it: the feed brings no status.
#[test]
fn node_whose_instance_is_stopping_is_polled_until_it_has_stopped() {
    let mut world = failover_lab();
    let is_awaited = |world: &World| world.agbots[0].model.awaited_nodes(world.now()).contains(&node("n1"));
    assert!(!is_awaited(&world));
    move_site(&mut world, "n1", "south");
    assert!(world.run_until(30, |world| is_awaited(world)));
    assert!(world.run_until(30, |world| !is_awaited(world)));
    assert_eq!(runs(&world, "n1", "f"), None);
}

/// A cancel that the node never gets: it continues to run the instance, and is alive.
fn lose_the_stop(world: &mut World) {
    set_availability(world, &node("n1"), Availability::Drain);
    world.faults.lost = 1.0;
    assert!(world.run_until(60, |world| {
        let ended = world.database.agreements.values().find(|one| one.awaits_stop);
        ended.is_some_and(|agreement| agreement.node == node("n1"))
    }));
}

/// P1, A2: as long as the stop is not confirmed no second instance starts, however much time passes and whichever agbot decides.
#[test]
fn second_instance_waits_for_a_stop_that_is_not_confirmed() {
    let mut world = failover_lab();
    lose_the_stop(&mut world);
    assert_eq!(journey(&mut world, 600), [["n1"]]);
    assert!(waits_for_the_stop(&world));
    agbot::kill(&mut world, 0);
    agbot::start(&mut world, 0);
    assert_eq!(journey(&mut world, 4_000), [["n1"]], "a new process knows it, and nobody forgets it");
    world.faults.lost = 0.0;
    assert_eq!(journey(&mut world, 120), [vec!["n1"], vec![], vec!["n2"]], "confirmed at last");
    world.run_for(30);
    assert!(world.database.agreements.values().all(|one| !one.awaits_stop));
}

/// P1: the node is silent for too long, so the instance counts as stopped.
#[test]
fn second_instance_starts_when_the_node_with_the_unconfirmed_stop_is_down() {
    let mut world = failover_lab();
    lose_the_stop(&mut world);
    world.faults.lost = 0.0;
    agent::kill_machine(&mut world, &node("n1"));
    assert_eq!(journey(&mut world, 120), [vec![], vec!["n2"]]);
}

/// P1: a user made sure that the instance does not run.
#[test]
fn user_confirms_a_stop() {
    let mut world = failover_lab();
    lose_the_stop(&mut world);
    world.run_for(120);
    assert!(waits_for_the_stop(&world));
    world.agents.get_mut(&node("n1")).unwrap().held.retain(|_, held| held.policy != policy("f"));
    let ended = world.database.agreements.values().find(|one| one.awaits_stop).unwrap().clone();
    world.database.confirm_stop(&ended.id);
    world.faults.lost = 0.0;
    assert!(world.run_until(20, |world| runs(world, "n2", "f").is_some()));
}

#[test]
fn simulator_detects_a_second_instance() {
    let mut world = failover_lab();
    lose_the_stop(&mut world);
    world.deliberate.trusts_records = true;
    world.run_for(60);
    world.faults.lost = 0.0;
    world.run_for(60);
    let violation = world.checker.violation.unwrap_or_default();
    // The proposal to o/n2 is lost with the cancel, so that its start takes too long and the next node gets the instance (A9.7).
    assert!(violation.contains("o/f runs on o/n1 and on o/n3"), "{violation}");
}

/// A node without changes reports nothing new; it is polled.
#[test]
fn node_that_never_started_its_instance_is_polled_for_it() {
    let mut world = lab_with(&MEMBERS, |world| {
        world.settings.lock_stale_secs = 1_800;
        add_service(world, "t", "1.0.0", Quality::Good);
    });
    world.run_for(20);
    put_failover(&mut world, "1.0.0");
    let holder = |world: &World| {
        world.database.agreements.values().find(|one| one.policy == policy("f")).map(|one| one.state.clone())
    };
    assert!(world.run_until(30, |world| matches!(holder(world), Some(AgreementState::Finalized { .. }))));
    // The acknowledgement is lost with the mailbox, and so the node forgets the agreement.
    let held = &mut world.agents.get_mut(&node("n1")).unwrap().held;
    held.retain(|_, held| held.policy != policy("f"));
    set_availability(&mut world, &node("n1"), Availability::Drain);
    assert!(world.run_until(200, |world| runs(world, "n2", "f").is_some()), "{:?}", why(&world, "n2", "f"));
}

/// A2, P1: the instance of a node that is down is started on the next member; the node that returns ends its own.
#[test]
fn instance_of_a_crashed_machine_starts_on_the_next_member() {
    let mut world = failover_lab();
    agent::kill_machine(&mut world, &node("n1"));
    assert_eq!(journey(&mut world, 120), [vec![], vec!["n2"]]);
    agent::start(&mut world, &node("n1"));
    world.run_for(60);
    assert_eq!(journey(&mut world, 120), [["n2"]]);
}

/// E8-S1: the agent of the instance's node is upgraded and silent meanwhile: no stop, no start, no failover.
#[test]
fn agent_upgrade_of_the_copys_node_moves_nothing() {
    let mut world = failover_lab();
    let before = agreements(&world, "n1");
    hold_agent_claim(&mut world, "n1");
    world.run_for(3);
    agent::kill_process(&mut world, &node("n1"));
    assert_eq!(journey(&mut world, 50), [["n1"]]);
    agent::start(&mut world, &node("n1"));
    assert_eq!(journey(&mut world, 60), [["n1"]]);
    assert_eq!(agreements(&world, "n1"), before);
}

/// E4, last paragraph: a new version stops the single instance and starts the new one on the same node.
#[test]
fn new_version_replaces_the_instance_on_its_node() {
    let mut world = failover_lab();
    move_site(&mut world, "n1", "south");
    world.run_for(60);
    move_site(&mut world, "n1", "north");
    world.run_for(10);
    put_failover(&mut world, "2.0.0");
    assert_eq!(journey(&mut world, 90), [vec!["n2"], vec![], vec!["n2"]]);
    assert_eq!(runs(&world, "n2", "f").as_deref(), Some("2.0.0"));
    assert_eq!(world.database.workloads[&policy("f")].update.state, UpdateState::Completed);
}

/// B10, D4: an instance that exits is started again on the same node.
#[test]
fn instance_that_exited_starts_again_on_its_node() {
    let mut world = failover_lab();
    let agreement = agreements(&world, "n1")
        .into_iter()
        .find(|id| world.agents[&node("n1")].held[id].policy == policy("f"));
    let incarnation = world.agents[&node("n1")].incarnation;
    let ended = agent::AgentTimer::Ended { agreement: agreement.unwrap() };
    agent::timer(&mut world, &node("n1"), incarnation, ended);
    let found = journey(&mut world, 60);
    assert_eq!(found, [vec![], vec!["n1"]]);
}

/// 1.3: the instance of a member that leaves the group moves to another member.
#[test]
fn instance_of_a_member_that_leaves_moves_to_another_member() {
    let mut world = failover_lab();
    put_group(&mut world, "g", &["n2", "n3"]);
    assert_eq!(journey(&mut world, 120), [vec!["n1"], vec![], vec!["n2"]]);
}
