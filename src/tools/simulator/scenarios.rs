//! The scenarios of the HA-group chapter, on the simulated world without faults.
//!
//! Each test is named after its promise; the comment names the scenario or requirement. Times are the simulator's short
//! ones. Source: orchestration E1 to E9, B11, P.

use super::{
    agbot, agent, chaos,
    chaos::{add_agbots, add_node, add_service, put_group, put_policy},
    deliberate::DeliberateFaults,
    exchange::Resource,
    world::{Quality, World},
};
use evenkeel_explain::explain::explain;
use evenkeel_ids::{AgreementId, GroupId, NmpId, NodeId, PolicyId, ServiceKey};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    claims::{Claim, ClaimRequest, Purpose, Scope},
    facts::{DeploymentOverrides, NmpStatusFacts, NodePolicyFacts},
    report::{Blocked, HoldReason},
    rollout::RolloutState,
    settings::OfflinePeerPolicy,
    time::later,
    workload::RolloutAction,
};

pub(super) fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

pub(super) fn policy(name: &str) -> PolicyId {
    PolicyId::new("o", name)
}

/// A settled world: members of g at site north, one agbot, policy `w` for service `s` 1.0.0 at site north.
pub(super) fn lab(members: &[&str]) -> World {
    lab_with(members, |_| {})
}

pub(super) fn lab_with(members: &[&str], prepare: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(1, DeliberateFaults::default());
    for member in members {
        add_node(&mut world, member, "north", 2_000);
    }
    put_group(&mut world, "g", members);
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        add_service(&mut world, "s", version, Quality::Good);
    }
    put_policy(&mut world, "w", "s", "1.0.0", "site == north");
    prepare(&mut world);
    add_agbots(&mut world, 1);
    world.run_for(40);
    world
}

/// Gives policy `w` other deployment overrides.
pub(super) fn give_overrides(world: &mut World, text: &str, signature: &str) {
    let mut facts = world.exchange.policies[&policy("w")].clone();
    facts.versions[0].overrides =
        DeploymentOverrides { text: text.to_owned(), signature: signature.to_owned() };
    world.exchange.put_policy(facts);
}

pub(super) fn runs(world: &World, name: &str, policy_name: &str) -> Option<String> {
    world.running_version(&node(name), &policy(policy_name))
}

pub(super) fn running_count(world: &World, members: &[&str], policy_name: &str) -> usize {
    members.iter().filter(|member| runs(world, member, policy_name).is_some()).count()
}

/// Runs the world and returns the lowest number of running instances at any instant.
pub(super) fn lowest(world: &mut World, secs: u64, members: &[&str], policy_name: &str) -> usize {
    let end = world.millis + secs * 1000;
    let mut lowest = running_count(world, members, policy_name);
    while world.millis < end && world.step() {
        lowest = lowest.min(running_count(world, members, policy_name));
    }
    lowest
}

pub(super) fn agreements(world: &World, name: &str) -> Vec<AgreementId> {
    world.agents[&node(name)].held.keys().cloned().collect()
}

pub(super) fn why(world: &World, name: &str, policy_name: &str) -> Option<Blocked> {
    let model = &world.agbots[0].model;
    explain(model, &node(name), &policy(policy_name), world.now()).blocked().cloned()
}

pub(super) fn hold(world: &World, policy_name: &str) -> Option<HoldReason> {
    let rollout = world.database.rollouts.get(&(GroupId::new("o", "g"), policy(policy_name)))?;
    match &rollout.state {
        RolloutState::Held { hold, .. } => Some((**hold).clone()),
        _ => None,
    }
}

pub(super) fn move_site(world: &mut World, name: &str, site: &str) {
    let now = world.now();
    let stored = world.exchange.nodes.get_mut(&node(name)).unwrap();
    let mut properties = stored.policy.policy.properties.clone();
    properties.replace(evenkeel_domain::policy::Property::new("site", site)).unwrap();
    stored.policy.policy.properties = properties;
    stored.policy = NodePolicyFacts { last_updated: Some(now), ..stored.policy.clone() };
    world.exchange.feed.push(Resource::NodePolicy(node(name)));
}

pub(super) fn hold_agent_claim(world: &mut World, name: &str) {
    record_claim(world, agent_claim(world, name));
}

pub(super) fn agent_claim(world: &World, name: &str) -> Claim {
    let request = ClaimRequest {
        group: GroupId::new("o", "g"),
        scope: Scope::Agent,
        node: node(name),
        purpose: Purpose::AgentUpgrade { nmp: NmpId::new("o", "m"), drains: false },
        version: String::new(),
        deadline: later(world.now(), 1_800),
        seen_running: Vec::new(),
        parallelism: 0,
    };
    request.into_claim(900, world.now())
}

pub(super) fn record_claim(world: &mut World, claim: Claim) {
    world.database.log.push(super::database::Row::Claim(claim.key()));
    world.database.claims.insert(claim.key(), claim);
}

pub(super) fn claims(world: &World) -> Vec<&Claim> {
    world.database.claims.values().collect()
}

/// HA-8, E4-S1.
#[test]
fn new_version_rolls_through_the_group_while_one_instance_runs_at_every_instant() {
    let mut world = lab(&["n1", "n2", "n3"]);
    assert_eq!(running_count(&world, &["n1", "n2", "n3"], "w"), 3);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert_eq!(lowest(&mut world, 90, &["n1", "n2", "n3"], "w"), 2, "one at a time");
    for member in ["n1", "n2", "n3"] {
        assert_eq!(runs(&world, member, "w").as_deref(), Some("2.0.0"));
    }
    assert!(claims(&world).is_empty());
}

/// E4-S1, second half: a step counts when the new version is seen running, not when it is agreed.
#[test]
fn second_member_keeps_its_instance_until_the_first_runs_the_new_version() {
    let mut world = lab(&["n1", "n2"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    let mut order = Vec::new();
    for _ in 0..4_000 {
        world.step();
        let now = (runs(&world, "n1", "w"), runs(&world, "n2", "w"));
        if order.last() != Some(&now) {
            order.push(now);
        }
    }
    let version = |text: &str| Some(text.to_owned());
    assert_eq!(
        order,
        [
            (version("1.0.0"), version("1.0.0")),
            (None, version("1.0.0")),
            (version("2.0.0"), version("1.0.0")),
            (version("2.0.0"), None),
            (version("2.0.0"), version("2.0.0")),
        ]
    );
}

/// HA-1, HA-11, E3-S1, E3-S2; E7: a service that need not be continuously available runs on a subset of the members.
#[test]
fn upgrade_never_waits_for_members_the_service_is_not_meant_for() {
    let mut world = lab_with(&["n1", "n2", "n3"], |world| {
        add_service(world, "t", "1.0.0", Quality::Good);
        add_service(world, "t", "2.0.0", Quality::Good);
        put_policy(world, "w2", "t", "1.0.0", "site == south");
        move_site(world, "n3", "south");
    });
    assert_eq!((runs(&world, "n3", "w"), runs(&world, "n3", "w2").as_deref()), (None, Some("1.0.0")));
    agent::kill_machine(&mut world, &node("n3"));
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(60);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
    agent::start(&mut world, &node("n3"));
    world.run_for(30);
    put_policy(&mut world, "w2", "t", "2.0.0", "site == south");
    world.run_for(30);
    assert_eq!(runs(&world, "n3", "w2").as_deref(), Some("2.0.0"), "no peers: upgraded at once");
}

/// HA-2, HA-3, E2-S4, E2.4.
#[test]
fn joining_and_leaving_a_group_restarts_nothing() {
    let mut world = lab(&["n1", "n2"]);
    add_node(&mut world, "n3", "north", 1_000);
    world.run_for(30);
    let before: Vec<_> = ["n1", "n2", "n3"].iter().map(|name| agreements(&world, name)).collect();
    assert!(before.iter().all(|held| held.len() == 1));
    put_group(&mut world, "g", &["n1", "n2", "n3"]);
    let lowest = lowest(&mut world, 120, &["n1", "n2", "n3"], "w");
    let after: Vec<_> = ["n1", "n2", "n3"].iter().map(|name| agreements(&world, name)).collect();
    assert_eq!((lowest, &after), (3, &before));
    put_group(&mut world, "g", &["n1"]);
    world.run_for(60);
    assert_eq!(agreements(&world, "n3"), before[2]);
}

/// HA-10: membership comes from the group resource alone.
#[test]
fn node_that_claims_a_group_in_its_policy_is_not_a_member() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        put_policy(world, "only-g", "s", "1.0.0", "openhorizon.hagroup == g");
        add_node(world, "liar", "east", 1_000);
        let stored = world.exchange.nodes.get_mut(&node("liar")).unwrap();
        stored.policy.policy.properties.set_ha_group(Some("g"));
    });
    assert_eq!(runs(&world, "n1", "only-g").as_deref(), Some("1.0.0"));
    assert_eq!(runs(&world, "liar", "only-g"), None);
    world.run_for(1);
}

/// E3-S4: a service only for nodes in a group; joining makes a node eligible and restarts nothing.
#[test]
fn service_for_group_members_only_follows_the_group() {
    let mut world = lab_with(&["n1"], |world| {
        put_policy(world, "members", "s", "1.0.0", "openhorizon.hagroup != none");
        add_node(world, "n2", "north", 1_000);
    });
    assert_eq!((runs(&world, "n1", "members").is_some(), runs(&world, "n2", "members")), (true, None));
    let blocked = why(&world, "n2", "members").unwrap();
    assert!(blocked.to_string().contains("openhorizon.hagroup is missing"), "{blocked}");
    let before = agreements(&world, "n1");
    put_group(&mut world, "g", &["n1", "n2"]);
    world.run_for(30);
    assert_eq!(runs(&world, "n2", "members").as_deref(), Some("1.0.0"));
    assert_eq!(agreements(&world, "n1"), before);
}

/// E3-S3, E4.7: a node that no longer matches keeps the service until another member runs it.
#[test]
fn node_that_no_longer_matches_keeps_the_service_until_another_member_runs_it() {
    let mut world = lab(&["n1", "n2"]);
    agent::kill_machine(&mut world, &node("n1"));
    world.run_for(25);
    move_site(&mut world, "n2", "south");
    assert_eq!(lowest(&mut world, 60, &["n2"], "w"), 1);
    agent::start(&mut world, &node("n1"));
    assert!(world.run_until(60, |world| runs(world, "n2", "w").is_none()));
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"));
}

/// E3-S5, X.24: two policies that deploy one service protect each other.
#[test]
fn instances_of_one_service_from_two_policies_protect_each_other() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        move_site(world, "n2", "south");
        put_policy(world, "w2", "s", "1.0.0", "site == south");
    });
    agent::kill_machine(&mut world, &node("n2"));
    world.run_for(30);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(60);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"));
    let blocked = why(&world, "n1", "w").unwrap();
    assert!(
        matches!(&blocked, Blocked::HaMinimum { missing, .. } if missing.contains_key(&node("n2"))),
        "{blocked}"
    );
    agent::start(&mut world, &node("n2"));
    world.run_for(60);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"), "continues when the peer is back");
}

/// E4-S2, D11-S1.
#[test]
fn last_running_instance_waits_for_the_peer_that_is_down_with_a_reason() {
    let mut world = lab(&["n1", "n2"]);
    agent::kill_machine(&mut world, &node("n2"));
    world.run_for(30);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert_eq!(lowest(&mut world, 200, &["n1"], "w"), 1);
    let blocked = why(&world, "n1", "w").unwrap().to_string();
    assert!(blocked.contains("HA minimum") && blocked.contains("o/n2: down"), "{blocked}");
    agent::start(&mut world, &node("n2"));
    world.run_for(90);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
}

/// E4-S2, second half.
#[test]
fn with_proceed_a_dead_peer_no_longer_blocks_the_others() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        world.settings.update.offline_peers = OfflinePeerPolicy::Proceed;
    });
    agent::kill_machine(&mut world, &node("n2"));
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(80);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
}

/// E4-S3: a higher minimum available, and one that cannot be met by so few members.
#[test]
fn minimum_available_is_a_setting_and_is_clamped_to_the_other_members() {
    for minimum in [2, 5] {
        let mut world = lab_with(&["n1", "n2", "n3"], |world| world.settings.update.min_running = minimum);
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        assert_eq!(lowest(&mut world, 90, &["n1", "n2", "n3"], "w"), 2, "minimum {minimum}");
        assert_eq!(runs(&world, "n3", "w").as_deref(), Some("2.0.0"), "minimum {minimum}");
    }
}

/// E4-S4: a version that fails on the first member never reaches the second.
#[test]
fn failed_step_holds_the_rollout_and_keeps_the_old_version_on_the_others() {
    for quality in [Quality::NeverStarts, Quality::EndsAfter(2)] {
        let mut world = lab(&["n1", "n2"]);
        add_service(&mut world, "s", "2.0.0", quality);
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        assert!(lowest(&mut world, 200, &["n1", "n2"], "w") >= 1);
        assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"), "{quality:?}");
        let reason = hold(&world, "w").expect("the rollout is held");
        assert!(
            matches!(&reason, HoldReason::StepFailed { node: failed, .. } if *failed == node("n1")),
            "{reason}"
        );
        assert!(claims(&world).is_empty(), "a held rollout keeps no claim");
        let shown = why(&world, "n2", "w").unwrap().to_string();
        assert!(shown.contains("2.0.0 failed on o/n1"), "{shown}");
        // B11-S6: a new version is a new rollout.
        put_policy(&mut world, "w", "s", "3.0.0", "site == north");
        world.run_for(120);
        assert_eq!(runs(&world, "n1", "w").as_deref(), Some("3.0.0"));
        assert_eq!(runs(&world, "n2", "w").as_deref(), Some("3.0.0"));
    }
}

/// A stalled step holds too, and the rollout continues when the member catches up.
#[test]
fn stalled_step_holds_the_rollout_until_the_member_catches_up() {
    // A silent node counts as down only after the time of a step.
    let mut world = lab_with(&["n1", "n2", "n3"], |world| world.settings.node_down_after_secs = 120);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(30, |world| runs(world, "n1", "w").is_none()));
    agent::kill_machine(&mut world, &node("n1"));
    assert!(world.run_until(60, |world| hold(world, "w").is_some()));
    let reason = hold(&world, "w").unwrap();
    assert!(
        matches!(&reason, HoldReason::StepStalled { node: stalled, .. } if *stalled == node("n1")),
        "{reason}"
    );
    world.run_for(30);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"));
    agent::start(&mut world, &node("n1"));
    world.run_for(120);
    for member in ["n1", "n2", "n3"] {
        assert_eq!(runs(&world, member, "w").as_deref(), Some("2.0.0"));
    }
}

/// E4-S5, P-S3.
#[test]
fn many_groups_roll_at_once_and_never_two_members_of_one() {
    let mut world = lab_with(&[], |world| {
        for group in 0..10 {
            let names = [format!("a{group}"), format!("b{group}")];
            for name in &names {
                add_node(world, name, "north", 2_000);
            }
            put_group(world, &format!("g{group}"), &[&names[0], &names[1]]);
        }
    });
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    let mut most_at_once = 0;
    let end = world.millis + 60_000;
    while world.millis < end && world.step() {
        let down = |name: &String| runs(&world, name, "w").is_none();
        let mut groups_down = 0;
        for group in 0..10 {
            let pair = [format!("a{group}"), format!("b{group}")];
            let both = pair.iter().filter(|name| down(name)).count();
            assert!(both < 2, "group {group}");
            groups_down += both;
        }
        most_at_once = most_at_once.max(groups_down);
    }
    assert!(most_at_once > 3, "groups do not wait for each other: {most_at_once}");
    assert!((0..10).all(|group| runs(&world, &format!("b{group}"), "w").as_deref() == Some("2.0.0")));
}

/// E5-S1, P-S10: exclusive over all policies of a group.
#[test]
fn two_policies_never_disrupt_two_members_at_once() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        add_service(world, "t", "1.0.0", Quality::Good);
        add_service(world, "t", "2.0.0", Quality::Good);
        put_policy(world, "w2", "t", "1.0.0", "site == north");
    });
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    put_policy(&mut world, "w2", "t", "2.0.0", "site == north");
    let end = world.millis + 120_000;
    while world.millis < end && world.step() {
        let holders: std::collections::BTreeSet<_> = claims(&world).iter().map(|claim| &claim.node).collect();
        assert!(holders.len() <= 1, "{holders:?}");
    }
    for (member, name) in [("n1", "w"), ("n2", "w"), ("n1", "w2"), ("n2", "w2")] {
        assert_eq!(runs(&world, member, name).as_deref(), Some("2.0.0"));
    }
}

/// E5-S2: the agent claim of n1 blocks services on n2, not on n1; HA-15: it is released by the node's status.
#[test]
fn service_upgrade_waits_for_the_agent_upgrade_of_another_member() {
    let mut world = lab(&["n1", "n2"]);
    hold_agent_claim(&mut world, "n1");
    world.run_for(3);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(40);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"), "rows of the same node do not conflict");
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"));
    let blocked = why(&world, "n2", "w").unwrap();
    assert!(
        matches!(&blocked, Blocked::HaLock { holder, scope: Scope::Agent, .. } if *holder == node("n1")),
        "{blocked}"
    );
    let status =
        NmpStatusFacts { node: node("n1"), nmp: NmpId::new("o", "m"), status: Some("successful".into()) };
    agbot::handle(&mut world, 0, &Event::NmpStatusChanged { status: Box::new(status) }, None);
    world.run_for(60);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
}

/// E5-S4: two agbots, one row; a partition's change of owner breaks nothing.
#[test]
fn rollout_of_a_killed_agbot_continues_without_a_gap() {
    let mut world = lab(&["n1", "n2"]);
    let second = agbot::Agbot::new(&world);
    world.agbots.push(second);
    agbot::start(&mut world, 1);
    world.run_for(10);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(30, |world| !world.database.claims.is_empty()));
    agbot::kill(&mut world, 0);
    assert!(lowest(&mut world, 120, &["n1", "n2"], "w") >= 1);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("2.0.0"));
    assert!(claims(&world).is_empty());
}

/// E8-S2: a crash on one member is repaired although another member holds the claim.
#[test]
fn restart_after_a_failure_is_not_delayed_by_the_claim() {
    let mut world = lab(&["n1", "n2", "n3"]);
    hold_agent_claim(&mut world, "n2");
    world.run_for(3);
    let agreement = agreements(&world, "n1").pop().unwrap();
    let incarnation = world.agents[&node("n1")].incarnation;
    agent::timer(&mut world, &node("n1"), incarnation, agent::AgentTimer::Ended { agreement });
    assert_eq!(runs(&world, "n1", "w"), None);
    world.run_for(15);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"));
    assert_eq!(claims(&world).len(), 1);
}

/// B11-S7: a newer version while one is rolling.
#[test]
fn newer_version_takes_over_a_running_rollout() {
    let mut world = lab(&["n1", "n2", "n3"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(60, |world| runs(world, "n1", "w").as_deref() == Some("2.0.0")));
    put_policy(&mut world, "w", "s", "3.0.0", "site == north");
    assert!(lowest(&mut world, 120, &["n1", "n2", "n3"], "w") >= 1);
    for member in ["n1", "n2", "n3"] {
        assert_eq!(runs(&world, member, "w").as_deref(), Some("3.0.0"));
    }
}

/// B12: a user's pause lets the current slot finish and starts no further one.
#[test]
fn paused_rollout_goes_on_only_when_it_is_resumed() {
    let mut world = lab(&["n1", "n2", "n3"]);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    assert!(world.run_until(60, |world| runs(world, "n1", "w").is_none()));
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Pause);
    world.run_for(60);
    assert_eq!(runs(&world, "n1", "w").as_deref(), Some("2.0.0"));
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"));
    assert!(why(&world, "n2", "w").unwrap().to_string().contains("paused by o/operator"));
    // The pause survives the crash of the agbot and a new owner of the partition.
    agbot::kill(&mut world, 0);
    agbot::start(&mut world, 0);
    world.run_for(60);
    assert_eq!(runs(&world, "n2", "w").as_deref(), Some("1.0.0"));
    chaos::request_action(&mut world, &policy("w"), RolloutAction::Resume);
    world.run_for(60);
    assert_eq!(runs(&world, "n3", "w").as_deref(), Some("2.0.0"));
}

/// Agbot history #3510: replacing a policy's service by another one is a rolling change too.
#[test]
fn replacing_the_service_of_a_policy_is_rolled() {
    let mut world = lab_with(&["n1", "n2"], |world| add_service(world, "t", "9.0.0", Quality::Good));
    put_policy(&mut world, "w", "t", "9.0.0", "site == north");
    assert_eq!(lowest(&mut world, 90, &["n1", "n2"], "w"), 1);
    assert!(["n1", "n2"].iter().all(|member| runs(&world, member, "w").as_deref() == Some("9.0.0")));
}

/// Design 1.1 for policy edits: a service that moves to another member stops on the old one only after it runs there.
#[test]
fn service_moved_by_a_policy_edit_runs_on_the_new_member_before_it_stops_on_the_old() {
    let mut world = lab_with(&["n1", "n2"], |world| move_site(world, "n2", "south"));
    assert_eq!((runs(&world, "n1", "w").is_some(), runs(&world, "n2", "w")), (true, None));
    world.run_for(5);
    put_policy(&mut world, "w", "s", "1.0.0", "site == south");
    assert_eq!(lowest(&mut world, 60, &["n1", "n2"], "w"), 1);
    assert_eq!((runs(&world, "n1", "w"), runs(&world, "n2", "w").is_some()), (None, true));
}

/// Agbot 6.21: the node gets new terms, the running service is unchanged.
#[test]
fn compatible_edit_of_a_policy_updates_the_terms_and_restarts_nothing() {
    let mut world = lab(&["n1", "n2"]);
    let before = (agreements(&world, "n1"), agreements(&world, "n2"));
    let mut facts = world.exchange.policies[&policy("w")].clone();
    facts.policy.properties = [evenkeel_domain::policy::Property::new("colour", "red")].into_iter().collect();
    world.exchange.put_policy(facts);
    assert_eq!(lowest(&mut world, 60, &["n1", "n2"], "w"), 2);
    assert_eq!((agreements(&world, "n1"), agreements(&world, "n2")), before);
    assert!(world.database.agreements.values().all(|agreement| agreement.pending_update.is_none()));
}

/// E9-S1, E9-S2: groups cost two starts one after the other, no groups cost one.
#[test]
fn roll_out_with_groups_takes_two_starts_and_without_groups_one() {
    let roll = |grouped: bool| {
        let mut world = lab_with(&[], |world| {
            for pair in 0..50 {
                let names = [format!("a{pair:02}"), format!("b{pair:02}")];
                for name in &names {
                    add_node(world, name, "north", 5_000);
                }
                if grouped {
                    put_group(world, &format!("g{pair:02}"), &[&names[0], &names[1]]);
                }
            }
        });
        let begin = world.millis;
        put_policy(&mut world, "w", "s", "2.0.0", "site == north");
        let is_done = |world: &World| {
            let done = |agent: &agent::Agent| agent.running_version(&policy("w")).as_deref() == Some("2.0.0");
            world.agents.values().all(done)
        };
        assert!(world.run_until(200, is_done));
        (world.millis - begin) / 1000
    };
    let (with, without) = (roll(true), roll(false));
    assert!(with <= 2 * (5 + 5) + 60, "with groups {with} s");
    assert!(without <= 5 + 5 + 60, "without groups {without} s");
    assert!(with > without, "with groups {with} s, without {without} s");
}

/// A service that crashes everywhere can be replaced by one that works: replacing it loses nothing.
#[test]
fn broken_service_is_replaced_although_it_runs_nowhere() {
    let mut world = lab_with(&["n1", "n2"], |world| add_service(world, "s", "1.0.0", Quality::NeverStarts));
    assert_eq!(running_count(&world, &["n1", "n2"], "w"), 0);
    put_policy(&mut world, "w", "s", "2.0.0", "site == north");
    world.run_for(150);
    assert_eq!(running_count(&world, &["n1", "n2"], "w"), 2);
    assert!(world.exchange.services.values().any(|service| service.key == ServiceKey::new("o", "s")));
}
