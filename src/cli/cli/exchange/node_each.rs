//! `hzn exchange node each`: one change of every node of a selection.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use evenkeel_client::NodeChange;
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::fleet::FleetNodesQuery;
use evenkeel_wire::agbot::plan::MOST_NODES;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::node_tag::NodeTag;
use serde_json::json;

use super::view::{NodeSelection, selection_of};
use crate::confirm::confirm;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{Table, View, print_note};

/// Nodes of a page.
const PAGE: u16 = 1_000;

/// Changes of the nodes of a selection.
#[derive(Debug, Subcommand)]
pub enum EachCommand {
    /// Drains the nodes: services leave them, members of an HA group one at a time and never the last running instance
    Drain(Chosen),
    /// Pauses the nodes, for instance for maintenance: services keep running, nothing new is placed or updated there
    Pause(Chosen),
    /// Activates the nodes: services are placed and updated on them again
    Activate(Chosen),
    /// Freezes the nodes: nothing is started, stopped or moved there
    Freeze(Chosen),
    /// Thaws frozen nodes
    Thaw(Chosen),
    /// Sets a property in the policies of the nodes
    Tag {
        /// Property, as NAME=VALUE; NAME= removes it
        #[arg(value_name = "NAME=VALUE", value_parser = tag)]
        tag: NodeTag,
        #[command(flatten)]
        chosen: Chosen,
    },
}

/// The nodes to change.
#[derive(Debug, Args)]
pub struct Chosen {
    /// Nodes of this saved view
    #[arg(long, value_name = "VIEW", conflicts_with_all = ["filter", "state", "availability", "group", "nodes"])]
    view: Option<String>,
    #[command(flatten)]
    selection: NodeSelection,
    /// This node; repeat for more
    #[arg(long = "node", value_name = "NODE", conflicts_with_all = ["filter", "state", "availability", "group"])]
    nodes: Vec<String>,
    /// Do not ask
    #[arg(short = 'f', long)]
    force: bool,
}

fn tag(text: &str) -> Result<NodeTag, String> {
    let (name, value) = text.split_once('=').ok_or("must have the form NAME=VALUE")?;
    NodeTag::typed(name, value)
}

/// Returns a change in words.
fn in_words(change: &NodeChange) -> String {
    match change {
        NodeChange::Availability(availability) => format!("set the availability to {}", availability.word()),
        NodeChange::Freeze(true) => "freeze".to_owned(),
        NodeChange::Freeze(false) => "thaw".to_owned(),
        NodeChange::Tag(NodeTag { name, value: None }) => format!("remove the property {name}"),
        NodeChange::Tag(NodeTag { name, value: Some(value) }) => {
            format!("set the property {name} to {value}")
        }
    }
}

/// Changes every node of a selection, after a question with the number of nodes and of instances that stop.
///
/// # Errors
/// With status 1 when nothing is selected or nobody confirms, 5 when the hub refuses a node.
pub async fn run(command: EachCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let (change, chosen) = match command {
        EachCommand::Drain(chosen) => (NodeChange::Availability(Availability::Drain), chosen),
        EachCommand::Pause(chosen) => (NodeChange::Availability(Availability::Pause), chosen),
        EachCommand::Activate(chosen) => (NodeChange::Availability(Availability::Active), chosen),
        EachCommand::Freeze(chosen) => (NodeChange::Freeze(true), chosen),
        EachCommand::Thaw(chosen) => (NodeChange::Freeze(false), chosen),
        EachCommand::Tag { tag, chosen } => (NodeChange::Tag(tag), chosen),
    };
    let nodes = selected(&chosen, context, exchange).await?;
    if nodes.is_empty() {
        print_note("no node is selected");
        return Ok(());
    }
    let stops = stops(&change, &nodes, context, exchange).await?;
    let question = format!("{} of {} nodes of {}?{stops}", in_words(&change), nodes.len(), exchange.org);
    if !confirm(&question, chosen.force)? {
        return Ok(());
    }
    let mut table = Table::new(&["node", "outcome"]).keeping(&["outcome"]);
    let (mut outcomes, mut refused) = (Vec::new(), 0);
    for node in &nodes {
        let outcome = match exchange.server.client.change_node(node, &change).await {
            Ok(()) => "done".to_owned(),
            Err(error) => {
                refused += 1;
                error.to_string()
            }
        };
        table.push([node.name().to_owned(), outcome.clone()]);
        outcomes.push(json!({"node": node.to_string(), "outcome": outcome}));
    }
    context.screen.show(&View::new(json!(outcomes), table))?;
    match refused {
        0 => Ok(()),
        refused => Err(CliError::new(
            Exit::Http,
            format!("{refused} of {} nodes were not changed", nodes.len()),
            "the hub refused them, or did not respond",
            "see the outcomes above, and run the command again: nodes that are done stay as they are",
        )),
    }
}

async fn selected(chosen: &Chosen, context: &Context, exchange: &Exchange) -> Outcome<BTreeSet<NodeId>> {
    if !chosen.nodes.is_empty() {
        return Ok(chosen.nodes.iter().map(|node| exchange.node_id(node)).collect());
    }
    let selection = match &chosen.view {
        Some(view) => selection_of(view, context, exchange).await?,
        None if chosen.selection.is_empty() => {
            return Err(CliError::input(
                "no selection is given",
                "a change of all nodes at once is hardly ever meant",
                "give --filter, --state, --availability, --group, --view or --node",
            ));
        }
        None => chosen.selection.clone(),
    };
    let agbot = context.agbot(exchange)?;
    let mut query = FleetNodesQuery { limit: Some(PAGE), ..selection.query() };
    let mut nodes = BTreeSet::new();
    loop {
        let doing = "asking the agbot for the selected nodes";
        let page = agbot.call(doing, agbot.client.fleet_nodes(&exchange.org, &query)).await?;
        nodes.extend(page.nodes.iter().map(|node| NodeId::from_text(&node.node)));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(nodes),
        }
    }
}

/// Returns the instances that a change would stop, in words.
async fn stops(
    change: &NodeChange,
    nodes: &BTreeSet<NodeId>,
    context: &Context,
    exchange: &Exchange,
) -> Outcome<String> {
    let first = nodes.iter().take(MOST_NODES).map(|node| node.name().to_owned()).collect();
    let Some(write) = change.write_to_plan(first) else { return Ok(String::new()) };
    let agbot = context.agbot(exchange)?;
    let doing = "planning the change";
    let Some(planned) = agbot.call(doing, agbot.client.plan_stops(&exchange.org, &write)).await? else {
        return Ok(String::new());
    };
    let stopping = planned.policies.iter().filter(|policy| policy.stopped > 0);
    let texts: Vec<String> = stopping
        .map(|one| format!("{} of {} instances of {}", one.stopped, one.instances, one.policy))
        .collect();
    let of =
        if nodes.len() > MOST_NODES { format!(" on the first {MOST_NODES} nodes") } else { String::new() };
    Ok(match texts.is_empty() {
        true => String::new(),
        false => format!(" It stops{of} without a replacement: {}.", texts.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_given_as_pairs() {
        assert_eq!(tag("site=north").map(|tag| tag.value), Ok(Some(json!("north"))));
        assert_eq!(tag("site=").map(|tag| tag.value), Ok(None));
        assert!(tag("site").is_err() && tag("=x").is_err());
    }

    #[test]
    fn question_names_the_change() {
        let of_tag = |text: &str| in_words(&NodeChange::Tag(tag(text).expect("a tag")));
        assert_eq!(in_words(&NodeChange::Availability(Availability::Drain)), "set the availability to drain");
        assert_eq!(of_tag("site=north"), "set the property site to \"north\"");
        assert_eq!(of_tag("site="), "remove the property site");
    }
}
