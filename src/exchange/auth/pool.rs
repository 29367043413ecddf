//! Threads for slow hashes: a few, and with a lower priority than all others of the process.
//!
//! Whoever is known waits in a lane of its own, so a flood of strangers does not keep it waiting.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::gettid;
use tokio::sync::{Semaphore, oneshot};

use crate::ApiError;

/// How much the threads give way, as `nice` counts it: enough for requests to come first, not so much that logins starve on a machine that
/// others load, too.
const NICENESS: i32 = 5;
/// How long a computation waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who waits for a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Somebody who has shown the same secret before, or who is logged in.
    Known,
    /// Anybody.
    Unknown,
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads; cheap to clone. They end with the last clone.
#[derive(Clone)]
pub struct SlowPool {
    jobs: Sender<Job>,
    known: Arc<Semaphore>,
    unknown: Arc<Semaphore>,
}

impl SlowPool {
    /// Starts `parallel` threads for strangers and one that is kept for known callers.
    pub fn new(parallel: usize) -> SlowPool {
        let parallel = parallel.max(1);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..=parallel {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name("slow-hash".to_owned());
            if let Err(error) = thread.spawn(move || work(&queue)) {
                tracing::error!("a thread for checking passwords could not be started: {error}");
            }
        }
        SlowPool { jobs, known: Arc::new(Semaphore::new(1)), unknown: Arc::new(Semaphore::new(parallel)) }
    }

    /// Runs `work` when it is its turn and `is_refused` still does not object.
    ///
    /// # Errors
    /// 429 when its turn does not come in time; what `is_refused` says.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        is_refused: impl FnOnce() -> Result<(), ApiError>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let busy =
            || ApiError::TooMany { retry_after: 1, message: "too many logins at once, try again".to_owned() };
        let unknown = self.unknown.clone().acquire_owned();
        let turn = async {
            match lane {
                Lane::Unknown => unknown.await,
                Lane::Known => tokio::select! {
                    biased;
                    turn = self.known.clone().acquire_owned() => turn,
                    turn = unknown => turn,
                },
            }
        };
        let permit = tokio::time::timeout(PATIENCE, turn).await.ok().and_then(Result::ok).ok_or_else(busy)?;
        is_refused()?;
        let (answer, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody listens when the request is gone.
            let _ = answer.send(work());
            drop(permit);
        });
        self.jobs.send(job).map_err(|_| busy())?;
        result.await.map_err(|_| busy())
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    // Without the lower priority the work is the same, only less polite.
    let _ = setpriority_process(Some(thread_id()), NICENESS);
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

/// Linux keeps priorities by thread, and takes the id of one where others take that of a process.
fn thread_id() -> Pid {
    gettid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn known_callers_do_not_wait_for_strangers() {
        let pool = SlowPool::new(1);
        let (release, held) = channel::<()>();
        let stranger = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Lane::Unknown, || Ok(()), move || held.recv().is_ok()).await })
        };
        while pool.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(Lane::Known, || Ok(()), || 7).await.expect("a lane of its own"), 7);
        release.send(()).expect("the stranger is still there");
        assert!(stranger.await.expect("no panic").expect("its turn"));
    }

    #[tokio::test]
    async fn objection_that_comes_up_while_waiting_is_heard() {
        let pool = SlowPool::new(1);
        let refused = || Err(ApiError::access_denied("late"));
        let outcome = pool.run(Lane::Unknown, refused, || 7).await;
        assert!(matches!(outcome, Err(ApiError::Answer { .. })));
        assert_eq!(pool.run(Lane::Unknown, || Ok(()), || 8).await.expect("the turn was given back"), 8);
    }
}
