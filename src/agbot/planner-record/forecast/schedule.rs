//! Plays the remaining steps of a rollout through, for given durations.
//!
//! A long rollout is played in small: with as many steps as [`STEPS`], in proportion less at once, and the result enlarged. So a forecast
//! costs the same for ten steps and for a hundred thousand.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Pacing, Queue, RemainingSteps, Stage, StepInWork};

/// Steps that are played, over all stages.
const STEPS: u32 = 64;
/// Steps of a stage that are played at least.
const STEPS_OF_STAGE: u32 = 8;
/// Stages that are played by themselves; those beyond count as one.
const STAGES: usize = 32;

/// Milliseconds: an order of instants needs a number that has one.
type Millis = u64;

/// A stage in small.
#[derive(Debug, Clone)]
struct Part {
    stage: Stage,
    /// Steps at once.
    permits: usize,
    /// Rounds that the stage takes, for each one that is played.
    factor: f64,
}

/// The remaining steps, prepared to be played.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    parts: Vec<Part>,
    pacing: Pacing,
}

impl Schedule {
    pub fn new(remaining: &RemainingSteps, pacing: Pacing) -> Self {
        let (first, rest) = remaining.stages.split_at(remaining.stages.len().min(STAGES));
        let mut stages = first.to_vec();
        if let Some(last) = stages.last_mut() {
            for stage in rest {
                last.independent = last.independent.saturating_add(stage.independent);
                last.queues.extend(&stage.queues);
            }
        }
        let limit = (STEPS / stages.len().max(1) as u32).max(STEPS_OF_STAGE);
        let parts = stages.into_iter().map(|stage| Part::new(stage, pacing.parallelism, limit)).collect();
        Self { parts, pacing }
    }

    /// Returns how long the steps take, in seconds. `draw`: the time of a step until its instance is seen running, longer than what has
    /// passed already.
    pub fn play(&self, draw: &mut dyn FnMut(f64) -> f64) -> f64 {
        let stages = self.parts.iter().map(|part| part.play(&self.pacing, draw));
        stages.sum::<f64>() + self.pacing.settling_secs as f64
    }
}

impl Part {
    fn new(mut stage: Stage, parallelism: u32, limit: u32) -> Self {
        let permits = |stage: &Stage, parallelism: usize| {
            let queues = stage.queues.len() + stage.independent as usize;
            if parallelism == 0 { queues } else { parallelism.min(queues) }.max(1)
        };
        let rounds = |stage: &Stage, permits: usize| f64::from(count(stage)) / permits as f64;
        let all = permits(&stage, parallelism as usize);
        let before = rounds(&stage, all);
        let divisor = count(&stage).div_ceil(limit).max(1);
        if divisor == 1 {
            return Self { permits: all.max(in_work(&stage)), stage, factor: 1.0 };
        }
        stage.independent = stage.independent.div_ceil(divisor);
        stage.queues = stage.queues.into_iter().step_by(divisor as usize).collect();
        // A single queue may be longer than all that is played.
        let longest = limit.max(1);
        stage.queues.iter_mut().for_each(|queue| queue.steps = queue.steps.min(longest));
        let fewer = permits(&stage, (all / divisor as usize).max(1));
        let fewer = fewer.max(in_work(&stage));
        let factor = before / rounds(&stage, fewer).max(f64::MIN_POSITIVE);
        Self { permits: fewer, factor, stage }
    }

    fn play(&self, pacing: &Pacing, draw: &mut dyn FnMut(f64) -> f64) -> f64 {
        let mut running = Running::new(self.permits);
        for queue in &self.stage.queues {
            match &queue.in_work {
                Some(step) => running.resume(queue.steps, left_of(step, pacing, draw), pacing),
                None => running.queues.push(waiting(0, queue.steps)),
            }
        }
        running.independent = self.stage.independent;
        while running.step(pacing, draw) {}
        running.end as f64 / 1_000.0 * self.factor
    }
}

fn in_work(stage: &Stage) -> usize {
    stage.queues.iter().filter(|queue| queue.in_work.is_some()).count()
}

fn count(stage: &Stage) -> u32 {
    let steps = |queue: &Queue| queue.steps.saturating_add(u32::from(queue.in_work.is_some()));
    stage.queues.iter().map(steps).fold(stage.independent, u32::saturating_add)
}

fn millis(secs: f64) -> Millis {
    (secs * 1_000.0).round() as Millis
}

/// Returns the remaining time of a step that has begun, in seconds.
fn left_of(step: &StepInWork, pacing: &Pacing, draw: &mut dyn FnMut(f64) -> f64) -> f64 {
    let watched = pacing.watched_secs as f64;
    match step.running_secs {
        Some(running) => (watched - running as f64).max(0.0),
        None => {
            let elapsed = step.elapsed_secs as f64;
            (draw(elapsed).min(pacing.start_timeout_secs as f64) - elapsed).max(0.0) + watched
        }
    }
}

/// A queue: the instant from which its next step may begin, and its steps. Of several, the longest goes first.
type Waiting = Reverse<(Millis, Reverse<u32>)>;

fn waiting(from: Millis, steps: u32) -> Waiting {
    Reverse((from, Reverse(steps)))
}

/// A stage that is being played.
struct Running {
    /// The instants from which further steps may begin, beside those of steps that have not been taken.
    permits: BinaryHeap<Reverse<Millis>>,
    queues: BinaryHeap<Waiting>,
    independent: u32,
    /// When the last step is finished.
    end: Millis,
}

impl Running {
    fn new(permits: usize) -> Self {
        let permits = std::iter::repeat_n(Reverse(0), permits).collect();
        Self { permits, queues: BinaryHeap::new(), independent: 0, end: 0 }
    }

    /// Continues a step that has begun.
    fn resume(&mut self, steps_after: u32, left_secs: f64, pacing: &Pacing) {
        self.permits.pop();
        self.finish(millis(left_secs), steps_after, pacing);
    }

    fn finish(&mut self, at: Millis, steps_after: u32, pacing: &Pacing) {
        let free_at = at.saturating_add(pacing.delay_secs.saturating_mul(1_000));
        self.permits.push(Reverse(free_at));
        self.queues.push(waiting(free_at, steps_after));
        self.end = self.end.max(at);
    }

    /// Takes the next step; false when none is left.
    fn step(&mut self, pacing: &Pacing, draw: &mut dyn FnMut(f64) -> f64) -> bool {
        while matches!(self.queues.peek(), Some(Reverse((_, Reverse(0))))) {
            self.queues.pop();
        }
        let Some(Reverse(free_at)) = self.permits.peek().copied() else { return false };
        let is_ready = |queue: &Waiting| queue.0.0 <= free_at;
        let from_queue = self.queues.peek().is_some_and(|queue| self.independent == 0 || is_ready(queue));
        let (begins_at, steps_after) = if from_queue {
            let Some(Reverse((from, Reverse(steps)))) = self.queues.pop() else { return false };
            (from.max(free_at), steps - 1)
        } else if self.independent > 0 {
            self.independent -= 1;
            (free_at, 0)
        } else {
            return false;
        };
        self.permits.pop();
        let started = draw(0.0).min(pacing.start_timeout_secs as f64);
        let at = begins_at.saturating_add(millis(started + pacing.watched_secs as f64));
        self.finish(at, steps_after, pacing);
        true
    }
}
