//! Modes of the update engine: rollback after a failure, user actions, released claims, services on a subset of the members.
//!
//! Source: orchestration B11, B12, E4.4, E5.2, P.

use super::{
    agbot, agent, chaos,
    chaos::{add_node, add_service, put_group, put_policy},
    scenarios::{
        agreements, claims, give_overrides, hold, hold_agent_claim, lab, lab_with, lowest, node, policy,
        running_count, runs, why,
    },
    world::{Quality, World},
};
use evenkeel_ids::GroupId;
use evenkeel_planner_model::terms::proposal_terms;
use evenkeel_planner_record::{
    report::HoldReason,
    rollout::{Rollout, RolloutState},
    settings::{FailureAction, UpdateOrder},
    workload::RolloutAction,
};

fn rollout(world: &World, name: &str) -> Rollout {
    world.database.rollouts[&(GroupId::new("o", "g"), policy(name))].clone()
}

fn going_back(members: &[&str], quality: Quality) -> World {
    let mut world = lab_with(members, |world| {
        world.settings.update.failure_action = FailureAction::Rollback;
    });
    add_service(&mut world, "s", "2.0.0", quality);
    world
}

fn is_traced(world: &World, text: &str) -> bool {
    world.trace.iter().any(|line| line.contains(text))
}

/// B11-S4, B11.7: a failing version is rolled back, and the unchanged members are not affected.
#[test]
fn failed_version_is_rolled_back_while_an_instance_always_runs() {
    for quality in [Quality::NeverStarts, Quality::EndsAfter(2)] {
        let mut world = going_back(&["n1", "n2", "n3"], quality);
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        assert!(lowest(&mut world, 200, &["n1", "n2", "n3"], "w") >= 2, "{quality:?}");
        for member in ["n1", "n2", "n3"] {
            assert_eq!(runs(&world, member, "w").as_deref(), Some("1.0.0"), "{member} {quality:?}");
        }
        let rollout = rollout(&world, "w");
        assert!(matches!(rollout.state, RolloutState::Completed { .. }), "{rollout:?}");
        let back = rollout.rollback.expect("it went back");
        assert_eq!(back.version, "1.0.0");
        assert!(back.why.to_string().contains("2.0.0 failed on o/n1"), "{}", back.why);
        assert!(claims(&world).is_empty());
        assert!(is_traced(&world, "rollout.rollback-completed"));
        assert!(!is_traced(&world, "claim rollout of o/w for o/n2 (2.0.0)"), "no other member tried it");
        // B11-S6: another version starts a new rollout.
        put_policy(&mut world, "w", "s", "3.0.0", "site == north");
        world.run_for(150);
        assert_eq!(running_count(&world, &["n1", "n2", "n3"], "w"), 3);
        assert!(
            ["n1", "n2", "n3"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("3.0.0"))
        );
    }
}

fn all_run(world: &World, version: &str) -> bool {
    ["n1", "n2"].iter().all(|member| runs(world, member, "w").as_deref() == Some(version))
}

/// B11.7: a version that failed is remembered across restarts and through changes of label and orchestration.
#[test]
fn failed_version_is_not_tried_again_before_a_retry() {
    let mut world = going_back(&["n1", "n2"], Quality::NeverStarts);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(150);
    assert!(rollout(&world, "w").remembers_failure());
    agbot::kill(&mut world, 0);
    agbot::start(&mut world, 0);
    world.run_for(60);
    let before: Vec<_> = ["n1", "n2"].map(|member| agreements(&world, member)).into();
    add_service(&mut world, "s", "2.0.0", Quality::Good);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    let mut facts = world.exchange.policies[&policy("w")].clone();
    facts.label = "another label".into();
    facts.orchestration.update.monitor_secs = Some(1);
    facts.last_updated = Some(world.now());
    world.exchange.put_policy(facts);
    world.run_for(60);
    let after: Vec<_> = ["n1", "n2"].map(|member| agreements(&world, member)).into();
    assert_eq!(after, before, "nothing was restarted");
    assert!(all_run(&world, "1.0.0") && rollout(&world, "w").remembers_failure());
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Retry);
    assert!(lowest(&mut world, 150, &["n1", "n2"], "w") >= 1);
    assert!(all_run(&world, "2.0.0"));
    let rollout = rollout(&world, "w");
    assert!(rollout.rollback.is_none() && matches!(rollout.state, RolloutState::Completed { .. }));
    assert_eq!((rollout.done, rollout.total, rollout.failed.len()), (2, 2, 0));
}

/// B11-S6: naming another version clears the failed one, even when that version already runs.
#[test]
fn naming_another_version_forgets_the_one_that_failed() {
    for other in ["1.0.0", "3.0.0"] {
        let mut world = going_back(&["n1", "n2"], Quality::NeverStarts);
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        world.run_for(150);
        assert!(rollout(&world, "w").remembers_failure());
        put_policy(&mut world, "w", "s", other, "site == north");
        world.run_for(120);
        assert!(all_run(&world, other));
        assert!(!rollout(&world, "w").remembers_failure(), "{other}");
        add_service(&mut world, "s", "2.0.0", Quality::Good);
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        world.run_for(120);
        assert!(all_run(&world, "2.0.0"), "after {other}");
    }
}

/// A policy that is deleted and created again has no remembered failure.
#[test]
fn deleting_the_policy_forgets_the_version_that_failed() {
    let mut world = going_back(&["n1", "n2"], Quality::NeverStarts);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(150);
    world.exchange.remove_policy(&policy("w"));
    world.run_for(30);
    assert!(!rollout(&world, "w").remembers_failure());
    add_service(&mut world, "s", "2.0.0", Quality::Good);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(60);
    assert!(all_run(&world, "2.0.0"));
}

#[test]
fn member_that_joins_after_a_rollback_gets_the_groups_version() {
    let mut world = going_back(&["n1", "n2"], Quality::NeverStarts);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(150);
    add_node(&mut world, "n3", "north", 1_000);
    put_group(&mut world, "g", &["n1", "n2", "n3"]);
    assert!(lowest(&mut world, 100, &["n1", "n2"], "w") >= 1);
    assert_eq!(runs(&world, "n3", "w").as_deref(), Some("1.0.0"));
}

/// Returns the overrides in the terms that the members have.
fn overrides_in_terms(world: &World) -> Vec<String> {
    let model = &world.agbots[0].model;
    let terms = ["n1", "n2"].map(|member| {
        let agreement = model.live_agreement(&node(member), &policy("w")).unwrap();
        proposal_terms(model, agreement).unwrap().terms.workloads[0].deployment_overrides.clone()
    });
    terms.into()
}

/// B11.7: the version ran with its overrides, and the policy no longer names them.
#[test]
fn version_is_rolled_back_to_with_the_overrides_it_had() {
    let mut world = going_back(&["n1", "n2"], Quality::NeverStarts);
    give_overrides(&mut world, "first", "signed");
    world.run_for(150);
    assert_eq!(overrides_in_terms(&world), ["first", "first"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(150);
    assert!(rollout(&world, "w").remembers_failure() && all_run(&world, "1.0.0"));
    assert_eq!(overrides_in_terms(&world), ["first", "first"]);
    // An agbot that starts again knows them.
    agbot::kill(&mut world, 0);
    agbot::start(&mut world, 0);
    world.run_for(60);
    assert_eq!(overrides_in_terms(&world), ["first", "first"]);
}

/// Overrides that were changed are rolled back like a version; other ones are a new rollout.
#[test]
fn changed_overrides_are_rolled_back_and_other_ones_are_tried() {
    let mut world = going_back(&["n1", "n2"], Quality::Good);
    for text in ["first", "second"] {
        give_overrides(&mut world, text, "signed");
        world.run_for(150);
        assert_eq!(overrides_in_terms(&world), [text, text]);
    }
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Rollback);
    assert!(lowest(&mut world, 150, &["n1", "n2"], "w") >= 1);
    assert_eq!(overrides_in_terms(&world), ["first", "first"]);
    assert!(matches!(rollout(&world, "w").state, RolloutState::Completed { .. }));
    give_overrides(&mut world, "third", "signed");
    world.run_for(150);
    assert_eq!(overrides_in_terms(&world), ["third", "third"]);
}

/// B11-S5: a rollback is never rolled back; it is held with the reason.
#[test]
fn rollback_that_fails_too_is_held_with_a_reason() {
    let mut world = going_back(&["n1", "n2", "n3"], Quality::Good);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(120);
    add_service(&mut world, "s", "1.0.0", Quality::NeverStarts);
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Rollback);
    assert!(lowest(&mut world, 200, &["n1", "n2", "n3"], "w") >= 2);
    let reason = hold(&world, "w").expect("held");
    assert!(matches!(&reason, HoldReason::StepFailed { version, .. } if version == "1.0.0"), "{reason}");
    assert_eq!(running_count(&world, &["n2", "n3"], "w"), 2);
}

/// B11.9, B12: a user rolls a completed rollout back.
#[test]
fn user_rolls_a_completed_rollout_back() {
    let mut world = lab(&["n1", "n2"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(90);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Rollback);
    assert_eq!(lowest(&mut world, 90, &["n1", "n2"], "w"), 1);
    assert!(["n1", "n2"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("1.0.0")));
    let rollout = rollout(&world, "w");
    assert!(matches!(rollout.state, RolloutState::Completed { .. }), "{rollout:?}");
    assert!(rollout.rollback.unwrap().why.to_string().contains("o/operator requested a rollback"));
}

/// A silent member does not count against the new version: it is set aside, and nothing is rolled back.
#[test]
fn silent_member_does_not_cause_a_rollback() {
    let mut world = going_back(&["n1", "n2", "n3"], Quality::Good);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(30, |world| runs(world, "n1", "w").is_none()));
    agent::kill_machine(&mut world, &node("n1"));
    assert!(world.run_until(120, |world| {
        ["n2", "n3"].iter().all(|member| runs(world, member, "w").as_deref() == Some("2.0.0"))
    }));
    assert!(hold(&world, "w").is_none() && rollout(&world, "w").rollback.is_none());
}

/// B11.6: with `continue` the others are upgraded although one failed.
#[test]
fn with_continue_one_failure_stops_no_other_member() {
    let mut world = lab_with(&["n1", "n2", "n3"], |world| {
        world.settings.update.failure_action = FailureAction::Continue;
        add_service(world, "s", "2.0.0", Quality::EndsAfter(1_000));
    });
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(60, |world| runs(world, "n1", "w").as_deref() == Some("2.0.0")));
    let agreement = world.agents[&node("n1")].held.keys().next().cloned().unwrap();
    let incarnation = world.agents[&node("n1")].incarnation;
    agent::timer(&mut world, &node("n1"), incarnation, agent::AgentTimer::Ended { agreement });
    assert!(lowest(&mut world, 150, &["n1", "n2", "n3"], "w") >= 1);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n3", "w").as_deref(), Some("2.0.0"));
    assert!(hold(&world, "w").is_none());
}

/// B11.10, 1.9: a node holds one agreement of a policy, so start first becomes stop first, with an event.
#[test]
fn start_first_is_degraded_on_nodes_that_hold_one_agreement_with_an_event() {
    let mut world = lab_with(&["n1", "n2"], |world| world.settings.update.order = UpdateOrder::StartFirst);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert_eq!(lowest(&mut world, 90, &["n1", "n2"], "w"), 1);
    assert!(["n1", "n2"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("2.0.0")));
    let degraded = world.trace.iter().filter(|line| line.contains("update.order-degraded")).count();
    assert_eq!(degraded, 1, "once for the rollout");
}

/// 2.8: an aborted rollout stays as it is until a user resumes it or rolls it back.
#[test]
fn aborted_rollout_stays_where_it_is() {
    let mut world = lab(&["n1", "n2", "n3"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(60, |world| runs(world, "n1", "w").is_none()));
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Abort);
    world.run_for(100);
    assert_eq!(runs(&world, "n3", "w").as_deref(), Some("1.0.0"));
    assert!(why(&world, "n3", "w").unwrap().to_string().contains("aborted by o/operator"));
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Rollback);
    world.run_for(60);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"));
}

/// E5.2: an administrator releases the claim of a stuck member; late commands of that member under it have no effect.
#[test]
fn released_claim_unblocks_another_member_and_the_minimum_available_holds() {
    let mut world = lab(&["n1", "n2", "n3"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(60, |world| runs(world, "n1", "w").is_none()));
    let old = claims(&world)[0].clone();
    world.database.free_claims(&GroupId::new("o", "g"));
    assert!(lowest(&mut world, 150, &["n1", "n2", "n3"], "w") >= 1);
    for member in ["n1", "n2", "n3"] {
        assert_eq!(runs(&world, member, "w").as_deref(), Some("2.0.0"));
    }
    assert!(claims(&world).is_empty());
    // Commands with the old fencing number come too late.
    let lease = evenkeel_planner_record::lease::Lease { partition: 0, fencing: 0 };
    let late = evenkeel_planner_model::command::Command {
        lease: world
            .database
            .leases
            .iter()
            .map(|(&partition, row)| evenkeel_planner_record::lease::Lease {
                partition,
                fencing: row.fencing,
            })
            .next()
            .unwrap_or(lease),
        action: evenkeel_planner_model::command::Action::AdvanceClaim {
            claim: old.reference(),
            phase: evenkeel_planner_record::claims::Phase::Verifying,
            deadline: world.now(),
        },
    };
    let now = world.now();
    assert!(matches!(
        world.database.execute(&late, None, &|_| false, now),
        evenkeel_planner_model::event::Outcome::Refused { .. }
    ));
}

/// E5.2, E6: releasing the claim of an agent upgrade unblocks the services of the others.
#[test]
fn released_agent_claim_unblocks_services() {
    let mut world = lab(&["n1", "n2"]);
    hold_agent_claim(&mut world, "n1");
    world.run_for(3);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(40);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"));
    world.database.free_claims(&GroupId::new("o", "g"));
    world.run_for(60);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
}
