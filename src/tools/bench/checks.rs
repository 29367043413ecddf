//! `evenkeel bench health`: what it costs the hub to check ten thousand instances every minute when nothing fails.
//!
//! The schedule, the checks and the planner are the agbot's; only the fleet is made up. Beside it a loop does what is obvious: for each
//! target it reads a row, sends the request, and writes down when it did.

use std::time::{Duration, Instant};

use evenkeel_agbot::CheckSchedule;
use evenkeel_client::{AddressRule, ProbeClient};
use evenkeel_planner::decide::decide;
use evenkeel_planner_model::command::Action;
use evenkeel_planner_model::event::Event;
use evenkeel_runtime::{ExitStatus, Failure};
use futures_util::{StreamExt, stream};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::orchestration_fleet::{FleetSize, OrchestratedFleet, at};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, refused};
use super::statements::Recorder;

/// The hub may use so much of a core.
const CPU_PERCENT: f64 = 10.0;
/// Requests of the loop that are open at a time.
const NAIVE_PARALLEL: usize = 64;
const ROUND: Duration = Duration::from_secs(1);
const EXPECTED: &str = "Hello";

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Box::pin(Stage::with(async |stage| Box::pin(measure(options, stage)).await)).await
}

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(ExitStatus::Failure, format!("health is checked wrongly: {what}"))
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let (workloads, interval_secs) = if options.short { (12, 6) } else { (112, 60) };
    let mut server = Process::start("hello", &["bench-hello"], stage.directory())?;
    let url = format!("http://{}/", server.address_after("address=").await?);
    let size = FleetSize { nodes: 2_000, workloads, tasks: 100 };
    let fleet = OrchestratedFleet::with(size, &polled(&url, interval_secs)).map_err(failed)?;
    let targets = u32::try_from(fleet.model.hub_tasks().count()).unwrap_or(u32::MAX);
    // Instances on nodes that their workload no longer selects leave, and are not checked.
    if targets < size.workloads * size.tasks * 8 / 10 {
        return Err(failed(format!("{targets} of {} instances are checked", size.workloads * size.tasks)));
    }
    let client = ProbeClient::new(AddressRule::Any, None).map_err(failed)?;
    let length = Duration::from_secs(u64::from(interval_secs));
    let mut recorder = Recorder::new(stage).await?;

    // The first round is made at once, because nothing is known yet.
    let mut checker = Checker { fleet, client, schedule: CheckSchedule::default() };
    let first = Instant::now();
    let news = checker.run_until(|counts| counts.checks >= u64::from(targets)).await?.events;
    if news != u64::from(targets) {
        return Err(failed(format!("{news} of {targets} targets are known after the first round")));
    }
    let first = first.elapsed();
    let began = Instant::now();
    // Each target once: a pause that ends within a round ends with it.
    let window = length + 2 * ROUND;
    let ours = recorder.during(timed(Box::pin(checker.run_until(|_| began.elapsed() >= window))));
    let ((counts, cpu), statements) = ours.await?;
    let took = began.elapsed();
    if counts.checks < u64::from(targets) * 9 / 10 {
        return Err(failed(format!(
            "{} checks of {targets} targets in {} s",
            counts.checks,
            window.as_secs()
        )));
    }
    let loops = recorder.during(timed(Box::pin(naive(stage, &url, targets, length))));
    let ((naive_checks, naive_cpu), naive_statements) = loops.await?;
    let percent = |secs: f64| secs * 100.0 / length.as_secs_f64();
    let each = |total: u64, checks: u64| total as f64 / checks.max(1) as f64;
    let mut report = Report::new("health");
    report.push(
        Row::new(
            format!("CPU of the hub for {targets} targets every {interval_secs} s"),
            percent(cpu),
            "% of a core",
        )
        .beside("naive", percent(naive_cpu))
        .target(Target::AtMost(CPU_PERCENT)),
    );
    report.push(
        Row::new("SQL statements for each check", each(statements.total(), counts.checks), "")
            .beside("naive", each(naive_statements.total(), naive_checks))
            .lasting_target(Target::AtMost(0.0)),
    );
    report.push(
        Row::new("events of the planner in a round in which nothing changed", counts.events as f64, "")
            .lasting_target(Target::AtMost(0.0)),
    );
    report.add_note(format!(
        "{} checks were made in {:.0} s; the first round, of all targets at once, took {:.1} s.",
        counts.checks,
        took.as_secs_f64(),
        first.as_secs_f64()
    ));
    report.add_note("Naive: for each target a row is read, the request is sent by a client of its own, and the time is written; the CPU of the database does not count.");
    Ok(report)
}

/// Returns settings by which the hub polls a URL for every instance.
fn polled(url: &str, interval_secs: u32) -> Value {
    let options = json!({
        "poll_url": format!("{url}{{nodename}}"), "poll_url_healthy_response": EXPECTED, "executor": "hub",
    });
    json!({"healthPolicy": {"detection": {
        "interval": interval_secs, "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": options}],
    }}})
}

/// Numbers of checked operations.
#[derive(Debug, Clone, Copy, Default)]
struct CheckedCounts {
    checks: u64,
    events: u64,
}

/// The part of the agbot that checks.
struct Checker {
    fleet: OrchestratedFleet,
    client: ProbeClient,
    schedule: CheckSchedule,
}

impl Checker {
    /// Checks what is due, round after round, and sends news to the planner.
    async fn run_until(
        &mut self,
        mut is_over: impl FnMut(CheckedCounts) -> bool,
    ) -> Result<CheckedCounts, Failure> {
        let mut counts = CheckedCounts::default();
        let mut flying = JoinSet::new();
        while !is_over(counts) {
            let next = Instant::now() + ROUND;
            let (checks, _) = self.schedule.take_due(&self.fleet.model, Instant::now());
            for (check, guard) in checks {
                let client = self.client.clone();
                flying.spawn(async move {
                    let found = check.make(&client).await;
                    drop(guard);
                    found
                });
            }
            while let Ok(Some(found)) = tokio::time::timeout_at(next.into(), flying.join_next()).await {
                let (is_healthy, event) = found.map_err(failed)?.map_err(failed)?;
                if !is_healthy {
                    return Err(failed("a target that responds counts as unhealthy"));
                }
                counts.checks += 1;
                if let Some(event) = event {
                    counts.events += 1;
                    self.fleet.model.apply(&event, at(41));
                    let decision = decide(&self.fleet.model, &event, at(41), counts.events);
                    for command in decision.commands {
                        self.carry_out(command.action)?;
                    }
                }
            }
            tokio::time::sleep_until(next.into()).await;
        }
        Ok(counts)
    }

    /// A target is registered when it is reconciled first. Nothing else follows from a healthy one.
    fn carry_out(&mut self, action: Action) -> Result<(), Failure> {
        let Action::RecordRegistration { registration, .. } = action else {
            return Err(failed(format!("a healthy target leads to the command {}", action.key().as_str())));
        };
        let target = registration.target.clone();
        let event = Event::RegistrationRecorded { target, registration: Some(registration) };
        self.fleet.model.apply(&event, at(41));
        Ok(())
    }
}

/// Does the work, and returns the CPU time that this process needed, in seconds.
async fn timed<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<(T, f64), Failure> {
    let before = cpu_secs()?;
    let done = work.await?;
    Ok((done, cpu_secs()? - before))
}

fn cpu_secs() -> Result<f64, Failure> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_err(failed)?;
    Ok(Duration::from(time).as_secs_f64())
}

/// Checks each target once in the interval, as one would at first.
async fn naive(stage: &Stage, url: &str, targets: u32, length: Duration) -> Result<u64, Failure> {
    let pool = PgPoolOptions::new().max_connections(8).connect(stage.url()).await;
    let pool = pool.map_err(|error| refused(&error))?;
    let run = async |statement: &'static str| sqlx::raw_sql(statement).execute(&pool).await;
    run("CREATE UNLOGGED TABLE naive_target (id int PRIMARY KEY, url text, checked_at timestamptz)")
        .await
        .map_err(|error| refused(&error))?;
    let inserted =
        sqlx::query("INSERT INTO naive_target SELECT id, $2, now() FROM generate_series(1, $1) AS id")
            .bind(i32::try_from(targets).unwrap_or(i32::MAX))
            .bind(url)
            .execute(&pool)
            .await;
    inserted.map_err(|error| refused(&error))?;
    let (begin, pause) = (tokio::time::Instant::now(), length / targets.max(1));
    let checked = stream::iter(1..=targets)
        .map(|number| {
            let pool = &pool;
            async move {
                tokio::time::sleep_until(begin + pause * number).await;
                check_naively(pool, number).await
            }
        })
        .buffered(NAIVE_PARALLEL);
    let checked: Vec<Result<(), Failure>> = checked.collect().await;
    run("DROP TABLE naive_target").await.map_err(|error| refused(&error))?;
    pool.close().await;
    checked.into_iter().collect::<Result<Vec<()>, Failure>>().map(|done| done.len() as u64)
}

async fn check_naively(pool: &PgPool, number: u32) -> Result<(), Failure> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let url: String = sqlx::query_scalar("SELECT url FROM naive_target WHERE id = $1")
        .bind(number)
        .fetch_one(pool)
        .await
        .map_err(|error| refused(&error))?;
    let client = ProbeClient::new(AddressRule::Any, None).map_err(failed)?;
    let (_, body) = client.get(&url, true, Duration::from_secs(1)).await.map_err(failed)?;
    if !body.contains(EXPECTED) {
        return Err(failed("a target gives another response"));
    }
    let written = sqlx::query("UPDATE naive_target SET checked_at = now() WHERE id = $1").bind(number);
    written.execute(pool).await.map(drop).map_err(|error| refused(&error))
}
