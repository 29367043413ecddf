//! Time limits; far above what a release build needs, so that only a change of complexity exceeds them.

use std::time::{Duration, Instant};

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{
    Added, Elimination, NodeTable, Ranking, SoftViolations, UnitNode, Verdict, Want, explain_node, place,
};
use evenkeel_planner_record::{
    blocklist::BlocklistNews, fixture::at, goal::Goal, report::Constraint, workload::Slot,
};

use super::simulated::World;

#[expect(clippy::disallowed_methods, reason = "measures how long a decision takes")]
fn timed<T>(what: &str, limit: Duration, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let outcome = work();
    let spent = begin.elapsed();
    eprintln!("{what}: {spent:?}");
    assert!(spent <= limit, "{what} took {spent:?}");
    outcome
}

fn many_nodes(count: u32) -> Vec<UnitNode> {
    let node = |number: u32| {
        let mut node = UnitNode::new(NodeId::new("o", &format!("n{number:05}")));
        node.instance_count = number % 17;
        if number.is_multiple_of(10) {
            node.expression = Verdict::Failed("{node.env}=PRD, expression false".into());
        }
        node
    };
    (0..count).map(node).collect()
}

#[test]
fn ten_thousand_replicas_are_placed_on_ten_thousand_nodes() {
    let mut table = NodeTable::new(many_nodes(10_000), 2);
    for number in (0..10_000).step_by(100) {
        table.count_instance(&NodeId::new("o", &format!("n{number:05}")), true);
    }
    let world = World::new(Goal::replicated(10_000), 0);
    let ranking = Ranking::new(&world.workload.placement, &world.unit_id, &table);
    let wants = vec![Want::default(); 10_000];
    let placed = timed("placing 10,000 replicas", Duration::from_millis(500), || {
        place(&table, &ranking, Elimination::of(&table), &Added::default(), &wants)
    });
    assert_eq!(placed.count(), 10_000);
    let found = timed("explaining one", Duration::from_millis(5), || {
        explain_node(&table, &NodeId::new("o", "n00010"))
    });
    assert_eq!(found.unwrap().unwrap().0, Constraint::PlacementConstraint);
}

#[test]
fn soft_affinity_of_ten_thousand_nodes_costs_little() {
    let mut nodes = many_nodes(10_000);
    for (number, node) in (0..).zip(&mut nodes) {
        node.affinity.soft = SoftViolations { anti: number % 3, missing: number % 2 };
    }
    let mut table = NodeTable::new(nodes.clone(), 2);
    let world = World::new(Goal::replicated(10_000), 0);
    let ranking = Ranking::new(&world.workload.placement, &world.unit_id, &table);
    for (count, limit) in [(1, 20), (10_000, 500)] {
        let wants = vec![Want::default(); count];
        let placed = timed("placing by soft affinity", Duration::from_millis(limit), || {
            place(&table, &ranking, Elimination::of(&table), &Added::default(), &wants)
        });
        assert_eq!(placed.count(), count as u32);
    }
    timed("a change of a partner on one node", Duration::from_millis(5), || table.replace(nodes[0].clone()));
}

#[test]
fn full_reconcile_and_one_failure_of_ten_thousand_slots_are_quick() {
    let mut world = World::new(Goal::replicated(10_000), 0);
    world.nodes = many_nodes(10_000);
    world.edit(|workload| workload.placement.max_per_node = 2);
    world.run(4);
    assert_eq!(world.running().len(), 10_000);
    world.fail_slot(77, 1);
    let (slots, table) = (world.slots(), world.table());
    let groups = std::collections::BTreeMap::new();
    let facts = crate::unit_pass::UnitFacts {
        workload: &world.workload,
        unit_id: &world.unit_id,
        table: &table,
        slots: &slots,
        observed: &evenkeel_planner_record::workload::Slots::new(),
        groups: &groups,
        update: &world.update,
        departures: &std::collections::BTreeMap::new(),
        gone_group: None,
        part_count: 1,
        other_units: &[],
        gone_parts: &[],
        taken_over: &[],
        blocklist: &BlocklistNews::default(),
        unsettled_partners: &[],
        are_partners_in_upgrade: false,
        dependencies: &evenkeel_change::Independent,
        errors: &[],
        health: &std::collections::BTreeMap::new(),
        survey: &crate::unit_pass::NoSurvey,
        recovery: &crate::unit_pass::RecoveryFacts::default(),
        grace_until: None,
        unheard_until: None,
        incompatible: &[],
        settings: world.settings,
    };
    let slot = Slot::Number(77);
    let plan = timed("one failure", Duration::from_millis(20), || {
        crate::reconcile::plan_slot(&facts, &slot, at(60), 1)
    });
    assert!(!plan.changes.is_empty());
    let plan = timed("full reconcile", Duration::from_millis(500), || {
        crate::reconcile::plan_unit(&facts, at(60), 1)
    });
    assert!(!plan.changes.is_empty());
}
