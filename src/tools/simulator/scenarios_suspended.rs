//! Agbots that stood still, nodes that did not read a cancel, and parts of an update that are gone.
//!
//! Source: engine 8; orchestration B11, B13.

use serde_json::{Value, json};

use super::{
    agent,
    chaos::put_group,
    scenarios::{node, policy},
    scenarios_workload::{AGENTS, Agents, lab, locations, put_workload, replicated, update_state, versions},
};
use evenkeel_planner_record::workload::{Part, UpdateState};

fn in_groups(groups: &[&str]) -> Value {
    json!({
        "mode": "replicated", "replicas": 2, "scope": {"type": "hagroups", "haGroups": groups},
        "restart": {"delaySeconds": 1}, "update": {"parallelism": 1, "monitorSeconds": 1},
    })
}

/// B11.4: what a workload unit had in work counts no longer when the workload has no such unit.
#[test]
fn update_goes_on_when_the_group_in_work_leaves_the_scope() {
    for agents in AGENTS {
        let mut world = lab(17, agents, &in_groups(&["g", "h"]));
        put_group(&mut world, "g", &["n1", "n2"]);
        put_group(&mut world, "h", &["n3", "n4"]);
        world.run_for(60);
        put_workload(&mut world, "2.0.0", &in_groups(&["g", "h"]));
        let is_in_work = |part: &Part| matches!(part, Part::Group(group) if group.name() == "h");
        assert!(world.run_until(120, |world| {
            world.database.workloads[&policy("r")].update.tickets().any(|(part, ..)| is_in_work(part))
        }));
        put_workload(&mut world, "2.0.0", &in_groups(&["g"]));
        world.run_for(300);
        assert_eq!(world.checker.violation, None);
        assert_eq!((locations(&world), versions(&world)), (["n1", "n2"].into(), vec!["2.0.0".to_owned(); 2]));
        assert_eq!(update_state(&world), UpdateState::Completed);
    }
}

/// An agbot that stood still has heard of no node meanwhile; that does not make the nodes silent.
#[test]
fn suspended_agbot_takes_no_node_for_lost_when_it_goes_on() {
    let document = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    for seed in 0..24 {
        let mut world = lab(seed, AGENTS[seed as usize % 3], &document);
        let (before, agreements) = (locations(&world), world.database.agreements.len());
        let until = world.millis + 40_000;
        world.agbots.iter_mut().for_each(|agbot| agbot.paused_until_millis = until);
        world.run_for(90);
        assert_eq!(world.checker.violation, None, "seed {seed}");
        assert_eq!((locations(&world), world.database.agreements.len()), (before, agreements), "seed {seed}");
    }
}

/// B13: no part of a task can still run when its row is deleted.
#[test]
fn rows_stay_while_a_node_that_read_no_cancel_may_run_the_instance_again() {
    let mut world = lab(18, Agents::Legacy, &replicated(3));
    agent::kill_process(&mut world, &node("n2"));
    world.exchange.remove_policy(&policy("r"));
    world.run_for(30);
    world.agents.get_mut(&node("n2")).expect("the agent").mail.clear();
    world.run_for(120);
    assert_eq!((locations(&world), world.database.tasks.len()), (["n2"].into(), 1));
    agent::start(&mut world, &node("n2"));
    world.run_for(120);
    assert_eq!(world.checker.violation, None);
    assert!(locations(&world).is_empty() && world.database.tasks.is_empty());
}
