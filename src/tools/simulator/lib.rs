//! The simulator: a whole world around the pure core, run through schedules with faults.
//!
//! Several agbots with leased partitions (and stale ones), an exchange with a change feed, agents with start times, bad
//! versions, crashes of any process at any time, lost, late and duplicated messages, crashing nodes and clock jumps. After
//! each step the promises of the design are checked ([`invariants`]); a violation ends the run with a readable trace. One
//! seed is one schedule: the same seed gives the same trace. Source: design 1, 7.

pub(crate) mod agbot;
pub(crate) mod agent;
mod agent_tasks;
pub(crate) mod chaos;
pub(crate) mod database;
mod database_tasks;
mod deliberate;
mod domains;
pub(crate) mod exchange;
mod health_chaos;
pub(crate) mod invariants;
mod moves;
mod planned;
mod polling;
mod recovery_watch;
pub mod report;
pub(crate) mod tail;
mod task_health;
pub mod upgrade;
mod user_actions;
mod workload;
mod workload_chaos;
pub(crate) mod world;

pub use report::{SimulationReport, run_cli};

use deliberate::DeliberateFaults;

/// Runs one schedule.
///
/// # Shape
/// `steps`: number of events while faults are injected; afterwards all faults end and the world must settle.
pub fn simulate(seed: u64, steps: u32) -> SimulationReport {
    simulate_with(seed, steps, DeliberateFaults::default())
}

/// Runs one schedule with deliberate faults, to show that the simulator detects them.
pub(crate) fn simulate_with(seed: u64, steps: u32, deliberate: DeliberateFaults) -> SimulationReport {
    let mut world = world::World::new(seed, deliberate);
    chaos::run(&mut world, steps);
    world.into_report(seed)
}

#[cfg(test)]
mod decisions;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod scenarios_affinity;
#[cfg(test)]
mod scenarios_agent;
#[cfg(test)]
mod scenarios_claim;
#[cfg(test)]
mod scenarios_drain;
#[cfg(test)]
mod scenarios_failover;
#[cfg(test)]
mod scenarios_lost;
#[cfg(test)]
mod scenarios_other_agbot;
#[cfg(test)]
mod scenarios_parallelism;
#[cfg(test)]
mod scenarios_pattern;
#[cfg(test)]
mod scenarios_policy;
#[cfg(test)]
mod scenarios_proposal;
#[cfg(test)]
mod scenarios_returned;
#[cfg(test)]
mod scenarios_rollout;
#[cfg(test)]
mod scenarios_suspended;
#[cfg(test)]
mod scenarios_workload;
#[cfg(test)]
mod tests;
