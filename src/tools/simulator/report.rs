//! The report of a simulation, and the entry for the command line.

use std::{fmt::Write as _, io};

use super::simulate;

/// Number of trace lines shown before a violation.
const SHOWN_LINES: usize = 80;

/// The outcome of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationReport {
    /// The seed.
    pub seed: u64,
    /// Number of events.
    pub steps: u64,
    /// Simulated seconds.
    pub simulated_secs: u64,
    /// Instances replaced under a claim.
    pub replaced_count: u64,
    /// Rollouts that were held at some time.
    pub held_count: u64,
    /// The violation; none when all promises were kept.
    pub violation: Option<String>,
    /// The events, oldest first.
    pub trace: Vec<String>,
}

impl SimulationReport {
    /// Returns the text of a violation with the events that led to it.
    pub fn failure_text(&self) -> Option<String> {
        let violation = self.violation.as_ref()?;
        let mut text =
            format!("seed {} broke a promise after {} steps: {violation}\n", self.seed, self.steps);
        let skipped = self.trace.len().saturating_sub(SHOWN_LINES);
        if skipped > 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  ({skipped} earlier lines left out)");
        }
        for line in &self.trace[skipped..] {
            let _ = writeln!(text, "  {line}");
        }
        Some(text)
    }
}

/// The schedules to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// First seed.
    pub seed_from: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Steps with faults per seed.
    pub steps: u32,
    /// True to write the whole trace of every seed.
    pub shows_trace: bool,
}

/// Runs the seeds and writes a summary, or the first failure with its trace.
///
/// # Shape
/// True when every promise was kept.
/// # Errors
/// The error of writing to `out`.
pub fn run_cli(plan: Plan, out: &mut dyn io::Write) -> io::Result<bool> {
    let (mut steps, mut replaced, mut held, mut secs) = (0, 0, 0, 0);
    for seed in plan.seed_from..plan.seed_from.saturating_add(plan.seeds) {
        let report = simulate(seed, plan.steps);
        if plan.shows_trace {
            for line in &report.trace {
                writeln!(out, "{line}")?;
            }
        }
        if let Some(text) = report.failure_text() {
            write!(out, "{text}")?;
            return Ok(false);
        }
        steps += report.steps;
        replaced += report.replaced_count;
        held += report.held_count;
        secs += report.simulated_secs;
    }
    writeln!(
        out,
        "{} seeds, {steps} steps, {} simulated hours: {replaced} instances replaced, {held} rollouts held, every promise kept",
        plan.seeds,
        secs / 3600,
    )?;
    Ok(true)
}
