//! `evenkeel bench poll`: what an idle poll and a heartbeat cost, beside the smallest server with the same libraries.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Failure;
use sqlx::PgConnection;

use super::fleet::{Nodes, ORG, Scribe};
use super::load::{Load, request};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, refused};

const CONNECTIONS: usize = 32;
/// Share of the smallest server's requests per CPU-second.
const SHARE: f64 = 0.5;
/// Statements of a poll: none; what is counted is the background of seconds, spread over many thousand polls.
const STATEMENTS: f64 = 0.01;
/// Counters of the database are up to date so long after its connections fell silent.
const SETTLE: Duration = Duration::from_millis(1_200);

/// Runs the benchmark.
pub async fn run(options: &Options) -> Result<Report, Failure> {
    let stage = Stage::open().await?;
    let outcome = measure(options, &stage).await;
    stage.close().await;
    outcome
}

async fn measure(options: &Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_millis(if options.short { 500 } else { 6_000 });
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", if options.short { 200 } else { 1_000 }).await?;
    let (exchange, address) = stage.start_exchange().await?;
    let last = scribe.last_number().await?;
    let mut hello = Process::start("hello", &["bench-hello"], stage.folder())?;
    let hello_address = hello.address_after("address=").await?;

    let polls = Arc::new(poll_requests(&nodes, last + 1));
    let beats = Arc::new(heartbeat_requests(&nodes));
    let plain = Arc::new(vec![request("GET", "/", "", None); CONNECTIONS]);
    let mut report = Report::new("poll");
    // Everything is in memory from here on.
    load(address, &beats).once().await?;
    load(address, &polls).once().await?;

    let smallest = per_cpu_second(&hello, &load(hello_address, &plain), length).await?;
    for (name, requests) in [("idle poll", &polls), ("heartbeat", &beats)] {
        let same = per_cpu_second(&hello, &load(hello_address, requests), length / 2).await?;
        let ours = per_cpu_second(&exchange, &load(address, requests), length).await?;
        report.push(
            Row::new(format!("{name}, of {} nodes", nodes.count()), ours, "/CPU-s")
                .beside("hello world", smallest)
                .target(Target::RatioAtLeast(SHARE)),
        );
        report.push(
            Row::new(format!("{name}, beside the same requests"), ours, "/CPU-s").beside("hello world", same),
        );
    }
    let mut observer = stage.observer().await?;
    let idle = transactions_during(&mut observer, async {
        tokio::time::sleep(length).await;
        Ok(0)
    })
    .await?;
    let polls = load(address, &polls);
    let busy = transactions_during(&mut observer, async { Ok(polls.closed(length).await?.count) }).await?;
    let answered = busy.requests.max(1) as f64;
    report.push(
        Row::new("SQL transactions for each idle poll", busy.transactions / answered, "")
            .target(Target::AtMost(STATEMENTS)),
    );
    report.note(format!(
        "{CONNECTIONS} kept-alive connections; a server's CPU is its user and system time from /proc."
    ));
    report.note(format!(
        "{:.0} transactions in {:.1} s without requests, {:.0} in as long with {} polls: sequencer and batched signs of life.",
        idle.transactions,
        length.as_secs_f64(),
        busy.transactions,
        busy.requests
    ));
    Ok(report)
}

/// Idle polls of all nodes: from a number that nothing has yet.
pub fn poll_requests(nodes: &Nodes, change_id: i64) -> Vec<Vec<u8>> {
    let body = format!(r#"{{"changeId":{change_id},"maxRecords":1000}}"#);
    let poll =
        |number| request("POST", &format!("/v1/orgs/{ORG}/changes"), &nodes.login(number), Some(&body));
    (0..nodes.count()).map(poll).collect()
}

/// Heartbeats of all nodes.
pub fn heartbeat_requests(nodes: &Nodes) -> Vec<Vec<u8>> {
    let beat = |number| {
        let path = format!("/v1/orgs/{ORG}/nodes/{}/heartbeat", nodes.id(number));
        request("POST", &path, &nodes.login(number), None)
    };
    (0..nodes.count()).map(beat).collect()
}

fn load(address: SocketAddr, requests: &Arc<Vec<Vec<u8>>>) -> Load {
    Load { address, connections: CONNECTIONS, requests: requests.clone() }
}

/// Requests that a server answers for each second of its CPU time.
pub async fn per_cpu_second(server: &Process, load: &Load, length: Duration) -> Result<f64, Failure> {
    load.closed(length / 10).await?;
    let before = server.cpu_secs();
    let outcome = load.closed(length).await?;
    // The clock has steps of 10 ms: less than one of them was not measured.
    Ok(outcome.count as f64 / (server.cpu_secs() - before).max(0.01))
}

struct Counted {
    transactions: f64,
    requests: u64,
}

async fn transactions_during(
    observer: &mut PgConnection,
    work: impl Future<Output = Result<u64, Failure>>,
) -> Result<Counted, Failure> {
    tokio::time::sleep(SETTLE).await;
    let before = transactions(observer).await?;
    let requests = work.await?;
    tokio::time::sleep(SETTLE).await;
    Ok(Counted { transactions: (transactions(observer).await? - before) as f64, requests })
}

async fn transactions(observer: &mut PgConnection) -> Result<i64, Failure> {
    let count = sqlx::query_scalar(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'evenkeel'",
    );
    count.fetch_one(observer).await.map_err(|error| refused(&error))
}
