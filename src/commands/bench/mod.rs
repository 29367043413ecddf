//! `evenkeel bench`: measures, always beside a comparison in the same run.

mod index;

use clap::{Args, Subcommand};
use evenkeel_runtime::Failure;

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// One policy against a fleet of nodes and one node against many policies, on the index and naively.
    Index(index::IndexArguments),
}

/// Runs a benchmark.
pub fn run(arguments: BenchArguments) -> Result<(), Failure> {
    match arguments.what {
        Benchmark::Index(arguments) => index::run(&arguments),
    }
}
