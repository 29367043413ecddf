//! Settled worlds and possible events, for the laws of `decide`.

use evenkeel_domain::policy::Property;
use jiff::Timestamp;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    chaos::{add_agbots, add_node, add_service, put_group, put_policy},
    deliberate::DeliberateFaults,
    world::{Quality, World},
};
use evenkeel_ids::NodeId;
use evenkeel_planner_model::{event::Event, model::Model};
use evenkeel_planner_record::facts::{HaGroupFacts, NodePolicyFacts};

/// Builds a world of groups and single nodes, lets it settle, and returns the agbot's model.
pub(crate) fn settled_world(seed: u64) -> (Model, Timestamp) {
    let mut world = World::new(seed, DeliberateFaults::default());
    for (name, site) in
        [("a1", "north"), ("a2", "north"), ("a3", "south"), ("b1", "south"), ("b2", "north"), ("c", "north")]
    {
        add_node(&mut world, name, site, 1_000);
    }
    put_group(&mut world, "a", &["a1", "a2", "a3"]);
    put_group(&mut world, "b", &["b1", "b2"]);
    for (service, version) in [("s", "1.0.0"), ("s", "2.0.0"), ("t", "1.0.0"), ("t", "2.0.0")] {
        add_service(&mut world, service, version, Quality::Good);
    }
    put_policy(&mut world, "ps", "s", "1.0.0", "site == north");
    put_policy(&mut world, "ps2", "s", "1.0.0", "site == south");
    put_policy(&mut world, "pt", "t", "1.0.0", "openhorizon.hagroup in \"a,b\"");
    add_agbots(&mut world, 1);
    world.run_for(60);
    // Everything that was due has been planned.
    super::agbot::handle(&mut world, 0, &Event::FullReconcile, None);
    world.run_for(5);
    super::agbot::handle(&mut world, 0, &Event::Tick, None);
    let now = world.now();
    (world.agbots.remove(0).model, now)
}

/// Returns events that could reach the model next.
pub(crate) fn shake(model: &Model, now: Timestamp, seed: u64) -> Vec<Event> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..4).map(|_| one(model, now, &mut random)).collect()
}

fn one(model: &Model, now: Timestamp, random: &mut ChaCha8Rng) -> Event {
    let nodes: Vec<&NodeId> = model.nodes().map(|record| &record.facts.id).collect();
    let policies: Vec<_> = model.policies().collect();
    let node = nodes[random.random_range(0..nodes.len())].clone();
    let mut policy = policies[random.random_range(0..policies.len())].clone();
    match random.random_range(0..8) {
        0 | 1 => {
            policy.versions[0].version = "2.0.0".into();
            policy.last_updated = Some(now);
            Event::DeploymentPolicyChanged { policy: Box::new(policy) }
        }
        2 => {
            let sites = ["north", "south", "east"];
            let properties = [Property::new("site", sites[random.random_range(0..3)])].into_iter().collect();
            let mut facts = NodePolicyFacts { last_updated: Some(now), ..NodePolicyFacts::default() };
            facts.policy.properties = properties;
            Event::NodePolicyChanged { node, policy: Some(Box::new(facts)) }
        }
        3 => Event::NodeRemoved { node },
        4 => Event::DeploymentPolicyRemoved { policy: policy.id },
        5 => {
            let mut groups: Vec<HaGroupFacts> = model.groups().cloned().collect();
            let mut group = groups.swap_remove(random.random_range(0..groups.len()));
            if !group.members.remove(&node) {
                group.members.insert(node);
            }
            Event::HaGroupChanged { group: Box::new(group) }
        }
        6 => {
            let status = model.node(&node).expect("a known node").status.clone().map(|mut status| {
                for service in &mut status.services {
                    service.is_running = random.random_bool(0.5);
                }
                status.reported_at = Some(now);
                status
            });
            Event::NodeStatusChanged { node, status: status.map(Box::new) }
        }
        _ => {
            policy.policy.properties =
                [Property::new("colour", random.random_range(0..9))].into_iter().collect();
            policy.last_updated = Some(now);
            Event::DeploymentPolicyChanged { policy: Box::new(policy) }
        }
    }
}
