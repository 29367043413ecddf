//! Fault domains, upgrade domains and capacities in `evenkeel bench orchestration`: where one instance goes, and the order of an upgrade.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_placement::place::{
    Added, Buffer, Elimination, Metric, NodeRoom, NodeTable, Ranking, TableRules, UnitNode, Want, place,
};
use evenkeel_planner_record::workload::UpdateStatus;
use evenkeel_planner_record::workload::{HubDefaults, Slots, UnitId, Versions, Workload};
use evenkeel_reconcile::reconcile::plan_unit;
use evenkeel_runtime::Failure;

use super::{
    index::Times,
    orchestration::{facts, wrong},
    orchestration_fleet::{at, domain_document, node_id, policy_id, running_task},
    report::{Report, Row, Target},
};

const PLACE_MICROS: f64 = 1_000.0;
const UPGRADE_MILLIS: f64 = 200.0;
/// The engine must win at least so clearly in any build.
const FASTER: f64 = 1.0;
const FAULT_DOMAINS: u32 = 100;
const RACKS_OF_A_SITE: u32 = 10;
const UPGRADE_DOMAINS: u32 = 20;
/// Tasks of all workloads for each node.
const TASKS_PER_NODE: u32 = 10;
/// Instances of the workload that is placed.
const INSTANCES: u32 = 100;
const METRICS: [&str; 3] = ["memoryMb", "cpuMilli", "diskMb"];
/// Every node of so many has no room for one more instance.
const CROWDED: u32 = 7;
const ROUNDS: u32 = 500;
const NAIVE_ROUNDS: u32 = 20;

/// Measures both; `nodes` nodes, and as many slots in the upgrade.
pub fn measure(nodes: u32, report: &mut Report) -> Result<(), Failure> {
    measure_one_instance(nodes, report)?;
    measure_upgrade(nodes, report)?;
    report.add_note(format!(
        "With domains: {FAULT_DOMAINS} fault domains on two levels, {UPGRADE_DOMAINS} upgrade domains, {} tasks that use three capacities. Naive: every node is tested against the instances and capacities of all, for each instance.",
        nodes * TASKS_PER_NODE,
    ));
    Ok(())
}

/// Returns the nodes in their domains, with what the tasks on them use.
fn nodes(count: u32) -> Vec<UnitNode> {
    (0..count)
        .map(|number| {
            let rack = number % FAULT_DOMAINS;
            let used =
                if number.is_multiple_of(CROWDED) { 1_000.0 } else { f64::from(TASKS_PER_NODE) * 60.0 };
            let metrics = METRICS.map(|name| Metric {
                name: name.into(),
                used,
                load: 50.0,
                capacity: 1_000.0,
                usable: 900.0,
            });
            let domain: Arc<str> = format!("fd:/site-{}/rack-{rack}", rack / RACKS_OF_A_SITE).into();
            UnitNode {
                fault_domain: Some(domain),
                upgrade_domain: Some(format!("ud-{:02}", number % UPGRADE_DOMAINS).into()),
                room: Some(Box::new(NodeRoom { metrics: metrics.to_vec(), surplus: None })),
                instance_count: TASKS_PER_NODE,
                ..UnitNode::new(node_id(number))
            }
        })
        .collect()
}

fn workload(instances: u32) -> Result<Workload, Failure> {
    let policy = policy_id(0);
    let document = domain_document(&policy, instances).map_err(wrong)?;
    Ok(Workload::of_document(&policy, &document, Versions::new(1), &HubDefaults::default()))
}

fn measure_one_instance(count: u32, report: &mut Report) -> Result<(), Failure> {
    let workload = workload(INSTANCES)?;
    let unit_id = UnitId::all(workload.policy.clone());
    let rules = TableRules::from(&workload.placement);
    let mut table = NodeTable::new(nodes(count), rules);
    let (mut times, mut naive) = (Times::default(), Times::default());
    let mut own: Vec<u32> = Vec::new();
    for round in 0..ROUNDS {
        let placed = times.measure(|| {
            let ranking = Ranking::new(&workload.placement, &unit_id, &table);
            let elimination = Elimination::with_buffer(&table, Buffer::Kept);
            place(&table, &ranking, elimination, &Added::default(), &[Want::default()])
        });
        let Some(Some(node)) = placed.nodes.first().copied() else { return Err(wrong("no node is found")) };
        if round < NAIVE_ROUNDS {
            let expected = naive.measure(|| choose(&table, &own));
            if expected != Some(node) {
                return Err(wrong(format!(
                    "node {node} is chosen, and {expected:?} by looking at every one"
                )));
            }
        }
        // The workload is as large as it is to be: the oldest instance goes.
        if own.len() == INSTANCES as usize {
            table.count_instance(&table.node(own.remove(0)).id.clone(), false);
        }
        table.count_instance(&table.node(node).id.clone(), true);
        own.push(node);
    }
    let name = format!("placing one instance on {count} nodes in domains");
    report.push(
        Row::new(format!("{name}, p99"), times.micros(0.99), "µs")
            .beside("naive", naive.micros(0.99))
            .target(Target::AtMost(PLACE_MICROS)),
    );
    report.push(
        Row::new(format!("{name}, median"), times.micros(0.5), "µs")
            .beside("naive", naive.micros(0.5))
            .lasting_target(Target::RatioAtMost(FASTER)),
    );
    Ok(())
}

/// Returns the best node by a scan of every one.
fn choose(table: &NodeTable, own: &[u32]) -> Option<u32> {
    let levels = |node: &UnitNode| {
        let rack = node.fault_domain.as_deref().unwrap_or_default().to_owned();
        let site = rack.rsplit_once('/').map(|(site, _)| site.to_owned()).unwrap_or_default();
        (site, rack, node.upgrade_domain.as_deref().unwrap_or_default().to_owned())
    };
    let has_room = |node: &UnitNode| node.room.as_ref().is_some_and(|room| room.instances(Buffer::Kept) > 0);
    let mut counts: BTreeMap<(u8, String), i64> = BTreeMap::new();
    let mut count = |node: &UnitNode, by: i64| {
        let (site, rack, upgrade) = levels(node);
        for key in [(0, site), (1, rack), (2, upgrade)] {
            *counts.entry(key).or_default() += by;
        }
    };
    // A domain is alive while a node of it could take an instance, or has one.
    table.nodes().filter(|node| has_room(node)).for_each(|node| count(node, 0));
    own.iter().for_each(|number| count(table.node(*number), 1));
    let fewest = |kind: u8, parent: &str| {
        let family = counts.iter().filter(|((of, name), _)| *of == kind && name.starts_with(parent));
        family.map(|(_, count)| *count).min().unwrap_or_default()
    };
    let exceeds = |kind: u8, name: String, parent: &str| counts[&(kind, name)] + 1 - fewest(kind, parent) > 1;
    let fits = (0..).zip(table.nodes()).filter(|(number, node)| has_room(node) && !own.contains(number));
    let ranked = fits.filter_map(|(number, node)| {
        let (site, rack, upgrade) = levels(node);
        if exceeds(0, site.clone(), "") || exceeds(1, rack, &format!("{site}/")) {
            return None;
        }
        Some((exceeds(2, upgrade, ""), node.instance_count, number))
    });
    ranked.min().map(|(.., number)| number)
}

fn measure_upgrade(count: u32, report: &mut Report) -> Result<(), Failure> {
    let mut workload = workload(count)?;
    let unit_id = UnitId::all(workload.policy.clone());
    let (mut slots, mut table) = (Slots::new(), {
        let nodes = nodes(count).into_iter().map(|node| UnitNode { room: None, ..node }).collect();
        NodeTable::new(nodes, TableRules::from(&workload.placement))
    });
    for number in 0..count {
        let node = node_id(number);
        let task = running_task(0, number + 1, &node, workload.versions.current);
        table.count_instance(&node, true);
        slots.entry(task.slot.clone()).or_default().put(task);
    }
    workload.versions = workload.versions.write(2);
    let update = UpdateStatus::default();
    let facts = facts(&workload, &unit_id, &table, &slots, &update);
    let mut times = Times::default();
    let mut replaced = 0;
    for round in 0..u64::from(NAIVE_ROUNDS) {
        let plan = times.measure(|| plan_unit(&facts, at(40), round));
        replaced = plan.update.as_ref().map_or(0, |update| update.tickets().count());
    }
    // Those of the first domain, and no others.
    if replaced != (count / UPGRADE_DOMAINS) as usize {
        return Err(wrong(format!("{replaced} slots are replaced at first")));
    }
    report.push(
        Row::new(
            format!("plan of an upgrade of {count} slots, domain by domain"),
            times.micros(1.0) / 1_000.0,
            "ms",
        )
        .target(Target::AtMost(UPGRADE_MILLIS)),
    );
    Ok(())
}
