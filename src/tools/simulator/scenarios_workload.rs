//! Workloads: instances that are counted, placed, moved, updated and rolled back by tasks.
//!
//! Source: orchestration A2, B1 to B12; engine 8.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_ids::NodeId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    facts::{Availability, PolicyOrchestration},
    statistics::NodeStatistics,
    workload::{UnitId, UpdateState},
};
use serde_json::{Value, json};

use super::{
    agbot,
    agent::{self, Container},
    chaos::{add_agbots, add_node, add_service, put_group, put_policy, set_availability},
    deliberate::DeliberateFaults,
    scenarios::{claims, node, policy, runs},
    workload::replace_agent,
    world::{Quality, World},
};

const NODES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];

/// Writes workload `r` for a version of `s`; without a document it has no tasks.
pub(super) fn put_workload(world: &mut World, version: &str, document: &Value) {
    put_policy(world, "r", "s", version, "site == north");
    let id = policy("r");
    let mut facts = world.exchange.policies[&id].clone();
    facts.orchestration = match document {
        Value::Null => PolicyOrchestration::default(),
        document => {
            let document = Orchestration::of_policy(&id, document.clone()).expect("the document is valid");
            PolicyOrchestration::of(&id, &document)
        }
    };
    world.exchange.put_policy(facts);
}

/// Agents that read tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agents {
    Legacy,
    Capable,
    /// Every second one.
    Mixed,
}

pub(super) const AGENTS: [Agents; 3] = [Agents::Legacy, Agents::Capable, Agents::Mixed];

/// A settled world of five nodes, two agbots and workload `r`.
pub(super) fn lab(seed: u64, agents: Agents, document: &Value) -> World {
    let mut world = World::new(seed, DeliberateFaults::default());
    for (number, name) in NODES.into_iter().enumerate() {
        add_node(&mut world, name, "north", 2_000);
        let is_capable = agents == Agents::Capable || agents == Agents::Mixed && number % 2 == 0;
        world.exchange.set_capable(&node(name), is_capable);
    }
    for version in ["1.0.0", "2.0.0"] {
        add_service(&mut world, "s", version, Quality::Good);
    }
    add_service(&mut world, "s", "3.0.0", Quality::EndsAfter(1));
    put_workload(&mut world, "1.0.0", document);
    add_agbots(&mut world, 2);
    world.run_for(60);
    world
}

pub(super) fn locations(world: &World) -> BTreeSet<&'static str> {
    NODES.into_iter().filter(|name| runs(world, name, "r").is_some()).collect()
}

/// Returns the number of instances, on whatever nodes.
fn instances(world: &World) -> usize {
    let agents = world.agents.values();
    agents.map(|agent| agent.held.values().filter(|held| held.container == Container::Running).count()).sum()
}

pub(super) fn versions(world: &World) -> Vec<String> {
    NODES.into_iter().filter_map(|name| runs(world, name, "r")).collect()
}

pub(super) fn update_state(world: &World) -> UpdateState {
    world.database.workloads[&policy("r")].update.state
}

/// Runs the world and returns the lowest and the highest number of instances at any instant.
fn extremes(world: &mut World, secs: u64) -> (usize, usize) {
    let end = world.millis + secs * 1000;
    let (mut lowest, mut highest) = (usize::MAX, 0);
    while world.millis < end && world.step() {
        let count = locations(world).len();
        (lowest, highest) = (lowest.min(count), highest.max(count));
    }
    assert_eq!(world.checker.violation, None);
    (lowest, highest)
}

pub(super) fn replicated(count: u32) -> Value {
    json!({"mode": "replicated", "replicas": count, "restart": {"delaySeconds": 1}})
}

/// B1-S1, B6-S2, B7-S3.
#[test]
fn number_of_instances_follows_the_policy() {
    for agents in AGENTS {
        let mut world = lab(1, agents, &replicated(3));
        assert_eq!(locations(&world), ["n1", "n2", "n3"].into());
        put_workload(&mut world, "1.0.0", &replicated(5));
        assert_eq!(extremes(&mut world, 60).0, 3);
        assert_eq!(locations(&world).len(), 5);
        put_workload(&mut world, "1.0.0", &replicated(2));
        world.run_for(60);
        assert_eq!(locations(&world), ["n1", "n2"].into());
        put_workload(&mut world, "1.0.0", &replicated(0));
        world.run_for(60);
        assert!(locations(&world).is_empty());
        assert!(world.database.tasks.is_empty(), "{:?}", world.database.tasks);
    }
}

/// B9.2, B2-S1.
#[test]
fn slot_of_a_lost_node_moves_and_the_node_stops_its_instance_when_it_is_back() {
    for agents in AGENTS {
        let mut world = lab(2, agents, &replicated(3));
        agent::kill_machine(&mut world, &node("n2"));
        world.run_for(120);
        assert_eq!(locations(&world), ["n1", "n3", "n4"].into());
        agent::start(&mut world, &node("n2"));
        world.run_for(120);
        assert_eq!(locations(&world).len(), 3);
    }
}

/// B9-S1: the other instances continue, and the drained one stops after its successor runs.
#[test]
fn drained_node_is_left_without_a_gap() {
    for agents in AGENTS {
        let mut world = lab(3, agents, &replicated(3));
        set_availability(&mut world, &node("n1"), Availability::Drain);
        assert_eq!(extremes(&mut world, 90), (3, 4));
        assert_eq!(locations(&world), ["n2", "n3", "n4"].into());
    }
}

/// A2-S1, P1: there is never a second instance.
#[test]
fn only_instance_moves_when_its_node_is_lost() {
    let document = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    for agents in AGENTS {
        let mut world = lab(4, agents, &document);
        assert_eq!(locations(&world).len(), 1);
        let active = *locations(&world).first().expect("an instance runs");
        agent::kill_machine(&mut world, &node(active));
        assert_eq!(extremes(&mut world, 120).1, 1);
        assert_eq!(locations(&world).len(), 1);
        assert!(!locations(&world).contains(active));
    }
}

/// B11-S1: never more than one slot down, across all agbots.
#[test]
fn new_version_is_rolled_out_slot_by_slot() {
    let mut document = replicated(4);
    document["update"] = json!({"parallelism": 1, "monitorSeconds": 1});
    for agents in AGENTS {
        let mut world = lab(5, agents, &document);
        put_workload(&mut world, "2.0.0", &document);
        // Agents that do not read tasks may report a failure for another minute, and each slot is monitored for that time (B11.8).
        assert_eq!(extremes(&mut world, 400).0, 3);
        assert_eq!(versions(&world), ["2.0.0"; 4]);
        assert_eq!(update_state(&world), UpdateState::Completed);
    }
}

/// B11-S4.
#[test]
fn failing_version_is_rolled_back() {
    let mut document = replicated(3);
    document["update"] = json!({
        "parallelism": 1, "delaySeconds": 20, "monitorSeconds": 30, "failureAction": "rollback",
    });
    document["rollback"] = json!({"monitorSeconds": 1});
    for agents in AGENTS {
        let mut world = lab(6, agents, &document);
        put_workload(&mut world, "3.0.0", &document);
        assert_eq!(extremes(&mut world, 400).0, 2);
        assert_eq!(versions(&world), ["1.0.0"; 3]);
        assert_eq!(update_state(&world), UpdateState::RollbackCompleted);
    }
}

/// E5.2: several instances on a member share its claim, and the update continues.
#[test]
fn members_with_several_instances_are_updated_one_at_a_time() {
    let document = json!({
        "mode": "replicated", "replicas": 4, "maxPerNode": 2,
        "scope": {"type": "hagroups", "haGroups": ["g"]},
        "restart": {"delaySeconds": 1}, "update": {"parallelism": 0, "monitorSeconds": 1},
    });
    let mut world = lab(12, Agents::Capable, &document);
    put_group(&mut world, "g", &["n1", "n2"]);
    world.run_for(60);
    assert_eq!((instances(&world), locations(&world)), (4, ["n1", "n2"].into()));
    put_workload(&mut world, "2.0.0", &document);
    assert!(extremes(&mut world, 300).0 >= 1);
    assert_eq!(update_state(&world), UpdateState::Completed);
    assert_eq!((instances(&world), versions(&world)), (4, vec!["2.0.0".to_owned(); 2]));
    assert!(claims(&world).is_empty(), "{:?}", claims(&world));
}

/// B11.4: a group that waits for the slot in work in another group continues as soon as that is done.
#[test]
fn groups_take_turns_in_an_update_without_a_pause() {
    let document = json!({
        "mode": "replicated", "replicas": 2, "scope": {"type": "hagroups", "haGroups": ["g", "h"]},
        "restart": {"delaySeconds": 1}, "update": {"parallelism": 1, "monitorSeconds": 1, "pace": "running"},
    });
    for agents in AGENTS {
        let mut world = lab(16, agents, &document);
        put_group(&mut world, "g", &["n1", "n2"]);
        put_group(&mut world, "h", &["n3", "n4"]);
        world.run_for(60);
        assert_eq!(locations(&world).len(), 4);
        put_workload(&mut world, "2.0.0", &document);
        assert_eq!(extremes(&mut world, 90).0, 3);
        assert_eq!(versions(&world), vec!["2.0.0".to_owned(); 4]);
        // Agents that do not read tasks may report a failure for another minute (B11.8).
        world.run_for(70);
        assert_eq!(update_state(&world), UpdateState::Completed);
    }
}

/// B10-S7: the node on which the attempts are exhausted is left at once.
#[test]
fn exhausted_instance_is_switched_to_another_node() {
    let document = json!({
        "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0},
        "restart": {"delaySeconds": 1, "maxAttempts": 1, "onExhausted": "switch"},
    });
    for agents in AGENTS {
        let mut world = lab(13, agents, &replicated(0));
        put_workload(&mut world, "3.0.0", &document);
        let mut started: Vec<(u64, NodeId)> = Vec::new();
        let end = world.millis + 400_000;
        while world.millis < end && world.step() {
            for task in world.database.tasks.values() {
                if let Some(node) =
                    task.node.clone().filter(|_| started.iter().all(|(one, _)| *one != task.generation))
                {
                    started.push((task.generation, node));
                }
            }
        }
        assert_eq!(world.checker.violation, None);
        let nodes: Vec<&NodeId> = started.iter().map(|(_, node)| node).collect();
        let of_node = |node: &NodeId| nodes.iter().filter(|one| **one == node).count();
        assert!(nodes.len() >= 4 && nodes.iter().all(|node| of_node(node) <= 2), "{nodes:?}");
    }
}

/// E4-S1, E5-S4: in a group one member at a time, and no claim stays.
#[test]
fn members_of_a_group_are_updated_one_at_a_time() {
    let document = json!({
        "mode": "replicated", "replicas": 3, "scope": {"type": "hagroups", "haGroups": ["g"]},
        "restart": {"delaySeconds": 1}, "update": {"parallelism": 0, "monitorSeconds": 1},
    });
    for agents in AGENTS {
        let mut world = lab(7, agents, &document);
        put_group(&mut world, "g", &["n1", "n2", "n3"]);
        world.run_for(60);
        assert_eq!(locations(&world), ["n1", "n2", "n3"].into());
        put_workload(&mut world, "2.0.0", &document);
        assert_eq!(extremes(&mut world, 300).0, 2);
        assert_eq!(versions(&world), ["2.0.0"; 3]);
        assert!(claims(&world).is_empty(), "{:?}", claims(&world));
    }
}

/// 1.1-6.
#[test]
fn what_runs_is_adopted_and_kept_when_tasks_end() {
    for agents in AGENTS {
        let mut world = lab(8, agents, &Value::Null);
        assert_eq!(locations(&world).len(), 5);
        let before: Vec<_> = world.database.agreements.keys().cloned().collect();
        put_workload(&mut world, "1.0.0", &replicated(5));
        assert_eq!(extremes(&mut world, 60), (5, 5));
        assert_eq!(world.database.tasks.len(), 5);
        put_workload(&mut world, "1.0.0", &json!({}));
        assert_eq!(extremes(&mut world, 60), (5, 5));
        assert_eq!(world.database.tasks.len(), 5);
        put_workload(&mut world, "1.0.0", &Value::Null);
        assert_eq!(extremes(&mut world, 60), (5, 5));
        assert!(world.database.tasks.is_empty() && world.database.workloads.is_empty());
        assert_eq!(world.database.agreements.keys().cloned().collect::<Vec<_>>(), before);
    }
}

/// B1-S4.
#[test]
fn tasks_of_a_deleted_policy_stop_and_their_rows_go() {
    for agents in AGENTS {
        let mut world = lab(9, agents, &replicated(3));
        world.exchange.remove_policy(&policy("r"));
        world.run_for(90);
        assert!(locations(&world).is_empty());
        assert!(world.database.tasks.is_empty() && world.database.workloads.is_empty());
    }
}

/// Whichever agbot plans a group, and whichever holds the row of the workload.
#[test]
fn rows_of_a_deleted_policy_that_counts_by_group_go() {
    let document = json!({
        "mode": "replicated", "replicas": 2, "scope": {"type": "hagroups", "haGroups": ["*"]},
        "restart": {"delaySeconds": 1},
    });
    for seed in 0..8 {
        let mut world = lab(seed, Agents::Mixed, &document);
        put_group(&mut world, "g", &["n1", "n2"]);
        put_group(&mut world, "h", &["n3", "n4"]);
        world.run_for(60);
        assert_eq!(locations(&world), ["n1", "n2", "n3", "n4"].into());
        world.exchange.remove_policy(&policy("r"));
        world.run_for(90);
        assert!(world.database.tasks.is_empty() && world.database.workloads.is_empty(), "seed {seed}");
    }
}

/// 1.9: an agreement that was made before its node read tasks allows another one beside it.
#[test]
fn new_version_starts_first_beside_an_adopted_instance() {
    let mut world = lab(14, Agents::Capable, &json!({}));
    let document = json!({
        "mode": "global", "restart": {"delaySeconds": 1},
        "update": {"order": "start-first", "monitorSeconds": 1},
    });
    put_workload(&mut world, "1.0.0", &document);
    world.run_for(30);
    put_workload(&mut world, "2.0.0", &document);
    world.run_for(120);
    assert_eq!((versions(&world), instances(&world)), (vec!["2.0.0".to_owned(); 5], 5));
}

/// Engine 8: agbots and machines die at any time; two agbots never double anything for good, and everything converges.
#[test]
fn random_crashes_leave_exactly_the_wanted_instances() {
    let exclusive = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    for seed in 0..24 {
        let (document, wanted) = if seed % 3 == 0 { (exclusive.clone(), 1) } else { (replicated(3), 3) };
        let agents = AGENTS[seed as usize / 3 % 3];
        let mut world = lab(seed, agents, &document);
        for round in 0..12 {
            let index = world.between(0, 1) as usize;
            match world.between(0, 4) {
                0 => agbot::kill(&mut world, index),
                1 | 2 => agbot::start(&mut world, index),
                3 => {
                    let name = NODES[world.between(0, 4) as usize];
                    agent::kill_machine(&mut world, &node(name));
                }
                _ => {
                    let version = if round % 2 == 0 { "2.0.0" } else { "1.0.0" };
                    put_workload(&mut world, version, &document);
                }
            }
            let secs = world.between(2, 40);
            let (_, highest) = extremes(&mut world, secs);
            assert!(wanted > 1 || highest <= 1, "seed {seed}: {highest} instances of one");
        }
        for index in 0..2 {
            agbot::start(&mut world, index);
        }
        for name in NODES {
            agent::start(&mut world, &node(name));
        }
        put_workload(&mut world, "2.0.0", &document);
        world.run_for(900);
        assert_eq!(versions(&world), vec!["2.0.0"; wanted], "seed {seed}: {:#?}", world.database.tasks);
        assert_eq!(super::workload::waiting(&world), Vec::<String>::new(), "seed {seed}");
    }
}

/// A3 (`maxPerNode`), 1.9: agents that read tasks run several instances of one workload.
#[test]
fn capable_node_runs_several_instances_of_one_workload() {
    let mut document = replicated(10);
    document["maxPerNode"] = json!(2);
    let mut world = lab(10, Agents::Capable, &document);
    world.run_for(30);
    assert_eq!((locations(&world).len(), instances(&world)), (5, 10));
    document["replicas"] = json!(7);
    put_workload(&mut world, "2.0.0", &document);
    world.run_for(300);
    assert_eq!((instances(&world), update_state(&world)), (7, UpdateState::Completed));
    // Other agents run one each.
    document["replicas"] = json!(10);
    let world = lab(11, Agents::Mixed, &document);
    assert_eq!((locations(&world).len(), instances(&world)), (5, 8));
}

/// B11.3: with capable agents the new instance starts beside the old one.
#[test]
fn new_version_starts_first_on_the_same_capable_node() {
    let document = json!({
        "mode": "replicated", "replicas": 1, "scope": {"type": "nodes", "nodes": ["n1"]},
        "restart": {"delaySeconds": 1}, "update": {"order": "start-first", "monitorSeconds": 1},
    });
    let mut world = lab(12, Agents::Capable, &document);
    put_workload(&mut world, "2.0.0", &document);
    let (mut lowest, mut highest, end) = (1, 0, world.millis + 120_000);
    while world.millis < end && world.step() {
        let count = instances(&world);
        (lowest, highest) = (lowest.min(count), highest.max(count));
    }
    assert_eq!((lowest, highest, versions(&world)), (1, 2, vec!["2.0.0".to_owned()]));
}

/// 1.9: an agent that is replaced by one that does not read tasks, and back, continues with its instance.
#[test]
fn node_that_stops_reading_tasks_and_reads_them_again_keeps_its_instance() {
    let mut world = lab(13, Agents::Capable, &replicated(5));
    for is_capable in [false, true] {
        NODES.into_iter().for_each(|name| replace_agent(&mut world, &node(name), is_capable));
        assert_eq!(extremes(&mut world, 90), (5, 5));
    }
    agent::kill_machine(&mut world, &node("n1"));
    agent::start(&mut world, &node("n1"));
    world.run_for(60);
    assert_eq!(locations(&world).len(), 5, "what ended is started again by the hub");
}

/// 2-S2: what a suspended agbot had decided is refused after another one took over.
#[test]
fn suspended_agbot_writes_no_task_after_another_one_took_over() {
    for agents in AGENTS {
        let mut world = lab(14, agents, &replicated(3));
        let unit_id = UnitId::all(policy("r"));
        let owner = world.database.leases[&world.agbots[0].model.partition_of_unit(&unit_id)].owner;
        let revision = |world: &World| world.database.workloads[&policy("r")].revision;
        let before = revision(&world);
        put_workload(&mut world, "1.0.0", &replicated(5));
        // The outcome of this write has led to the plan with the new tasks, which is on its way.
        assert!(world.run_until(30, |world| revision(world) > before));
        assert_eq!(world.database.tasks.len(), 3);
        world.agbots[owner].paused_until_millis = world.millis + 60_000;
        let begin = world.trace.len();
        world.run_for(120);
        assert_eq!((locations(&world).len(), world.database.tasks.len()), (5, 5));
        let of_owner = format!("agbot {owner}: plan ");
        let late: Vec<&String> =
            world.trace[begin..].iter().filter(|line| line.contains(&of_owner)).collect();
        let is_refused = |line: &&String| line.contains("refused: the lease of partition");
        assert!(!late.is_empty() && late.iter().all(is_refused), "{late:#?}");
    }
}

/// B4: statistics rank nodes for what is placed next, and move nothing that runs.
#[test]
fn statistics_decide_about_the_next_instance_and_reconcile_nothing() {
    let reconciled = |world: &World| -> u64 {
        let counts = world.agbots.iter().map(|agbot| agbot.model.decision_counts());
        counts.flat_map(BTreeMap::values).map(|counts| counts.of_units + counts.of_slots).sum()
    };
    let report = |world: &mut World, loads: [f64; 5]| {
        let at = world.now();
        let of = NODES
            .iter()
            .zip(loads)
            .map(|(name, load)| (node(name), NodeStatistics::new(Some(load), None, None, at)));
        let event = Event::StatisticsSeen { of: of.collect() };
        for number in 0..world.agbots.len() {
            agbot::handle(world, number, &event, None);
        }
    };
    let mut document = replicated(1);
    document["placement"] = json!({"policy": "load-avg"});
    let mut world = lab(16, Agents::Capable, &document);
    let (before, first) = (reconciled(&world), locations(&world));
    report(&mut world, [5.0, 4.0, 3.0, 0.5, 1.0]);
    assert_eq!(reconciled(&world), before, "nothing is reconciled");
    world.run_for(60);
    assert_eq!(locations(&world), first, "what runs stays");
    document["replicas"] = json!(2);
    put_workload(&mut world, "1.0.0", &document);
    world.run_for(60);
    let second = locations(&world).into_iter().find(|location| !first.contains(location));
    assert_eq!(second, Some("n4"), "the least loaded node");
}

/// B4-S2: neither the plans that follow nor the start of the instance reconcile the whole workload unit again.
#[test]
fn one_more_instance_takes_one_reconciliation_of_the_workload_unit() {
    let reconciled = |world: &World| -> u64 {
        let counts = world.agbots.iter().filter_map(|agbot| agbot.model.decision_counts().get(&policy("r")));
        counts.map(|counts| counts.of_units).sum()
    };
    for order in ["least-instances", "last-start"] {
        let mut document = replicated(50);
        document["maxPerNode"] = json!(11);
        document["placement"] = json!({"policy": order});
        let mut world = lab(15, Agents::Capable, &document);
        world.run_for(60);
        let before = reconciled(&world);
        world.run_for(60);
        assert_eq!((instances(&world), reconciled(&world)), (50, before));
        document["replicas"] = json!(51);
        put_workload(&mut world, "1.0.0", &document);
        world.run_for(60);
        assert_eq!((instances(&world), reconciled(&world)), (51, before + 1), "{order}");
    }
}
