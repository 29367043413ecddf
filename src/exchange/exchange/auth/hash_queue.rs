//! The queue of slow hashes: few run at a time, by priority class, on threads that give way to requests.
//!
//! Known callers have priority: one permit is theirs, and their threads have a share of a busy processor. The hashes of unauthenticated clients
//! run when the processor is idle, and get a share only after [`IDLE_TIMEOUT`]. Clients whose logins failed recently share one permit, which
//! stays taken for a cool-down after each wrong guess, so that they do not delay other clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_metrics::Counter;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

/// Priority of low-priority threads, of 99: niceness 15. With niceness 5, a flood of bad logins delayed polls; with 19, logins would
/// starve on a machine that other programs load, too.
const LOW_PRIORITY: u8 = 10;
/// Longest wait of an unauthenticated client for an idle processor.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Capacity of a wait queue for one client prefix: as many as a site connects at once. More come back after a second.
const QUEUED_OF_PREFIX: usize = 256;
/// Capacity of the wait queue of unauthenticated clients: more would not get a permit in time.
const QUEUED: usize = 4_096;
/// Capacity of the wait queue of recently failed clients.
const QUEUED_FAILED: usize = 1_024;
/// The cool-down after a wrong guess. Where the processor is busy a guess takes long, but the cool-down has a limit.
const COOL_DOWN: CoolDown = CoolDown { factor: 9, longest: Duration::from_secs(1) };

/// The priority class of a computation; the address is the prefix of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityClass {
    /// A caller who is logged in or has shown the same secret before.
    Known,
    /// An unauthenticated client.
    Unauthenticated(Option<IpAddr>),
    /// An unauthenticated client at a prefix from which logins failed recently.
    RecentlyFailed(Option<IpAddr>),
}

/// The queue; clones share it.
#[derive(Clone)]
pub struct HashQueue {
    threads: Arc<Threads>,
    known: Arc<Semaphore>,
    unauthenticated: Arc<Semaphore>,
    recently_failed: Arc<Semaphore>,
    queue: Arc<WaitQueue>,
    failed_queue: Arc<WaitQueue>,
    cool_down: CoolDown,
    computed: Counter,
}

impl HashQueue {
    /// Creates a queue that runs `parallel` hashes of unauthenticated clients at a time, one of a known caller and one of a recently
    /// failed client.
    pub fn new(parallel: usize) -> HashQueue {
        let parallel = parallel.max(1);
        HashQueue {
            threads: Arc::new(Threads::start(parallel + 1)),
            known: Arc::new(Semaphore::new(1)),
            unauthenticated: Arc::new(Semaphore::new(parallel)),
            recently_failed: Arc::new(Semaphore::new(1)),
            queue: WaitQueue::new(QUEUED),
            failed_queue: WaitQueue::new(QUEUED_FAILED),
            cool_down: COOL_DOWN,
            computed: Counter::default(),
        }
    }

    /// Returns the number of computations.
    pub fn computed(&self) -> &Counter {
        &self.computed
    }

    /// Runs `work` when it has a permit and `check` still passes; `is_wrong` recognizes a wrong guess.
    ///
    /// # Errors
    /// 429 when the wait queue is full or no permit is free in time; the error of `check`.
    pub async fn run<T: Send + 'static>(
        &self,
        class: PriorityClass,
        check: impl FnOnce() -> Result<(), ApiError>,
        work: impl Fn() -> T + Send + Sync + 'static,
        is_wrong: impl FnOnce(&T) -> bool + Send + 'static,
    ) -> Result<T, ApiError> {
        let busy = || ApiError::too_many(1, "too many logins at once, try again");
        let queued = match class {
            PriorityClass::Known => None,
            PriorityClass::Unauthenticated(prefix) => Some(self.queue.enter(prefix).ok_or_else(busy)?),
            PriorityClass::RecentlyFailed(prefix) => Some(self.failed_queue.enter(prefix).ok_or_else(busy)?),
        };
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, self.permit(class)).await.ok().flatten();
        let permit = permit.ok_or_else(busy)?;
        drop(queued);
        check()?;
        self.computed.increment();
        let (threads, cool_down) = (self.threads.clone(), self.cool_down);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A task of its own: a client that disconnects early must not free the permit early or avoid the cool-down.
        tokio::spawn(async move {
            let begin = Instant::now();
            let Some(outcome) = threads.compute(class, Arc::new(work)).await else { return };
            let needs_cool_down = matches!(class, PriorityClass::RecentlyFailed(_)) && is_wrong(&outcome);
            let permit = needs_cool_down.then_some(permit);
            // The client may have disconnected.
            let _ = sender.send(outcome);
            if needs_cool_down {
                tokio::time::sleep(cool_down.after(begin.elapsed())).await;
            }
            drop(permit);
        });
        receiver.await.map_err(|_| busy())
    }

    /// Waits for a permit of the class.
    async fn permit(&self, class: PriorityClass) -> Option<OwnedSemaphorePermit> {
        let unauthenticated = || self.unauthenticated.clone().acquire_owned();
        let permit = match class {
            PriorityClass::Unauthenticated(_) => unauthenticated().await,
            PriorityClass::RecentlyFailed(_) => self.recently_failed.clone().acquire_owned().await,
            PriorityClass::Known => tokio::select! {
                biased;
                permit = self.known.clone().acquire_owned() => permit,
                permit = unauthenticated() => permit,
            },
        };
        permit.ok()
    }
}

/// Time for which recently failed clients wait after a wrong guess of one of them.
#[derive(Debug, Clone, Copy)]
struct CoolDown {
    /// Multiple of the duration of the guess.
    factor: u32,
    longest: Duration,
}

impl CoolDown {
    fn after(self, guess: Duration) -> Duration {
        guess.saturating_mul(self.factor).min(self.longest)
    }
}

/// The numbers of waiting clients, by prefix.
#[derive(Debug)]
struct WaitQueue {
    capacity: usize,
    waiting: Mutex<HashMap<Option<IpAddr>, usize>>,
}

/// A client in a wait queue, which it leaves when this is dropped.
#[derive(Debug)]
struct Queued {
    queue: Arc<WaitQueue>,
    prefix: Option<IpAddr>,
}

impl WaitQueue {
    fn new(capacity: usize) -> Arc<WaitQueue> {
        Arc::new(WaitQueue { capacity, waiting: Mutex::default() })
    }

    /// Adds a client; `None` when the queue is full for its prefix.
    fn enter(self: &Arc<WaitQueue>, prefix: Option<IpAddr>) -> Option<Queued> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = waiting.values().sum();
        let own = waiting.get(&prefix).copied().unwrap_or_default();
        if own >= QUEUED_OF_PREFIX || total >= self.capacity {
            return None;
        }
        waiting.insert(prefix, own + 1);
        Some(Queued { queue: self.clone(), prefix })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.prefix) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.prefix);
            }
        }
    }
}

/// The blocking threads of two runtimes, one for each scheduling policy; an idle thread ends after some seconds.
struct Threads {
    /// Threads with a small share of a busy processor.
    low_priority: Option<Runtime>,
    /// Threads that run when no other does. A thread that only has a low priority keeps the processor for some milliseconds when others
    /// wake up.
    idle: Option<Runtime>,
}

impl Threads {
    fn start(count: usize) -> Threads {
        let low = ThreadPriorityValue::try_from(LOW_PRIORITY)
            .map_or(ThreadPriority::Min, ThreadPriority::Crossplatform);
        Threads {
            low_priority: Some(runtime(count, NormalThreadSchedulePolicy::Other, low)),
            idle: Some(runtime(count, NormalThreadSchedulePolicy::Idle, ThreadPriority::Min)),
        }
    }

    /// Computes on a thread for the class; `None` when the work panicked.
    async fn compute<T: Send + 'static>(
        &self,
        class: PriorityClass,
        work: Arc<impl Fn() -> T + Send + Sync + 'static>,
    ) -> Option<T> {
        let low_priority = || spawn(self.low_priority.as_ref(), work.clone());
        let idle = || spawn(self.idle.as_ref(), work.clone());
        match class {
            PriorityClass::Known => low_priority().await,
            PriorityClass::RecentlyFailed(_) => idle().await,
            PriorityClass::Unauthenticated(_) => {
                let mut idle = pin!(idle());
                match tokio::time::timeout(IDLE_TIMEOUT, idle.as_mut()).await {
                    Ok(outcome) => outcome,
                    Err(_) => tokio::select! {
                        outcome = idle => outcome,
                        outcome = low_priority() => outcome,
                    },
                }
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for runtime in [self.low_priority.take(), self.idle.take()].into_iter().flatten() {
            // Dropping a runtime waits for its threads, which an async context must not.
            runtime.shutdown_background();
        }
    }
}

/// Creates a runtime with `count` blocking threads of a scheduling policy.
fn runtime(count: usize, policy: NormalThreadSchedulePolicy, priority: ThreadPriority) -> Runtime {
    Builder::new_current_thread()
        .max_blocking_threads(count)
        .thread_name("slow-hash")
        .on_thread_start(move || {
            let policy = ThreadSchedulePolicy::Normal(policy);
            // Where the system refuses, hashes compete with requests but are correct.
            let _ = set_thread_priority_and_policy(thread_native_id(), priority, policy);
        })
        .build()
        .expect("a runtime without drivers takes nothing from the system")
}

/// Runs `work` on a blocking thread; work that has not begun when the future is dropped never begins.
async fn spawn<T: Send + 'static>(
    runtime: Option<&Runtime>,
    work: Arc<impl Fn() -> T + Send + Sync + 'static>,
) -> Option<T> {
    let mut task = tokio_util::task::AbortOnDropHandle::new(runtime?.spawn_blocking(move || work()));
    (&mut task).await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use thread_priority::unix::thread_schedule_policy;

    use super::*;

    const UNAUTHENTICATED: PriorityClass = PriorityClass::Unauthenticated(None);
    const RECENTLY_FAILED: PriorityClass = PriorityClass::RecentlyFailed(None);

    /// Returns work that blocks until something is sent.
    fn blocked_work() -> (Sender<()>, impl Fn() -> bool + Send + Sync) {
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        (release, move || released.lock().is_ok_and(|released| released.recv().is_ok()))
    }

    async fn taken(semaphore: &Semaphore) {
        while semaphore.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn known_callers_do_not_wait_for_unauthenticated_clients() {
        let queue = HashQueue::new(1);
        let (release, work) = blocked_work();
        let client = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.run(UNAUTHENTICATED, || Ok(()), work, |_| false).await })
        };
        taken(&queue.unauthenticated).await;
        let outcome = queue.run(PriorityClass::Known, || Ok(()), || 7, |_| false).await;
        assert_eq!(outcome.expect("a permit of its own"), 7);
        release.send(()).expect("the client still waits");
        assert!(client.await.expect("no panic").expect("a permit"));
    }

    #[tokio::test]
    async fn recently_failed_clients_get_idle_threads_and_known_callers_low_priority_threads() {
        let queue = HashQueue::new(1);
        for (class, policy) in [
            (PriorityClass::Known, NormalThreadSchedulePolicy::Other),
            (RECENTLY_FAILED, NormalThreadSchedulePolicy::Idle),
        ] {
            let found = queue.run(class, || Ok(()), || thread_schedule_policy().ok(), |_| false).await;
            assert_eq!(found.expect("a permit"), Some(ThreadSchedulePolicy::Normal(policy)), "{class:?}");
        }
    }

    #[tokio::test]
    async fn unauthenticated_client_gets_a_low_priority_thread_when_the_processor_is_never_idle() {
        let queue = HashQueue::new(1);
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let begun = Arc::new(Barrier::new(3));
        let idle = queue.threads.idle.as_ref().expect("not dropped yet");
        let endless: Vec<_> = (0..2)
            .map(|_| {
                let (released, begun) = (released.clone(), begun.clone());
                idle.spawn_blocking(move || {
                    begun.wait();
                    let _ = released.lock().expect("no panic").recv();
                })
            })
            .collect();
        begun.wait();
        let count = Arc::new(AtomicUsize::new(0));
        let work = {
            let count = count.clone();
            move || {
                count.fetch_add(1, Ordering::SeqCst);
                thread_schedule_policy().ok()
            }
        };
        let found = queue.run(UNAUTHENTICATED, || Ok(()), work, |_| false).await.expect("a permit");
        assert_eq!(found, Some(ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other)));
        drop(release);
        for thread in endless {
            thread.await.expect("no panic");
        }
        idle.spawn_blocking(|| ()).await.expect("everything before has ended");
        assert_eq!(count.load(Ordering::SeqCst), 1, "the outcome is computed once");
    }

    #[tokio::test]
    async fn unauthenticated_clients_do_not_wait_for_recently_failed_ones() {
        let queue = HashQueue::new(1);
        let (release, work) = blocked_work();
        let failed = queue.run(RECENTLY_FAILED, || Ok(()), work, |_| false);
        let other = async {
            taken(&queue.recently_failed).await;
            let outcome = queue.run(UNAUTHENTICATED, || Ok(()), || 7, |_| false).await;
            release.send(()).expect("the other client still waits");
            outcome
        };
        let (failed, other) = tokio::join!(failed, other);
        assert!(failed.expect("a permit"));
        assert_eq!(other.expect("a permit of its own"), 7);
    }

    #[tokio::test]
    async fn check_runs_after_the_wait() {
        let queue = HashQueue::new(1);
        let refuse = || Err(ApiError::access_denied("late"));
        let outcome = queue.run(UNAUTHENTICATED, refuse, || 7, |_| false).await;
        assert!(matches!(outcome, Err(ApiError::Refused(refusal)) if refusal.is_forbidden()));
        let outcome = queue.run(UNAUTHENTICATED, || Ok(()), || 8, |_| false).await;
        assert_eq!(outcome.expect("the permit is free again"), 8);
    }

    #[tokio::test]
    async fn one_prefix_cannot_fill_the_wait_queue() {
        let queue = HashQueue::new(1);
        let attacker = Some(IpAddr::from([192, 0, 2, 1]));
        let other = PriorityClass::Unauthenticated(Some(IpAddr::from([192, 0, 2, 2])));
        let (release, work) = blocked_work();
        let busy = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.run(UNAUTHENTICATED, || Ok(()), work, |_| false).await })
        };
        taken(&queue.unauthenticated).await;
        let waiting: Vec<_> =
            (0..QUEUED_OF_PREFIX).map(|_| queue.queue.enter(attacker).expect("room in the queue")).collect();
        let attack = PriorityClass::Unauthenticated(attacker);
        let refused = queue.run(attack, || Ok(()), || 7, |_| false).await;
        assert!(refused.is_err_and(|error| error.is_too_many()), "the queue is full for this prefix");
        let waits = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.run(other, || Ok(()), || 8, |_| false).await })
        };
        release.send(()).expect("the thread still waits");
        assert_eq!(waits.await.expect("no panic").expect("another prefix may wait"), 8);
        assert!(busy.await.expect("no panic").is_ok());
        drop(waiting);
        let outcome = queue.run(attack, || Ok(()), || 9, |_| false).await;
        assert_eq!(outcome.expect("the queue is empty again"), 9);
        assert!(queue.queue.waiting.lock().expect("no panic").is_empty());
    }

    #[tokio::test]
    async fn wrong_guess_starts_a_cool_down_for_recently_failed_clients_only() {
        let longest = Duration::from_secs(10);
        let queue = HashQueue { cool_down: CoolDown { factor: u32::MAX, longest }, ..HashQueue::new(1) };
        let guess = |is_right: bool| {
            let work = move || {
                std::thread::sleep(Duration::from_millis(1));
                is_right
            };
            queue.run(RECENTLY_FAILED, || Ok(()), work, |is_right| !is_right)
        };
        assert!(guess(true).await.expect("a permit"));
        assert!(!guess(false).await.expect("a good login starts no cool-down"));
        assert_eq!(queue.run(UNAUTHENTICATED, || Ok(()), || 7, |_| true).await.expect("a permit"), 7);
        assert_eq!(queue.recently_failed.available_permits(), 0, "the cool-down lasts");
        tokio::time::pause();
        let begin = tokio::time::Instant::now();
        assert!(guess(true).await.expect("a permit after the cool-down"));
        assert!(begin.elapsed() >= longest / 2);
    }

    #[test]
    fn cool_down_grows_with_the_guess_up_to_a_limit() {
        assert_eq!(COOL_DOWN.after(Duration::from_millis(20)), Duration::from_millis(180));
        assert_eq!(COOL_DOWN.after(Duration::from_secs(3)), Duration::from_secs(1));
    }

    #[test]
    fn wait_queue_of_many_prefixes_is_bounded() {
        let queue = WaitQueue::new(QUEUED);
        let prefix = |number: usize| Some(IpAddr::from(u32::try_from(number).expect("small").to_be_bytes()));
        let queued: Vec<Queued> = (0..2 * QUEUED).filter_map(|number| queue.enter(prefix(number))).collect();
        assert_eq!(queued.len(), QUEUED);
    }
}
