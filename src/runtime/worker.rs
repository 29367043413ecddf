//! Background work: a pass at a time, begun by a period with jitter or by a signal that carries no facts.
//!
//! A pass reads what it needs, does what is due and returns; its last start, end and result are published.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_domain::causes::chain;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// One kind of background work.
pub trait Worker: Send + 'static {
    /// The name under which the work is reported.
    fn name(&self) -> &'static str;

    /// Does one pass. It must be safe to repeat, and safe to drop at any await when the process stops.
    fn pass(&mut self) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// What is known of a worker's passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// When the last pass began.
    pub started_at: Option<Timestamp>,
    /// When the last finished pass ended.
    pub ended_at: Option<Timestamp>,
    /// Why the last finished pass failed; `None` when it succeeded.
    pub failure: Option<String>,
    /// How many passes have ended.
    pub pass_count: u64,
    /// How many of them failed.
    pub failure_count: u64,
}

/// A running worker: ask it to look again, or read how it is doing.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    name: &'static str,
    signal: Arc<Notify>,
    status: Arc<Mutex<WorkerStatus>>,
}

impl WorkerHandle {
    /// The worker's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Begins a pass soon; signals that arrive during a pass lead to one more pass.
    pub fn signal(&self) {
        self.signal.notify_one();
    }

    /// The signal itself, for those who must not know the worker.
    #[must_use]
    pub fn signal_handle(&self) -> Arc<Notify> {
        self.signal.clone()
    }

    /// How the passes have gone so far.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs `worker` on the current runtime until `shutdown`, beginning with a pass at once.
///
/// # Units
/// `period`: from the end of a pass to the start of the next; up to a tenth is added at random so that several processes
/// do not march in step.
pub fn spawn(mut worker: impl Worker, period: Duration, shutdown: CancellationToken) -> WorkerHandle {
    let handle = WorkerHandle { name: worker.name(), signal: Arc::default(), status: Arc::default() };
    let task = handle.clone();
    tokio::spawn(async move {
        while shutdown.run_until_cancelled(task.run_pass(&mut worker)).await.is_some() {
            let pause = period + period.mul_f64(rand::random::<f64>() / 10.0);
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = task.signal.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    });
    handle
}

impl WorkerHandle {
    async fn run_pass(&self, worker: &mut impl Worker) {
        self.update(|status| status.started_at = Some(Timestamp::now()));
        let result = worker.pass().await;
        let failure = result.err().map(|error| chain(error.as_ref()));
        if let Some(failure) = &failure {
            tracing::warn!(worker.name = self.name, "background work failed: {failure}");
        }
        self.update(|status| {
            status.ended_at = Some(Timestamp::now());
            status.pass_count += 1;
            status.failure_count += u64::from(failure.is_some());
            status.failure = failure;
        });
    }

    fn update(&self, change: impl FnOnce(&mut WorkerStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    struct Reporter {
        passes: mpsc::UnboundedSender<u64>,
        count: u64,
    }

    impl Worker for Reporter {
        fn name(&self) -> &'static str {
            "reporter"
        }

        async fn pass(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
            self.count += 1;
            self.passes.send(self.count)?;
            if self.count == 2 { Err("the second pass fails".into()) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn a_signal_begins_a_pass_and_a_failure_is_published() {
        let (passes, mut seen) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let handle = spawn(Reporter { passes, count: 0 }, Duration::from_secs(3600), shutdown.clone());
        assert_eq!(seen.recv().await, Some(1));
        handle.signal();
        assert_eq!(seen.recv().await, Some(2));
        handle.signal();
        assert_eq!(seen.recv().await, Some(3));
        shutdown.cancel();
        assert_eq!(seen.recv().await, None, "the worker is dropped at shutdown");
        let status = handle.status();
        assert_eq!(status.failure_count, 1);
        assert!(status.started_at.is_some() && status.pass_count >= 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_begins_a_pass() {
        let (passes, mut seen) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        spawn(Reporter { passes, count: 0 }, Duration::from_secs(60), shutdown.clone());
        let begun = tokio::time::Instant::now();
        for expected in 1..=3 {
            assert_eq!(seen.recv().await, Some(expected));
        }
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(120) && waited <= Duration::from_secs(134), "{waited:?}");
        shutdown.cancel();
    }
}
