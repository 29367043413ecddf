//! `orchestration explain`: why instances of a deployment policy are, or are not, on nodes (orchestration D3).

use evenkeel_wire::agbot::orchestration::{ExplainQuery, PlacementExplanation, StatusQuery};

use serde_json::Value;

use super::status::read_status_page;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::orchestration::{NO_NODE, clause_advice};
use crate::output::{Table, View};

/// Reads the explanation of a workload unit, of each of them, or of one node.
///
/// # Errors
/// With status 8 when the policy, the unit or the node does not exist, 5 when the agbot does not respond.
pub async fn read(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    (part, node): (Option<&str>, Option<&str>),
) -> Outcome<View> {
    if part.is_none() && node.is_none() {
        // Only the names of the workload units are needed.
        let query = StatusQuery { limit: Some(1), ..StatusQuery::default() };
        let (_, status) = read_status_page(context, exchange, policy, &query).await?;
        let names: Vec<&str> = status.workload_units.iter().map(|one| one.workload_unit.as_str()).collect();
        if names.len() > 1 {
            return read_each(context, exchange, policy, &names).await;
        }
    }
    let (document, typed) = read_one(context, exchange, policy, (part, node)).await?;
    let mut table = empty_table();
    add(&mut table, &typed, node.is_some());
    Ok(View::new(document, table))
}

async fn read_each(context: &Context, exchange: &Exchange, policy: &str, names: &[&str]) -> Outcome<View> {
    let (mut documents, mut table) = (Vec::new(), empty_table());
    for name in names {
        let (document, typed) = read_one(context, exchange, policy, (Some(name), None)).await?;
        documents.push(document);
        add(&mut table, &typed, false);
    }
    Ok(View::new(Value::Array(documents), table))
}

async fn read_one(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    (part, node): (Option<&str>, Option<&str>),
) -> Outcome<(Value, PlacementExplanation)> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("explaining {org}/{name}");
    let query = ExplainQuery {
        workload_unit: part.map(str::to_owned),
        node: node.map(str::to_owned),
        ..ExplainQuery::default()
    };
    let Some(found) = agbot.call(&doing, agbot.client.placement_explanation(&org, &name, &query)).await?
    else {
        return Err(super::missing_part(context, exchange, policy, node.or(part)).await);
    };
    let typed: PlacementExplanation = agbot.read(&doing, &found)?;
    Ok((found.into_value(), typed))
}

fn empty_table() -> Table {
    Table::new(&["node", "outcome", "why"]).keeping(&["outcome", "why"])
}

/// Adds one line for a single node; for a workload unit one for each node that was removed or chosen.
fn add(table: &mut Table, found: &PlacementExplanation, is_single: bool) {
    let before = table.rows.len();
    for stage in &found.sequence {
        // A chosen node that takes no further instance is one line, not two.
        for one in stage.eliminated.iter().filter(|one| is_single || !found.chosen.contains(&one.node)) {
            table.push([one.node.clone(), label(&stage.constraint).to_owned(), one.reason.clone()]);
        }
    }
    for node in &found.chosen {
        table.push([node.clone(), "chosen".to_owned(), String::new()]);
    }
    if is_single {
        if table.rows.len() == before {
            let node = found.candidates.first().cloned().unwrap_or_default();
            let why = found.summary.strip_prefix(&format!("{node}: ")).unwrap_or(&found.summary).to_owned();
            table.push([node, "not chosen".to_owned(), why]);
        }
    } else {
        let is_empty = found.summary.contains(NO_NODE);
        let advice = if is_empty { format!("; {}", clause_advice("POLICY")) } else { String::new() };
        let summary = format!("{}{advice}", found.summary);
        table.push([format!("({})", found.workload_unit), "summary".to_owned(), summary]);
    }
}

/// Returns the displayed name of a constraint; for the number of instances on a node, the API uses the name of another product.
fn label(constraint: &str) -> &str {
    match constraint {
        "ReplicaExclusionStatic" | "ReplicaExclusionDynamic" => "maxPerNode",
        constraint => constraint,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::{EliminatedNode, ExplainedConstraint};

    use super::*;

    fn table(found: &PlacementExplanation, is_single: bool) -> Table {
        let mut table = empty_table();
        add(&mut table, found, is_single);
        table
    }

    #[test]
    fn node_that_was_removed_is_shown_with_the_constraint_and_the_reason() {
        let eliminated = vec![EliminatedNode { node: "n2".to_owned(), reason: "down".to_owned() }];
        let stage = ExplainedConstraint {
            constraint: "NodeState".to_owned(),
            eliminated,
            ..ExplainedConstraint::default()
        };
        let mut found = PlacementExplanation {
            workload_unit: "all".to_owned(),
            sequence: vec![stage],
            candidates: vec!["n2".to_owned()],
            summary: "n2: not needed, rank 2 of 2 (nodes-order)".to_owned(),
            ..PlacementExplanation::default()
        };
        assert_eq!(table(&found, true).rows, [["n2", "NodeState", "down"]]);
        assert_eq!(label("ReplicaExclusionStatic"), "maxPerNode");
        found.chosen = vec!["n2".to_owned()];
        let lines = table(&found, false).rows;
        assert_eq!(lines[0], ["n2", "chosen", ""], "a node has one line");
        assert_eq!(lines.len(), 2);
        found.chosen.clear();
        found.sequence.clear();
        assert_eq!(table(&found, true).rows, [["n2", "not chosen", "not needed, rank 2 of 2 (nodes-order)"]]);
        assert_eq!(table(&found, false).rows.len(), 1);
    }
}
