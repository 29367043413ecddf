//! Claims that end because their reason no longer exists, and those that do not.

use super::{
    agbot, agent,
    chaos::put_group,
    exchange::Resource,
    scenarios::{agent_claim, claims, hold_agent_claim, lab, node, record_claim},
    world::World,
};
use evenkeel_ids::{GroupId, NmpId};
use evenkeel_planner::{claims::Claim, event::Event};

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
