//! What a simulation says, and the entry for the command line.

use std::{fmt::Write as _, io};

use super::simulate;

/// How many lines before a violation are shown.
const SHOWN_LINES: usize = 80;

/// Is the outcome of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationReport {
    /// The seed.
    pub seed: u64,
    /// Things that happened.
    pub steps: u64,
    /// Simulated seconds.
    pub simulated_secs: u64,
    /// Copies replaced under a claim.
    pub replaced_count: u64,
    /// Rollouts that were held at some time.
    pub held_count: u64,
    /// What was broken; none when all promises were kept.
    pub violation: Option<String>,
    /// What happened, oldest first.
    pub trace: Vec<String>,
}

impl SimulationReport {
    /// Returns the text to show for a broken promise: what was broken and what led to it.
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

/// Is what to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// First seed.
    pub seed_from: u64,
    /// How many seeds.
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
/// What writing to `out` gives.
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
        "{} seeds, {steps} steps, {} simulated hours: {replaced} copies replaced, {held} rollouts held, every promise kept",
        plan.seeds,
        secs / 3600,
    )?;
    Ok(true)
}
