//! Reason why nodes are not chosen, in words.
//!
//! Source: orchestration D3.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::report::{
    Blocked, Constraint, EliminatedNode, EliminationReport, ExplainedStage, UnplacedCause,
};

use super::{Buffer, Elimination, NodeTable, Placed};

/// Nodes that are listed for one constraint.
const EXAMPLE_COUNT: usize = 100;

/// Returns the record of a placement.
pub fn report(table: &NodeTable, placed: &Placed) -> EliminationReport {
    report_of(table, placed, placed.nodes.len() as u32)
}

/// Returns the record of a placement of which only a part was tried, because there is no room for more.
pub fn report_of(table: &NodeTable, placed: &Placed, requested: u32) -> EliminationReport {
    let count = placed.count();
    let elimination = &placed.elimination;
    let mut remaining = elimination.candidate_count;
    let explain = |stage: &super::Stage| {
        remaining -= stage.removed.len();
        let nodes = stage.removed.iter().take(EXAMPLE_COUNT);
        let eliminated = nodes.map(|node| EliminatedNode {
            node: table.node(node).id.clone(),
            reason: reason_of(table, placed, stage.constraint, node),
        });
        ExplainedStage {
            constraint: stage.constraint,
            count: stage.removed.len(),
            eliminated: eliminated.collect(),
            remaining,
        }
    };
    let sequence: Vec<ExplainedStage> = elimination.stages.iter().map(explain).collect();
    let chosen = placed.nodes.iter().flatten().take(EXAMPLE_COUNT);
    let removed = sequence.iter().map(|stage| (stage.constraint, stage.count));
    EliminationReport {
        requested,
        placed: count,
        candidates: elimination.candidate_count,
        chosen: chosen.map(|node| table.node(*node).id.clone()).collect(),
        cause: (count < requested).then(|| cause(table, elimination, Some(placed), requested - count)),
        summary: summary((count, requested), elimination.candidate_count, removed),
        sequence,
    }
}

/// Returns the first constraint that removes a node, with the reason; none when nothing does.
///
/// # Errors
/// [`Blocked::NodeUnknown`] when the node does not belong to the workload unit.
pub fn explain_node(table: &NodeTable, node: &NodeId) -> Result<Option<(Constraint, String)>, Blocked> {
    let number = table.number(node).filter(|number| table.members().contains(*number));
    let number = number.ok_or(Blocked::NodeUnknown)?;
    let found = Constraint::OF_NODES
        .into_iter()
        .find(|one| table.removed_by(*one).is_some_and(|nodes| nodes.contains(number)));
    let of_room = |constraint: &Constraint| {
        let room = table.node(number).room.as_ref().filter(|_| *constraint == Constraint::NodeCapacity)?;
        room.objection(0, Buffer::Kept)
    };
    Ok(found
        .map(|one| (one, of_room(&one).unwrap_or_else(|| reason(table, one, number))))
        .or_else(|| table.domain_objection(number, &Elimination::of(table).remaining)))
}

fn reason_of(table: &NodeTable, placed: &Placed, constraint: Constraint, node: u32) -> String {
    let added = placed.loads.get(&node).copied().unwrap_or(0);
    let objection = match constraint {
        Constraint::NodeCapacity => placed.elimination.capacity_objection(table, node, added),
        constraint if Constraint::OF_DOMAINS.contains(&constraint) => placed.domain_objection(table, node),
        _ => None,
    };
    objection.unwrap_or_else(|| reason(table, constraint, node))
}

fn reason(table: &NodeTable, constraint: Constraint, node: u32) -> String {
    let found = table.node(node).removed_by(constraint, table.own(node), table.max_per_node(node));
    found.unwrap_or_else(|| constraint.reason_of_decision().to_owned())
}

/// Returns whether waiting may help: whether the nodes would be enough without the conditions that pass.
///
/// # Shape
/// `placed`: how the others were placed, if any were. `missing`: how many instances were not.
pub fn cause(
    table: &NodeTable,
    elimination: &Elimination,
    placed: Option<&Placed>,
    missing: u32,
) -> UnplacedCause {
    let nodes = elimination.remaining_in_the_long_run(table);
    let added = |node: u32| placed.and_then(|placed| placed.added.get(&node)).copied().unwrap_or(0);
    let room = |node: u32| {
        let own = i64::from(table.own(node)) + added(node);
        (i64::from(table.max_per_node(node)) - own).max(0).unsigned_abs()
    };
    let is_enough = match placed.and_then(|placed| placed.spread.as_ref()) {
        Some(spread) => spread.has_room(table.domains(), table.domain_rules(), &nodes, room, missing),
        None => {
            // Each of these nodes takes at least one.
            let rooms = nodes.iter().map(room).filter(|room| *room > 0);
            rooms.take(missing as usize).sum::<u64>() >= u64::from(missing)
        }
    };
    if is_enough { UnplacedCause::Transient } else { UnplacedCause::Unsatisfiable }
}

/// Returns a placement in words. `removed`: how many of the candidates each constraint removed, in their order.
pub fn summary(
    (placed, requested): (u32, u32),
    candidates: u64,
    removed: impl Iterator<Item = (Constraint, u64)>,
) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for (constraint, count) in removed.filter(|(_, count)| *count > 0) {
        match counts.iter_mut().find(|(label, _)| *label == constraint.label()) {
            Some((_, known)) => *known += count,
            None => counts.push((constraint.label(), count)),
        }
    }
    let texts = counts.into_iter().enumerate().map(|(number, (label, count))| {
        let verb = if number == 0 { " removed" } else { "" };
        format!("{label}{verb} {count}")
    });
    let removed: Vec<String> = texts.collect();
    let removed = match removed.is_empty() {
        true if candidates == 0 => "no node belongs to it".to_owned(),
        true => "no node was removed".to_owned(),
        false => removed.join(", "),
    };
    let numbers = match requested {
        _ if placed > requested => format!("{placed} placed, {requested} wanted"),
        0 => "no instance is wanted".to_owned(),
        _ => format!("{placed} of {requested} placed"),
    };
    format!("{numbers}: {removed}")
}
