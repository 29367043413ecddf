//! `evenkeel simulate`: runs the pure core through schedules with faults, each derived from a seed.

use clap::Args;
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_simulator::{report::Plan, run_cli};

/// Options of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// First seed; the same seed always gives the same schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds, one after the other
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Steps with faults in each schedule; after them the system must converge
    #[arg(long, default_value_t = 600)]
    steps: u32,
    /// Print everything that happens
    #[arg(long)]
    trace: bool,
}

/// Simulates until an invariant is violated, or to the end.
pub fn run(arguments: SimulateArguments) -> Result<(), Failure> {
    let plan = Plan {
        seed_from: arguments.seed,
        seeds: arguments.seeds,
        steps: arguments.steps,
        shows_trace: arguments.trace,
    };
    let kept = run_cli(plan, &mut std::io::stdout().lock())
        .map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    if kept {
        Ok(())
    } else {
        Err(Failure::new(ExitStatus::Failure, "an invariant was violated: see the trace"))
    }
}
