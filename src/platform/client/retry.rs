//! The backoff before failed calls are retried.

use std::time::Duration;

/// The pauses between retries: the first is short, each further one twice as long, up to a limit.
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

    /// Returns the limit of the pauses.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the next pause, shortened at random by up to half, so that clients that failed together do not retry together.
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
