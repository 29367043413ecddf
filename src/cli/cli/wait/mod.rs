//! `--wait`: follows a change until it has taken effect, with the progress on standard error.

mod cause;
pub mod group;
mod instances;
pub mod node;
pub mod policy;
pub mod rollout;
pub mod update;

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::print_note;

/// Between two requests.
const PERIOD: Duration = Duration::from_millis(300);
/// Number of times in a row that an outcome must be seen, because the agbot may not have decided on the change yet.
const TIMES_DONE: u32 = 2;
/// The same for an outcome that ends the command with a failure.
const TIMES_FAILED: u32 = 5;
/// Part of the reason of a rollback that a user requested.
const REQUESTED: &str = "requested by ";
/// An agbot reads most changes sooner, so that only a longer delay is worth a note.
const READ_TIME: Duration = Duration::from_secs(3);

/// Waits for the effect of a change.
#[derive(Debug, Clone, Default, Args)]
pub struct Wait {
    /// Wait until the change has taken effect, at most for this time, such as 90s, 10m or 1h [default: 10m]; ends with
    /// status 11 when it failed or was rolled back, 12 when it does not continue until a user acts, 13 when the time
    /// ended first
    #[arg(long = "wait", value_name = "TIMEOUT", num_args = 0..=1, require_equals = true,
          default_missing_value = "10m", value_parser = duration)]
    pub limit: Option<Duration>,
}

/// Progress of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It has taken effect.
    Done(String),
    /// It is in progress, with the reason for which it waits.
    Pending(String),
    /// The agbot has not read it yet.
    Unread(String),
    /// It has failed.
    Failed(String),
    /// It was rolled back because a user requested that.
    Undone(String),
    /// It does not continue until a user acts.
    Held {
        /// Reason for which it waits.
        why: String,
        /// Suggested action.
        advice: String,
    },
}

/// Returns what continues a rollout of a policy that is paused, or undoes it. A rollback is continued only.
pub fn held_advice(policy: &str, is_rollback: bool) -> String {
    match is_rollback {
        true => format!("continue with: hzn rollout resume {policy}"),
        false => {
            format!("continue with: hzn rollout resume {policy}, or go back with: hzn rollout undo {policy}")
        }
    }
}

impl Progress {
    /// Returns the end of a rollback that was not waited for.
    fn rolled_back(text: String) -> Self {
        if text.contains(REQUESTED) { Self::Undone(text) } else { Self::Failed(text) }
    }

    fn text(&self) -> &str {
        match self {
            Self::Done(text)
            | Self::Pending(text)
            | Self::Unread(text)
            | Self::Failed(text)
            | Self::Undone(text) => text,
            Self::Held { why, .. } => why,
        }
    }

    /// Number of consecutive observations after which it counts; none for a state that is in progress.
    fn times_needed(&self) -> Option<u32> {
        match self {
            Self::Done(_) => Some(TIMES_DONE),
            Self::Failed(_) | Self::Undone(_) | Self::Held { .. } => Some(TIMES_FAILED),
            Self::Pending(_) | Self::Unread(_) => None,
        }
    }

    /// Returns the time for which it must last before it is worth a note.
    fn quiet_time(&self) -> Duration {
        if matches!(self, Self::Unread(_)) { READ_TIME } else { Duration::ZERO }
    }
}

/// The last observation.
struct Seen {
    progress: Progress,
    /// Number of consecutive observations.
    times: u32,
    since: Instant,
    /// The last note.
    reported: String,
}

impl Seen {
    fn nothing(now: Instant) -> Self {
        Self { progress: Progress::Pending(String::new()), times: 0, since: now, reported: String::new() }
    }

    /// Processes an observation; returns a note if there is something to report.
    fn update(&mut self, progress: Progress, now: Instant) -> Option<&str> {
        if progress == self.progress {
            self.times += 1;
        } else {
            (self.progress, self.times, self.since) = (progress, 1, now);
        }
        let is_new = self.progress.text() != self.reported;
        if !is_new || now.duration_since(self.since) < self.progress.quiet_time() {
            return None;
        }
        self.reported = self.progress.text().to_owned();
        Some(&self.reported)
    }

    /// Returns whether the observation ends the command; after the timeout, a failure that was seen twice does.
    fn is_outcome(&self, is_last: bool) -> bool {
        let needed = self.progress.times_needed();
        needed.is_some_and(|needed| self.times >= if is_last { TIMES_DONE } else { needed })
    }
}

impl Wait {
    /// Follows a change until it has taken effect; returns at once without `--wait` and in a dry run. `change` names it.
    ///
    /// # Errors
    /// With status 11, 12 or 13 when it did not take effect, 130 after an interrupt, and those of `progress` but for a server that does not respond.
    pub async fn follow(
        &self,
        context: &Context,
        change: &str,
        progress: impl AsyncFn() -> Outcome<Progress>,
    ) -> Outcome {
        let Some(limit) = self.limit.filter(|_| !context.is_dry_run) else { return Ok(()) };
        let deadline = Instant::now() + limit;
        let mut seen = Seen::nothing(Instant::now());
        let mut interrupt = pin!(interrupt());
        loop {
            let found = tokio::select! {
                found = progress() => found,
                () = &mut interrupt => return Err(interrupted(change, &seen.progress)),
            };
            match found {
                Ok(now) => {
                    if let Some(text) = seen.update(now, Instant::now()) {
                        print_note(text);
                    }
                }
                // The hub may be restarted meanwhile.
                Err(error) if error.is_retryable => seen.times = 0,
                Err(error) => return Err(error),
            }
            let is_last = Instant::now() >= deadline;
            if seen.is_outcome(is_last) {
                return outcome(change, seen.progress);
            }
            if is_last {
                return Err(timed_out(change, &seen.progress, limit));
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = &mut interrupt => return Err(interrupted(change, &seen.progress)),
            }
        }
    }
}

fn outcome(change: &str, end: Progress) -> Outcome {
    let advice = "see the rollouts with: hzn rollout status, and the reasons with: hzn agbot reasons";
    match end {
        Progress::Failed(why) => {
            Err(CliError::new(Exit::WaitFailed, format!("{change} has failed"), why, advice))
        }
        Progress::Undone(why) => Err(CliError::new(
            Exit::WaitFailed,
            format!("{change} was rolled back as requested"),
            why,
            advice,
        )),
        Progress::Held { why, advice } => {
            Err(CliError::new(Exit::WaitHeld, format!("{change} does not continue by itself"), why, advice))
        }
        Progress::Done(_) | Progress::Pending(_) | Progress::Unread(_) => Ok(()),
    }
}

/// Waits for an interrupt; forever if none can be received.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn interrupted(change: &str, last: &Progress) -> CliError {
    let why = match last.text() {
        "" => "the agbot has not responded".to_owned(),
        text => text.to_owned(),
    };
    let what = format!("waiting for {change} was interrupted");
    CliError::new(
        Exit::Interrupted,
        what,
        why,
        "the change itself continues; follow it with: hzn rollout status",
    )
}

fn timed_out(change: &str, last: &Progress, limit: Duration) -> CliError {
    let why = match last.text() {
        "" => "the agbot has not responded".to_owned(),
        text => text.to_owned(),
    };
    let what = format!("{change} has not taken effect after {} seconds", limit.as_secs());
    CliError::new(
        Exit::WaitTimeout,
        what,
        why,
        "wait longer with --wait=TIMEOUT; the change itself continues",
    )
}

/// A span of time: a number of seconds, or one with the unit s, m or h.
pub(crate) fn duration(given: &str) -> Result<Duration, String> {
    let (number, suffix) = match given.find(|letter: char| !letter.is_ascii_digit()) {
        Some(at) => given.split_at(at),
        None => (given, "s"),
    };
    let factor = match suffix {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("give a number of seconds, or one with the unit s, m or h, such as 10m".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "it does not begin with a number".to_owned())?;
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(|| "it is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::output::Screen;

    fn context() -> Context {
        let screen = Screen { format: None };
        Context { screen, ..Context::default() }
    }

    async fn follow(limit: Duration, states: Vec<Progress>) -> Result<(), Exit> {
        let states = RefCell::new(states);
        let progress = async || {
            let mut states = states.borrow_mut();
            Ok(if states.len() > 1 { states.remove(0) } else { states[0].clone() })
        };
        let wait = Wait { limit: Some(limit) };
        wait.follow(&context(), "the change", progress).await.map_err(|error| error.exit)
    }

    fn done() -> Progress {
        Progress::Done("done".to_owned())
    }

    fn held() -> Progress {
        Progress::Held { why: "held".to_owned(), advice: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn outcome_counts_when_it_lasts() {
        let long = Duration::from_secs(600);
        let pending = Progress::Pending("1 of 2".to_owned());
        assert_eq!(follow(long, vec![pending.clone(), done()]).await, Ok(()));
        // A state from before the agbot decided on the change is not an outcome of the change.
        assert_eq!(follow(long, vec![held(), held(), pending.clone(), done()]).await, Ok(()));
        assert_eq!(follow(long, vec![pending, held()]).await, Err(Exit::WaitHeld));
        assert_eq!(follow(long, vec![Progress::Failed("x".to_owned())]).await, Err(Exit::WaitFailed));
    }

    #[tokio::test]
    async fn time_that_is_over_has_a_status_of_its_own() {
        let pending = Progress::Pending("1 of 2".to_owned());
        assert_eq!(follow(Duration::ZERO, vec![pending]).await, Err(Exit::WaitTimeout));
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_that_is_held_when_the_time_ends_is_held() {
        assert_eq!(follow(Duration::from_secs(1), vec![held()]).await, Err(Exit::WaitHeld));
        let late = vec![Progress::Pending("0 of 1".to_owned()); 4].into_iter().chain([held()]).collect();
        assert_eq!(follow(Duration::from_secs(1), late).await, Err(Exit::WaitTimeout), "it was seen once");
    }

    #[test]
    fn change_that_is_not_read_is_worth_a_note_after_some_seconds() {
        let start = Instant::now();
        let mut seen = Seen::nothing(start);
        let unread = || Progress::Unread("not read".to_owned());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(seen.update(unread(), after(0)), None);
        assert_eq!(seen.update(unread(), after(2900)), None);
        assert_eq!(seen.update(unread(), after(3000)), Some("not read"));
        assert_eq!(seen.update(unread(), after(3300)), None);
        assert_eq!(seen.update(Progress::Pending("0 of 1".to_owned()), after(3600)), Some("0 of 1"));
        assert_eq!(seen.update(done(), after(3900)), Some("done"));
    }

    #[test]
    fn spans_of_time_have_units() {
        let seconds = |text: &str| duration(text).map(|span| span.as_secs());
        assert_eq!(
            (seconds("90"), seconds("90s"), seconds("10m"), seconds("1h")),
            (Ok(90), Ok(90), Ok(600), Ok(3600))
        );
        assert!(["", "m", "5d", "-1", "1.5m"].iter().all(|text| duration(text).is_err()));
    }
}
