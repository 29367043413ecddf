//! A member of an HA group that comes back after a loss counts for the minimum when its new instance is seen running, not before.
//!
//! Source: orchestration E3, E4, D11-S1.

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_planner_record::facts::{Availability, PolicyOrchestration};
use serde_json::json;

use super::{
    agent,
    chaos::{add_service, put_policy, set_availability},
    scenarios::{lab_with, lowest, node, policy, running_count},
    world::{Quality, World},
};

const MEMBERS: [&str; 2] = ["n1", "n2"];

/// Writes workload `f` for a version of `t`: an instance on every member of the group.
fn put_global(world: &mut World, version: &str) {
    put_policy(world, "f", "t", version, "site == north");
    let mut facts = world.exchange.policies[&policy("f")].clone();
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    let document = json!({"mode": "global", "scope": scope, "restart": {"delaySeconds": 0}});
    let document = Orchestration::of_policy(&facts.id, document).expect("the document is valid");
    facts.orchestration = PolicyOrchestration::of(&facts.id, &document);
    world.exchange.put_policy(facts);
}

fn pair(is_capable: bool) -> World {
    let mut world = lab_with(&MEMBERS, |world| {
        for version in ["1.0.0", "2.0.0"] {
            add_service(world, "t", version, Quality::Good);
        }
        for member in MEMBERS {
            world.exchange.set_capable(&node(member), is_capable);
        }
        put_global(world, "1.0.0");
    });
    assert!(world.run_until(60, |world| running_count(world, &MEMBERS, "f") == 2));
    world
}

/// Disruptions of the member that stays while the other one is away.
const DISRUPTIONS: [fn(&mut World); 2] =
    [|world| set_availability(world, &node("n2"), Availability::Drain), |world| put_global(world, "2.0.0")];

/// Kind of the loss of the member: with its instance, or without.
const LOSSES: [fn(&mut World, &evenkeel_ids::NodeId); 2] = [agent::kill_machine, agent::kill_process];

#[test]
fn last_instance_stays_until_the_one_of_the_member_that_is_back_runs() {
    for (is_capable, disrupt, lose) in [true, false]
        .into_iter()
        .flat_map(|is_capable| DISRUPTIONS.map(|disrupt| (is_capable, disrupt)))
        .flat_map(|(is_capable, disrupt)| LOSSES.map(|lose| (is_capable, disrupt, lose)))
    {
        let mut world = pair(is_capable);
        lose(&mut world, &node("n1"));
        world.run_for(400);
        disrupt(&mut world);
        assert_eq!(lowest(&mut world, 60, &["n2"], "f"), 1, "it waits for the other member");
        agent::start(&mut world, &node("n1"));
        assert!(lowest(&mut world, 300, &MEMBERS, "f") >= 1, "capable: {is_capable}");
        assert_eq!(world.checker.violation, None);
    }
}
