//! Many seeds, and tests that the simulator detects deliberate faults.

use std::{collections::BTreeMap, thread};

use evenkeel_planner_record::workload::LastingAction;

use super::*;

/// Runs seeds on two threads; returns the first failure and the sums of replaced instances and holds.
fn run(seeds: u64, steps: u32, deliberate: DeliberateFaults) -> (Option<String>, u64, u64) {
    let half = |first: u64| {
        let (mut replaced, mut held) = (0, 0);
        for seed in (first..seeds).step_by(2) {
            let report = simulate_with(seed, steps, deliberate);
            if let Some(text) = report.failure_text() {
                return (Some(text), replaced, held);
            }
            replaced += report.replaced_count;
            held += report.held_count;
        }
        (None, replaced, held)
    };
    thread::scope(|scope| {
        let other = scope.spawn(move || half(1));
        let (failure, replaced, held) = half(0);
        let (other_failure, other_replaced, other_held) = other.join().unwrap();
        (failure.or(other_failure), replaced + other_replaced, held + other_held)
    })
}

#[test]
fn every_promise_is_kept_under_faults_for_a_thousand_seeds() {
    let (failure, replaced, held) = run(1_000, 600, DeliberateFaults::default());
    if let Some(text) = failure {
        panic!("{text}");
    }
    assert!(replaced > 1_000, "the schedules replaced only {replaced} instances and prove little");
    assert!(held > 50, "the schedules held only {held} rollouts and prove little");
}

/// Schedules that revealed a defect of the planner, or of the invariant checker, when they were first run.
#[test]
fn schedules_that_failed_once_keep_every_promise() {
    for (seed, steps) in [
        (23, 1_500),
        (47, 1_500),
        (120, 1_500),
        (1_200, 600),
        (1_718, 600),
        (101_714, 600),
        (200_456, 3_000),
        (481, 600),
        (2_463, 600),
        (5_932, 600),
        (651, 600),
        (3_124, 600),
        (3_154, 600),
        (3_340, 600),
        (3_994, 600),
        (5_589, 600),
        (6_387, 600),
        (6_988, 600),
        (982, 600),
        (993, 600),
        (3_291, 400),
        (4_138, 600),
        (6_537, 600),
        (6_897, 600),
        (9_700, 600),
        (9_817, 600),
        (5_051, 600),
        (371, 400),
        (651, 400),
    ] {
        if let Some(text) = simulate(seed, steps).failure_text() {
            panic!("{text}");
        }
    }
}

#[test]
fn longer_schedules_keep_every_promise_too() {
    let (failure, ..) = run(60, 3_000, DeliberateFaults::default());
    if let Some(text) = failure {
        panic!("{text}");
    }
}

#[test]
fn simulator_detects_that_the_minimum_available_is_not_checked() {
    let (failure, ..) =
        run(200, 1_500, DeliberateFaults { ignores_minimum: true, ..DeliberateFaults::default() });
    let text = failure.expect("a planner without the minimum available must be caught");
    assert!(text.contains("the last running instance"), "{text}");
    assert!(text.contains("under claim"), "the trace shows what led to it: {text}");
}

#[test]
fn simulator_detects_that_agreements_are_taken_for_running_instances() {
    let deliberate = DeliberateFaults { trusts_agreements: true, ..DeliberateFaults::default() };
    let mut texts = (0..200).filter_map(|seed| simulate_with(seed, 1_500, deliberate).failure_text());
    let is_caught = |text: String| text.contains("the last running instance");
    assert!(texts.any(is_caught), "a planner that counts promises must be caught");
}

#[test]
fn simulator_detects_that_update_parallelism_is_not_enforced() {
    let (failure, ..) =
        run(200, 1_500, DeliberateFaults { ignores_parallelism: true, ..DeliberateFaults::default() });
    let text = failure.expect("a planner that updates any number of groups must be caught");
    assert!(text.contains("is in progress in more than 1 groups"), "{text}");
}

#[test]
fn simulator_detects_that_workloads_do_not_keep_away_from_each_other() {
    let deliberate = DeliberateFaults { ignores_affinity: true, ..DeliberateFaults::default() };
    // The seeds that draw such workloads.
    let seeds = (0..4800).filter(|seed| seed % 24 == 4);
    let mut texts = seeds.filter_map(|seed| simulate_with(seed, 1_500, deliberate).failure_text());
    assert!(texts.any(|text| text.contains(" next to o/")), "a planner without affinity must be caught");
}

#[test]
fn simulator_detects_that_the_buffer_of_the_capacities_is_not_kept() {
    let deliberate = DeliberateFaults { ignores_buffer: true, ..DeliberateFaults::default() };
    // The seeds that draw a buffer.
    let seeds = (0..2400).filter(|seed| seed % 24 == 15);
    let mut texts = seeds.filter_map(|seed| simulate_with(seed, 600, deliberate).failure_text());
    assert!(
        texts.any(|text| text.contains("where memoryMb is")),
        "a planner without a buffer must be caught"
    );
}

#[test]
fn simulator_detects_instances_without_an_agreement() {
    let deliberate =
        DeliberateFaults { loses_messages: true, trusts_records: true, ..DeliberateFaults::default() };
    // Other promises are broken, too: such an agbot does not see what runs.
    let mut texts = (0..200).filter_map(|seed| simulate_with(seed, 1_500, deliberate).failure_text());
    let is_it = |text: &String| text.contains("without an owner") || text.contains("does not hold");
    assert!(texts.any(|text| is_it(&text)), "an agbot whose messages die with it must be caught");
}

#[test]
fn same_seed_gives_the_same_schedule_to_the_byte() {
    let traces: BTreeMap<Vec<String>, u64> = (0..3).map(|_| (simulate(7, 800).trace, 0)).collect();
    assert_eq!(traces.len(), 1);
}

#[test]
fn command_line_run_reports_success_in_one_line() {
    let plan = report::Plan { seed_from: 5, seeds: 2, steps: 200, shows_trace: false };
    let mut out = Vec::new();
    assert!(run_cli(plan, &mut out).unwrap());
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("2 seeds, ") && text.ends_with("every promise kept\n"), "{text}");
}

/// Runs the seeds until their traces have named every text; panics with those that none names.
fn draw(seeds: impl Iterator<Item = u64>, mut texts: Vec<String>) {
    for seed in seeds {
        let mut world = world::World::new(seed, DeliberateFaults::default());
        chaos::run(&mut world, 600);
        let trace: String = world.trace.into_iter().collect();
        texts.retain(|text| !trace.contains(text));
        if texts.is_empty() {
            return;
        }
    }
    panic!("not drawn: {texts:?}");
}

/// The seeds of workloads would prove nothing about users' actions that they do not draw.
#[test]
fn seeds_of_workloads_draw_every_action_of_a_user() {
    let requests = LastingAction::ALL.map(|action| format!("the operator requests {} of o/w", action.name()));
    let others = ["force: true: [", "is refused", "it exited with 137", "the operator requests abort of o/w"];
    let texts = requests.into_iter().chain(others.map(str::to_owned)).collect();
    draw((3..1_000).filter(|seed| matches!(seed % 6, 3 | 4)), texts);
}

/// The seeds of health policies would prove nothing about failures, alarms and commands that they do not draw.
#[test]
fn seeds_of_health_policies_draw_every_kind_of_failure() {
    let texts = [
        "alarm: true, lost: false",
        "alarm: false, lost: false",
        "alarm: false, lost: true",
        "goes down: POWER_OFF",
        "goes down: SHUTDOWN",
        "goes down: PAUSE",
        "-1: true",
        "-1: false",
    ];
    draw((9..2_000).step_by(24), texts.map(str::to_owned).into());
}
