//! Report of the instances that a write through the agent of this machine stops, as [`crate::stops`] makes it.

use evenkeel_ids::NodeId;

use super::is_registered;
use crate::context::{Context, Exchange, UserOptions};
use crate::exit::Outcome;
use crate::server::Server;
use crate::stops::{Confirmation, Write, confirm_stops, show_stops};

/// Shows how many instances a write through the agent of this machine stops, and asks for confirmation if it stops all
/// instances of a policy; returns false if the user declines. Without credentials for the exchange the number is not
/// known, and nothing is shown.
///
/// # Errors
/// See [`confirm_stops`].
pub async fn confirm_local_stops(
    context: &Context,
    agent: &Server,
    write: impl FnOnce(&NodeId) -> Write,
    confirmation: Confirmation,
) -> Outcome<bool> {
    let Some((exchange, node)) = hub_of(context, agent).await else { return Ok(true) };
    confirm_stops(context, &exchange, &[write(&node)], confirmation).await
}

/// Shows how many instances a write through the agent of this machine stops, as far as that is known.
pub async fn show_local_stops(context: &Context, agent: &Server, write: impl FnOnce(&NodeId) -> Write) {
    if let Some((exchange, node)) = hub_of(context, agent).await {
        show_stops(context, &exchange, &[write(&node)]).await;
    }
}

/// Returns the exchange, if there are credentials for it, and the node of this machine, if it is registered.
async fn hub_of(context: &Context, agent: &Server) -> Option<(Exchange, NodeId)> {
    let exchange = context.exchange(&UserOptions::default(), None).ok()?;
    let node = agent.client.local_node().await.ok().filter(is_registered)?;
    Some((exchange, NodeId::new(&node.organization?, &node.id)))
}
