//! `evenkeel bench`: measures speed and memory, always beside a comparison in the same run.
//!
//! Each benchmark uses loopback, a temporary directory and an embedded PostgreSQL of its own, and leaves nothing behind. A missed
//! target ends the program with status 1. Method and numbers: `docs/reference/benchmarks.md`.

mod all;
mod checks;
mod claims;
mod console;
mod console_fleet;
mod console_tabs;
mod exchange;
mod fleet;
mod groups;
mod health;
mod hello;
mod history;
mod history_hub;
mod hub;
mod index;
mod index_workload;
mod load;
mod logins;
mod machine;
mod memory;
mod orchestration;
mod orchestration_domains;
mod orchestration_fleet;
mod poll;
mod process;
mod report;
mod rolling;
mod several;
mod stage;
mod statements;

use clap::{Args, Subcommand};
use evenkeel_runtime::process::{block_on, raise_file_limit};
use evenkeel_runtime::{ExitStatus, Failure};
use tokio::signal::unix::{SignalKind, signal};

use report::{Options, Output, Report};

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Every benchmark in turn
    All(all::AllArguments),
    /// One policy against a fleet of nodes and one node against many policies, on the index and naively
    Index(index::IndexArguments),
    /// Failed tasks, whole workloads and placements, as the engine decides about them and naively
    Orchestration(Options),
    /// Ten thousand instances that the hub checks every minute, beside a loop with statements for each
    Health(Options),
    /// Idle change polls and heartbeats, beside the smallest web server
    Poll(Options),
    /// Durable creation and deletion of HA groups, beside pgbench with the same statements
    Groups(Options),
    /// Idle change polls while a thousand bad logins a second come, beside the same polls without them
    Logins(Options),
    /// Upgrade claims, beside an implementation that locks the whole table
    Claims(Options),
    /// Memory of an idle hub and an idle agent, and the time to the first response
    Memory(memory::MemoryArguments),
    /// CPU, memory and response times of an exchange under load, next to the reference's figures
    Exchange(Options),
    /// Durable writes with three exchanges on one database, beside one exchange alone
    Several(Options),
    /// A whole hub, exchange and agbot, under a fleet that is at rest
    Hub(Options),
    /// Changes of tasks with and without a history, and pages of the states of an instant
    History(Options),
    /// Pages of the console on a hub with 100,000 nodes, beside one with 1,000, and tabs that watch a rollout
    Console(Options),
    /// Service upgrades of a fleet with and without HA groups, in simulated time
    Rolling(Options),
}

/// Runs a benchmark.
pub fn run(arguments: BenchArguments) -> Result<(), Failure> {
    match arguments.what {
        Benchmark::All(arguments) => all::run(&arguments),
        Benchmark::Index(arguments) => finish(index::run(&arguments)?, arguments.options),
        Benchmark::Orchestration(options) => finish(orchestration::run(options)?, options),
        Benchmark::Health(options) => finish(complete(checks::run(options))?, options),
        Benchmark::Poll(options) => finish(complete(poll::run(options))?, options),
        Benchmark::Groups(options) => finish(complete(groups::run(options))?, options),
        Benchmark::Logins(options) => finish(complete(logins::run(options))?, options),
        Benchmark::Claims(options) => finish(complete(claims::run(options))?, options),
        Benchmark::Memory(arguments) => finish(complete(memory::run(&arguments))?, arguments.options),
        Benchmark::Exchange(options) => finish(complete(exchange::run(options))?, options),
        Benchmark::Several(options) => finish(complete(several::run(options))?, options),
        Benchmark::Hub(options) => finish(complete(hub::run(options))?, options),
        Benchmark::History(options) => finish(complete(history::run(options))?, options),
        Benchmark::Console(options) => finish(complete(console::run(options))?, options),
        Benchmark::Rolling(options) => finish(rolling::run(options)?, options),
    }
}

/// Serves the comparison server, which is a process of its own.
pub fn run_hello() -> Result<(), Failure> {
    hello::run()
}

/// Runs to the report, or until a signal: what was started ends with the dropped future.
fn complete(work: impl Future<Output = Result<Report, Failure>>) -> Result<Report, Failure> {
    raise_file_limit();
    block_on(async {
        let stopped = |error: std::io::Error| Failure::from_error(ExitStatus::Failure, &error);
        let mut terminate = signal(SignalKind::terminate()).map_err(stopped)?;
        tokio::select! {
            report = work => report,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(ExitStatus::Failure, "interrupted")),
            _ = terminate.recv() => Err(Failure::new(ExitStatus::Failure, "interrupted")),
        }
    })
}

/// Prints a report; an error if it contains a missed target.
fn finish(report: Report, options: Options) -> Result<(), Failure> {
    let judges_all = options.judges_all();
    match options.output {
        Output::Table => print!("{}", report.text(judges_all)),
        Output::Markdown => print!("{}", report.markdown(judges_all)),
        Output::Json => println!("{}", report.json(judges_all)),
    }
    judge(&report.missed(judges_all))
}

/// An error that names each missed target.
fn judge(missed: &[String]) -> Result<(), Failure> {
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(ExitStatus::Failure, format!("missed targets:\n  {}", missed.join("\n  "))))
}
