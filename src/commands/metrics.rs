//! The metrics of a process's roles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use evenkeel_agbot::{Agbot, Counts, Snapshot};
use evenkeel_domain::text::printable;
use evenkeel_exchange::Exchange;
use evenkeel_http_server::tls::TlsSettings;
use evenkeel_planner_model::model::DecisionCounts;
use evenkeel_runtime::metrics::{Labeled, Metrics};
use evenkeel_runtime::worker::{WorkerStatus, Workers};
use evenkeel_store::Database;

/// Minimum interval between two counts of an agbot, because counting iterates over all nodes and agreements.
const FRESH: Duration = Duration::from_secs(1);

/// Adds what a database pool shows.
pub fn observe_database(metrics: &Metrics, database: &Database) {
    let usage = database.clone();
    metrics.gauges("database_connections", "Open connections to the database", &["state"], move || {
        let usage = usage.usage();
        vec![(vec!["idle".to_owned()], number(usage.idle)), (vec!["used".to_owned()], number(usage.used))]
    });
    let usage = database.clone();
    metrics.gauge(
        "database_connection_waiters",
        "Callers that wait for a connection to the database",
        &[],
        move || number(usage.usage().waiting),
    );
}

/// Adds when the certificate of the listeners expires; nothing without TLS.
pub fn observe_certificate(metrics: &Metrics, tls: Option<&TlsSettings>) {
    let tls = tls.cloned();
    let help = "When the first certificate of the chain of the listeners expires; without a value where they do not use TLS";
    metrics.gauges("tls_certificate_expiry_timestamp_seconds", help, &[], move || {
        let expires_at = tls.as_ref().and_then(TlsSettings::expires_at);
        let secs = expires_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|age| age.as_secs_f64());
        secs.map(|secs| (Vec::new(), secs)).into_iter().collect()
    });
}

/// Adds the metrics of the periodic workers of a role.
fn observe_workers(metrics: &Metrics, [passed_at, failing]: [&'static str; 2], workers: &Workers) {
    let gauges = |name, help, read: fn(&WorkerStatus) -> Option<f64>| {
        let workers = workers.clone();
        metrics.gauges(name, help, &["worker"], move || {
            let statuses = workers.statuses();
            let values = statuses.iter().filter_map(|(name, status)| Some((*name, read(status)?)));
            values.map(|(name, value)| (vec![name.to_owned()], value)).collect()
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
    exchange.register(metrics);
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
    let by_state = |name, help, labels: &'static [&'static str], read: fn(Snapshot) -> Counts| {
        let snapshots = snapshots.clone();
        metrics.gauges(name, help, labels, move || {
            let counts = read(snapshots.newest());
            counts.into_iter().map(|(state, count)| (vec![state.to_owned()], number(count))).collect()
        });
    };
    by_state("agbot_agreements", "Agreements that have not ended", &["state"], |one| one.agreements);
    by_state(
        "agbot_rollouts",
        "Rollouts through HA groups and updates of policies with tasks",
        &["state"],
        |one| one.rollouts,
    );
    by_state("agbot_claims", "Claims held on HA groups", &["purpose"], |one| one.claims);
    by_state("agbot_nodes", "Nodes that are served", &["state"], |one| one.nodes);
    by_state(
        "agbot_inert_policies",
        "Policies, patterns, services and inputs without effect because something in them cannot be read",
        &["kind"],
        |one| one.inert_policies,
    );
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

/// Returns values without control characters of terminals in their labels, which may be names that users have given.
fn printable_labels(values: Labeled) -> Labeled {
    let printable = |labels: Vec<String>| labels.iter().map(|label| printable(label)).collect();
    values.into_iter().map(|(labels, value)| (printable(labels), value)).collect()
}

/// Adds the metrics of the engine for policies with tasks.
///
/// # Source
/// Orchestration 2.7.
#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 decisions")]
fn observe_engine(metrics: &Metrics, snapshots: &Arc<Snapshots>) {
    let gauges = |name, help, labels: &'static [&'static str], read: fn(Snapshot) -> Labeled| {
        let snapshots = snapshots.clone();
        metrics.gauges(name, help, labels, move || printable_labels(read(snapshots.newest())));
    };
    gauges("agbot_unread_org", "Organizations that cannot be read", &["org"], |one| {
        one.unread_orgs.into_iter().map(|org| (vec![org], 1.0)).collect()
    });
    gauges("orch_task_state", "Tasks", &["policy", "state"], |one| {
        let states = one.task_states.into_iter();
        states
            .map(|((policy, state), count)| (vec![policy.to_string(), state.to_owned()], number(count)))
            .collect()
    });
    gauges("orch_update_state", "The state of the update of a policy", &["policy", "state"], |one| {
        let states = one.update_states.into_iter();
        states.map(|(policy, state)| (vec![policy.to_string(), state.word().to_owned()], 1.0)).collect()
    });
    gauges("orch_unplaced", "Wanted instances without a node", &["policy", "unit"], |one| {
        let parts = one.unplaced.into_iter();
        parts.map(|(id, count)| (vec![id.policy.to_string(), id.name().to_owned()], number(count))).collect()
    });
    gauges("orch_workload_errors", "Instances and workload units in error", &["policy"], |one| {
        let errors = one.workload_errors.into_iter();
        errors.map(|(policy, count)| (vec![policy.to_string()], number(count))).collect()
    });
    gauges("orch_lock_held", "Claims held on HA groups", &["group", "kind"], |one| {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for (group, kind) in one.locks {
            *counts.entry(vec![group.to_string(), kind.to_owned()]).or_default() += 1;
        }
        counts.into_iter().map(|(labels, count)| (labels, number(count))).collect()
    });
    let newest = snapshots.clone();
    let help = "Nodes on which a service version is blocked because it keeps failing there";
    metrics.gauge("orch_blocklist_entries", help, &[], move || number(newest.newest().blocklist_entries));
    let counters = |name, help, read: fn(&DecisionCounts) -> u64| {
        let snapshots = snapshots.clone();
        metrics.counted_by(name, help, &["policy"], move || {
            let decisions = snapshots.newest().decisions.into_iter();
            printable_labels(
                decisions.map(|(policy, counts)| (vec![policy.to_string()], read(&counts) as f64)).collect(),
            )
        });
    };
    let help = "Writes of a policy that its workload followed, each with an evaluation of all slots";
    counters("orch_full_reconcile_total", help, |counts| counts.followed);
    let help = "Decisions about single slots that started or stopped a task";
    counters("orch_task_event_total", help, |counts| counts.acted);
    observe_health(metrics, snapshots);
    let newest = snapshots.clone();
    let help = "First evaluations of workload units that this agbot took over";
    metrics.counted("orch_initial_pass_total", help, &[], move || newest.newest().initial_passes as f64);
}

/// Adds the outcomes of health checks and recoveries.
#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 checks")]
fn observe_health(metrics: &Metrics, snapshots: &Arc<Snapshots>) {
    let newest = snapshots.clone();
    let help = "Health checks of members of HA groups and of instances";
    metrics.counted_by("orch_health_check_total", help, &["result"], move || {
        let counts = newest.newest().health;
        let results =
            [("healthy", counts.healthy), ("unhealthy", counts.unhealthy), ("error", counts.errors)];
        results.into_iter().map(|(result, count)| (vec![result.to_owned()], count as f64)).collect()
    });
    let newest = snapshots.clone();
    let help = "Actions of completed recoveries";
    metrics.counted_by("orch_recover_total", help, &["action", "result"], move || {
        let actions = newest.newest().health.actions.into_iter();
        actions.map(|((action, result), count)| (vec![action, result.to_owned()], count as f64)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hold_nothing_that_a_terminal_obeys() {
        let values = vec![(vec!["o/p\u{1b}[2J\u{202e}".to_owned(), "running".to_owned()], 2.0)];
        let expected = vec![(vec!["o/p\u{fffd}[2J\u{fffd}".to_owned(), "running".to_owned()], 2.0)];
        assert_eq!(printable_labels(values), expected);
    }
}
