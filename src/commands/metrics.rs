//! The metrics of a process's roles.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_agbot::{Agbot, Counts, Snapshot};
use evenkeel_exchange::Exchange;
use evenkeel_runtime::metrics::Metrics;
use evenkeel_runtime::worker::{WorkerStatus, Workers};
use evenkeel_store::Database;

/// Minimum interval between two counts of an agbot: counting iterates over all nodes and agreements.
const FRESH: Duration = Duration::from_secs(1);

/// Adds what a database pool shows.
pub fn observe_database(metrics: &Metrics, database: &Database) {
    let usage = database.clone();
    metrics.gauges("database_connections", "Open connections to the database", "state", move || {
        let usage = usage.usage();
        vec![("idle".to_owned(), number(usage.idle)), ("used".to_owned(), number(usage.used))]
    });
    let usage = database.clone();
    metrics.gauge(
        "database_connection_waiters",
        "Callers that wait for a connection to the database",
        &[],
        move || number(usage.usage().waiting),
    );
}

/// Adds what the periodic workers of a role show: the names of a time and of a state.
fn observe_workers(metrics: &Metrics, [passed_at, failing]: [&'static str; 2], workers: &Workers) {
    let gauges = |name, help, read: fn(&WorkerStatus) -> Option<f64>| {
        let workers = workers.clone();
        metrics.gauges(name, help, "worker", move || {
            let statuses = workers.statuses();
            let values = statuses.iter().filter_map(|(name, status)| Some((*name, read(status)?)));
            values.map(|(name, value)| (name.to_owned(), value)).collect()
        });
    };
    gauges(passed_at, "Time of the end of a periodic worker's last pass", |status| {
        status.ended_at.map(|at| at.as_duration().as_secs_f64())
    });
    gauges(failing, "Whether the last pass of a periodic worker failed", |status| {
        Some(if status.failure.is_some() { 1.0 } else { 0.0 })
    });
}

/// Adds what an exchange shows.
pub fn observe_exchange(metrics: &Metrics, exchange: &Exchange) {
    exchange.register_request_times(metrics);
    let names = ["exchange_worker_passed_timestamp_seconds", "exchange_worker_failing"];
    observe_workers(metrics, names, exchange.workers());
    let feed = exchange.clone();
    metrics.gauge(
        "exchange_parked_polls",
        "Change polls that wait for something to happen",
        &[],
        move || number(feed.feed().parked_count()),
    );
    let feed = exchange.clone();
    #[expect(clippy::cast_precision_loss, reason = "the feed has far fewer than 2^53 changes")]
    metrics.counted("exchange_changes_total", "Number of the newest change of the feed", &[], move || {
        feed.feed().last() as f64
    });
}

/// Adds what an agbot shows.
pub fn observe_agbot(metrics: &Metrics, agbot: &Agbot) {
    let names = ["agbot_worker_passed_timestamp_seconds", "agbot_worker_failing"];
    observe_workers(metrics, names, agbot.workers());
    let snapshots = Arc::new(Snapshots { agbot: agbot.clone(), newest: Mutex::default() });
    let by_state = |name, help, label, read: fn(Snapshot) -> Counts| {
        let snapshots = snapshots.clone();
        metrics.gauges(name, help, label, move || {
            let counts = read(snapshots.newest());
            counts.into_iter().map(|(state, count)| (state.to_owned(), number(count))).collect()
        });
    };
    by_state("agbot_agreements", "Agreements that have not ended", "state", |one| one.agreements);
    by_state("agbot_rollouts", "Rollouts through HA groups", "state", |one| one.rollouts);
    by_state("agbot_claims", "Claims held on HA groups", "purpose", |one| one.claims);
    by_state("agbot_nodes", "Nodes that are served", "state", |one| one.nodes);
    by_state(
        "agbot_inert_policies",
        "Policies that select nothing because a constraint cannot be read",
        "kind",
        |one| one.inert_policies,
    );
    by_state("orch_task_state", "Tasks that have not ended", "state", |one| one.task_states);
    by_state("orch_update_state", "Updates of policies with tasks", "state", |one| one.update_states);
    observe_engine(metrics, &snapshots);
    let newest = snapshots.clone();
    metrics.gauge("agbot_planner_queue", "Inputs that wait for the planner", &[], move || {
        number(newest.newest().planner_queue)
    });
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 messages are dropped")]
    metrics.counted(
        "agbot_dropped_messages_total",
        "Messages of nodes that could not be used",
        &[],
        move || snapshots.newest().dropped_messages as f64,
    );
    metrics.histogram(
        "agbot_decision_duration_seconds",
        "Time of one decision of the planner",
        &[],
        agbot.decision_times(),
    );
}

/// Adds what the engine of policies with tasks shows. Names of policies are not shown to clients without credentials.
///
/// # Source
/// Orchestration 2.7.
#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 decisions")]
fn observe_engine(metrics: &Metrics, snapshots: &Arc<Snapshots>) {
    let newest = snapshots.clone();
    metrics.gauge("orch_unplaced", "Wanted instances without a node", &[], move || {
        number(newest.newest().unplaced)
    });
    let newest = snapshots.clone();
    metrics.counted("orch_full_reconcile_total", "Decisions about whole workload units", &[], move || {
        newest.newest().decisions.of_units as f64
    });
    let newest = snapshots.clone();
    metrics.counted("orch_task_event_total", "Decisions about single slots", &[], move || {
        newest.newest().decisions.of_slots as f64
    });
}

/// The newest numbers of an agbot, shared by the families of one scrape.
struct Snapshots {
    agbot: Agbot,
    newest: Mutex<Option<(Instant, Snapshot)>>,
}

impl Snapshots {
    fn newest(&self) -> Snapshot {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some((at, snapshot)) if at.elapsed() < FRESH => snapshot.clone(),
            _ => {
                let snapshot = self.agbot.snapshot();
                *newest = Some((Instant::now(), snapshot.clone()));
                snapshot
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
fn number(count: usize) -> f64 {
    count as f64
}
