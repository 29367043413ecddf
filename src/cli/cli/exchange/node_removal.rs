//! Removes a node. If its agent is alive, its instances run until the agent learns of the removal (orchestration A2);
//! on a node that is down they may still run (C8).

use evenkeel_ids::NodeId;

use super::node_state::{DownAfter, NodeHealth, NodeState};
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::print_note;
use crate::resource::kinds::NODES;

/// Removes a node, and reports the consequences for its instances.
///
/// # Errors
/// With status 8 when it does not exist, 1 when there is no terminal to confirm on.
pub async fn remove(context: &Context, exchange: &Exchange, name: &str, is_forced: bool) -> Outcome {
    let node = exchange.node_id(name);
    if exchange.server.is_dry_run {
        NODES.require(exchange, name).await?;
    }
    if let Some((state, text)) = running(context, exchange, &node).await {
        print_note(format!("{text}; {}", consequence(state, is_forced)));
    }
    let question = format!("Remove node {node}?");
    let client = &exchange.server.client;
    let removed = async {
        if is_forced { client.delete_node_by_force(&node).await } else { client.delete_node(&node).await }
    };
    NODES.remove_by(exchange, name, (&question, is_forced), removed).await
}

fn consequence(state: NodeState, is_forced: bool) -> &'static str {
    match (state, is_forced) {
        (NodeState::Down, true) => {
            "instances that may run only once start elsewhere: where the node still runs its own, two may run"
        }
        (NodeState::Down, false) => {
            "where a health policy requires fencing, instances that may run only once start elsewhere when their end is \
             confirmed: remove the node with -f when you know that nothing runs there"
        }
        (_, true) => {
            "instances that may run only once start elsewhere at once: until the agent has stopped its own, two may run"
        }
        (_, false) => {
            "instances that may run only once start elsewhere when the agent has confirmed that, or can no longer run"
        }
    }
}

/// Returns the state of a node, and the instances that it runs or may still run; none for a node that is new or has
/// stopped everything, and if its record cannot be read.
async fn running(context: &Context, exchange: &Exchange, node: &NodeId) -> Option<(NodeState, String)> {
    let client = &exchange.server.client;
    let found = client.node(node).await.ok().flatten()?;
    let down_after = DownAfter::read(context, exchange, node.org()).await.ok()?;
    let health = NodeHealth::of(&found, jiff::Timestamp::now(), down_after);
    let agreements = client.list_node_agreements(node).await.ok()?.len();
    let services = if agreements == 1 { "1 service".to_owned() } else { format!("{agreements} services") };
    let text = match health.state {
        NodeState::Up | NodeState::Draining => {
            format!("runs {services}, which stop when its agent learns of the removal")
        }
        NodeState::Down => format!("may still run {services}"),
        NodeState::New | NodeState::Stopped => return None,
    };
    (agreements > 0).then(|| (health.state, format!("node {node} is {} and {text}", health.text())))
}
