//! `evenkeel bench poll`: what an idle poll and a heartbeat cost, beside the smallest server with the same libraries.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Failure;

use super::fleet::{Nodes, ORG, Scribe};
use super::load::{Load, Requests, request};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::Stage;
use super::statements::Recorder;

/// Connections for all nodes together, as a proxy in front of the exchange would hold them.
const FEW: usize = 32;
/// Share of the smallest server's requests per CPU-second, and what even a build without optimisation must reach.
const SHARE: f64 = 0.5;
/// Servers take turns so often: a machine that changes its speed favours none of them. The smallest server is another process in each turn,
/// because one of them is now and then a tenth faster or slower than the next for as long as it runs.
const TURNS: usize = 6;
/// A statement of every poll would run some thousand times a second; what runs by the clock runs this often at most.
const RUNS_PER_SECOND: f64 = 4.0;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_millis(if options.short { 600 } else { 9_000 });
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", if options.short { 200 } else { 1_000 }).await?;
    let (exchange, address) = stage.start_exchange().await?;
    let last = scribe.last_number().await?;
    let exchange = [Server { process: exchange, address }];
    let mut smallest = Vec::new();
    for _ in 0..TURNS {
        let mut process = Process::start("hello", &["bench-hello"], stage.directory())?;
        let address = process.address_after("address=").await?;
        smallest.push(Server { process, address });
    }

    let polls = Arc::new(poll_requests(&nodes, last + 1));
    let heartbeats = Arc::new(heartbeat_requests(&nodes));
    let fleet = nodes.count();
    let plain = Arc::new(vec![request("GET", "/", "", None); fleet]);
    let mut report = Report::new("poll");
    // Everything is in memory from here on.
    load(address, FEW, &heartbeats).once().await?;
    load(address, FEW, &polls).once().await?;

    for (name, requests) in [("idle poll", &polls), ("heartbeat", &heartbeats)] {
        // Each agent keeps a connection of its own.
        for connections in [fleet, FEW] {
            let rivals = [(&exchange[..], requests), (&smallest[..], &plain), (&smallest[..], requests)];
            let [ours, simplest, same] = per_cpu_second(rivals, connections, length).await?;
            let row = |beside: &str, theirs| {
                let name = format!("{name}, {fleet} nodes on {connections} connections");
                Row::new(name, ours, "/CPU-s").beside(beside, theirs)
            };
            let against_smallest = row("hello world, GET /", simplest);
            report.push(if connections == fleet {
                against_smallest.target(Target::RatioAtLeast(SHARE))
            } else {
                against_smallest
            });
            report.push(row("hello world, the same requests", same));
        }
    }
    for (name, requests) in [("idle poll", &polls), ("heartbeat", &heartbeats)] {
        statements(name, stage, &load(address, FEW, requests), length / 3, &mut report).await?;
    }
    report.add_note(format!(
        "Kept-alive connections; a server's CPU is its user and system time from /proc; the servers took {TURNS} turns each, and hello \
         world was another process in each."
    ));
    Ok(report)
}

/// Counts the statements while nothing but these requests happens.
async fn statements(
    name: &str,
    stage: &Stage,
    load: &Load,
    length: Duration,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut recorder = Recorder::new(stage).await?;
    let (outcome, statements) = recorder.during(load.closed(length)).await?;
    let most = statements.most() as f64 / outcome.secs.max(1.0);
    report.push(
        Row::new(format!("{name}: runs of the most frequent SQL statement"), most, "/s")
            .beside("requests", outcome.rate())
            .lasting_target(Target::AtMost(RUNS_PER_SECOND)),
    );
    report.add_note(format!(
        "{name}: {} requests in {:.1} s; the server wrote down these statements: {}.",
        outcome.count,
        outcome.secs,
        statements.list()
    ));
    Ok(())
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
    let heartbeat = |number| {
        let path = format!("/v1/orgs/{ORG}/nodes/{}/heartbeat", nodes.id(number));
        request("POST", &path, &nodes.login(number), None)
    };
    (0..nodes.count()).map(heartbeat).collect()
}

fn load(address: SocketAddr, connections: usize, requests: &Requests) -> Load {
    Load { address, connections, requests: requests.clone() }
}

/// A process that serves an address.
struct Server {
    process: Process,
    address: SocketAddr,
}

/// Requests that each kind of server serves per second of its CPU time; the servers take turns.
async fn per_cpu_second<const N: usize>(
    rivals: [(&[Server], &Requests); N],
    connections: usize,
    length: Duration,
) -> Result<[f64; N], Failure> {
    let mut sums = [(0.0, 0.0); N];
    for turn in 0..TURNS {
        for ((servers, requests), (count, cpu)) in rivals.iter().zip(&mut sums) {
            let server = &servers[turn % servers.len()];
            let load = load(server.address, connections, requests);
            load.closed(length / 20).await?;
            let before = server.process.cpu_secs();
            *count += load.closed(length.div_f64(TURNS as f64)).await?.count as f64;
            *cpu += server.process.cpu_secs() - before;
        }
    }
    // The clock has steps of 10 ms: less than one of them was not measured.
    Ok(sums.map(|(count, cpu)| count / cpu.max(0.01)))
}
