//! `evenkeel bench several`: what a second and a third exchange on the same database cost a durable write.
//!
//! A write is acknowledged when every exchange has seen it, so it has to wait for the others. One process and three of them take turns
//! on the same database with the same nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Failure;

use super::exchange::patches;
use super::fleet::{Nodes, Scribe};
use super::load::{Load, Outcome};
use super::memory::median;
use super::process::Process;
use super::report::{Options, Report, Row, Target, number};
use super::stage::Stage;

const NAMES: [&str; 3] = ["exchange-1", "exchange-2", "exchange-3"];
/// Connections in all, shared out evenly among the exchanges.
const CONNECTIONS: usize = 30;
/// Upper bound of a durable write.
const BOUND_MILLIS: f64 = 25.0;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let (count, length, runs) =
        if options.short { (90, Duration::from_millis(400), 1) } else { (900, Duration::from_secs(3), 5) };
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", count).await?;
    let rate = quarter_load(stage, &nodes, length).await?;
    let (mut alone, mut together) = (Times::default(), Times::default());
    for _ in 0..runs {
        alone.add(at_rate(stage, &nodes, 1, rate, length).await?);
        together.add(at_rate(stage, &nodes, NAMES.len(), rate, length).await?);
    }
    let mut report = Report::new("several");
    for (name, three, one, target) in [
        ("p99", together.slow, alone.slow, Some(Target::AtMost(BOUND_MILLIS))),
        ("median", together.usual, alone.usual, None),
    ] {
        let measure = format!(
            "{name} of a durable write, {} exchanges on one database ({}/s)",
            NAMES.len(),
            number(rate)
        );
        let row = Row::new(measure, median(three), "ms").beside("one exchange", median(one));
        report.push(match target {
            Some(target) => row.target(target),
            None => row,
        });
    }
    report.add_note(format!(
        "PATCH of {} nodes over {CONNECTIONS} connections, each exchange with its share of them and of the nodes; {}.",
        nodes.count(),
        stage.version().await?
    ));
    report.add_note(
        "The rate is a quarter of what one exchange did without pause, so that three processes on the same processors bear it, too. Each value \
         is the median of several runs that take turns.",
    );
    Ok(report)
}

/// Quantiles of each run.
#[derive(Default)]
struct Times {
    slow: Vec<f64>,
    usual: Vec<f64>,
}

impl Times {
    fn add(&mut self, mut outcome: Outcome) {
        self.slow.push(outcome.quantile_millis(0.99));
        self.usual.push(outcome.quantile_millis(0.5));
    }
}

/// A quarter of the requests per second that one exchange serves without pause.
async fn quarter_load(stage: &Stage, nodes: &Nodes, length: Duration) -> Result<f64, Failure> {
    let (_process, address) = stage.start_exchange().await?;
    let load = Load { address, connections: CONNECTIONS, requests: Arc::new(patches(nodes)) };
    load.once().await?;
    Ok(load.closed(length).await?.rate() / 4.0)
}

/// Starts so many exchanges, sends each its share, and ends them.
async fn at_rate(
    stage: &Stage,
    nodes: &Nodes,
    exchanges: usize,
    rate: f64,
    length: Duration,
) -> Result<Outcome, Failure> {
    let mut running: Vec<(Process, SocketAddr)> = Vec::new();
    for name in NAMES.iter().take(exchanges) {
        running.push(stage.start_named_exchange(name).await?);
    }
    let all = patches(nodes);
    let loads: Vec<Load> = running
        .iter()
        .enumerate()
        .map(|(place, (_, address))| Load {
            address: *address,
            connections: CONNECTIONS / exchanges,
            requests: Arc::new(all.iter().skip(place).step_by(exchanges).cloned().collect()),
        })
        .collect();
    for load in &loads {
        load.once().await?;
    }
    let share = rate / exchanges as f64;
    let outcomes =
        futures_util::future::try_join_all(loads.iter().map(|load| load.open(share, length))).await?;
    Ok(outcomes.into_iter().fold(Outcome::default(), Outcome::and))
}
