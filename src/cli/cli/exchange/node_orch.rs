//! `hzn exchange node orchestration`: whether services are placed on a node (orchestration 1.7, 2.8).

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand};
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::upgrade::WaitingMember;
use evenkeel_wire::exchange::node_orchestration::{Availability, PatchNodeOrchestration};
use serde_json::{Map, Value, json};

use super::revision::{self, Revised, RevisionCommand};
use crate::context::{Context, Exchange, Watch};
use crate::exit::Outcome;
use crate::output::{Table, View, print_note};
use crate::resource::kinds::NODES;
use crate::wait::{self, Wait};

/// The arguments of [`NodeOrchSet`] that change something.
const CHANGES: [&str; 4] = ["availability", "capacity", "fault_domain", "upgrade_domain"];

/// Commands for the placement of services on a node.
#[derive(Debug, Subcommand)]
pub enum NodeOrchCommand {
    /// Shows the orchestration settings of a node
    Show {
        /// Node to show
        node: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Changes the orchestration settings of a node, for instance to drain it before maintenance
    Set(NodeOrchSet),
    /// Freezes a node: the engine starts, stops and moves nothing there
    Freeze {
        /// Node to freeze
        node: String,
    },
    /// Thaws a frozen node
    Thaw {
        /// Node to thaw
        node: String,
    },
    /// Confirms that nothing runs on a node that is down and cannot be fenced
    #[command(visible_alias = "fence-confirm")]
    Fenceconfirm {
        /// Node that is dead
        node: String,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
}

/// Orchestration settings of a node.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(CHANGES).required(true).multiple(true)))]
pub struct NodeOrchSet {
    /// Node to change
    node: String,
    /// active: services are placed on it; pause: services keep running, nothing new is placed or updated there; drain: services leave
    /// the node, members of an HA group one at a time and never the last running instance
    #[arg(long, value_parser = availability())]
    availability: Option<Availability>,
    /// Drain without waiting: the last running instance of an HA group, and instances that no other node can
    /// take, leave the node as well
    #[arg(long, requires = "availability")]
    force: bool,
    /// Drain for an upgrade: the instances return when the node is active again
    #[arg(long, requires = "availability")]
    upgrade: bool,
    /// Capacity of the node for instances, for instance memoryMb=2048; repeat for more; capacities that are
    /// not given are removed
    #[arg(long, value_name = "NAME=AMOUNT", value_parser = capacity)]
    capacity: Vec<(String, f64)>,
    /// Fault domain of the node with the enclosing domains, for instance fd:/plant7/rack2; "" removes it
    #[arg(long, value_name = "PATH")]
    fault_domain: Option<String>,
    /// Upgrade domain of the node, for instance UD3; "" removes it
    #[arg(long, value_name = "NAME")]
    upgrade_domain: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

fn availability() -> impl TypedValueParser<Value = Availability> {
    PossibleValuesParser::new(Availability::ALL.map(|one| PossibleValue::new(one.word())))
        .map(|word| Availability::of_word(&word))
}

fn capacity(text: &str) -> Result<(String, f64), String> {
    let (name, amount) = text.split_once('=').ok_or("must have the form NAME=AMOUNT")?;
    let amount: f64 = amount.parse().map_err(|_| format!("the amount {amount} is not a number"))?;
    Ok((name.to_owned(), amount))
}

/// Runs a command for the placement of services on a node.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: NodeOrchCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        NodeOrchCommand::Show { node, watch } => {
            context.show_watched(&watch, async || show(context, exchange, &node).await).await
        }
        NodeOrchCommand::Revision(RevisionCommand::Revisions { name, chosen }) => {
            revision::show(Revised::NodeSettings(&name), &chosen, context, exchange).await
        }
        NodeOrchCommand::Revision(RevisionCommand::Undo { name, undo }) => {
            revision::undo(Revised::NodeSettings(&name), &undo, context, exchange).await
        }
        NodeOrchCommand::Set(set) => {
            change(exchange, &set).await?;
            let id = exchange.node_id(&set.node);
            let Some(availability) = set.availability else { return Ok(()) };
            let progress = async || wait::node::progress(context, exchange, &id, availability).await;
            set.wait.follow(context, &format!("the availability of node {id}"), progress).await
        }
        NodeOrchCommand::Freeze { node } => freeze(exchange, &node, true).await,
        NodeOrchCommand::Thaw { node } => freeze(exchange, &node, false).await,
        NodeOrchCommand::Fenceconfirm { node } => confirm_fence(context, exchange, &node).await,
    }
}

async fn show(context: &Context, exchange: &Exchange, node: &str) -> Outcome<View> {
    let id = exchange.node_id(node);
    let doing = format!("reading the orchestration of node {id}");
    let found = exchange.server.client.node_orchestration_record(&id);
    let found = exchange.server.call(&doing, found).await?.ok_or_else(|| NODES.missing(node))?.into_value();
    let waits = if is_draining(&found) { drain_waits(context, exchange, &id).await } else { Ok(None) };
    let waits = waits.unwrap_or_else(|error| {
        print_note(format!("the reason for which the drain waits is unknown: {}: {}", error.what, error.why));
        None
    });
    Ok(view(found, waits))
}

fn is_draining(orchestration: &Value) -> bool {
    let availability = orchestration.pointer("/spec/availability").and_then(Value::as_str);
    availability.map(Availability::of_word) == Some(Availability::Drain)
}

/// Returns what the drain of a member of an HA group waits for; none when the node is in no group.
async fn drain_waits(
    context: &Context,
    exchange: &Exchange,
    node: &NodeId,
) -> Outcome<Option<Vec<WaitingMember>>> {
    let doing = format!("reading node {node}");
    let record = exchange.server.call(&doing, exchange.server.client.node(node)).await?;
    let group = record.and_then(|record| record.ha_group).filter(|group| !group.is_empty());
    let Some(group) = group else { return Ok(None) };
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the upgrades of HA group {group}");
    let mut waits = agbot.call(&doing, agbot.client.upgrades(node.org(), &group)).await?.waiting;
    waits.retain(|wait| wait.node == *node);
    Ok(Some(waits))
}

/// Adds the member `blocked` if it is known what a drain waits for.
fn view(mut found: Value, waits: Option<Vec<WaitingMember>>) -> View {
    let parts = ["spec", "status"].into_iter().filter_map(|part| found.get(part)?.as_object());
    let members: Map<String, Value> =
        parts.flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut table = Table::of_paths(&members);
    for WaitingMember { policy, reason, .. } in waits.iter().flatten() {
        table.push(["drain waits".to_owned(), format!("{policy}: {reason}")]);
    }
    if let (Some(object), Some(waits)) = (found.as_object_mut(), waits) {
        object.insert("blocked".to_owned(), json!(waits));
    }
    View::new(found, table)
}

async fn change(exchange: &Exchange, set: &NodeOrchSet) -> Outcome {
    let id = exchange.node_id(&set.node);
    let capacities = (!set.capacity.is_empty()).then(|| set.capacity.iter().cloned().collect());
    let body = PatchNodeOrchestration {
        availability: set.availability,
        force: set.force.then_some(true),
        frozen: None,
        upgrade: set.upgrade.then_some(true),
        capacities,
        fault_domain: set.fault_domain.clone(),
        upgrade_domain: set.upgrade_domain.clone(),
    };
    exchange.server.client.patch_node_orchestration(&id, &body).await.map_err(|error| {
        if error.is_not_found() {
            return NODES.missing(&set.node);
        }
        exchange.server.failed(&format!("changing the orchestration of node {id}"), &error)
    })?;
    if let Some(availability) = set.availability {
        exchange.server.report_done(&report(id.as_str(), availability, set.force));
    }
    if !set.capacity.is_empty() {
        let amounts = set.capacity.iter().map(|(name, amount)| format!("{name}={amount}"));
        let amounts = amounts.collect::<Vec<_>>().join(", ");
        exchange.server.report_done(&format!("capacities of node {id}: {amounts}"));
    }
    for (name, domain) in [("fault domain", &set.fault_domain), ("upgrade domain", &set.upgrade_domain)] {
        match domain.as_deref() {
            None => {}
            Some("") => exchange.server.report_done(&format!("{name} of node {id} removed")),
            Some(domain) => exchange.server.report_done(&format!("{name} of node {id}: {domain}")),
        }
    }
    Ok(())
}

async fn confirm_fence(context: &Context, exchange: &Exchange, node: &str) -> Outcome {
    let id = exchange.node_id(node);
    let agbot = context.agbot(exchange)?;
    let found = agbot.client.confirm_fence(id.org(), id.name()).await.map_err(|error| {
        if error.is_not_found() {
            return NODES.missing(node);
        }
        agbot.failed(&format!("confirming that node {id} is dead"), &error)
    })?;
    agbot.report_done(&found.msg);
    Ok(())
}

async fn freeze(exchange: &Exchange, node: &str, frozen: bool) -> Outcome {
    let id = exchange.node_id(node);
    let doing = if frozen { "freezing" } else { "thawing" };
    exchange.server.client.freeze_node(&id, frozen).await.map_err(|error| {
        if error.is_not_found() {
            return NODES.missing(node);
        }
        exchange.server.failed(&format!("{doing} node {id}"), &error)
    })?;
    exchange.server.report_done(&if frozen {
        format!("node {id} is frozen: running instances continue, and the engine starts, stops and moves nothing there")
    } else {
        format!("node {id} is not frozen")
    });
    Ok(())
}

/// Returns a description of the consequences of a change.
fn report(node: &str, availability: Availability, is_forced: bool) -> String {
    match availability {
        Availability::Drain if is_forced => {
            format!(
                "node {node} is being drained: all instances leave it, including the last running one of an HA group"
            )
        }
        Availability::Active => format!("node {node} is active: services are placed on it"),
        Availability::Pause => {
            format!(
                "node {node} is paused: running instances continue, and nothing is placed or updated there"
            )
        }
        Availability::Drain => format!(
            "node {node} is being drained: services leave it, members of an HA group one at a time and never the last running copy\n\
             what is still there: hzn agbot agreement list --node {node}\n\
             what a service waits for: hzn explain {node} POLICY"
        ),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::PolicyId;

    use super::*;

    #[test]
    fn drained_member_is_shown_with_what_it_waits_for() {
        let found =
            json!({"spec": {"availability": "drain"}, "status": {"upgrade": false}, "lastUpdated": "t"});
        assert!(is_draining(&found));
        assert!(!is_draining(&json!({"spec": {"availability": "pause"}})) && !is_draining(&json!({})));
        let wait = WaitingMember {
            policy: PolicyId::from_text("o/p"),
            node: NodeId::from_text("o/n1"),
            reason: "the last running instance".to_owned(),
        };
        let shown = view(found.clone(), Some(vec![wait]));
        let blocked = json!([{"policy": "o/p", "node": "o/n1", "reason": "the last running instance"}]);
        assert_eq!((&shown.json["blocked"], &shown.json["spec"]), (&blocked, &found["spec"]));
        let expected = [
            ["availability", "drain"],
            ["upgrade", "false"],
            ["drain waits", "o/p: the last running instance"],
        ];
        assert_eq!(shown.table.rows, expected);
        assert_eq!(view(found.clone(), Some(Vec::new())).json["blocked"], json!([]));
        assert_eq!(view(found.clone(), None).json, found, "the agbot did not respond");
    }

    #[test]
    fn report_on_a_drained_node_names_the_commands_that_show_what_waits() {
        let text = report("o/n", Availability::Drain, false);
        assert!(text.contains("agreement list --node o/n") && text.contains("explain o/n POLICY"), "{text}");
        assert_eq!(
            report("o/n", Availability::Active, false),
            "node o/n is active: services are placed on it"
        );
    }
}
