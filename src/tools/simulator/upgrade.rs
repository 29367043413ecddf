//! Duration of the upgrade of a whole fleet, with and without HA groups, without faults.
//!
//! Simulated time, so that the result does not depend on the machine. Source: requirements 004 ("Test").

use std::time::Duration;

use super::{
    chaos::{add_agbots, add_node, add_service, put_group, put_policy},
    deliberate::DeliberateFaults,
    world::{Effort, Quality, World},
};
use evenkeel_ids::{NodeId, PolicyId};

/// Limit for the start of all instances, and for the upgrade, in simulated seconds.
const TIME_LIMIT_SECS: u64 = 7_200;

/// The service that every node runs, and the one that only the first node of each group runs.
const COMMON: &str = "common";
const SPECIAL: &str = "special";

/// A fleet with its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradePlan {
    /// Number of groups, or of equally many sets of nodes without a group.
    pub groups: u32,
    /// Nodes of each group.
    pub members: u32,
    /// True to create the groups; the nodes are the same without them.
    pub has_groups: bool,
    /// True when the first node of each group runs a second service, which is upgraded too.
    pub is_heterogeneous: bool,
    /// Time that an instance needs to start.
    pub start_millis: u64,
    /// Time that a new instance is monitored before its step counts.
    pub monitor_secs: u64,
}

/// The outcome of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeOutcome {
    /// Number of replaced instances.
    pub instances: u32,
    /// Simulated time from the new policies to the last new instance; none when it did not come.
    pub millis: Option<u64>,
    /// Lowest number of running instances of the common service at any instant in one set of `members` nodes.
    pub lowest_in_group: u32,
    /// Number of decisions of the agbot during the upgrade.
    pub decisions: u64,
    /// Duration of these decisions, by the stopwatch.
    pub deciding: Duration,
    /// Number of events.
    pub steps: u64,
    /// The violation, if any.
    pub violation: Option<String>,
}

/// Upgrades every service of a fleet at once.
///
/// # Units
/// `stopwatch` returns a monotonic time, such as the CPU time of this thread; without one, decisions take no time.
pub fn upgrade(plan: UpgradePlan, stopwatch: Option<fn() -> Duration>) -> UpgradeOutcome {
    let mut world = World::new(1, DeliberateFaults::default());
    world.settings.update.monitor_secs = plan.monitor_secs;
    let sets = build(&mut world, plan);
    let fleet = Fleet { plan, sets };
    let is_up = world
        .run_until(TIME_LIMIT_SECS, |world| world.steps.is_multiple_of(32) && fleet.all_run(world, "1.0.0"));
    // New members are subject to a grace period.
    world.run_for(30);
    let (begin, steps_before) = (world.millis, world.steps);
    put_policies(&mut world, plan, "2.0.0");
    world.effort = Effort { stopwatch, ..Effort::default() };
    let mut lowest = plan.members;
    let mut millis = None;
    while is_up
        && world.checker.violation.is_none()
        && world.millis < begin + TIME_LIMIT_SECS * 1000
        && world.step()
    {
        lowest = lowest.min(fleet.lowest(&world));
        if world.steps.is_multiple_of(32) && fleet.all_run(&world, "2.0.0") {
            millis = Some(world.millis - begin);
            break;
        }
    }
    UpgradeOutcome {
        instances: plan.groups * (plan.members + u32::from(plan.is_heterogeneous)),
        millis,
        lowest_in_group: lowest,
        decisions: world.effort.decisions,
        deciding: world.effort.spent,
        steps: world.steps - steps_before,
        violation: world.checker.violation,
    }
}

fn build(world: &mut World, plan: UpgradePlan) -> Vec<Vec<NodeId>> {
    for version in ["1.0.0", "2.0.0"] {
        for service in [COMMON, SPECIAL] {
            add_service(world, service, version, Quality::Good);
        }
    }
    let mut sets = Vec::new();
    for group in 0..plan.groups {
        let names: Vec<String> = (0..plan.members).map(|member| format!("g{group}n{member}")).collect();
        for (number, name) in names.iter().enumerate() {
            add_node(world, name, if number == 0 { "first" } else { "other" }, plan.start_millis);
        }
        if plan.has_groups {
            put_group(world, &format!("g{group}"), &names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        sets.push(names.iter().map(|name| NodeId::new("o", name)).collect());
    }
    put_policies(world, plan, "1.0.0");
    add_agbots(world, 1);
    sets
}

fn put_policies(world: &mut World, plan: UpgradePlan, version: &str) {
    put_policy(world, COMMON, COMMON, version, "site in \"first,other\"");
    if plan.is_heterogeneous {
        put_policy(world, SPECIAL, SPECIAL, version, "site == first");
    }
}

struct Fleet {
    plan: UpgradePlan,
    sets: Vec<Vec<NodeId>>,
}

impl Fleet {
    fn lowest(&self, world: &World) -> u32 {
        let policy = PolicyId::new("o", COMMON);
        let running = |set: &Vec<NodeId>| {
            set.iter().filter(|node| world.running_version(node, &policy).is_some()).count()
        };
        self.sets.iter().map(running).min().and_then(|lowest| u32::try_from(lowest).ok()).unwrap_or_default()
    }

    fn all_run(&self, world: &World, version: &str) -> bool {
        let (common, special) = (PolicyId::new("o", COMMON), PolicyId::new("o", SPECIAL));
        let runs = |node: &NodeId, policy| world.running_version(node, policy).as_deref() == Some(version);
        self.sets.iter().all(|set| {
            set.iter().all(|node| runs(node, &common))
                && (!self.plan.is_heterogeneous || set.first().is_none_or(|node| runs(node, &special)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(has_groups: bool, is_heterogeneous: bool) -> UpgradePlan {
        UpgradePlan {
            groups: 6,
            members: 2,
            has_groups,
            is_heterogeneous,
            start_millis: 5_000,
            monitor_secs: 5,
        }
    }

    /// Returns the time for all members in turn: start and monitoring of each, plus messages and polls.
    fn turns(members: u32) -> u64 {
        u64::from(members) * (5_000 + 5_000 + 8_000)
    }

    #[test]
    fn groups_keep_an_instance_up_and_cost_one_turn_per_member() {
        for (groups, members) in [(6, 2), (4, 3), (3, 5)] {
            for is_heterogeneous in [false, true] {
                let plan = |has_groups| UpgradePlan { groups, members, ..plan(has_groups, is_heterogeneous) };
                let (grouped, free) = (upgrade(plan(true), None), upgrade(plan(false), None));
                assert_eq!((grouped.violation.as_ref(), free.violation.as_ref()), (None, None));
                assert_eq!(grouped.lowest_in_group, members - 1, "one at a time: {grouped:?}");
                assert_eq!(free.lowest_in_group, 0, "nobody waits for anybody: {free:?}");
                let (grouped, free) = (grouped.millis.expect("ends"), free.millis.expect("ends"));
                // Each member is down for its start and monitored; the monitoring of the last one does not count here.
                let least = u64::from(members) * 5_000 + u64::from(members - 1) * 5_000;
                assert!((least..=turns(members)).contains(&grouped), "{members} members: {grouped} ms");
                assert!((5_000..=18_000).contains(&free), "one turn for all: {free} ms");
            }
        }
    }

    #[test]
    fn upgrade_time_does_not_grow_with_the_number_of_groups() {
        for is_heterogeneous in [false, true] {
            let of = |groups| {
                let outcome = upgrade(UpgradePlan { groups, ..plan(true, is_heterogeneous) }, None);
                assert_eq!((outcome.violation, outcome.lowest_in_group), (None, 1));
                outcome.millis.expect("ends")
            };
            let (few, many) = (of(4), of(40));
            assert!(many <= turns(2) && few <= turns(2), "{few} {many}");
        }
    }

    #[test]
    fn every_decision_is_measured() {
        use std::{cell::Cell, time::Duration};
        thread_local!(static MILLIS: Cell<u64> = const { Cell::new(0) });
        let stopwatch = || {
            MILLIS.set(MILLIS.get() + 1);
            Duration::from_millis(MILLIS.get())
        };
        let outcome = upgrade(plan(true, false), Some(stopwatch));
        assert!(outcome.decisions > u64::from(outcome.instances));
        assert_eq!(outcome.deciding, Duration::from_millis(outcome.decisions));
    }
}
