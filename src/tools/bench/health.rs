//! The health part of `evenkeel bench orchestration`: what a hundred thousand health events cost, and how fast an organization with them
//! is evaluated.

use std::sync::Arc;

use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::health::{EvaluationRules, ListedChildren};
use evenkeel_planner_record::health::{Entity, HealthEvent, HealthState};
use evenkeel_planner_record::workload::SlotTasks;
use evenkeel_runtime::{ExitStatus, Failure};

use super::{
    index::Times,
    orchestration_fleet::{FleetSize, OrchestratedFleet, at, policy_id},
    process::resident_mib,
    report::{Report, Row, Target},
};

const EVALUATION_MILLIS: f64 = 50.0;
const MEMORY_MIB: f64 = 100.0;
const FASTER: f64 = 1.0;
const ROUNDS: u32 = 20;
const CHILDREN: ListedChildren = ListedChildren { kind: None, range: 0..100 };

/// Measures both.
pub(super) fn measure(size: FleetSize, report: &mut Report) -> Result<(), Failure> {
    let wrong =
        |what: String| Failure::new(ExitStatus::Failure, format!("health is evaluated wrongly: {what}"));
    let mut fleet = OrchestratedFleet::new(size).map_err(wrong)?;
    let before = resident_mib("self");
    let mut count: u32 = 0;
    for workload in 0..size.workloads {
        let policy = policy_id(workload);
        let slots_of_units: Vec<_> =
            fleet.model.workload_units_of(&policy).map(|(_, found)| found.slots.clone()).collect();
        let tasks = slots_of_units.iter().flat_map(|slots| slots.values().flat_map(SlotTasks::iter));
        for task in tasks {
            let Some(node) = task.node.clone() else { continue };
            count += 1;
            let entity = Entity::Instance(policy.clone(), node);
            let event = Event::HealthRecorded { entity, events: vec![watchdog(count)] };
            fleet.model.apply(&event, at(40));
        }
    }
    let resident = resident_mib("self");
    // A node may run several instances of a workload, which are one entity.
    let count = fleet.model.health().len();
    let org = policy_id(0).org().parse().map_err(|_| wrong("the organization has no name".to_owned()))?;
    let org = Entity::Org(org);
    let rules = EvaluationRules::default();
    let (mut times, mut naive) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        let found = times.measure(|| fleet.model.evaluate_health(&org, rules, &CHILDREN, at(41)));
        if found.state != HealthState::Warning {
            return Err(wrong(format!("{:?}", found.state)));
        }
    }
    for _ in 0..2 {
        naive.measure(|| one_by_one(&fleet, size, rules));
    }
    report.push(
        Row::new(
            format!("health of an organization with {count} events, p99"),
            times.micros(0.99) / 1000.0,
            "ms",
        )
        .beside("naive", naive.micros(0.5) / 1000.0)
        .target(Target::AtMost(EVALUATION_MILLIS)),
    );
    report.push(
        Row::new("the same, median", times.micros(0.5) / 1000.0, "ms")
            .beside("naive", naive.micros(0.5) / 1000.0)
            .lasting_target(Target::RatioAtMost(FASTER)),
    );
    report.push(
        Row::new(format!("memory of {count} health events"), resident - before, "MiB")
            .lasting_target(Target::AtMost(MEMORY_MIB)),
    );
    report.add_note("Naive, for the health of an organization: every workload, unit and instance is evaluated by itself, reported about or not.");
    Ok(())
}

/// A report that a watchdog renews; one in a thousand warns.
fn watchdog(number: u32) -> HealthEvent {
    HealthEvent {
        source: Arc::from("watchdog"),
        property: Arc::from("Deadlock"),
        state: if number.is_multiple_of(1_000) { HealthState::Warning } else { HealthState::Ok },
        sequence: i64::from(number),
        since: at(30),
        received_at: at(39),
        expires_at: Some(at(99)),
        is_removed_when_expired: false,
        partition: None,
        digest: 0,
    }
}

/// Evaluates every entity by itself, and returns the worst state.
fn one_by_one(fleet: &OrchestratedFleet, size: FleetSize, rules: EvaluationRules) -> HealthState {
    let mut worst = HealthState::Ok;
    let mut add = |entity: &Entity| {
        worst = worst.max(fleet.model.evaluate_health(entity, rules, &CHILDREN, at(41)).state);
    };
    for workload in 0..size.workloads {
        let policy = policy_id(workload);
        for (unit_id, found) in fleet.model.workload_units_of(&policy) {
            add(&Entity::WorkloadUnit(unit_id.clone()));
            for task in found.slots.values().flat_map(SlotTasks::iter) {
                task.node.iter().for_each(|node| add(&Entity::Instance(policy.clone(), node.clone())));
            }
        }
    }
    worst
}
