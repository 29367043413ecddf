//! Explanation of a workload unit: its placement, and what its instances wait for.
//!
//! Source: orchestration D3.

use std::{collections::BTreeMap, fmt::Write as _};

use evenkeel_ids::NodeId;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    report::{Blocked, Constraint, EliminatedNode},
    workload::Step,
};
use evenkeel_status::status::{
    self, ExplainedConstraint, NODE_COUNT, PartExplanation, Question, explain_unit, numbers_of, with_tasks,
};

use super::{explain, waits::Waits};

/// Nodes of a policy without tasks that are explained at once.
const PAIR_COUNT: usize = 1000;

/// Explains a workload unit or one of its nodes; none when the policy has no such workload unit, or that has no such node.
pub fn explain_part(model: &Model, question: Question<'_>) -> Option<PartExplanation> {
    let unit = model.workload_unit(question.part).filter(|unit| unit.is_wanted);
    let waits = unit.map(|unit| Waits::new(model, question.now).of_unit(question.part, unit));
    let mut found = explain_with(model, question, waits.as_deref().unwrap_or_default())?;
    if question.node.is_none() {
        let policy = &question.part.policy;
        let stopped = model.workload(policy).filter(|record| record.is_stopped);
        let stopped = stopped.map(|_| status::STOPPED.to_owned());
        let update = model.workload(policy).map(|record| &record.update);
        let failing = update.and_then(|update| update.failing_text(&question.part.part));
        for why in stopped.into_iter().chain(model.unusable_versions(policy)).chain(failing) {
            let _ = write!(found.summary, "; {why}");
        }
    }
    Some(found)
}

/// Explains where the instances of a workload unit are, or would be, apart from what they wait for.
pub(crate) fn explain_placement(model: &Model, question: Question<'_>) -> Option<PartExplanation> {
    explain_with(model, question, &[])
}

fn explain_with(
    model: &Model,
    question: Question<'_>,
    blocked: &[(Step, Blocked)],
) -> Option<PartExplanation> {
    match with_tasks(model, question.part) {
        Some(unit) => explain_unit(model, unit, question, blocked),
        None => explain_pairs(model, question),
    }
}

/// Explains a policy without tasks, by the placement of each pair.
fn explain_pairs(model: &Model, question: Question<'_>) -> Option<PartExplanation> {
    let policy = &question.part.policy;
    model.policy(policy)?;
    let nodes: Vec<NodeId> = match question.node {
        Some(node) => vec![model.node(node)?.facts.id.clone()],
        None => status::nodes_of_part(model, question.part)?,
    };
    let mut stages: BTreeMap<Constraint, Vec<EliminatedNode>> = BTreeMap::new();
    let (mut chosen, mut last) = (Vec::new(), None);
    for node in nodes.iter().take(PAIR_COUNT) {
        let found = explain(model, node, policy, question.now);
        match found.blocked().and_then(constraint_of) {
            Some(constraint) => {
                stages
                    .entry(constraint)
                    .or_default()
                    .push(EliminatedNode { node: node.clone(), reason: found.text() });
            }
            None => chosen.push(node.clone()),
        }
        last = Some(found);
    }
    let mut remaining_count = nodes.len() as u64;
    let explained = stages.into_iter().map(|(constraint, mut eliminated)| {
        let eliminated_count = eliminated.len() as u64;
        remaining_count -= eliminated_count;
        eliminated.truncate(NODE_COUNT);
        ExplainedConstraint {
            constraint,
            eliminated,
            eliminated_count,
            remaining: Vec::new(),
            remaining_count,
        }
    });
    let sequence: Vec<ExplainedConstraint> = explained.collect();
    let (requested, placed) = (nodes.len() as u32, chosen.len() as u32);
    chosen.truncate(NODE_COUNT);
    Some(PartExplanation {
        spec_version: None,
        requested,
        placed,
        candidate_count: nodes.len() as u64,
        summary: numbers_of((placed, requested), nodes.len() as u64, &sequence),
        candidates: nodes.into_iter().take(NODE_COUNT).collect(),
        pair: last.filter(|_| question.node.is_some()),
        sequence,
        chosen,
        relaxed: Vec::new(),
        cause: None,
    })
}

fn constraint_of(blocked: &Blocked) -> Option<Constraint> {
    match blocked {
        Blocked::NodeDown { .. }
        | Blocked::NodeAway { .. }
        | Blocked::NeverHeard
        | Blocked::NodePaused
        | Blocked::NodeDraining => Some(Constraint::NodeState),
        Blocked::Frozen { .. } => Some(Constraint::Frozen),
        Blocked::Blocklisted { .. } => Some(Constraint::Blocklist),
        Blocked::BackingOff { .. } => Some(Constraint::StartFailed),
        Blocked::NoRoom { .. } => Some(Constraint::NodeCapacity),
        Blocked::NodeUnknown | Blocked::Suspended { .. } | Blocked::UserInput { .. } => {
            Some(Constraint::Eligibility)
        }
        blocked if blocked.is_incompatibility() => Some(Constraint::Eligibility),
        _ => None,
    }
}
