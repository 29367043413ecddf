//! `evenkeel bench hub`: a whole hub, exchange and agbot, under a fleet that is at rest.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Failure;

use super::fleet::Scribe;
use super::load::Load;
use super::memory::start_ready_hub;
use super::poll::{heartbeat_requests, poll_requests};
use super::process::Process;
use super::report::{Options, Report, Row};
use super::stage::Stage;
use super::statements::Recorder;

const CONNECTIONS: usize = 32;
/// Each node sends a heartbeat this often, half of them by polls.
const PERIOD_SECS: f64 = 10.0;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_secs(if options.short { 2 } else { 20 });
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", if options.short { 200 } else { 1_000 }).await?;
    scribe.groups(&nodes).await?;
    let (hub, address) = start_ready_hub(stage, &stage.directory().join("hub")).await?;
    let last = scribe.last_number().await?;
    let requests = heartbeat_requests(&nodes).into_iter().chain(poll_requests(&nodes, last + 1)).collect();
    let load = Load { address, connections: CONNECTIONS, requests: Arc::new(requests) };
    let rate = nodes.count() as f64 / PERIOD_SECS;
    let mut recorder = Recorder::new(stage).await?;
    let mut report = Report::new("hub");

    let idle = recorder.during(share_of_cpu(&hub, async {
        tokio::time::sleep(length).await;
        Ok(())
    }));
    let (idle, idle_statements) = idle.await?;
    load.once().await?;
    let busy = recorder.during(share_of_cpu(&hub, async { load.open(rate, length).await.map(drop) }));
    let (busy, busy_statements) = busy.await?;
    report.push(
        Row::new(
            format!("CPU of a hub with {} nodes that send heartbeats", nodes.count()),
            busy,
            "% of a core",
        )
        .beside("without a request", idle),
    );
    let each = |total: u64| total as f64 / length.as_secs_f64();
    report.push(
        Row::new("SQL statements of a hub", each(busy_statements.total()), "/s")
            .beside("without a request", each(idle_statements.total())),
    );
    report.push(Row::new("resident", hub.resident_mib(), "MiB"));
    report.add_note(format!(
        "{} nodes in groups of two, each with a heartbeat or a poll every {PERIOD_SECS:.0} s ({rate:.0}/s).",
        nodes.count()
    ));
    report.add_note(format!(
        "Statements in {} s without a request: {}.",
        length.as_secs(),
        idle_statements.list()
    ));
    report.add_note(format!(
        "Statements in {} s with heartbeats: {}.",
        length.as_secs(),
        busy_statements.list()
    ));
    Ok(report)
}

/// CPU of a process while `work` continues, in hundredths of one core.
async fn share_of_cpu(
    process: &Process,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<f64, Failure> {
    let (begin, before) = (std::time::Instant::now(), process.cpu_secs());
    work.await?;
    Ok((process.cpu_secs() - before) * 100.0 / begin.elapsed().as_secs_f64())
}
