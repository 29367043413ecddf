//! Settings of a deployment policy that override the hub's: minimum available, peers that are down, pace, failures, scope.
//!
//! The same engine as with the hub's settings; another policy keeps those. Source: orchestration 1.2, 1.3, B11, E3, E4.

use super::{
    agent,
    chaos::{add_node, add_service, put_group, put_policy},
    scenarios::{
        agreements, give_overrides, hold, lab, lab_with, lowest, node, policy, running_count, runs, why,
    },
    world::{Quality, World},
};
use evenkeel_ids::ServiceKey;
use evenkeel_planner_model::terms::proposal_terms;
use evenkeel_planner_record::{
    facts::{PolicyOrchestration, PolicyScope},
    report::Blocked,
    settings::{FailureAction, OfflinePeerPolicy, UpdateOverrides},
};

const MEMBERS: [&str; 3] = ["n1", "n2", "n3"];

/// Writes policy `w` for a version of `s` with settings of its own.
fn orchestrate(world: &mut World, version: &str, orchestration: PolicyOrchestration) {
    put_policy(world, "w", "s", version, "site == north");
    let mut facts = world.exchange.policies[&policy("w")].clone();
    facts.orchestration = orchestration;
    world.exchange.put_policy(facts);
}

fn update(update: UpdateOverrides) -> PolicyOrchestration {
    PolicyOrchestration { update, ..PolicyOrchestration::default() }
}

fn groups(names: &[&str]) -> PolicyOrchestration {
    let groups = names.iter().map(|name| evenkeel_ids::GroupId::new("o", name)).collect();
    PolicyOrchestration { scope: PolicyScope::HaGroups(groups), ..PolicyOrchestration::default() }
}

/// Other overrides mean another environment, which a node applies with a new agreement only.
#[test]
fn changed_overrides_are_rolled_through_the_group() {
    let members = ["n1", "n2", "n3"];
    let mut world = lab(&members);
    let before: Vec<_> = members.iter().map(|member| agreements(&world, member)).collect();
    give_overrides(&mut world, "{}", "signature");
    assert_eq!(lowest(&mut world, 180, &members, "w"), 2);
    let after: Vec<_> = members.iter().map(|member| agreements(&world, member)).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before != after && after.len() == 1));
    let settled = agreements(&world, "n1");
    world.run_for(60);
    assert_eq!(agreements(&world, "n1"), settled, "once");
    let model = &world.agbots[0].model;
    let agreement = model.live_agreement(&node("n1"), &policy("w")).unwrap();
    let terms = proposal_terms(model, agreement).unwrap();
    assert!(terms.terms.to_text().contains(r#""deployment_overrides_signature":"signature""#));
    give_overrides(&mut world, "{}", "another signature");
    world.run_for(60);
    assert_eq!(agreements(&world, "n1"), settled, "the environment is the same");
}

/// E4-S3 with the minimum available of one policy: one at a time with 2 of 3, and clamped with 5 of 3; the hub's stays 1 for others.
#[test]
fn minimum_available_of_a_policy_is_its_own_and_is_clamped_to_the_other_members() {
    for minimum in [2, 5] {
        let mut world = lab_with(&MEMBERS, |world| {
            add_service(world, "t", "1.0.0", Quality::Good);
            add_service(world, "t", "2.0.0", Quality::Good);
            put_policy(world, "w2", "t", "1.0.0", "site == north");
        });
        agent::kill_machine(&mut world, &node("n3"));
        world.run_for(30);
        let minimum_available = UpdateOverrides { min_running: Some(minimum), ..UpdateOverrides::default() };
        orchestrate(&mut world, "2.0.0", update(minimum_available));
        put_policy(&mut world, "w2", "t", "2.0.0", "site == north");
        assert_eq!(
            lowest(&mut world, 90, &["n1", "n2"], "w"),
            2,
            "minimum {minimum}: two others are not there"
        );
        assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"), "minimum {minimum}");
        let blocked = why(&world, "n1", "w").unwrap();
        assert!(matches!(&blocked, Blocked::HaMinimum { wanted: 2, .. }), "minimum {minimum}: {blocked}");
        assert_eq!(
            runs(&world, "n1", "w2").as_deref(),
            Some("2.0.0"),
            "the other policy has the hub's minimum available"
        );
        agent::start(&mut world, &node("n3"));
        assert!(lowest(&mut world, 150, &["n1", "n2"], "w") >= 1);
        assert!(MEMBERS.iter().all(|member| runs(&world, member, "w").as_deref() == Some("2.0.0")));
    }
}

/// E4-S2, second half, for one policy: the peer that is down blocks only the other policy.
#[test]
fn policy_that_proceeds_does_not_wait_for_a_dead_peer_and_another_does() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        add_service(world, "t", "1.0.0", Quality::Good);
        add_service(world, "t", "2.0.0", Quality::Good);
        put_policy(world, "w2", "t", "1.0.0", "site == north");
    });
    agent::kill_machine(&mut world, &node("n2"));
    world.run_for(30);
    let proceed =
        UpdateOverrides { offline_peers: Some(OfflinePeerPolicy::Proceed), ..UpdateOverrides::default() };
    orchestrate(&mut world, "2.0.0", update(proceed));
    put_policy(&mut world, "w2", "t", "2.0.0", "site == north");
    world.run_for(80);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n1", "w2").as_deref(), Some("1.0.0"));
    assert!(matches!(why(&world, "n1", "w2"), Some(Blocked::HaMinimum { .. })));
}

/// B11-S1, the delay: the next member begins this long after the last one was finished.
#[test]
fn delay_of_a_policy_lies_between_its_members() {
    let mut world = lab(&["n1", "n2"]);
    let delay = UpdateOverrides { delay_secs: Some(60), ..UpdateOverrides::default() };
    orchestrate(&mut world, "2.0.0", update(delay));
    assert!(world.run_until(60, |world| runs(world, "n1", "w").as_deref() == Some("2.0.0")));
    assert_eq!(lowest(&mut world, 55, &["n2"], "w"), 1);
    assert!(matches!(why(&world, "n2", "w"), Some(Blocked::Delay { .. })));
    assert!(world.run_until(60, |world| runs(world, "n2", "w").as_deref() == Some("2.0.0")));
}

/// B11.6 for one policy: two of three may fail before the rollout is held; the hub's setting would hold it after the first.
#[test]
fn tolerated_share_of_failures_is_the_policys() {
    let mut world = lab(&MEMBERS);
    add_service(&mut world, "s", "2.0.0", Quality::NeverStarts);
    let tolerant = UpdateOverrides {
        max_failure_ratio: Some(0.4),
        failure_action: Some(FailureAction::Rollback),
        ..UpdateOverrides::default()
    };
    orchestrate(&mut world, "2.0.0", update(tolerant));
    assert!(lowest(&mut world, 300, &MEMBERS, "w") >= 1);
    assert_eq!(running_count(&world, &MEMBERS, "w"), 3, "the second failure took it back");
    assert!(MEMBERS.iter().all(|member| runs(&world, member, "w").as_deref() == Some("1.0.0")));
    assert!(
        world.trace.iter().any(|line| line.contains("claim rollout of o/w for o/n2 (2.0.0)")),
        "n2 tried"
    );
    assert_eq!(hold(&world, "w"), None);
}

/// B11.8: what failed is not done until it runs the version, and the text names it.
#[test]
fn member_on_which_the_version_failed_is_not_done() {
    let mut world = lab(&MEMBERS);
    add_service(&mut world, "s", "2.0.0", Quality::NeverStarts);
    let tolerant = UpdateOverrides { max_failure_ratio: Some(0.4), ..UpdateOverrides::default() };
    orchestrate(&mut world, "2.0.0", update(tolerant));
    let rollout = |world: &World| world.database.rollouts.values().next().cloned();
    let has_failed = |world: &World| rollout(world).is_some_and(|one| one.failed == [node("n1")]);
    assert!(world.run_until(600, has_failed));
    world.quality.insert((ServiceKey::new("o", "s"), "2.0.0".to_owned()), Quality::Good);
    let is_next_done = |world: &World| rollout(world).is_some_and(|one| one.last_node == Some(node("n2")));
    assert!(world.run_until(600, is_next_done));
    let found = rollout(&world).unwrap();
    let has_recovered = runs(&world, "n1", "w").as_deref() == Some("2.0.0");
    assert_eq!(found.done, if has_recovered { 2 } else { 1 }, "{}", found.text());
    assert_eq!(found.text(), format!("updating, {} of 3 done, 1 failed", found.done));
}

/// 1.3, E3-S4: only members of the listed groups get it; joining makes a node eligible, and nothing else is restarted.
#[test]
fn scope_of_a_policy_keeps_it_to_members_of_its_groups() {
    let mut world = lab_with(&["n1"], |world| {
        add_node(world, "n2", "north", 1_000);
        add_node(world, "n3", "north", 1_000);
        put_group(world, "h", &["n3"]);
        orchestrate(world, "1.0.0", groups(&["g"]));
    });
    let where_it_runs = |world: &World| MEMBERS.map(|member| runs(world, member, "w").is_some());
    assert_eq!(where_it_runs(&world), [true, false, false]);
    let blocked = why(&world, "n3", "w").unwrap().to_string();
    assert_eq!(blocked, "the policy is for members of o/g only");
    let before = agreements(&world, "n1");
    put_group(&mut world, "g", &["n1", "n2"]);
    world.run_for(30);
    assert_eq!(where_it_runs(&world), [true, true, false]);
    let scope = PolicyScope::EveryHaGroup;
    orchestrate(&mut world, "1.0.0", PolicyOrchestration { scope, ..PolicyOrchestration::default() });
    world.run_for(30);
    assert_eq!((where_it_runs(&world), agreements(&world, "n1")), ([true, true, true], before));
    orchestrate(&mut world, "1.0.0", groups(&["h"]));
    world.run_for(60);
    assert_eq!(where_it_runs(&world), [false, false, true], "a node that no longer matches loses it");
}

/// 1.1-6: settings alone are no new version.
#[test]
fn changed_settings_restart_nothing_and_begin_no_rollout() {
    let mut world = lab(&MEMBERS);
    let before: Vec<_> = MEMBERS.iter().map(|member| agreements(&world, member)).collect();
    let minimum_available =
        UpdateOverrides { min_running: Some(2), monitor_secs: Some(9), ..UpdateOverrides::default() };
    orchestrate(&mut world, "1.0.0", update(minimum_available));
    assert_eq!(lowest(&mut world, 60, &MEMBERS, "w"), 3);
    let after: Vec<_> = MEMBERS.iter().map(|member| agreements(&world, member)).collect();
    assert_eq!((after, world.database.rollouts.len()), (before, 0));
}
