//! Agent upgrades as seen by the instances on the nodes: a node keeps running its instances, however long its agent is silent.
//!
//! Source: orchestration E6, E8.

use super::{
    agent::{self, ToAgent},
    chaos::add_node,
    scenarios::{agreements, claims, hold_agent_claim, lab_with, node, runs},
    world::World,
};
use evenkeel_ids::AgreementId;

/// Returns the live agreements of all nodes as the agbots have them.
fn live(world: &World) -> Vec<AgreementId> {
    let live = world.database.agreements.values().filter(|agreement| agreement.is_live());
    live.map(|agreement| agreement.id.clone()).collect()
}

/// E6-S8: nothing of a member that is silent for a minute while its agent is upgraded is canceled or placed elsewhere.
#[test]
fn silent_agent_under_upgrade_keeps_its_instances_and_nothing_moves() {
    let mut world = lab_with(&["n1", "n2"], |world| {
        // As long as in production, in proportion to the silence.
        world.settings.lock_stale_secs = 1_800;
        add_node(world, "spare", "north", 2_000);
        add_node(world, "other", "south", 2_000);
    });
    let before = (agreements(&world, "n1"), live(&world));
    assert_eq!((before.0.len(), before.1.len()), (1, 3), "n1, n2 and spare run it");
    hold_agent_claim(&mut world, "n1");
    agent::kill_process(&mut world, &node("n1"));
    let end = world.millis + 60_000;
    while world.millis < end && world.step() {
        assert_eq!(runs(&world, "n1", "w").as_deref(), Some("1.0.0"), "the container goes on");
        assert_eq!(live(&world), before.1, "nothing is cancelled, nothing is proposed");
    }
    let is_change = |message: &ToAgent| matches!(message, ToAgent::Cancel { .. } | ToAgent::Proposal { .. });
    assert!(!world.agents[&node("n1")].mail.iter().any(is_change), "nothing waits for the agent");
    assert_eq!(claims(&world).len(), 1, "its turn is not over");
    agent::start(&mut world, &node("n1"));
    world.run_for(60);
    assert_eq!((agreements(&world, "n1"), live(&world)), before);
}
