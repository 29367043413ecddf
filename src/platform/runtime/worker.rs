//! Periodic work: a worker does one pass at a time, after a pause with jitter or on a signal that carries no facts.
//!
//! A pass reads what it needs, does what is due and returns. Start, end and result of the last pass are published in [`Workers`].
//!
//! A task that owns state and takes its inputs from a channel, in their order, is not a worker: its inputs
//! carry facts, and none may be lost. Each role has at most one such task, which decides: the engine of the
//! agbot and the core of the agent.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_domain::causes::chain;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// The same failure of a worker is logged again after this time.
const REPEATED_AFTER: Duration = Duration::from_secs(60);

/// One kind of periodic work.
pub trait Worker: Send + 'static {
    /// Reason why a pass can fail.
    type Error: Error + 'static;

    /// The name under which the worker is reported, unique within its role.
    const NAME: &'static str;

    /// True if a pass may be dropped at any await when the process stops, as a pass that follows a feed must
    /// be.
    const IS_INTERRUPTIBLE: bool = false;

    /// Runs one pass; safe to repeat.
    fn pass(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the pause before the next pass; up to a tenth is added at random, so that processes do not run in lockstep.
    fn pause(&self) -> Duration;

    /// Returns the pause before the first pass.
    fn first_pause(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits for a signal that makes the next pass due at once; never returns for a worker without signals. It is
    /// dropped when the pause ends, so it must be cancel safe.
    fn signaled(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Finishes the remaining work after the last pass, when the process stops.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Outcomes of the passes of one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// When the last pass began.
    pub started_at: Option<Timestamp>,
    /// When the last finished pass ended.
    pub ended_at: Option<Timestamp>,
    /// Reason why the last finished pass failed; `None` when it succeeded.
    pub failure: Option<String>,
}

/// The workers of one role of a process, with the results of their passes. Clones share the statuses.
#[derive(Clone, Debug, Default)]
pub struct Workers {
    statuses: Arc<Mutex<BTreeMap<&'static str, WorkerStatus>>>,
}

impl Workers {
    /// Runs a worker until `shutdown`.
    pub fn run<W: Worker>(
        &self,
        mut worker: W,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<W> {
        let workers = self.clone();
        workers.update::<W>(|_| {});
        async move {
            let mut pause = worker.first_pause();
            let mut failures = None;
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = worker.signaled() => {}
                    () = tokio::time::sleep(jittered(pause)) => {}
                }
                workers.update::<W>(|status| status.started_at = Some(Timestamp::now()));
                let result = if W::IS_INTERRUPTIBLE {
                    match shutdown.run_until_cancelled(worker.pass()).await {
                        Some(result) => result,
                        None => break,
                    }
                } else {
                    worker.pass().await
                };
                workers.report::<W>(result, &mut failures);
                pause = worker.pause();
            }
            worker.finish().await;
        }
    }

    /// Returns the status of every worker, by name.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<&'static str, WorkerStatus> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn report<W: Worker>(&self, result: Result<(), W::Error>, failures: &mut Option<Failures>) {
        let (failure, now) = (result.err().map(|error| chain(&error)), Instant::now());
        match &failure {
            Some(failure) => {
                let known = failures.get_or_insert_with(|| Failures::new(now));
                if known.is_to_be_logged(failure, now) {
                    tracing::warn!(
                        worker = W::NAME,
                        failed_passes = known.count,
                        "pass failed, retrying: {failure}"
                    );
                }
            }
            None => {
                if let Some(over) = failures.take().filter(|over| over.count > 1) {
                    let lasted_secs = now.duration_since(over.since).as_secs();
                    tracing::info!(
                        worker = W::NAME,
                        failed_passes = over.count,
                        lasted_secs,
                        "passes succeed again"
                    );
                }
            }
        }
        self.update::<W>(|status| {
            status.ended_at = Some(Timestamp::now());
            status.failure = failure;
        });
    }

    fn update<W: Worker>(&self, change: impl FnOnce(&mut WorkerStatus)) {
        let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        change(statuses.entry(W::NAME).or_default());
    }
}

/// Consecutive failed passes. The same failure is logged only from time to time, because a server may be unreachable for hours.
#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u64,
    logged: Option<(Instant, String)>,
}

impl Failures {
    fn new(since: Instant) -> Self {
        Self { since, count: 0, logged: None }
    }

    /// Counts another failed pass. Returns whether its failure is new, or was last logged [`REPEATED_AFTER`] ago or earlier.
    fn is_to_be_logged(&mut self, failure: &str, now: Instant) -> bool {
        self.count += 1;
        let is_known =
            |(at, text): &(Instant, String)| text == failure && now.duration_since(*at) < REPEATED_AFTER;
        if self.logged.as_ref().is_some_and(is_known) {
            return false;
        }
        self.logged = Some((now, failure.to_owned()));
        true
    }
}

fn jittered(pause: Duration) -> Duration {
    pause + pause.mul_f64(rand::random::<f64>() / 10.0)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use tokio::sync::{Notify, mpsc};

    const PERIOD: Duration = Duration::from_secs(60);

    #[test]
    fn same_failure_is_logged_once_a_minute() {
        let begin = Instant::now();
        let mut failures = Failures::new(begin);
        let mut log = |failure, secs| failures.is_to_be_logged(failure, begin + Duration::from_secs(secs));
        assert!(log("refused", 0));
        assert!(!log("refused", 1) && !log("refused", 59));
        assert!(log("timed out", 59), "another one is news");
        assert!(log("refused", 60) && !log("refused", 61) && log("refused", 121));
        assert_eq!(failures.count, 7);
    }

    struct Reporter {
        passes: mpsc::UnboundedSender<u64>,
        signal: Arc<Notify>,
        count: u64,
    }

    impl Worker for Reporter {
        type Error = io::Error;
        const NAME: &'static str = "reporter";

        async fn pass(&mut self) -> io::Result<()> {
            self.count += 1;
            self.passes.send(self.count).map_err(io::Error::other)?;
            if self.count == 2 { Err(io::Error::other("the second pass fails")) } else { Ok(()) }
        }

        fn pause(&self) -> Duration {
            PERIOD
        }

        async fn signaled(&mut self) {
            self.signal.notified().await;
        }

        async fn finish(&mut self) {
            self.passes.send(0).expect("the test listens");
        }
    }

    struct Running {
        workers: Workers,
        signal: Arc<Notify>,
        passes: mpsc::UnboundedReceiver<u64>,
        shutdown: CancellationToken,
    }

    fn start() -> Running {
        let (sender, passes) = mpsc::unbounded_channel();
        let (workers, signal, shutdown) =
            (Workers::default(), Arc::<Notify>::default(), CancellationToken::new());
        let reporter = Reporter { passes: sender, signal: signal.clone(), count: 0 };
        tokio::spawn(workers.run(reporter, shutdown.clone()));
        Running { workers, signal, passes, shutdown }
    }

    #[tokio::test]
    async fn signal_begins_a_pass_and_the_result_is_published() {
        let mut running = start();
        assert_eq!(running.passes.recv().await, Some(1));
        running.signal.notify_one();
        assert_eq!(running.passes.recv().await, Some(2));
        while running.workers.statuses()["reporter"].failure.is_none() {
            tokio::task::yield_now().await;
        }
        running.signal.notify_one();
        assert_eq!(running.passes.recv().await, Some(3));
        running.shutdown.cancel();
        assert_eq!(running.passes.recv().await, Some(0), "the worker finishes");
        assert_eq!(running.passes.recv().await, None, "the worker is dropped");
        let status = running.workers.statuses()["reporter"].clone();
        assert_eq!(status.failure, None);
        assert!(status.started_at.is_some() && status.ended_at >= status.started_at);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_begins_a_pass() {
        let mut running = start();
        let begun = tokio::time::Instant::now();
        for expected in 1..=3 {
            assert_eq!(running.passes.recv().await, Some(expected));
        }
        let waited = begun.elapsed();
        assert!(waited >= PERIOD * 2 && waited <= PERIOD * 2 + PERIOD / 4, "{waited:?}");
        running.shutdown.cancel();
    }
}
