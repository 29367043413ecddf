//! Update parallelism: how many groups one policy updates at the same time, across agbots.
//!
//! Source: orchestration B11; engine 8.

use super::{
    chaos::{add_agbots, add_node, add_service, put_group, put_policy},
    deliberate::DeliberateFaults,
    scenarios::{node, policy, running_count, runs, why},
    world::{Quality, World},
};
use evenkeel_ids::GroupId;
use evenkeel_planner_model::event::Outcome;
use evenkeel_planner_record::{
    claims::{ClaimRequest, Purpose, Scope},
    facts::HaGroupFacts,
    report::Blocked,
    time::later,
};

const GROUPS: usize = 4;

/// Creates four groups of two that run `s` 1.0.0, and the given number of agbots.
fn four_groups(parallelism: u32, agbots: usize) -> (World, Vec<String>) {
    let mut world = World::new(1, DeliberateFaults::default());
    world.settings.update.parallelism = parallelism;
    let mut members = Vec::new();
    for group in 0..GROUPS {
        let names = [format!("g{group}n0"), format!("g{group}n1")];
        for name in &names {
            add_node(&mut world, name, "north", 2_000);
        }
        put_group(&mut world, &format!("g{group}"), &names.each_ref().map(String::as_str));
        members.extend(names);
    }
    for version in ["1.0.0", "2.0.0"] {
        add_service(&mut world, "s", version, Quality::Good);
    }
    put_policy(&mut world, "w", "s", "1.0.0", "site == north");
    add_agbots(&mut world, agbots);
    world.run_for(40);
    (world, members)
}

/// Rolls version 2.0.0 out and returns the lowest number of running instances and the highest number of groups being updated.
fn roll(world: &mut World, members: &[String], secs: u64) -> (usize, usize) {
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    assert_eq!(running_count(world, &members, "w"), members.len());
    put_policy(world, "w", "s", "2.0.0", "site == north");
    let end = world.millis + secs * 1000;
    let (mut lowest, mut highest) = (usize::MAX, 0);
    while world.millis < end && world.step() {
        lowest = lowest.min(running_count(world, &members, "w"));
        highest = highest.max(world.database.claims.len());
    }
    assert_eq!(world.checker.violation, None);
    for member in members {
        assert_eq!(runs(world, member, "w").as_deref(), Some("2.0.0"), "{member}");
    }
    (lowest, highest)
}

#[test]
fn one_group_at_a_time_keeps_seven_of_eight_instances_running() {
    let (mut world, members) = four_groups(1, 1);
    assert_eq!(roll(&mut world, &members, 150), (7, 1));
}

#[test]
fn parallelism_counts_across_agbots() {
    for agbots in [2, 3] {
        let (mut world, members) = four_groups(1, agbots);
        assert_eq!(roll(&mut world, &members, 200), (7, 1), "{agbots} agbots");
        let (mut world, members) = four_groups(2, agbots);
        let (lowest, highest) = roll(&mut world, &members, 150);
        assert!(lowest >= 6 && highest == 2, "{agbots} agbots: {lowest} up, {highest} groups in work");
    }
}

#[test]
fn without_a_limit_all_groups_are_updated_at_once() {
    let (mut world, members) = four_groups(0, 2);
    assert_eq!(roll(&mut world, &members, 60).1, GROUPS);
}

#[test]
fn group_that_waits_for_the_parallelism_names_the_groups_in_work() {
    let (mut world, _) = four_groups(1, 1);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(30, |world| world.database.claims.len() == 1));
    world.run_for(3);
    let blocked = why(&world, "g3n1", "w");
    let in_work = vec![GroupId::new("o", "g0")];
    assert_eq!(blocked, Some(Blocked::UpdateParallelism { limit: 1, groups: in_work }));
    assert_eq!(world.database.rollouts.len(), 1, "the rollouts of the waiting groups have not started");
}

/// An agbot that does not know another one's claim yet is refused by the transaction.
#[test]
fn transaction_refuses_a_claim_beyond_the_parallelism() {
    let mut database = super::database::Database::default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut take = |name: &str, purpose: Purpose, parallelism: u32| {
        let group = HaGroupFacts::new(GroupId::new("o", name), [node("n1")]);
        let request = ClaimRequest {
            group: group.id.clone(),
            scope: Scope::Policy(policy("w")),
            node: node("n1"),
            purpose,
            version: "2.0.0".into(),
            deadline: later(now, 600),
            seen_running: Vec::new(),
            parallelism,
        };
        let is_taken = database.take_claim(&request, Some(&group), now);
        matches!(is_taken, Ok(Outcome::ClaimTaken { .. }))
    };
    assert!(take("a", Purpose::ServiceUpgrade, 1));
    assert!(take("a", Purpose::ServiceUpgrade, 1), "the same claim is held already");
    assert!(!take("b", Purpose::ServiceUpgrade, 1));
    assert!(take("b", Purpose::Drain, 0), "a drain is no update");
    assert!(!take("c", Purpose::ServiceUpgrade, 2));
    assert!(take("c", Purpose::ServiceUpgrade, 3));
}
