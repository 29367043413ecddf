//! When a failed call is made again (agreement protocol 1.3).

use std::{future::Future, time::Duration};

use crate::ClientError;

/// How often and after what pause a call that may work later is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Repetitions after the first attempt; `None` repeats for ever.
    pub retries: Option<u32>,
    /// Pause before each repetition.
    pub pause: Duration,
}

impl RetryPolicy {
    /// No repetition.
    pub const NEVER: Self = Self { retries: Some(0), pause: Duration::ZERO };
    /// The rule of agbots: for ever, every 10 seconds.
    pub const AGBOT: Self = Self { retries: None, pause: Duration::from_secs(10) };
    /// The rule of an agent's message worker: once, after 5 seconds.
    pub const AGENT_MESSAGES: Self = Self { retries: Some(1), pause: Duration::from_secs(5) };

    /// Runs `call` until it works, fails for good, or the repetitions are used up.
    ///
    /// # Errors
    /// The last error of `call`.
    pub async fn run<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut repeated = 0;
        loop {
            match call().await {
                Err(error) if error.is_retryable() && self.retries.is_none_or(|limit| repeated < limit) => {
                    repeated += 1;
                    tracing::debug!(%error, repeated, "call is repeated");
                    tokio::time::sleep(self.pause).await;
                }
                other => return other,
            }
        }
    }
}

/// The pauses of work that is tried again: the first is short, each further one twice as long, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryDelay {
    next: Duration,
    longest: Duration,
}

impl RetryDelay {
    /// Starts with `first`; no pause is longer than `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the next pause, shortened at random by up to half, so that many that failed together do not come back together.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_start_short_and_double_up_to_the_limit() {
        let mut delay = RetryDelay::new(Duration::from_millis(50), Duration::from_millis(300));
        for longest in [50, 100, 200, 300, 300] {
            let pause = delay.next_pause().as_millis();
            assert!((longest / 2..=longest).contains(&pause), "{pause} of {longest}");
        }
    }
}
