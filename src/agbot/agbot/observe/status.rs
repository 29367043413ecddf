//! Reads the status of nodes, and heartbeats.
//!
//! The feed does not show status changes to agbots, so they are polled. Three workers poll: nodes that a decision waits for, all
//! nodes with agreements, and heartbeats. They are independent, so that a large fleet does not delay a step of a rollout, and
//! each has its own limit of concurrent requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::hub_life;
use evenkeel_client::ClientError;
use evenkeel_ids::NodeId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Liveness;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::StoreError;
use evenkeel_wire::exchange::search::NodeHealth;
use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{facts, read};
use crate::context::{Context, EngineHandle};

/// Concurrent reads of awaited nodes.
const AWAITED_AT_ONCE: usize = 8;
/// Concurrent reads of the slow round.
const SLOW_AT_ONCE: usize = 4;
/// Pause between two slow rounds.
const SLOW_PERIOD: Duration = Duration::from_secs(30);
/// Timeout of the requests about one node.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

/// Polls nodes that a decision waits for.
pub(crate) struct AwaitedPoller {
    context: Arc<Context>,
    turns: Turns,
    asking: JoinSet<NodeId>,
    next_at: Instant,
}

impl AwaitedPoller {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, turns: Turns::default(), asking: JoinSet::new(), next_at: Instant::now() }
    }
}

impl Worker for AwaitedPoller {
    type Error = Infallible;
    const NAME: &'static str = "awaited_node_status";

    async fn pass(&mut self) -> Result<(), Infallible> {
        if self.next_at <= Instant::now() {
            self.turns.want(self.context.model().awaited_nodes(self.context.now()));
            self.next_at = Instant::now() + self.context.settings.status_period;
        }
        while let Some(node) = self.turns.next(AWAITED_AT_ONCE) {
            let context = self.context.clone();
            self.asking.spawn(async move {
                ask(&context, &node).await;
                node
            });
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.next_at.saturating_duration_since(Instant::now())
    }

    /// Waits for the end of a poll, which leaves room for another one.
    async fn signaled(&mut self) {
        match self.asking.join_next().await {
            Some(Ok(node)) => self.turns.done(&node),
            // The error does not name the node: any may be polled again.
            Some(Err(_)) => self.turns.in_flight.clear(),
            None => std::future::pending().await,
        }
    }
}

/// The order in which nodes are polled: each in turn, none twice concurrently.
#[derive(Debug, Default)]
struct Turns {
    waiting: VecDeque<NodeId>,
    in_flight: BTreeSet<NodeId>,
}

impl Turns {
    /// Sets the nodes to poll. Waiting nodes keep their turn.
    fn want(&mut self, mut nodes: BTreeSet<NodeId>) {
        self.waiting.retain(|node| nodes.remove(node));
        self.waiting.extend(nodes.into_iter().filter(|node| !self.in_flight.contains(node)));
    }

    /// Returns the next node, unless the concurrency limit is reached.
    fn next(&mut self, limit: usize) -> Option<NodeId> {
        let node = if self.in_flight.len() < limit { self.waiting.pop_front() } else { None }?;
        self.in_flight.insert(node.clone());
        Some(node)
    }

    fn done(&mut self, node: &NodeId) {
        self.in_flight.remove(node);
    }
}

/// Polls all nodes with agreements.
pub(crate) struct StatusPoller(pub Arc<Context>);

impl Worker for StatusPoller {
    type Error = Infallible;
    const NAME: &'static str = "node_status";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let nodes = self.0.model().nodes_with_agreements();
        let context = &self.0;
        stream::iter(nodes)
            .for_each_concurrent(SLOW_AT_ONCE, |node| async move { ask(context, &node).await })
            .await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        SLOW_PERIOD
    }

    fn first_pause(&self) -> Duration {
        SLOW_PERIOD
    }
}

/// Reads heartbeats.
pub(crate) struct HeartbeatReader(pub Arc<Context>);

impl Worker for HeartbeatReader {
    type Error = ClientError;
    const NAME: &'static str = "heartbeat_reader";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), ClientError> {
        heartbeats(&self.0).await
    }

    fn pause(&self) -> Duration {
        Duration::from_secs(self.0.model().heartbeat_period_secs())
    }

    fn first_pause(&self) -> Duration {
        self.pause()
    }
}

async fn ask(context: &Context, node: &NodeId) {
    if timeout(NODE_TIMEOUT, read_node(context, node)).await.is_err() {
        tracing::debug!(node.id = %node, "the status of the node was not read in time");
    }
}

async fn read_node(context: &Context, node: &NodeId) {
    match read::status(context, node).await {
        Ok(events) => context.send_events(changed(context, events)).await,
        Err(error) => {
            tracing::debug!(node.id = %node, error = &error as &dyn std::error::Error, "no status");
        }
    }
    // An instance counts as running only on a live node, and its heartbeat may be newer than the model.
    let is_silent = context.model().liveness(node, context.now()) != Liveness::Alive;
    if is_silent && let Ok(events) = read::node(context, node).await {
        context.send_events(events).await;
    }
    if context.model().needs_agreements(node, context.now())
        && let Ok(events) = read::node_agreements(context, node).await
    {
        context.send_events(events).await;
    }
    if !context.model().nmps_claimed_by(node).is_empty()
        && let Ok(events) = read::management_statuses(context, node).await
    {
        context.send_events(events).await;
    }
}

/// Removes events that the model already reflects.
fn changed(engine: &EngineHandle, events: Vec<Event>) -> Vec<Event> {
    let model = engine.model();
    events
        .into_iter()
        .filter(|event| match event {
            Event::NodeStatusChanged { node, status } => {
                model.node(node).is_some_and(|record| record.is_news(status.as_deref()))
            }
            _ => true,
        })
        .collect()
}

/// Reads the heartbeats of all nodes. An organization whose heartbeats cannot be read does not keep those of others from being read.
///
/// # Errors
/// When the exchange does not respond, or refuses the heartbeats of an organization.
pub(crate) async fn heartbeats(context: &Context) -> Result<(), ClientError> {
    let began = std::time::Instant::now();
    let orgs_by_pattern = context.model().node_orgs();
    let client = &context.client;
    let mut outcome = Ok(());
    for (pattern, orgs) in orgs_by_pattern {
        match pattern {
            Some(pattern) => {
                let read = client.search_pattern_node_health(&pattern, orgs.into_iter().collect()).await;
                outcome = outcome.and(see(context, read).await);
            }
            None => {
                for org in orgs {
                    let read = client.search_node_health(&org).await;
                    outcome = outcome.and(see(context, read).await);
                }
            }
        }
    }
    outcome?;
    context.reading.note_heartbeats(began);
    if let Err(error) = note_alive(context).await {
        tracing::debug!(error = &error as &dyn std::error::Error, "the time of the read was not written");
    }
    Ok(())
}

async fn note_alive(context: &Context) -> Result<(), StoreError> {
    let mut tx = context.database.begin().await?;
    hub_life::note_heartbeats_read(&mut tx, context.now()).await?;
    tx.commit().await
}

/// Returns when heartbeats were last read before this process started.
///
/// # Errors
/// When the store does not respond.
pub(super) async fn last_alive(context: &Context) -> Result<Option<Event>, StoreError> {
    let found =
        context.database.read(async |connection| hub_life::find_heartbeats_read_at(connection).await).await?;
    Ok(found.map(|at| Event::HubWasAlive { at }))
}

async fn see(
    engine: &EngineHandle,
    read: Result<BTreeMap<NodeId, NodeHealth>, ClientError>,
) -> Result<(), ClientError> {
    engine.send_events(vec![heartbeats_of(read?)]).await;
    Ok(())
}

fn heartbeats_of(nodes: BTreeMap<NodeId, NodeHealth>) -> Event {
    let seen = |(id, health): (NodeId, NodeHealth)| Some((id, facts::instant(&health.last_heartbeat)?));
    Event::HeartbeatsSeen { at: nodes.into_iter().filter_map(seen).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> BTreeSet<NodeId> {
        names.iter().map(|name| NodeId::new("o", name)).collect()
    }

    fn name(node: Option<NodeId>) -> Option<String> {
        node.map(|node| node.name().to_owned())
    }

    #[test]
    fn slow_node_does_not_delay_the_polls_of_others() {
        let mut turns = Turns::default();
        turns.want(nodes(&["a", "b"]));
        assert_eq!(name(turns.next(2)).as_deref(), Some("a"));
        assert_eq!(name(turns.next(2)).as_deref(), Some("b"));
        turns.done(&NodeId::new("o", "b"));
        turns.want(nodes(&["a", "b"]));
        assert_eq!(name(turns.next(2)).as_deref(), Some("b"), "a is still being polled");
        assert_eq!(turns.next(2), None);
    }

    #[test]
    fn every_node_is_polled_when_there_are_more_than_the_concurrency_limit() {
        let mut turns = Turns::default();
        let mut polled = Vec::new();
        for _ in 0..3 {
            turns.want(nodes(&["a", "b", "c"]));
            let node = turns.next(1).expect("a node");
            polled.push(node.name().to_owned());
            turns.done(&node);
        }
        assert_eq!(polled, ["a", "b", "c"]);
        turns.want(nodes(&["d"]));
        assert_eq!(
            name(turns.next(1)).as_deref(),
            Some("d"),
            "nodes that no decision waits for are left out"
        );
    }
}
