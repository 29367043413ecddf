//! Rankings and eliminations: A3, D3.

use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::{
    facts::Availability,
    fixture::at,
    report::{Blocked, Constraint, FrozenLevel, UnplacedCause},
    statistics::{NodeStatistics, Space},
    workload::{NodeOrder, PlacementRules, UnitId, Workload},
};
use roaring::RoaringBitmap;

use super::*;

fn nodes(count: usize) -> Vec<UnitNode> {
    (1..=count).map(|number| UnitNode::new(NodeId::new("o", &format!("n{number}")))).collect()
}

fn placement(order: NodeOrder) -> PlacementRules {
    PlacementRules { order, ..Workload::new(PolicyId::new("o", "w"), 1).placement }
}

fn unit_id(policy: &str) -> UnitId {
    UnitId::all(PolicyId::new("o", policy))
}

/// Returns the names of the nodes in their order.
fn order(placement: &PlacementRules, policy: &str, table: &NodeTable) -> Vec<String> {
    let unit_id = unit_id(policy);
    let order = Ranking::new(placement, &unit_id, table).order(table.members());
    order.into_iter().map(|number| table.node(number).id.name().to_owned()).collect()
}

fn put(table: &NodeTable, placement: &PlacementRules, wants: &[Want]) -> Placed {
    let unit_id = unit_id("w");
    let ranking = Ranking::new(placement, &unit_id, table);
    place(table, &ranking, Elimination::of(table), &Added::default(), wants)
}

/// A3-S1.
#[test]
fn listed_nodes_come_first_and_the_others_in_scope_order() {
    let table = NodeTable::new(nodes(4), 1);
    let mut placement = placement(NodeOrder::Listed);
    placement.listed = vec![NodeId::new("o", "n3"), NodeId::new("o", "n2")];
    assert_eq!(order(&placement, "w", &table), ["n3", "n2", "n1", "n4"]);
}

/// Sets the load averages of nodes; none: no statistics.
fn with_loads(loads: &[Option<f64>]) -> NodeTable {
    let mut nodes = nodes(loads.len());
    let space = Some(Space { available: 1, total: 2 });
    for (node, load) in nodes.iter_mut().zip(loads) {
        node.statistics = load.map(|load| Box::new(NodeStatistics::new(Some(load), space, space, at(0))));
    }
    NodeTable::new(nodes, 1)
}

/// A3-S2.
#[test]
fn least_loaded_node_comes_first_and_one_without_statistics_last() {
    let table = with_loads(&[Some(1.5), Some(0.3), None]);
    assert_eq!(order(&placement(NodeOrder::LoadAverage), "w", &table), ["n2", "n1", "n3"]);
    let best = put(&table, &placement(NodeOrder::LoadAverage), &[Want::default(); 3]);
    assert_eq!(best.nodes, [Some(1), Some(0), Some(2)]);
}

/// A3-S4.
#[test]
fn greatest_score_comes_first_and_a_node_without_statistics_last() {
    let mut nodes = nodes(3);
    let space = |available| Some(Space { available, total: 100 });
    nodes[2].statistics = Some(Box::new(NodeStatistics::new(Some(0.5), space(50), space(100), at(0))));
    nodes[1].statistics = Some(Box::new(NodeStatistics::new(Some(4.0), space(80), space(100), at(0))));
    let table = NodeTable::new(nodes, 1);
    assert_eq!(order(&placement(NodeOrder::Score), "w", &table), ["n3", "n2", "n1"]);
}

/// A3-S3.
#[test]
fn spread_levels_workloads_out_and_is_always_the_same() {
    let table = NodeTable::new(nodes(3), 1);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..300 {
        let found = order(&placement(NodeOrder::Spread), &format!("w{number}"), &table);
        assert_eq!(found, order(&placement(NodeOrder::Spread), &format!("w{number}"), &table));
        *counts.entry(found[0].clone()).or_default() += 1;
    }
    assert!(counts.len() == 3 && counts.values().all(|count| (75..=125).contains(count)), "{counts:?}");
}

/// A3-S5.
#[test]
fn shift_rotates_the_order() {
    let table = NodeTable::new(nodes(3), 1);
    let leader = |shift| order(&placement(NodeOrder::Shifted(shift)), "w", &table)[0].clone();
    assert_eq!([leader(0), leader(1), leader(2), leader(3)], ["n1", "n2", "n3", "n1"]);
}

#[test]
fn last_start_prefers_where_the_workload_was_last() {
    let mut nodes = nodes(3);
    nodes[1].marks.last_start_at = Some(at(10));
    nodes[2].marks.last_start_at = Some(at(20));
    let table = NodeTable::new(nodes, 1);
    assert_eq!(order(&placement(NodeOrder::LastStart), "w", &table), ["n3", "n2", "n1"]);
}

/// A3-S6.
#[test]
fn placement_policy_none_ranks_no_node() {
    let table = NodeTable::new(nodes(3), 1);
    assert!(order(&placement(NodeOrder::Unranked), "w", &table).is_empty());
    assert_eq!(put(&table, &placement(NodeOrder::Unranked), &[Want::default()]).count(), 0);
}

/// A3-S7.
#[test]
fn scope_order_decides_between_equal_nodes() {
    let table = NodeTable::new(nodes(5), 1);
    for _ in 0..20 {
        let found = order(&placement(NodeOrder::LeastInstances), "w", &table);
        assert_eq!(found, ["n1", "n2", "n3", "n4", "n5"]);
        let equal = with_loads(&[Some(0.1); 5]);
        assert_eq!(order(&placement(NodeOrder::LoadAverage), "w", &equal), found);
    }
}

#[test]
fn instances_spread_over_the_emptiest_nodes() {
    let mut nodes = nodes(3);
    nodes[0].instance_count = 5;
    let mut table = NodeTable::new(nodes, 3);
    table.count_instance(&NodeId::new("o", "n2"), true);
    let placed = put(&table, &placement(NodeOrder::LeastInstances), &[Want::default(); 5]);
    assert_eq!(placed.nodes, [Some(2), Some(0), Some(1), Some(2), Some(0)]);
}

#[test]
fn few_tasks_get_the_nodes_that_the_first_of_many_get() {
    let mut nodes = nodes(9);
    for (number, node) in nodes.iter_mut().enumerate() {
        node.instance_count = (number * 5 % 7) as u32;
        node.marks.last_start_at = (number % 2 == 0).then(|| at(number as i64 * 3 % 11));
        node.frozen = (number == 4).then_some(FrozenLevel::Node);
    }
    let mut table = NodeTable::new(nodes, 2);
    for name in ["n2", "n7", "n7"] {
        table.count_instance(&NodeId::new("o", name), true);
    }
    for order in [NodeOrder::Listed, NodeOrder::Spread, NodeOrder::LastStart, NodeOrder::LeastInstances] {
        let mut rules = placement(order);
        rules.listed = vec![NodeId::new("o", "n6"), NodeId::new("o", "n3")];
        let mut wants = [Want::default(); 10];
        wants[1].avoided = Some(0);
        wants[2].preferred = Some(8);
        let many = put(&table, &rules, &wants);
        for count in 1..=4 {
            let few = put(&table, &rules, &wants[..count]);
            // A preferred node is taken first of all.
            if count > 2 || !many.nodes[..count].contains(&Some(8)) {
                assert_eq!(few.nodes, many.nodes[..count], "{order:?}");
            }
        }
    }
}

#[test]
fn soft_lists_outweigh_the_ranking_for_few_and_for_many_tasks() {
    let mut nodes = nodes(6);
    for (node, (anti, missing)) in nodes.iter_mut().zip([(0, 1), (1, 0), (0, 0), (2, 0), (0, 2), (1, 1)]) {
        node.affinity.soft = SoftViolations { anti, missing };
    }
    let mut table = NodeTable::new(nodes, 1);
    let names = |table: &NodeTable, count: usize| -> Vec<u32> {
        let placed = put(table, &placement(NodeOrder::Listed), &vec![Want::default(); count]);
        placed.nodes.into_iter().flatten().map(|number| number + 1).collect()
    };
    assert_eq!(names(&table, 6), [3, 1, 5, 2, 6, 4]);
    assert_eq!(names(&table, 3), [3, 1, 5]);
    // A change of one node is seen at once.
    table.replace(UnitNode::new(NodeId::new("o", "n4")));
    assert_eq!(names(&table, 3), [3, 4, 1]);
    assert_eq!(names(&table, 6), [3, 4, 1, 5, 2, 6]);
    let hard = NodeAffinity { hard: Some("o/db does not run here".into()), ..NodeAffinity::default() };
    table.replace(UnitNode { affinity: hard.into(), ..UnitNode::new(NodeId::new("o", "n3")) });
    assert_eq!(names(&table, 2), [4, 1]);
    let found = explain_node(&table, &NodeId::new("o", "n3"));
    assert_eq!(found, Ok(Some((Constraint::Affinity, "o/db does not run here".to_owned()))));
}

#[test]
fn preferred_node_is_taken_if_it_remains_and_an_avoided_one_never() {
    let mut nodes = nodes(3);
    nodes[1].frozen = Some(FrozenLevel::Node);
    let table = NodeTable::new(nodes, 1);
    let want = |preferred, avoided| Want { preferred, avoided, ..Want::default() };
    let wants = [want(None, Some(0)), want(Some(1), None), want(Some(0), None)];
    let placed = put(&table, &placement(NodeOrder::Listed), &wants);
    assert_eq!(placed.nodes, [Some(2), None, Some(0)]);
}

#[test]
fn constraints_remove_nodes_in_their_order() {
    let mut nodes = nodes(7);
    let failed = |text: &str| Verdict::Failed(text.into());
    nodes[0].eligibility = failed("wrong architecture");
    nodes[1].state = NodeState::Down { since: at(5) };
    nodes[1].expression = failed("false");
    nodes[2].availability = Availability::Drain;
    nodes[3].frozen = Some(FrozenLevel::Instance);
    nodes[4].expression = failed("{node.env}=PRD, expression false");
    nodes[5].marks.start_failed = Some("2 restarts were not enough".into());
    let table = NodeTable::new(nodes, 1);
    let placed = put(&table, &placement(NodeOrder::Listed), &[Want::default(); 2]);
    let report = report(&table, &placed);
    let sequence: Vec<_> =
        report.sequence.iter().map(|stage| (stage.constraint.name(), stage.count, stage.remaining)).collect();
    let expected = [
        ("Eligibility", 1, 6),
        ("NodeState", 2, 4),
        ("Frozen", 1, 3),
        ("PlacementConstraint", 1, 2),
        ("StartFailed", 1, 1),
        ("ReplicaExclusionDynamic", 1, 0),
    ];
    assert_eq!(sequence, expected);
    assert_eq!(report.chosen, [NodeId::new("o", "n7")]);
    assert_eq!(report.cause, Some(UnplacedCause::Transient));
    assert_eq!(report.sequence[3].eliminated[0].reason, "{node.env}=PRD, expression false");
    let text = report.with_nodes();
    assert!(text.contains("; maxPerNode: n7 (") && !text.contains("ReplicaExclusion"), "{text}");
}

/// D3-S2.
#[test]
fn expression_that_matches_no_node_is_unsatisfiable() {
    let mut nodes = nodes(2);
    nodes.iter_mut().for_each(|node| node.expression = Verdict::Failed("\"a\" == \"b\" is false".into()));
    let table = NodeTable::new(nodes, 1);
    let placed = put(&table, &placement(NodeOrder::Listed), &[Want::default()]);
    let report = report(&table, &placed);
    assert_eq!(report.cause, Some(UnplacedCause::Unsatisfiable));
    assert_eq!(report.sequence[0].constraint, Constraint::PlacementConstraint);
    assert!(report.sequence[0].eliminated[0].reason.contains("\"a\" == \"b\""));
    assert_eq!(report.summary, "0 of 1 placed: PlacementConstraint removed 2");
}

/// D3-S2: a node that is away is no help if it would fail a lasting constraint when it returns.
#[test]
fn node_that_is_down_or_frozen_and_does_not_match_is_no_reason_to_wait() {
    let mut nodes = nodes(4);
    nodes.iter_mut().for_each(|node| node.expression = Verdict::Failed("false".into()));
    nodes[0].state = NodeState::Down { since: at(5) };
    nodes[1].frozen = Some(FrozenLevel::Node);
    let cause = |nodes: &[UnitNode], max_per_node: u32, count: usize| {
        let table = NodeTable::new(nodes.to_vec(), max_per_node);
        report(&table, &put(&table, &placement(NodeOrder::Listed), &vec![Want::default(); count])).cause
    };
    assert_eq!(cause(&nodes, 1, 1), Some(UnplacedCause::Unsatisfiable));
    nodes[0].expression = Verdict::Passed;
    assert_eq!(cause(&nodes, 1, 1), Some(UnplacedCause::Transient));
    assert_eq!(cause(&nodes, 1, 2), Some(UnplacedCause::Unsatisfiable), "one node would match");
    assert_eq!(cause(&nodes, 2, 2), Some(UnplacedCause::Transient));
    nodes[0].affinity = NodeAffinity { hard: Some("o/db".into()), ..NodeAffinity::default() }.into();
    assert_eq!(cause(&nodes, 2, 2), Some(UnplacedCause::Unsatisfiable));
}

/// D3: domains count among the conditions that last.
#[test]
fn node_that_is_down_in_a_taken_domain_is_no_reason_to_wait_when_distribution_is_required() {
    let mut nodes = nodes(3);
    for (node, domain) in nodes.iter_mut().zip(["fd:/a", "fd:/a", "fd:/b"]) {
        node.fault_domain = Some(domain.into());
    }
    nodes[1].state = NodeState::Down { since: at(5) };
    let mut rules = placement(NodeOrder::Listed);
    rules.is_distribution_required = true;
    let cause = |nodes: &[UnitNode], rules: &PlacementRules| {
        let table = NodeTable::new(nodes.to_vec(), TableRules::from(rules));
        report(&table, &put(&table, rules, &[Want::default(); 3])).cause
    };
    assert_eq!(cause(&nodes, &rules), Some(UnplacedCause::Unsatisfiable));
    nodes[1].fault_domain = Some("fd:/c".into());
    assert_eq!(cause(&nodes, &rules), Some(UnplacedCause::Transient));
    nodes[1].fault_domain = Some("fd:/a".into());
    rules.is_distribution_required = false;
    assert_eq!(cause(&nodes, &rules), Some(UnplacedCause::Transient), "one more there packs nothing");
}

/// D3 (`relaxed`): without a preferred domain no node is outside of it.
#[test]
fn first_instance_relaxes_nothing_when_no_domain_is_preferred() {
    let mut nodes = nodes(2);
    nodes[1].fault_domain = Some("fd:/east".into());
    let table = NodeTable::new(nodes, 1);
    let want = Want { location: Location::PreferredDomain, ..Want::default() };
    let mut rules = placement(NodeOrder::Listed);
    let placed = put(&table, &rules, &[want]);
    assert_eq!((placed.nodes[0], placed.violations[0].is_none()), (Some(0), true));
    rules.preferred_domain = Some("fd:/east".into());
    assert_eq!(put(&table, &rules, &[want]).nodes, [Some(1)]);
}

/// D3-S4.
#[test]
fn explanation_of_a_suitable_node_eliminates_nothing() {
    let table = NodeTable::new(nodes(1), 1);
    assert_eq!(explain_node(&table, &NodeId::new("o", "n1")), Ok(None));
}

/// D3-S5.
#[test]
fn node_outside_of_the_workload_unit_is_unknown() {
    let mut nodes = nodes(2);
    nodes[1].is_member = false;
    let table = NodeTable::new(nodes, 1);
    for name in ["n2", "n3"] {
        assert_eq!(explain_node(&table, &NodeId::new("o", name)), Err(Blocked::NodeUnknown));
    }
}

#[test]
fn sets_of_a_table_follow_its_nodes_and_instances() {
    let mut table = NodeTable::new(nodes(3), 2);
    let id = NodeId::new("o", "n2");
    table.replace(UnitNode { frozen: Some(FrozenLevel::Node), ..UnitNode::new(id.clone()) });
    let removed = Elimination::of(&table).removed_by(1);
    assert_eq!(removed, Some(Constraint::Frozen));
    table.replace(UnitNode::new(id.clone()));
    table.count_instance(&id, true);
    assert_eq!(Elimination::of(&table).removed_by(1), None);
    table.count_instance(&id, true);
    assert_eq!(Elimination::of(&table).removed_by(1), Some(Constraint::MaxPerNode));
    table.count_instance(&id, false);
    assert_eq!(Elimination::of(&table).remaining, RoaringBitmap::from_iter([0, 1, 2]));
}

#[test]
fn at_most_a_hundred_examples_are_listed() {
    let mut nodes = nodes(500);
    nodes.iter_mut().for_each(|node| node.frozen = Some(FrozenLevel::Node));
    let table = NodeTable::new(nodes, 1);
    let placed = put(&table, &placement(NodeOrder::Listed), &[Want::default()]);
    let report = report(&table, &placed);
    assert_eq!((report.sequence[0].count, report.sequence[0].eliminated.len()), (500, 100));
}

/// D6-S3: an instance that ended goes back to its node only if no other one has come into its domain meanwhile.
#[test]
fn required_distribution_outweighs_the_node_of_an_instance_that_ended() {
    let mut nodes = nodes(4);
    for (node, domain) in nodes.iter_mut().zip(["fd:/a", "fd:/a", "fd:/b", "fd:/c"]) {
        node.fault_domain = Some(domain.into());
    }
    let mut rules = placement(NodeOrder::Listed);
    rules.is_distribution_required = true;
    let want = Want { preferred: Some(0), ..Want::default() };
    let placed_beside = |added: &[(u32, i64)], own: &[usize]| {
        let mut table = NodeTable::new(nodes.clone(), TableRules::from(&rules));
        own.iter().for_each(|node| table.count_instance(&nodes[*node].id, true));
        let unit_id = unit_id("w");
        let ranking = Ranking::new(&rules, &unit_id, &table);
        let added = Added { instances: added.iter().copied().collect(), ..Added::default() };
        place(&table, &ranking, Elimination::of(&table), &added, &[want]).nodes
    };
    assert_eq!(placed_beside(&[], &[]), [Some(0)]);
    assert_eq!(placed_beside(&[(1, 1)], &[]), [Some(2)], "the domain was taken");
    assert_eq!(placed_beside(&[(0, -1)], &[0]), [Some(0)], "what is replaced leaves the domain");
}
