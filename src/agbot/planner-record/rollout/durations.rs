//! Measured durations of steps, as the row of a rollout keeps them for forecasts.

use serde::{Deserialize, Serialize};

/// Durations that are kept of a rollout, and of those before it.
const KEPT: usize = 32;

/// Times from the begin of steps until their new instances were first seen running.
///
/// # Shape
/// The newest last, at most [`KEPT`] of the rollout and of those before it each. Failed steps are not among them.
/// # Units
/// Seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDurations {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    own: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<u32>,
}

impl StepDurations {
    /// Returns whether no step was measured.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.earlier.is_empty()
    }

    /// Returns the durations of the rollout.
    pub fn own(&self) -> &[u32] {
        &self.own
    }

    /// Returns the durations of the rollouts before it through the same group.
    pub fn earlier(&self) -> &[u32] {
        &self.earlier
    }

    /// Returns them with that of another step.
    pub fn with(mut self, secs: u64) -> Self {
        self.own.push(u32::try_from(secs).unwrap_or(u32::MAX));
        keep_newest(&mut self.own);
        self
    }

    /// Returns those with which the next rollout begins.
    pub fn of_next(self) -> Self {
        let mut earlier = self.earlier;
        earlier.extend(self.own);
        keep_newest(&mut earlier);
        Self { own: Vec::new(), earlier }
    }
}

fn keep_newest(durations: &mut Vec<u32>) {
    durations.drain(..durations.len().saturating_sub(KEPT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_durations_are_kept_and_passed_on_to_the_next_rollout() {
        let measured = (0..40).fold(StepDurations::default(), StepDurations::with);
        assert_eq!((measured.own().len(), measured.own()[0], measured.own()[31]), (KEPT, 8, 39));
        let next = measured.of_next().with(7);
        assert_eq!((next.own(), next.earlier()[31]), ([7].as_slice(), 39));
        assert_eq!(next.of_next().earlier()[30..], [39, 7]);
        assert!(StepDurations::default().of_next().is_empty());
    }
}
