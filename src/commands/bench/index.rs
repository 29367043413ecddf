//! `evenkeel bench index`: how fast the agbot finds the nodes of a policy and the policies of a node.

use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

use clap::Args;
use evenkeel_planner::bench::{Fleet, PolicySet};
use evenkeel_runtime::{ExitStatus, Failure};

/// The naive way is asked on so many nodes and scaled, because the whole fleet as lists would not fit.
const NAIVE_NODES: u32 = 20_000;

/// Targets: p99 of one policy against a million nodes, and of one node against ten thousand policies.
const POLICY_TARGET: Duration = Duration::from_millis(10);
const NODE_TARGET: Duration = Duration::from_micros(200);
const MEMORY_TARGET_MIB: u64 = 2048;

/// Options of `bench index`.
#[derive(Debug, Args)]
pub struct IndexArguments {
    /// Nodes in the fleet, 20 properties each
    #[arg(long, default_value_t = 1_000_000)]
    nodes: u32,
    /// Deployment policies for the other direction
    #[arg(long, default_value_t = 10_000)]
    policies: u32,
    /// Questions in each direction
    #[arg(long, default_value_t = 2_000)]
    rounds: u32,
    /// Seed of the generated fleet
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fail when a target is missed
    #[arg(long)]
    check: bool,
}

/// Measures both directions and prints them with their comparison.
pub fn run(arguments: &IndexArguments) -> Result<(), Failure> {
    let forward = measure_policies(arguments)?;
    let backward = measure_nodes(arguments)?;
    if arguments.check && !(forward && backward) {
        return Err(Failure::new(ExitStatus::Failure, "a target was missed"));
    }
    Ok(())
}

fn measure_policies(arguments: &IndexArguments) -> Result<bool, Failure> {
    let before = resident_mib();
    let begin = Instant::now();
    let fleet = Fleet::new(arguments.nodes, arguments.rounds.clamp(1, 2_000), arguments.seed);
    println!("index of {} nodes built in {:.1?}", arguments.nodes, begin.elapsed());
    let mut times = Times::default();
    let mut found = 0;
    for round in 0..arguments.rounds as usize {
        found += times.measure(|| fleet.ask(round));
    }
    let resident = resident_mib();
    let sample_size = NAIVE_NODES.min(arguments.nodes).max(1);
    let sample = fleet.sample(sample_size);
    let mut naive = Times::default();
    for policy in 0..fleet.policy_count().min(50) {
        let expected = naive.measure(|| fleet.ask_naively(policy, &sample));
        if expected != fleet.ask_among(policy, sample_size) {
            return Err(Failure::new(
                ExitStatus::Failure,
                format!("the index answers policy {policy} wrongly"),
            ));
        }
    }
    let scale = f64::from(arguments.nodes) / f64::from(sample_size);
    println!(
        "one policy against {} nodes, {} questions, {found} nodes found",
        arguments.nodes, arguments.rounds
    );
    println!("  index   p50 {:>10.1?}  p99 {:>10.1?}", times.quantile(0.5), times.quantile(0.99));
    println!(
        "  naive   p50 {:>10.1?}  p99 {:>10.1?}  ({sample_size} nodes asked, scaled by {scale:.0})",
        naive.quantile(0.5).mul_f64(scale),
        naive.quantile(0.99).mul_f64(scale)
    );
    println!("  resident {resident} MiB ({before} MiB before), target {MEMORY_TARGET_MIB} MiB");
    Ok(times.quantile(0.99) <= POLICY_TARGET && resident <= MEMORY_TARGET_MIB)
}

fn measure_nodes(arguments: &IndexArguments) -> Result<bool, Failure> {
    let set = PolicySet::new(arguments.policies, arguments.rounds.clamp(1, 2_000), arguments.seed);
    let mut times = Times::default();
    let mut found = 0;
    for round in 0..arguments.rounds as usize {
        found += times.measure(|| set.ask(round));
    }
    let mut naive = Times::default();
    for node in 0..set.node_count().min(100) {
        let expected = naive.measure(|| set.ask_naively(node));
        if expected != set.ask(node) {
            return Err(Failure::new(ExitStatus::Failure, format!("the index answers node {node} wrongly")));
        }
    }
    println!(
        "one node against {} policies, {} questions, {found} policies found",
        arguments.policies, arguments.rounds
    );
    println!("  index   p50 {:>10.1?}  p99 {:>10.1?}", times.quantile(0.5), times.quantile(0.99));
    println!("  naive   p50 {:>10.1?}  p99 {:>10.1?}", naive.quantile(0.5), naive.quantile(0.99));
    Ok(times.quantile(0.99) <= NODE_TARGET)
}

/// Measured times of one way.
#[derive(Default)]
struct Times {
    all: Vec<Duration>,
}

impl Times {
    fn measure<T>(&mut self, ask: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let answer = black_box(ask());
        self.all.push(begin.elapsed());
        answer
    }

    fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.all.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }
}

/// Resident memory of this process, 0 where the system does not tell.
fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
