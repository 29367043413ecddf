//! The outbox: effects on the exchange that commits require, delivered until they succeed.
//!
//! A command writes its effects in its own transaction ([`enqueue`]) and wakes the deliverer, which is the only sender. Effects of one
//! node are delivered in order, those of different nodes concurrently. The owner of the partition delivers, so that the effects
//! of a crashed agbot are delivered by the one that takes over. An effect may be delivered twice; the protocol allows for that.

mod deliver;
mod effect;
mod publication;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::outbox::{self as table, OutboxBacklog, OutboxKey, OutboxRow};
use evenkeel_client::RetryDelay;
use evenkeel_ids::{AgreementId, NodeId};
use evenkeel_planner_record::lease::Lease;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::{PgConnection, StoreError};
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

pub(crate) use effect::Effect;
pub(crate) use publication::{Publication, publication, publish_later, supervision, task_probe, word};

use crate::{AgbotError, backlog::Counted, context::Context};

/// Nodes to which effects are delivered concurrently.
const CONCURRENCY: usize = 32;
/// Rows read at once.
const PAGE: i64 = 512;
/// Interval between reads of the table without a notification: for rows of a crashed agbot.
const PERIOD: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The agreement that effects belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub node: &'a NodeId,
    pub agreement: &'a AgreementId,
}

/// Writes effects that are delivered once the transaction has committed.
pub(crate) async fn enqueue(
    context: &Context,
    tx: &mut PgConnection,
    lease: Lease,
    subject: Subject<'_>,
    effects: &[Effect],
) -> Result<(), AgbotError> {
    insert(context, tx, (lease, subject), effects, false).await
}

/// Like [`enqueue`], but replaces undelivered effects of the agreement: delivering them right before would add nothing.
pub(crate) async fn enqueue_once(
    context: &Context,
    tx: &mut PgConnection,
    lease: Lease,
    subject: Subject<'_>,
    effects: &[Effect],
) -> Result<(), AgbotError> {
    insert(context, tx, (lease, subject), effects, true).await
}

async fn insert(
    context: &Context,
    tx: &mut PgConnection,
    (lease, subject): (Lease, Subject<'_>),
    effects: &[Effect],
    skips_queued: bool,
) -> Result<(), AgbotError> {
    if effects.is_empty() {
        return Ok(());
    }
    let key = OutboxKey {
        partition: i32::try_from(lease.partition).unwrap_or(i32::MAX),
        node: subject.node,
        subject: subject.agreement.as_str(),
    };
    let effects = effects.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    table::insert_effects(tx, key, &effects, context.now(), skips_queued).await?;
    context.outbox.note_enqueued();
    Ok(())
}

/// Drops the undelivered messages about an agreement, because its end makes them pointless.
///
/// Its record in the exchange stays queued: the exchange refuses a task whose agreement it does not know, and a node that never gets its
/// task cannot confirm that nothing of it runs.
pub(crate) async fn supersede(tx: &mut PgConnection, agreement: &AgreementId) -> Result<(), StoreError> {
    table::delete_of_kind(tx, agreement.as_str(), effect::MESSAGE).await
}

/// The outcome of delivering a node's effects.
struct Report {
    delivered: Vec<i64>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// The failure concerns this node.
    Failed,
    /// The exchange does not respond, whatever the node.
    Unreachable,
}

/// An operation to be retried.
struct Waiting {
    until: Instant,
    delay: RetryDelay,
}

impl Waiting {
    /// Returns a state without failure.
    fn none() -> Self {
        Self { until: Instant::now(), delay: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    fn extend(&mut self) {
        self.until = Instant::now() + self.delay.next_pause();
    }
}

/// Delivers committed effects. Undelivered ones stay for the next owner of the partition.
pub(crate) struct Deliverer {
    context: Arc<Context>,
    running: JoinSet<Report>,
    /// Node of each running task, with the backoff of its failures so far.
    nodes: HashMap<task::Id, (NodeId, Option<Waiting>)>,
    /// Nodes whose delivery failed and is not running again.
    waiting: HashMap<NodeId, Waiting>,
    delivered: Vec<i64>,
    counted_at: Option<Instant>,
    /// Backoff after a failure to read or delete rows.
    paused: Waiting,
    /// Backoff after a failure that affects every node.
    outage: Waiting,
    /// Interval of checks for effects that wait for those of another agbot: there is no notification when it
    /// has delivered them.
    behind: Option<Waiting>,
    passed_at: Instant,
}

impl Worker for Deliverer {
    type Error = StoreError;
    const NAME: &'static str = "outbox";

    async fn pass(&mut self) -> Result<(), StoreError> {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.note(ended);
        }
        if Instant::now() < self.paused.until {
            return Ok(());
        }
        let result = self.try_pass().await;
        match &result {
            Ok(()) => self.paused = Waiting::none(),
            Err(_) => self.paused.extend(),
        }
        result
    }

    fn pause(&self) -> Duration {
        let period = self.passed_at + PERIOD;
        let due = self.waiting.values().chain(&self.behind).map(|waiting| waiting.until).min();
        // At the concurrency limit the end of a delivery is the next event.
        let due = due.filter(|_| self.has_room()).map_or(period, |due| due.min(period));
        due.max(self.paused.until).max(self.outage.until).saturating_duration_since(Instant::now())
    }

    async fn signaled(&mut self) {
        tokio::select! {
            () = self.context.outbox.woken() => {}
            Some(ended) = self.running.join_next_with_id() => self.note(ended),
        }
    }
}

impl Deliverer {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            running: JoinSet::new(),
            nodes: HashMap::new(),
            waiting: HashMap::new(),
            delivered: Vec::new(),
            counted_at: None,
            paused: Waiting::none(),
            outage: Waiting::none(),
            behind: None,
            passed_at: Instant::now(),
        }
    }

    fn has_room(&self) -> bool {
        self.running.len() < CONCURRENCY
    }

    fn note(&mut self, ended: Result<(task::Id, Report), task::JoinError>) {
        let (id, report) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Report { delivered: Vec::new(), end: End::Failed }),
        };
        self.delivered.extend(report.delivered);
        let Some((node, failures)) = self.nodes.remove(&id) else { return };
        if report.end == End::Complete {
            self.outage = Waiting::none();
            return;
        }
        let mut failures = failures.unwrap_or_else(Waiting::none);
        failures.extend();
        self.waiting.insert(node, failures);
        // Deliveries that failed together count once.
        if report.end == End::Unreachable && self.outage.until <= Instant::now() {
            self.outage.extend();
        }
    }

    async fn try_pass(&mut self) -> Result<(), StoreError> {
        self.passed_at = Instant::now();
        let context = self.context.clone();
        context
            .database
            .read(async |connection| {
                if !self.delivered.is_empty() {
                    table::delete_delivered(connection, &self.delivered).await?;
                    self.delivered.clear();
                }
                if self.has_room() && self.outage.until <= self.passed_at {
                    let except = self.excluded();
                    let rows =
                        table::list_deliverable(connection, self.context.instance, &except, PAGE).await?;
                    self.note_behind(table::is_any_behind(connection, self.context.instance).await?);
                    self.start(rows);
                }
                if self.counted_at.is_none_or(|at| at.elapsed() >= PERIOD) {
                    self.counted_at = Some(Instant::now());
                    let OutboxBacklog { count, oldest_at } = table::get_backlog(connection).await?;
                    let counted = Counted { count: count.unsigned_abs(), oldest_at };
                    self.context.outbox.set_counted(counted);
                }
                Ok(())
            })
            .await
    }

    fn note_behind(&mut self, is_behind: bool) {
        let due = self.behind.take().filter(|_| is_behind);
        let mut waiting = due.unwrap_or_else(Waiting::none);
        if is_behind && waiting.until <= self.passed_at {
            waiting.extend();
        }
        self.behind = is_behind.then_some(waiting);
    }

    /// Returns the nodes that are being delivered to, or wait after a failure.
    fn excluded(&self) -> Vec<NodeId> {
        let waiting = self.waiting.iter().filter(|(_, waiting)| self.passed_at < waiting.until);
        self.nodes.values().map(|(node, _)| node).chain(waiting.map(|(node, _)| node)).cloned().collect()
    }

    fn start(&mut self, rows: Vec<OutboxRow>) {
        // Entries that are due and have no row were dropped or delivered by another agbot.
        let (waiting, mut due): (HashMap<_, _>, HashMap<_, _>) =
            self.waiting.drain().partition(|(_, waiting)| self.passed_at < waiting.until);
        self.waiting = waiting;
        let mut of_nodes: BTreeMap<NodeId, Vec<OutboxRow>> = BTreeMap::new();
        for row in rows {
            of_nodes.entry(row.node.clone()).or_default().push(row);
        }
        // The node whose effects have waited longest comes first.
        let mut of_nodes: Vec<_> = of_nodes.into_iter().collect();
        of_nodes.sort_by_key(|(_, rows)| rows.first().map(|row| row.sequence));
        for (node, rows) in of_nodes.into_iter().take(CONCURRENCY.saturating_sub(self.running.len())) {
            let handle = self.running.spawn(deliver_in_order(self.context.clone(), rows));
            let failures = due.remove(&node);
            self.nodes.insert(handle.id(), (node, failures));
        }
    }
}

/// Delivers the effects of one node, up to the first failure.
async fn deliver_in_order(context: Arc<Context>, rows: Vec<OutboxRow>) -> Report {
    let mut delivered = Vec::new();
    for row in rows {
        if let Err(error) = deliver::deliver(&context, &row).await {
            tracing::debug!(
                node.id = row.node.as_str(),
                subject = row.subject,
                error = &error as &dyn std::error::Error,
                "effect not delivered, will be retried"
            );
            let end = if is_outage(&error) { End::Unreachable } else { End::Failed };
            return Report { delivered, end };
        }
        delivered.push(row.sequence);
    }
    Report { delivered, end: End::Complete }
}

/// Returns whether a delivery to any other node would fail as well.
fn is_outage(error: &AgbotError) -> bool {
    matches!(error, AgbotError::Exchange(error) if error.status() != Some(429) && error.is_retryable())
}
