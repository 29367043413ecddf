//! `evenkeel bench index`: how fast the agbot finds the nodes of a policy and the policies of a node.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_runtime::{ExitStatus, Failure};

use super::index_workload::{Fleet, PolicySet};
use super::process::{resident_mib, thread_time};
use super::report::{Options, Report, Row, Target};

/// The naive way is asked on so many nodes and scaled, because the whole fleet as lists would not fit.
const NAIVE_NODES: u32 = 20_000;
/// Targets: p99 of one policy against a million nodes, and of one node against ten thousand policies.
const POLICY_MILLIS: f64 = 10.0;
const NODE_MICROS: f64 = 200.0;
const MEMORY_MIB: f64 = 2_048.0;
/// At any size and in any build the index must win at least so clearly.
const FASTER: f64 = 1.0;

/// Options of `bench index`.
#[derive(Debug, Clone, Copy, Args)]
pub struct IndexArguments {
    #[command(flatten)]
    pub options: Options,
    /// Nodes in the fleet, 20 properties each [default: 1000000, short: 20000]
    #[arg(long)]
    nodes: Option<u32>,
    /// Deployment policies for the other direction [default: 10000, short: 2000]
    #[arg(long)]
    policies: Option<u32>,
    /// Questions in each direction [default: 2000, short: 200]
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of the generated fleet
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl IndexArguments {
    /// The usual sizes.
    pub fn usual(options: Options) -> IndexArguments {
        IndexArguments { options, nodes: None, policies: None, rounds: None, seed: 1 }
    }

    fn size(&self) -> Size {
        let usual = |whole, short| if self.options.short { short } else { whole };
        Size {
            nodes: self.nodes.unwrap_or(usual(1_000_000, 20_000)).max(1),
            policies: self.policies.unwrap_or(usual(10_000, 2_000)).max(1),
            rounds: self.rounds.unwrap_or(usual(2_000, 200)).max(1),
            seed: self.seed,
        }
    }
}

struct Size {
    nodes: u32,
    policies: u32,
    rounds: u32,
    seed: u64,
}

/// Measures both directions.
pub fn run(arguments: &IndexArguments) -> Result<Report, Failure> {
    let size = arguments.size();
    let mut report = Report::new("index");
    measure_policies(&size, &mut report)?;
    measure_nodes(&size, &mut report)?;
    report.add_note("Each question is one evaluation on one thread; the naive way asks every node, or every policy, in turn and gives the same results.");
    Ok(report)
}

fn measure_policies(size: &Size, report: &mut Report) -> Result<(), Failure> {
    let (nodes, rounds) = (size.nodes, size.rounds);
    let before = resident_mib("self");
    let begin = Instant::now();
    let fleet = Fleet::new(nodes, rounds.min(2_000), size.seed);
    let built = begin.elapsed();
    let mut times = Times::default();
    let mut found = 0;
    for round in 0..rounds as usize {
        found += times.measure(|| fleet.query(round));
    }
    let resident = resident_mib("self");
    let sample_size = NAIVE_NODES.min(nodes);
    let sample = fleet.sample(sample_size);
    let mut naive = Times::default();
    for policy in 0..fleet.policy_count().min(50) {
        let expected = naive.measure(|| fleet.scan(policy, &sample));
        if expected != fleet.query_among(policy, sample_size) {
            return Err(wrong(&format!("policy {policy}")));
        }
    }
    let scale = f64::from(nodes) / f64::from(sample_size);
    let name = format!("one policy against {nodes} nodes of 20 properties");
    let naive_millis = |part| naive.micros(part) * scale / 1_000.0;
    report.push(
        Row::new(format!("{name}, p99"), times.micros(0.99) / 1_000.0, "ms")
            .beside("naive", naive_millis(0.99))
            .target(Target::AtMost(POLICY_MILLIS)),
    );
    report.push(
        Row::new(format!("{name}, p99 of its CPU time"), times.cpu_micros(0.99) / 1_000.0, "ms")
            .beside("naive", naive.cpu_micros(0.99) * scale / 1_000.0),
    );
    report.push(
        Row::new(format!("{name}, median"), times.micros(0.5) / 1_000.0, "ms")
            .beside("naive", naive_millis(0.5))
            .lasting_target(Target::RatioAtMost(FASTER)),
    );
    report.push(
        Row::new(format!("resident with {nodes} nodes in the index"), resident, "MiB")
            .beside("before", before)
            .lasting_target(Target::AtMost(MEMORY_MIB)),
    );
    report.add_note(format!(
        "The index was built in {:.1} s; {rounds} different policies found {} nodes on average. The naive time is that of {sample_size} nodes, times {scale:.0}.",
        built.as_secs_f64(),
        found / u64::from(rounds)
    ));
    Ok(())
}

fn measure_nodes(size: &Size, report: &mut Report) -> Result<(), Failure> {
    let (policies, rounds) = (size.policies, size.rounds);
    let set = PolicySet::new(policies, rounds.min(2_000), size.seed);
    let mut times = Times::default();
    let mut found = 0;
    for round in 0..rounds as usize {
        found += times.measure(|| set.query(round));
    }
    let mut naive = Times::default();
    for node in 0..set.node_count().min(100) {
        let expected = naive.measure(|| set.scan(node));
        if expected != set.query(node) {
            return Err(wrong(&format!("node {node}")));
        }
    }
    let name = format!("one node change against {policies} policies");
    report.push(
        Row::new(format!("{name}, p99"), times.micros(0.99), "µs")
            .beside("naive", naive.micros(0.99))
            .target(Target::AtMost(NODE_MICROS)),
    );
    report.push(
        Row::new(format!("{name}, p99 of its CPU time"), times.cpu_micros(0.99), "µs")
            .beside("naive", naive.cpu_micros(0.99)),
    );
    report.push(
        Row::new(format!("{name}, median"), times.micros(0.5), "µs")
            .beside("naive", naive.micros(0.5))
            .lasting_target(Target::RatioAtMost(FASTER)),
    );
    let average = found / rounds as usize;
    report.add_note(format!("{rounds} changed nodes satisfied {average} policies on average."));
    Ok(())
}

fn wrong(what: &str) -> Failure {
    Failure::new(ExitStatus::Failure, format!("the index gives a wrong result for {what}"))
}

/// Measured times of one way.
#[derive(Default)]
pub(super) struct Times {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Times {
    pub(super) fn measure<T>(&mut self, query: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (Instant::now(), thread_time());
        let result = black_box(query());
        self.cpu.push(thread_time().saturating_sub(cpu));
        self.wall.push(begin.elapsed());
        result
    }

    /// The time, in microseconds, within which this share of the queries was processed.
    pub(super) fn micros(&self, part: f64) -> f64 {
        micros(&self.wall, part)
    }

    /// The same of the time in which this thread had a processor: what else the machine does is not in it.
    pub(super) fn cpu_micros(&self, part: f64) -> f64 {
        micros(&self.cpu, part)
    }
}

fn micros(times: &[Duration], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * part).ceil() as usize;
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1_000_000.0)
}
