//! `evenkeel bench orchestration`: how fast the engine decides about failed tasks, whole workloads and placements.
//!
//! The model and the decisions are those of the agbot; nothing is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use evenkeel_placement::place::{
    Added, Elimination, NodeTable, Ranking, UnitNode, Want, explain_node, place, report as explain,
};
use evenkeel_planner::decide::decide;
use evenkeel_planner_model::command::Action;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::UnitRecord;
use evenkeel_planner_model::{model::unit_nodes, plan::UnitPlan};
use evenkeel_planner_record::blocklist::BlocklistNews;
use evenkeel_planner_record::departure::Departures;
use evenkeel_planner_record::settings::UnitSettings;
use evenkeel_planner_record::workload::UpdateStatus;
use evenkeel_planner_record::workload::{
    Ending, HubDefaults, Slot, SlotTasks, Slots, Task, TaskState, UnitId, Versions, Workload, WorkloadUnit,
};
use evenkeel_reconcile::unit_pass::RecoveryFacts;
use evenkeel_reconcile::{
    reconcile::{plan_slot, plan_unit},
    unit_pass::UnitFacts,
};
use evenkeel_runtime::{ExitStatus, Failure};

use super::{
    index::Times,
    orchestration_fleet::{Candidate, FleetSize, OrchestratedFleet, at, document, policy_id, running_task},
    process::resident_mib,
    report::{Options, Report, Row, Target},
};

static NO_NEWS: BlocklistNews = BlocklistNews::NONE;

const FAILURE_MICROS: f64 = 200.0;
const RECONCILE_MILLIS: f64 = 50.0;
const PLACE_MILLIS: f64 = 500.0;
const EXPLAIN_MILLIS: f64 = 5.0;
const MEMORY_MIB: f64 = 600.0;
/// At any size and in any build the engine must win at least so clearly.
const FASTER: f64 = 1.0;
/// The naive way is asked so often and scaled.
const NAIVE_ROUNDS: u32 = 20;
/// Instances of one workload that a node may run where all nodes are candidates.
const MAX_PER_NODE: u32 = 2;

/// Measures all of it.
pub fn run(options: Options) -> Result<Report, Failure> {
    let (size, slots) = if options.short {
        (FleetSize { nodes: 1_000, workloads: 100, tasks: 20 }, 1_000)
    } else {
        (FleetSize { nodes: 10_000, workloads: 1_000, tasks: 100 }, 10_000)
    };
    let mut report = Report::new("orchestration");
    measure_failures(size, &mut report)?;
    measure_reconcile(slots, &mut report)?;
    measure_placement(slots, &mut report)?;
    super::orchestration_domains::measure(slots, &mut report)?;
    super::health::measure(size, &mut report)?;
    report.add_note("The fleet is built by the agbot's events, with agreements and node status; each workload may run on a tenth of the nodes. A decision includes applying its event to the model.");
    report.add_note("Naive, for a failed task: all nodes of the workload are evaluated and all its slots are compared. For a reconcile: slot after slot, each with a ranking of its own. For a placement: every node is evaluated for every instance. For an explanation: every node is evaluated again.");
    Ok(report)
}

pub fn wrong(what: impl std::fmt::Display) -> Failure {
    Failure::new(ExitStatus::Failure, format!("the engine decides wrongly: {what}"))
}

fn measure_failures(size: FleetSize, report: &mut Report) -> Result<(), Failure> {
    let before = resident_mib("self");
    let begin = Instant::now();
    let mut fleet = OrchestratedFleet::new(size).map_err(wrong)?;
    let built = begin.elapsed();
    let resident = resident_mib("self");
    let mut naive = Times::default();
    for workload in 0..NAIVE_ROUNDS.min(size.workloads) {
        let task = fleet
            .failed_task(workload, 1 + workload % size.tasks)
            .ok_or_else(|| wrong("a task is missing"))?;
        naive.measure(|| reconcile_from_scratch(&fleet, &task)).ok_or_else(|| wrong("nothing is planned"))?;
    }
    let mut times = Times::default();
    for workload in 0..size.workloads {
        let task = fleet
            .failed_task(workload, 1 + workload % size.tasks)
            .ok_or_else(|| wrong("a task is missing"))?;
        let slot = task.slot.clone();
        let event = Event::TaskRecorded { task: Box::new(task) };
        let decision = times.measure(|| {
            fleet.model.apply(&event, at(40));
            let decision = decide(&fleet.model, &event, at(40), u64::from(workload));
            fleet.model.note(&decision, at(40));
            decision
        });
        let plans = decision.commands.iter().filter_map(|command| match &command.action {
            Action::ApplyPlan { plan, .. } => Some(plan),
            _ => None,
        });
        let tasks: Vec<&Task> = plans.flat_map(|plan| &plan.tasks).collect();
        if tasks.len() < 2 || tasks.iter().any(|task| task.slot != slot) {
            return Err(wrong(format!("{} tasks are written after a failure in slot {slot}", tasks.len())));
        }
    }
    let all = size.workloads * size.tasks;
    let name = format!("one failed task of {all} on {} nodes", size.nodes);
    report.push(
        Row::new(format!("{name}, p99"), times.micros(0.99), "µs")
            .beside("naive", naive.micros(0.99))
            .target(Target::AtMost(FAILURE_MICROS)),
    );
    report.push(
        Row::new(format!("{name}, p99 of its CPU time"), times.cpu_micros(0.99), "µs")
            .beside("naive", naive.cpu_micros(0.99)),
    );
    report.push(
        Row::new(format!("{name}, median"), times.micros(0.5), "µs")
            .beside("naive", naive.micros(0.5))
            .lasting_target(Target::RatioAtMost(FASTER)),
    );
    report.push(
        Row::new(format!("resident with {} workloads and {all} tasks", size.workloads), resident, "MiB")
            .beside("before", before)
            .lasting_target(Target::AtMost(MEMORY_MIB)),
    );
    report.add_note(format!("The model of {all} tasks was built in {:.1} s.", built.as_secs_f64()));
    Ok(())
}

/// Reconciles the workload of a failed task as if nothing were known of it but the facts and the rows.
fn reconcile_from_scratch(fleet: &OrchestratedFleet, failed: &Task) -> Option<UnitPlan> {
    let (model, unit_id) = (&fleet.model, &failed.unit_id);
    let (workload, unit) = (model.workload_of(&unit_id.policy)?, model.workload_unit(unit_id)?);
    let nodes = unit.table.nodes().map(|node| node.id.clone()).collect();
    let workload_unit = WorkloadUnit { id: unit_id.clone(), nodes };
    let nodes = unit_nodes(model, workload, &workload_unit, &BTreeSet::new(), &BTreeMap::new(), at(40));
    let mut table = NodeTable::new(nodes, workload.placement.max_per_node);
    count_instances(&mut table, unit);
    let mut slots = unit.slots.clone();
    slots.entry(failed.slot.clone()).or_default().put(failed.clone());
    let update = UpdateStatus::default();
    let facts = facts(workload, unit_id, &table, &slots, &update);
    let plan = plan_unit(&facts, at(40), 1);
    (!plan.changes.is_empty()).then_some(plan)
}

fn count_instances(table: &mut NodeTable, unit: &UnitRecord) {
    let tasks = unit.slots.values().flat_map(SlotTasks::iter).filter(|task| task.is_live());
    tasks.filter_map(|task| task.node.as_ref()).for_each(|node| table.count_instance(node, true));
}

static NO_SLOTS: Slots = Slots::new();
static NO_RECOVERY: RecoveryFacts = RecoveryFacts::NONE;
static NO_DEPARTURES: Departures = Departures::new();
static NO_GROUPS: BTreeMap<evenkeel_ids::GroupId, evenkeel_change::GroupState> = BTreeMap::new();
static NO_HEALTH: BTreeMap<evenkeel_ids::TaskId, evenkeel_planner_record::workload::ReportedHealth> =
    BTreeMap::new();

pub fn facts<'a>(
    workload: &'a Workload,
    unit_id: &'a UnitId,
    table: &'a NodeTable,
    slots: &'a Slots,
    update: &'a UpdateStatus,
) -> UnitFacts<'a> {
    UnitFacts {
        workload,
        unit_id,
        table,
        slots,
        observed: &NO_SLOTS,
        groups: &NO_GROUPS,
        update,
        departures: &NO_DEPARTURES,
        gone_group: None,
        part_count: 1,
        other_units: &[],
        gone_parts: &[],
        taken_over: &[],
        blocklist: &NO_NEWS,
        unsettled_partners: &[],
        are_partners_in_upgrade: false,
        dependencies: &evenkeel_change::Independent,
        errors: &[],
        health: &NO_HEALTH,
        survey: &evenkeel_reconcile::unit_pass::NoSurvey,
        recovery: &NO_RECOVERY,
        grace_until: None,
        unheard_until: None,
        incompatible: &[],
        settings: UnitSettings::default(),
    }
}

/// A workload whose instances may run on every node.
fn wide_workload(count: u32) -> Result<Workload, Failure> {
    let policy = policy_id(0);
    let document = document(&policy, count, MAX_PER_NODE).map_err(wrong)?;
    Ok(Workload::of_document(&policy, &document, Versions::new(1), &HubDefaults::default()))
}

fn measure_reconcile(count: u32, report: &mut Report) -> Result<(), Failure> {
    let workload = wide_workload(count)?;
    let unit_id = UnitId::all(workload.policy.clone());
    let candidates = Candidate::fleet(count);
    let nodes: Vec<UnitNode> =
        candidates.iter().map(|one| one.unit_node(&workload.placement.expression)).collect();
    let empty_table = NodeTable::new(nodes, MAX_PER_NODE);
    let (update, empty) = (UpdateStatus::default(), Slots::new());
    let mut first = Times::default();
    let from_nothing = facts(&workload, &unit_id, &empty_table, &empty, &update);
    let created = (0..5).map(|round| first.measure(|| plan_unit(&from_nothing, at(40), round))).last();
    let placed: Vec<Task> = created.into_iter().flat_map(|plan| plan.records).collect();
    if placed.len() != count as usize {
        return Err(wrong(format!("{} of {count} slots are filled", placed.len())));
    }
    let (mut slots, mut table) = (Slots::new(), empty_table.clone());
    for (number, task) in (1..).zip(&placed) {
        let Some(node) = &task.node else { return Err(wrong("a slot has no node")) };
        let mut running = running_task(0, number, node, workload.versions.current);
        if number.is_multiple_of(100) {
            let error = "exit status 1".to_owned();
            running.state = TaskState::Ended(Ending::Failed { exit_code: Some(1), error });
            running.ended_at = Some(at(30));
        } else {
            table.count_instance(node, true);
        }
        slots.entry(running.slot.clone()).or_default().put(running);
    }
    let facts = facts(&workload, &unit_id, &table, &slots, &update);
    let (mut times, mut naive) = (Times::default(), Times::default());
    for round in 0..u64::from(NAIVE_ROUNDS) {
        times.measure(|| plan_unit(&facts, at(40), round));
    }
    for round in 0..3 {
        let one_by_one = |slot: &Slot| plan_slot(&facts, slot, at(40), round);
        naive.measure(|| slots.keys().map(one_by_one).filter(|plan| !plan.changes.is_empty()).count());
    }
    let mut single = Times::default();
    let has_failed = |tasks: &SlotTasks| tasks.iter().any(|task| task.state.is_ended());
    for (slot, _) in slots.iter().filter(|(_, tasks)| has_failed(tasks)) {
        single.measure(|| plan_slot(&facts, slot, at(40), 1));
    }
    report.push(
        Row::new(
            format!("one failed slot of {count} with as many candidates, p99"),
            single.micros(0.99),
            "µs",
        )
        .beside("naive", times.micros(0.5))
        .target(Target::AtMost(FAILURE_MICROS)),
    );
    report.push(
        Row::new(
            format!("full reconcile of {count} slots, one in a hundred failed"),
            times.micros(1.0) / 1_000.0,
            "ms",
        )
        .beside("naive", naive.micros(0.5) / 1_000.0)
        .target(Target::AtMost(RECONCILE_MILLIS)),
    );
    report.push(Row::new(
        format!("first reconcile of a workload of {count} slots, its CPU time"),
        first.cpu_micros(0.5) / 1_000.0,
        "ms",
    ));
    Ok(())
}

fn measure_placement(count: u32, report: &mut Report) -> Result<(), Failure> {
    let workload = wide_workload(count)?;
    let unit_id = UnitId::all(workload.policy.clone());
    let candidates = Candidate::fleet(count);
    let wants = vec![Want::default(); count as usize];
    let expression = &workload.placement.expression;
    let mut times = Times::default();
    let mut outcome = None;
    for _ in 0..5 {
        outcome = Some(times.measure(|| {
            let nodes = candidates.iter().map(|one| one.unit_node(expression)).collect();
            let table = NodeTable::new(nodes, MAX_PER_NODE);
            let ranking = Ranking::new(&workload.placement, &unit_id, &table);
            let placed = place(&table, &ranking, Elimination::of(&table), &Added::default(), &wants);
            (table, placed)
        }));
    }
    let Some((table, placed)) = outcome else { return Err(wrong("nothing is placed")) };
    let mut naive = Times::default();
    let rounds = NAIVE_ROUNDS.min(count);
    let chosen = naive.measure(|| place_one_by_one(&candidates, &workload, rounds));
    let first: Vec<u32> = placed.nodes.iter().take(rounds as usize).flatten().copied().collect();
    if placed.count() != count || chosen != first {
        return Err(wrong(format!("{} of {count} instances are placed", placed.count())));
    }
    let scale = f64::from(count) / f64::from(rounds);
    report.push(
        Row::new(format!("placing {count} instances on {count} nodes"), times.micros(1.0) / 1_000.0, "ms")
            .beside("naive", naive.micros(0.5) / 1_000.0 * scale)
            .target(Target::AtMost(PLACE_MILLIS)),
    );
    let (mut times, mut naive) = (Times::default(), Times::default());
    let node = table.node(0).id.clone();
    for _ in 0..NAIVE_ROUNDS {
        let found = times.measure(|| (explain(&table, &placed), explain_node(&table, &node)));
        if !matches!(found.1, Ok(Some(_))) {
            return Err(wrong("an unfit node is explained by nothing"));
        }
        naive.measure(|| {
            let nodes: Vec<UnitNode> = candidates.iter().map(|one| one.unit_node(expression)).collect();
            nodes.iter().filter(|one| !one.expression.is_passed()).count()
        });
    }
    report.push(
        Row::new("explaining such a placement and one of its nodes", times.micros(1.0) / 1_000.0, "ms")
            .beside("naive", naive.micros(0.5) / 1_000.0)
            .target(Target::AtMost(EXPLAIN_MILLIS)),
    );
    Ok(())
}

/// Chooses nodes for the first instances by asking every node each time.
fn place_one_by_one(candidates: &[Candidate], workload: &Workload, rounds: u32) -> Vec<u32> {
    let mut own = vec![0; candidates.len()];
    let mut choose = || {
        let fit = (0..candidates.len()).filter(|one| {
            own[*one] < MAX_PER_NODE && candidates[*one].satisfies(&workload.placement.expression)
        });
        let best = fit.min_by_key(|one| (own[*one], candidates[*one].instance_count() + own[*one], *one))?;
        own[best] += 1;
        u32::try_from(best).ok()
    };
    (0..rounds).filter_map(|_| choose()).collect()
}
