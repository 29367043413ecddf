//! `evenkeel bench`: measures speed and memory, always beside a comparison in the same run.
//!
//! Each benchmark takes less than a minute, uses loopback, a temporary folder and an embedded PostgreSQL of its own, and leaves
//! nothing behind. Method and numbers: `docs/benchmarks.md`. Source: issue text "Speed and memory".

mod claims;
mod exchange;
mod fleet;
mod groups;
mod hello;
mod index;
mod load;
mod logins;
mod memory;
mod poll;
mod process;
mod report;
mod rolling;
mod stage;

use clap::{Args, Subcommand};
use evenkeel_runtime::{ExitStatus, Failure};
use tokio::signal::unix::{SignalKind, signal};

use report::{Options, Report};

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// One policy against a fleet of nodes and one node against many policies, on the index and naively
    Index(index::IndexArguments),
    /// Idle change polls and heartbeats, beside the smallest web server
    Poll(Options),
    /// Durable creation and deletion of HA groups, beside pgbench with the same statements
    Groups(Options),
    /// Idle change polls while a thousand bad logins a second come, beside the same polls without them
    Logins(Options),
    /// Upgrade claims, beside an implementation that locks the whole table
    Claims(Options),
    /// Memory of an idle hub and an idle agent, and the time to the first answer
    Memory(Options),
    /// CPU, memory and answer times of an exchange under load, beside the reference's figures
    Exchange(Options),
    /// Service upgrades of a fleet with and without HA groups, in simulated time
    Rolling(Options),
}

/// Runs a benchmark.
pub fn run(arguments: BenchArguments) -> Result<(), Failure> {
    match arguments.what {
        Benchmark::Index(arguments) => index::run(&arguments),
        Benchmark::Poll(options) => measure(&options, poll::run(&options)),
        Benchmark::Groups(options) => measure(&options, groups::run(&options)),
        Benchmark::Logins(options) => measure(&options, logins::run(&options)),
        Benchmark::Claims(options) => measure(&options, claims::run(&options)),
        Benchmark::Memory(options) => measure(&options, memory::run(&options)),
        Benchmark::Exchange(options) => measure(&options, exchange::run(&options)),
        Benchmark::Rolling(options) => rolling::run(&options)?.finish(&options),
    }
}

/// Answers for the comparison server, which is a process of its own.
pub fn run_hello() -> Result<(), Failure> {
    hello::run()
}

/// Runs to the report, or until a signal: what was started ends with the dropped future.
fn measure(options: &Options, work: impl Future<Output = Result<Report, Failure>>) -> Result<(), Failure> {
    super::serve::raise_file_limit();
    super::block_on(async {
        let stopped = |error: std::io::Error| Failure::from_error(ExitStatus::Failure, &error);
        let mut terminate = signal(SignalKind::terminate()).map_err(stopped)?;
        tokio::select! {
            report = work => report?.finish(options),
            _ = tokio::signal::ctrl_c() => Err(Failure::new(ExitStatus::Failure, "interrupted")),
            _ = terminate.recv() => Err(Failure::new(ExitStatus::Failure, "interrupted")),
        }
    })
}
