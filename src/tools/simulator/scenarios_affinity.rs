//! Workloads that exclude each other, decided by several agbots.
//!
//! Source: orchestration A4; engine 6.

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_planner_record::facts::PolicyOrchestration;
use serde_json::{Value, json};

use super::{
    chaos::{add_service, put_policy},
    scenarios::{policy, runs},
    scenarios_workload::{Agents, lab, replicated},
    world::{Quality, World},
};

/// Pairs of workloads: enough of them for some to be decided by both agbots at the same time.
const PAIRS: usize = 12;

fn exclude(world: &mut World, name: &str, other: &str) {
    put_policy(world, name, name, "1.0.0", "site == north");
    let id = policy(name);
    let mut facts = world.exchange.policies[&id].clone();
    let document: Value = json!({
        "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
        "placement": {"nodesOrder": ["n1"], "affinity": {"hardAnti": [other]}},
    });
    let document = Orchestration::of_policy(&id, document).expect("the document is valid");
    facts.orchestration = PolicyOrchestration::of(&id, &document);
    world.exchange.put_policy(facts);
}

/// A4.2: the transactions of the two agbots are tested against each other, so that one of them is refused.
#[test]
fn workloads_that_exclude_each_other_never_share_a_node_whichever_agbots_decide() {
    let mut refused = 0;
    for seed in 1..=3 {
        let mut world = lab(seed, Agents::Capable, &replicated(0));
        let pairs: Vec<[String; 2]> =
            (0..PAIRS).map(|number| [format!("left{number}"), format!("right{number}")]).collect();
        for name in pairs.iter().flatten() {
            add_service(&mut world, name, "1.0.0", Quality::Good);
        }
        for [left, right] in &pairs {
            exclude(&mut world, left, right);
            exclude(&mut world, right, left);
        }
        world.run_for(120);
        assert_eq!(world.checker.violation, None);
        for [left, right] in &pairs {
            let on = |name: &str| {
                ["n1", "n2", "n3", "n4", "n5"].into_iter().find(|node| runs(&world, node, name).is_some())
            };
            assert!(on(left).is_some() && on(right).is_some() && on(left) != on(right), "{left} and {right}");
        }
        refused += world.trace.iter().filter(|line| line.contains("must not share the node")).count();
    }
    assert!(refused > 0, "no pair was decided by both agbots at the same time");
}
