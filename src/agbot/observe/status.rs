//! Status of nodes that decisions wait for, and heartbeats.
//!
//! The feed does not show status changes to agbots, so they are asked for: often where a copy is being replaced or was promised but not
//! yet seen, seldom elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_client::ClientError;
use evenkeel_planner::event::Event;
use evenkeel_planner::ids::NodeId;
use evenkeel_planner::model::Liveness;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{facts, read};
use crate::context::Context;

const PARALLEL: usize = 8;
/// How often every node with an agreement is asked.
const EVERYBODY: Duration = Duration::from_secs(30);
/// How often heartbeats are read.
const HEARTBEATS: Duration = Duration::from_secs(10);

/// Runs until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let mut everybody_at = Instant::now();
    let mut heartbeats_at = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(context.settings.status_period) => {}
            () = shutdown.cancelled() => return,
        }
        let asks_everybody = everybody_at.elapsed() >= EVERYBODY;
        let nodes = if asks_everybody { context.model().nodes_with_agreements() } else { wanted(&context) };
        if asks_everybody {
            everybody_at = Instant::now();
        }
        ask(&context, nodes).await;
        if heartbeats_at.elapsed() >= HEARTBEATS {
            heartbeats_at = Instant::now();
            if let Err(error) = heartbeats(&context).await {
                tracing::debug!(error = &error as &dyn std::error::Error, "heartbeats could not be read");
            }
        }
    }
}

/// Nodes whose status a decision waits for now.
fn wanted(context: &Context) -> BTreeSet<NodeId> {
    context.model().awaited_nodes(context.now())
}

async fn ask(context: &Context, nodes: BTreeSet<NodeId>) {
    stream::iter(nodes)
        .for_each_concurrent(PARALLEL, |node| async move {
            match read::status(context, &node).await {
                Ok(events) => context.tell(changed(context, events)).await,
                Err(error) => {
                    tracing::debug!(node.id = %node, error = &error as &dyn std::error::Error, "no status");
                }
            }
            // A copy counts as running only on a node that is heard, and its sign of life may be newer than the replica.
            let is_silent = context.model().liveness(&node, context.now()) != Liveness::Alive;
            if is_silent && let Ok(events) = read::node(context, &node).await {
                context.tell(events).await;
            }
            if !context.model().nmps_claimed_by(&node).is_empty()
                && let Ok(events) = read::management_statuses(context, &node).await
            {
                context.tell(events).await;
            }
        })
        .await;
}

/// Leaves out what the replica knows already.
fn changed(context: &Context, events: Vec<Event>) -> Vec<Event> {
    let model = context.model();
    events
        .into_iter()
        .filter(|event| match event {
            Event::NodeStatusChanged { node, status } => {
                model.node(node).is_some_and(|record| record.status.as_ref() != status.as_deref())
            }
            _ => true,
        })
        .collect()
}

async fn heartbeats(context: &Context) -> Result<(), ClientError> {
    let orgs: BTreeSet<String> =
        context.model().known().nodes.iter().map(|node| node.org().to_owned()).collect();
    for org in orgs {
        let nodes = context.client.search_node_health(&org, "").await?;
        let at: BTreeMap<NodeId, Timestamp> = nodes
            .into_iter()
            .filter_map(|(id, health)| {
                Some((NodeId::from_text(&id), facts::instant(&health.last_heartbeat?)?))
            })
            .collect();
        context.tell(vec![Event::HeartbeatsSeen { at }]).await;
    }
    Ok(())
}
