//! Forecast of the time that a rollout still takes, from measured durations of steps, with its uncertainty.
//!
//! A step lasts from the stop of the old instance until the new one is seen running, which is measured, and then for the times that the
//! settings name, which are known. The measured part is taken to be log-normally distributed: [`durations`] holds what is believed of its
//! mean and spread, after the steps of the rollout itself and of earlier ones. [`schedule`] plays the remaining steps through some hundred
//! times, each time with a mean and a spread drawn from that belief, by the pace of the settings. The middle 80 % of the results are the
//! interval. It is pure: the same input gives the same forecast. Source: orchestration B11.5, B11.8.

mod durations;
mod schedule;

use durations::Belief;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use schedule::Schedule;

/// Schedules that are played through.
const TRIALS: usize = 200;

/// Share of the results below the interval, and above it.
const TAIL: f64 = 0.1;

/// The pace at which steps may follow each other.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Steps at once; 0 means as many as there are queues.
    pub parallelism: u32,
    /// Time for which a new instance is watched before its step is finished.
    pub watched_secs: u64,
    /// Time between the end of a step and the begin of the next one.
    pub delay_secs: u64,
    /// Time that passes after the last step before the rollout is complete.
    pub settling_secs: u64,
    /// Time after which a step fails whose instance is not seen running.
    pub start_timeout_secs: u64,
}

/// A step that has begun.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInWork {
    /// Time since it began.
    pub elapsed_secs: u64,
    /// Time since the new instance was first seen running; none before that.
    pub running_secs: Option<u64>,
}

/// Steps of which one is taken after the other, such as those of an HA group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// Steps that have not begun.
    pub steps: u32,
    /// The step that has.
    pub in_work: Option<StepInWork>,
}

/// Steps that are all finished before those of the next stage begin, such as those of an upgrade domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stage {
    /// Steps that wait for nothing but the parallelism, and have not begun.
    pub independent: u32,
    /// The others, and those that have begun.
    pub queues: Vec<Queue>,
}

/// The remaining steps of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemainingSteps {
    /// The stages in their order.
    pub stages: Vec<Stage>,
}

/// Measured times from the begin of steps until their new instances were seen running.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeasuredSteps {
    /// Those of the rollout.
    pub own: Vec<f64>,
    /// Those of earlier ones.
    pub earlier: Vec<f64>,
}

/// The basis of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Steps of the rollout.
    Own,
    /// Steps of the rollout and of earlier ones.
    OwnAndEarlier,
    /// Steps of earlier rollouts: none of this one is finished.
    Earlier,
    /// The settings alone: nothing was measured.
    Settings,
}

impl Basis {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::OwnAndEarlier => "own-and-earlier",
            Self::Earlier => "earlier",
            Self::Settings => "settings",
        }
    }

    fn of(measured: &MeasuredSteps) -> Self {
        match (measured.own.is_empty(), measured.earlier.is_empty()) {
            (false, true) => Self::Own,
            (false, false) => Self::OwnAndEarlier,
            (true, false) => Self::Earlier,
            (true, true) => Self::Settings,
        }
    }
}

/// The time that a rollout still takes if nothing blocks it.
///
/// # Shape
/// `minimum_secs <= earliest_secs <= secs <= latest_secs`.
/// # Units
/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// It takes less with a probability of one half.
    pub secs: u64,
    /// It takes less with a probability of one tenth.
    pub earliest_secs: u64,
    /// It takes longer with a probability of one tenth.
    pub latest_secs: u64,
    /// It would take this long if every instance were seen running at once: the times that the settings name.
    pub minimum_secs: u64,
    /// Steps that are not finished.
    pub steps_left: u32,
    /// Steps of the rollout that were measured.
    pub measured_steps: u32,
    /// Steps of earlier ones that were measured.
    pub earlier_steps: u32,
    /// Its basis.
    pub basis: Basis,
}

impl RemainingSteps {
    /// Returns the number of steps.
    pub fn count(&self) -> u32 {
        let of_queue = |queue: &Queue| queue.steps.saturating_add(u32::from(queue.in_work.is_some()));
        let of_stage =
            |stage: &Stage| stage.queues.iter().map(of_queue).fold(stage.independent, u32::saturating_add);
        self.stages.iter().map(of_stage).fold(0, u32::saturating_add)
    }
}

/// Forecasts the time that the remaining steps take; none when none remain.
///
/// # Shape
/// `seed`: of the draws. What is asked again and again should have the same one, so that only news changes the forecast.
pub fn forecast(
    remaining: &RemainingSteps,
    pacing: &Pacing,
    measured: &MeasuredSteps,
    seed: u64,
) -> Option<Forecast> {
    let steps_left = remaining.count();
    if steps_left == 0 {
        return None;
    }
    let schedule = Schedule::new(remaining, *pacing);
    let belief = Belief::of(measured);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut results: Vec<f64> = (0..TRIALS)
        .map(|_| {
            let distribution = belief.draw(&mut random);
            schedule.play(&mut |elapsed_secs| distribution.draw_longer_than(elapsed_secs, &mut random))
        })
        .collect();
    results.sort_by(f64::total_cmp);
    let quantile = |share: f64| results[((TRIALS - 1) as f64 * share).round() as usize];
    let whole = |secs: f64| secs.round() as u64;
    let minimum_secs = whole(schedule.play(&mut |_| 0.0));
    Some(Forecast {
        secs: whole(quantile(0.5)).max(minimum_secs),
        earliest_secs: whole(quantile(TAIL)).max(minimum_secs),
        latest_secs: whole(quantile(1.0 - TAIL)).max(minimum_secs),
        minimum_secs,
        steps_left,
        measured_steps: measured.own.len() as u32,
        earlier_steps: measured.earlier.len() as u32,
        basis: Basis::of(measured),
    })
}

#[cfg(test)]
mod tests;
