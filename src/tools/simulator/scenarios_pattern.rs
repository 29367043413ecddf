//! Nodes that use a pattern get its services, by the same engine as policies.
//!
//! Source: agbot 1.2, 2.1; agreement-protocol 3.1, 3.7.

use super::{
    chaos::{add_node, add_service, put_group, put_policy},
    exchange::Resource,
    scenarios::{lab, lowest, node, policy, runs, why},
    world::{Quality, World},
};
use evenkeel_ids::PatternId;
use evenkeel_planner_model::terms::proposal_terms;
use evenkeel_planner_record::report::Blocked;

const OF_P: &str = "pattern/p/p_t_o_amd64";

/// Writes pattern `o/p` with a version of service `t`.
fn put_pattern(world: &mut World, version: &str) {
    put_policy(world, OF_P, "t", version, "");
    let mut facts = world.exchange.policies[&policy(OF_P)].clone();
    facts.pattern = Some(PatternId::new("o", "p"));
    facts.policy = evenkeel_domain::policy::ExternalPolicy::default();
    world.exchange.put_policy(facts);
}

fn set_pattern(world: &mut World, name: &str, pattern: &str) {
    world.exchange.nodes.get_mut(&node(name)).unwrap().facts.pattern =
        (!pattern.is_empty()).then(|| PatternId::from_text(pattern));
    world.exchange.feed.push(Resource::Node(node(name)));
}

fn pattern_lab() -> World {
    let mut world = lab(&["n1"]);
    for version in ["1.0.0", "2.0.0"] {
        add_service(&mut world, "t", version, Quality::Good);
    }
    for name in ["p1", "p2"] {
        add_node(&mut world, name, "north", 1_000);
        set_pattern(&mut world, name, "o/p");
    }
    put_group(&mut world, "pair", &["p1", "p2"]);
    put_pattern(&mut world, "1.0.0");
    world.run_for(60);
    world
}

#[test]
fn nodes_of_a_pattern_get_its_services_and_no_others() {
    let world = pattern_lab();
    for name in ["p1", "p2"] {
        assert_eq!(runs(&world, name, OF_P).as_deref(), Some("1.0.0"), "{name}");
        assert_eq!(runs(&world, name, "w"), None, "its site matches, but it does not work by policy");
    }
    assert_eq!((runs(&world, "n1", "w").as_deref(), runs(&world, "n1", OF_P)), (Some("1.0.0"), None));
    assert!(
        matches!(why(&world, "n1", OF_P), Some(Blocked::OfPattern { pattern }) if pattern.as_str() == "o/p")
    );
    assert!(matches!(why(&world, "p1", "w"), Some(Blocked::UsesPattern { .. })));
}

#[test]
fn version_of_a_pattern_rolls_through_a_group() {
    let mut world = pattern_lab();
    put_pattern(&mut world, "2.0.0");
    assert_eq!(lowest(&mut world, 120, &["p1", "p2"], OF_P), 1);
    assert!(["p1", "p2"].iter().all(|name| runs(&world, name, OF_P).as_deref() == Some("2.0.0")));
}

#[test]
fn node_that_leaves_the_pattern_loses_its_services_and_gets_those_of_policies() {
    let mut world = pattern_lab();
    set_pattern(&mut world, "p2", "");
    world.run_for(60);
    assert_eq!((runs(&world, "p2", OF_P), runs(&world, "p2", "w").as_deref()), (None, Some("1.0.0")));
    assert_eq!(runs(&world, "p1", OF_P).as_deref(), Some("1.0.0"));
    world.exchange.remove_policy(&policy(OF_P));
    world.run_for(30);
    assert_eq!(runs(&world, "p1", OF_P), None, "a pattern that is gone wants nothing");
}

/// Agreement protocol 2.3, 3.1: names and pattern in a proposal; a pattern has no constraints.
#[test]
fn proposal_for_a_pattern_names_it_and_promises_nothing() {
    let world = pattern_lab();
    let model = &world.agbots[0].model;
    let agreement = model.live_agreement(&node("p1"), &policy(OF_P)).unwrap();
    let terms = proposal_terms(model, agreement).unwrap();
    assert_eq!(terms.terms.header.name, "p_t_o_amd64 merged with p_t_o_amd64");
    assert_eq!((terms.terms.pattern_id.as_str(), terms.producer_policy.pattern_id.as_str()), ("o/p", "o/p"));
    assert!(terms.terms.constraints.is_empty() && terms.producer_policy.properties.is_empty());
    assert_eq!(terms.terms.workloads.len(), 1);
}
