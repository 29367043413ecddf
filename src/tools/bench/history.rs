//! `evenkeel bench history`: changes of tasks with and without a history, and pages of the states of an instant.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot_store::event::{EventRow, insert_events};
use evenkeel_agbot_store::history::{self, StateFilter};
use evenkeel_agbot_store::partition::{self, LeaseRow, lock_lease};
use evenkeel_agbot_store::task::{TaskRow, lock_slots, upsert_tasks};
use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::{Database, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::history_hub;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, refused, store_failed};

const CLIENTS: usize = 8;
/// Tasks that one transaction changes, as a plan for a batch of slots does.
const BATCH: usize = 16;
const LEASE_SECS: f64 = 3_600.0;
/// Number of turns of each way, so that a disk that changes its speed does not favor one of them.
const TURNS: u32 = 4;
/// Share of the throughput that is left with a history, of a database that does nothing but write rows of tasks.
const SHARE: f64 = 0.85;
/// States of one page.
const PAGE: i64 = 500;
const PAGES: usize = 20;
/// States that each task of the filled history has had.
const STATES: i64 = 10;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    let mut report = Stage::with(async |stage| measure(options, stage).await).await?;
    history_hub::measure(options, &mut report).await?;
    Ok(report)
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_millis(if options.short { 600 } else { 6_000 });
    let tasks: i64 = if options.short { 2_000 } else { 100_000 };
    let database = stage.connect().await?;
    let leases = leases(&database).await?;
    let [mut with, mut without] = [0.0; 2];
    for _ in 0..TURNS {
        with += change_tasks(&database, &leases, length / TURNS).await?;
        execute(&database, "ALTER TABLE task DISABLE TRIGGER task_recorded").await?;
        without += change_tasks(&database, &leases, length / TURNS).await?;
        execute(&database, "ALTER TABLE task ENABLE TRIGGER task_recorded").await?;
    }
    let turns = f64::from(TURNS);
    let few = fill(&database, "few", tasks / 100).await?;
    let few = pages(&database, "few", few).await?;
    let many = fill(&database, "many", tasks).await?;
    let many = pages(&database, "many", many).await?;
    database.close().await;
    let mut report = Report::new("history");
    report.push(
        Row::new(format!("changed tasks, {BATCH} in a transaction, {CLIENTS} clients"), with / turns, "/s")
            .beside("without a history", without / turns)
            .target(Target::RatioAtLeast(SHARE)),
    );
    report.push(
        Row::new(
            format!("a page of {PAGE} of {tasks} tasks at an instant, {} states kept", tasks * STATES),
            many,
            "ms",
        )
        .beside(format!("with {} tasks", tasks / 100), few)
        .target(Target::AtMost(50.0)),
    );
    report.add_note("Rows of tasks: a transaction is the part of a plan that writes tasks: it locks its lease and its slots, writes the tasks and an event for each, and commits durably.");
    report.add_note(stage.version().await?);
    Ok(report)
}

async fn leases(database: &Database) -> Result<Arc<[LeaseRow]>, Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    let count = CLIENTS as i32;
    partition::insert_partitions(&mut connection, count).await.map_err(store)?;
    let taken = partition::take_free(&mut connection, owner(), LEASE_SECS, i64::from(count), None).await;
    Ok(taken.map_err(store)?.into())
}

fn owner() -> Uuid {
    Uuid::from_u128(1)
}

pub(super) fn store(error: StoreError) -> Failure {
    store_failed(&error)
}

pub(super) async fn execute(database: &Database, statement: &'static str) -> Result<(), Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    sqlx::query(statement).execute(&mut *connection).await.map(drop).map_err(|error| refused(&error))
}

/// Changes tasks for a time; returns the changes of a second.
async fn change_tasks(
    database: &Database,
    leases: &Arc<[LeaseRow]>,
    length: Duration,
) -> Result<f64, Failure> {
    let mut clients = JoinSet::new();
    let begin = Instant::now();
    for client in 0..CLIENTS {
        let (database, leases) = (database.clone(), leases.clone());
        clients.spawn(async move {
            let mut changed = 0_usize;
            while begin.elapsed() < length {
                change_batch(&database, leases[client % leases.len()], client).await?;
                changed += BATCH;
            }
            Ok::<usize, StoreError>(changed)
        });
    }
    let mut changed = 0;
    while let Some(ended) = clients.join_next().await {
        let ended = ended.map_err(|error| Failure::new(ExitStatus::Failure, error.to_string()))?;
        changed += ended.map_err(store)?;
    }
    Ok(changed as f64 / begin.elapsed().as_secs_f64())
}

async fn change_batch(database: &Database, lease: LeaseRow, client: usize) -> Result<(), StoreError> {
    let (policy, now) = (PolicyId::new("bench", &format!("p{client}")), Timestamp::now());
    // Each change is one of the state.
    let state = if now.as_microsecond() % 2 == 0 { "starting" } else { "running" };
    let slots: Vec<String> = (0..BATCH).map(|slot| slot.to_string()).collect();
    let rows: Vec<TaskRow> = slots.iter().map(|slot| row(&policy, slot, state, now)).collect();
    let events: Vec<EventRow> = slots
        .iter()
        .map(|slot| EventRow {
            happened_at: now,
            kind: format!("task.{state}"),
            ha_group: None,
            node: Some(NodeId::new("bench", slot)),
            policy: Some(policy.clone()),
            detail: json!({"slot": slot, "text": "its node reported it"}),
        })
        .collect();
    let mut tx = database.begin().await?;
    lock_lease(&mut tx, owner(), lease).await?;
    lock_slots(&mut tx, &policy, "all", &slots).await?;
    upsert_tasks(&mut tx, &rows).await?;
    insert_events(&mut tx, now, &events).await?;
    tx.commit().await
}

fn row(policy: &PolicyId, slot: &str, state: &str, now: Timestamp) -> TaskRow {
    TaskRow {
        task: TaskId::from_text(&format!("{policy}-{slot}")),
        policy: policy.clone(),
        part: "all".to_owned(),
        slot: slot.to_owned(),
        spec_number: 1,
        changed_at: now,
        record: json!({
            "id": format!("{policy}-{slot}"), "unit_id": {"policy": policy, "part": "all"}, "slot": slot, "generation": 1,
            "spec": {"number": 1, "digest": 1}, "node": format!("bench/{slot}"), "agreement": null, "desired": "running",
            "state": state, "seq": 1, "cause": {"cause": "scale"}, "created_at": "2026-01-01T00:00:00Z",
            "start_at": "2026-01-01T00:00:00Z", "desired_at": "2026-01-01T00:00:00Z", "state_at": now,
            "running_at": null, "ended_at": null,
        }),
    }
}

/// Fills the history of an organization: each task has had a state every minute until now. Returns an instant in the middle.
async fn fill(database: &Database, org: &'static str, tasks: i64) -> Result<Timestamp, Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    sqlx::query(
        "INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
         SELECT history_segment.segment, 'task', $1, $1 || '/p' || task % 1000, 'all', task::text, 't' || task, $1 || '/n' || task,
                'running', '{\"desired\": \"running\", \"specVersion\": 1, \"cause\": \"update\", \"next\": \"shutdown\"}',
                now() - make_interval(mins => state::integer), now() - make_interval(mins => state::integer - 1)
         FROM generate_series(1, $2) AS task, generate_series(1, $3) AS state, history_segment
         WHERE history_segment.completed_at IS NULL",
    )
    .bind(org)
    .bind(tasks)
    .bind(STATES)
    .execute(&mut *connection)
    .await
    .map_err(|error| refused(&error))?;
    sqlx::query("ANALYZE").execute(&mut *connection).await.map_err(|error| refused(&error))?;
    let age = SignedDuration::from_secs(60 * STATES / 2 + 30);
    Ok(Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN))
}

/// Reads pages one after the other; returns the milliseconds of one.
async fn pages(database: &Database, org: &str, at: Timestamp) -> Result<f64, Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    let mut filter = StateFilter { org, kind: "task", ..StateFilter::default() };
    let begin = Instant::now();
    for _ in 0..PAGES {
        let rows = history::list_states(&mut connection, &filter, (at, at), PAGE).await.map_err(store)?;
        // From the beginning again after the last page.
        filter.after = rows.last().map(|row| row.key.clone()).unwrap_or_default();
    }
    Ok(begin.elapsed().as_secs_f64() * 1_000.0 / PAGES as f64)
}
