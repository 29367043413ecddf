//! The second part of `evenkeel bench history`: what the history costs a whole hub that changes tasks.

use std::time::{Duration, Instant};

use evenkeel_client::Client;
use evenkeel_ids::PolicyId;
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::Database;
use evenkeel_wire::agbot::action::ActionRequest;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::console_fleet::{ConsoleFleet, PER_POLICY, called, client, policy};
use super::fleet::ORG;
use super::history::{execute, store};
use super::memory::start_ready_hub;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, refused};

/// Requests at a time.
const REQUESTS: usize = 8;
/// Share of the throughput that is left with a history.
const SHARE: f64 = 0.95;
const POLL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(300);

/// Lets a hub stop the instances of many deployment policies, with and without a history in turns.
pub(super) async fn measure(options: Options, report: &mut Report) -> Result<(), Failure> {
    // Turns of each way, and deployment policies of each of them.
    let (turns, in_turn) = if options.short { (1, 1) } else { (16, 4) };
    Stage::with(async |stage| {
        // One more turn of each way, which is not measured, so that everything is warm.
        ConsoleFleet::write(stage, 2 * (turns + 1) * in_turn * PER_POLICY, 0).await?;
        let (hub, address) = start_ready_hub(stage, &stage.directory().join("hub")).await?;
        let operator = client(address, "operator").map_err(called)?;
        let database = stage.connect().await?;
        let [mut with, mut without] = [0.0; 2];
        for turn in 0..=turns {
            let first = 2 * turn * in_turn;
            let counts = if turn == 0 { 0.0 } else { 1.0 };
            with += counts * stop(&operator, &database, first..first + in_turn).await?;
            execute(&database, "ALTER TABLE task DISABLE TRIGGER task_recorded").await?;
            without += counts * stop(&operator, &database, first + in_turn..first + 2 * in_turn).await?;
            execute(&database, "ALTER TABLE task ENABLE TRIGGER task_recorded").await?;
        }
        drop(hub);
        let tasks = (turns * in_turn * PER_POLICY) as f64;
        report.push(
            Row::new("tasks that a whole hub stops, until their nodes can see it", tasks / with, "/s")
                .beside("without a history", tasks / without)
                .target(Target::RatioAtLeast(SHARE)),
        );
        report.add_note(format!("The hub stops {in_turn} deployment policies of {PER_POLICY} instances in a turn: its planner decides, it writes tasks, events and outbox, and notifies its exchange, which commits durably for each node."));
        Ok(Report::new("history"))
    })
    .await
    .map(drop)
}

/// Stops deployment policies; returns the seconds until the last effect has been delivered.
async fn stop(
    operator: &Client,
    database: &Database,
    policies: std::ops::Range<usize>,
) -> Result<f64, Failure> {
    let names: Vec<String> = policies.map(policy).collect();
    let ids: Vec<String> = names.iter().map(|name| PolicyId::new(ORG, name).to_string()).collect();
    let begin = Instant::now();
    let request = ActionRequest::default();
    let stopped = stream::iter(&names)
        .map(|name| operator.act_on_policy(ORG, name, "stop", &request))
        .buffer_unordered(REQUESTS);
    stopped.try_collect::<Vec<_>>().await.map_err(called)?;
    let mut connection = database.acquire().await.map_err(store)?;
    while begin.elapsed() < TIMEOUT {
        let is_done: bool = sqlx::query_scalar(
            "SELECT NOT EXISTS (SELECT FROM task WHERE policy = ANY ($1) AND desired = 'running')
                AND NOT EXISTS (SELECT FROM agbot_outbox)",
        )
        .bind(&ids)
        .fetch_one(&mut *connection)
        .await
        .map_err(|error| refused(&error))?;
        if is_done {
            return Ok(begin.elapsed().as_secs_f64());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(Failure::new(ExitStatus::Failure, "the hub does not stop the tasks"))
}
