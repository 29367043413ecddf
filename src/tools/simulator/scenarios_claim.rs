//! Claims that end because their reason no longer exists, and those that do not.

use super::{
    agbot, agent,
    chaos::{add_service, put_group, put_policy, set_availability},
    exchange::Resource,
    scenarios::{
        agent_claim, claims, hold_agent_claim, lab, lab_with, node, record_claim, running_count, runs,
    },
    scenarios_workload::{self as workload, AGENTS, put_workload},
    world::{Quality, World},
};
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    claims::{Claim, Purpose},
    facts::Availability,
    settings::FailureAction,
    workload::UpdateState,
};
use serde_json::{Value, json};

/// E5-S3, E6-S4, E6-S5, E2-S6, HA-12, HA-15: a claim is released when its reason no longer exists, whatever the cause.
#[test]
fn claim_is_released_when_its_reason_is_gone() {
    type Change = (&'static str, fn(&mut World));
    let gone: [Change; 5] = [
        ("node deleted", |world| {
            world.exchange.remove_node(&node("n1"));
            world.exchange.feed.push(Resource::Node(node("n1")));
        }),
        ("group edited", |world| put_group(world, "g", &["n2"])),
        ("group deleted", |world| {
            world.exchange.groups.clear();
            world.exchange.feed.push(Resource::Group(GroupId::new("o", "g")));
        }),
        ("management policy deleted", |world| {
            agbot::handle(world, 0, &Event::NmpRemoved { nmp: NmpId::new("o", "m") }, None);
        }),
        ("node silent", |world| agent::kill_machine(world, &node("n1"))),
    ];
    for (what, act) in gone {
        let mut world = lab(&["n1", "n2"]);
        hold_agent_claim(&mut world, "n1");
        world.run_for(5);
        assert_eq!(claims(&world).len(), 1, "{what}");
        act(&mut world);
        let limit = world.settings.lock_stale_secs + world.settings.node_down_after_secs;
        assert!(world.run_until(limit, |world| world.database.claims.is_empty()), "{what}");
    }
}

/// E6: members of groups whose organization is not served are granted agent upgrades, too; nothing but the deadline ends such a
/// claim, because the agbot does not see the group.
#[test]
fn claim_of_a_group_that_is_not_read_ends_at_its_deadline() {
    let mut world = lab(&["n1", "n2"]);
    let claim = Claim { group: GroupId::new("elsewhere", "g"), ..agent_claim(&world, "n1") };
    record_claim(&mut world, claim);
    world.run_for(1_700);
    assert_eq!(claims(&world).len(), 1);
    assert!(world.run_until(300, |world| world.database.claims.is_empty()));
}

/// E6: a management policy that was deleted and created again may be executed again.
#[test]
fn claim_for_a_management_policy_that_was_created_again_is_kept() {
    let mut world = lab(&["n1", "n2"]);
    agbot::handle(&mut world, 0, &Event::NmpRemoved { nmp: NmpId::new("o", "m") }, None);
    world.run_for(60);
    hold_agent_claim(&mut world, "n1");
    world.run_for(600);
    assert_eq!(claims(&world).len(), 1);
}

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];

/// Kills the machine of the member that holds the claim, as soon as its instance has stopped, and returns that member.
fn lose_holder(world: &mut World, policy_name: &str) -> NodeId {
    let holder = |world: &World| {
        let nodes: Vec<NodeId> = claims(world).into_iter().map(|claim| claim.node.clone()).collect();
        nodes.into_iter().find(|node| runs(world, node.name(), policy_name).is_none())
    };
    assert!(world.run_until(120, |world| holder(world).is_some()), "a member is replaced");
    let lost = holder(world).expect("a member is replaced");
    agent::kill_machine(world, &lost);
    lost
}

/// Runs until all members but one run a version, and asserts that no more instances are missing than those two of which one was lost.
fn others_run(world: &mut World, lost: &NodeId, policy_name: &str, version: &str) {
    let others: Vec<&str> = MEMBERS.into_iter().filter(|name| *name != lost.name()).collect();
    let is_met = |world: &World| {
        assert!(running_count(world, &others, policy_name) >= 1, "the minimum available holds");
        others.iter().all(|name| runs(world, name, policy_name).as_deref() == Some(version))
    };
    assert!(world.run_until(150, is_met), "{lost}: {:?}", claims(world));
    assert_eq!(world.checker.violation, None);
}

fn is_released(world: &World, holder: &NodeId, why: &str) -> bool {
    let text = format!("on {holder}: {why}");
    world.trace.iter().any(|line| line.contains("claim.released") && line.contains(&text))
}

fn with_long_timeouts(world: &mut World) {
    world.settings.update.start_timeout_secs = 600;
    world.settings.lock_stale_secs = 1_800;
}

/// B11.3, E5.2: the step of a member that is lost is neither in work nor failed.
#[test]
fn member_that_is_lost_during_its_step_does_not_hold_the_others() {
    let mut world = lab_with(&MEMBERS, with_long_timeouts);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    let lost = lose_holder(&mut world, "w");
    others_run(&mut world, &lost, "w", "2.0.0");
    assert!(is_released(&world, &lost, "the node has been silent for too long"));
    world.run_for(30);
    let rollout = world.database.rollouts.values().next().expect("a rollout");
    assert_eq!((rollout.done, rollout.total, rollout.failed.len()), (2, 2, 0), "{rollout:?}");
    assert_eq!(rollout.update_state(), Some(UpdateState::Completed));
    agent::start(&mut world, &lost);
    assert!(world.run_until(60, |world| runs(world, lost.name(), "w").as_deref() == Some("2.0.0")));
}

/// B11.3, B11.7.
#[test]
fn member_that_is_lost_during_a_rollback_does_not_hold_the_others() {
    let mut world = lab_with(&MEMBERS, |world| {
        with_long_timeouts(world);
        world.settings.update.failure_action = FailureAction::Rollback;
        world.settings.update.max_failure_ratio = 0.4;
    });
    add_service(&mut world, "s", "2.0.0", Quality::EndsAfter(2));
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    let is_back = |world: &World| world.database.rollouts.values().any(|one| one.rollback.is_some());
    assert!(world.run_until(300, is_back));
    let failed = world.database.rollouts.values().next().expect("a rollout").failed.clone();
    agent::kill_machine(&mut world, &failed[0]);
    let others: Vec<&str> = MEMBERS.into_iter().filter(|name| *name != failed[0].name()).collect();
    let is_met = |world: &World| others.iter().all(|name| runs(world, name, "w").as_deref() == Some("1.0.0"));
    assert!(world.run_until(150, is_met), "{failed:?}: {:?}", claims(&world));
    world.run_for(30);
    let rollout = world.database.rollouts.values().next().expect("a rollout");
    assert_eq!(rollout.update_state(), Some(UpdateState::RollbackCompleted), "{rollout:?}");
}

/// B9, E5.2.
#[test]
fn member_that_is_lost_while_it_is_drained_does_not_hold_the_others() {
    let mut world = lab_with(&MEMBERS, with_long_timeouts);
    set_availability(&mut world, &node("n1"), Availability::Drain);
    let is_drained = |world: &World| claims(world).iter().any(|claim| claim.purpose == Purpose::Drain);
    assert!(world.run_until(30, is_drained));
    agent::kill_machine(&mut world, &node("n1"));
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(150, |world| {
        ["n2", "n3"].iter().all(|name| runs(world, name, "w").as_deref() == Some("2.0.0"))
    }));
}

/// An instance of workload `r` on every member, with long timeouts.
fn on_every_member(update: Value) -> Value {
    let mut document = json!({
        "mode": "global", "scope": {"type": "hagroups", "haGroups": ["g"]}, "restart": {"delaySeconds": 1},
        "update": update,
        "rollback": {"parallelism": 1, "monitorSeconds": 1, "startTimeoutSeconds": 600},
    });
    document["update"]["startTimeoutSeconds"] = json!(600);
    document
}

#[test]
fn member_that_is_lost_during_its_step_does_not_hold_the_others_of_a_workload_with_tasks() {
    for agents in AGENTS {
        let document = on_every_member(json!({"parallelism": 1, "monitorSeconds": 1}));
        let mut world = workload::lab(21, agents, &document);
        put_group(&mut world, "g", &MEMBERS);
        world.run_for(60);
        put_workload(&mut world, "2.0.0", &document);
        let lost = lose_holder(&mut world, "r");
        others_run(&mut world, &lost, "r", "2.0.0");
        assert!(is_released(&world, &lost, "the node has been silent for too long"), "{agents:?}");
    }
}

#[test]
fn member_that_is_lost_during_a_rollback_does_not_hold_the_others_of_a_workload_with_tasks() {
    for agents in AGENTS {
        let update =
            json!({"parallelism": 1, "monitorSeconds": 40, "pace": "running", "failureAction": "rollback"});
        let document = on_every_member(update);
        let mut world = workload::lab(22, agents, &document);
        add_service(&mut world, "s", "3.0.0", Quality::EndsAfter(20));
        put_group(&mut world, "g", &MEMBERS);
        world.run_for(60);
        put_workload(&mut world, "3.0.0", &document);
        let is_back = |world: &World| workload::update_state(world) == UpdateState::RollbackStarted;
        assert!(world.run_until(200, is_back), "{agents:?}");
        let lost = lose_holder(&mut world, "r");
        others_run(&mut world, &lost, "r", "1.0.0");
    }
}
