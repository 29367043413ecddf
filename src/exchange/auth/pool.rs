//! Threads for slow hashes, which give way to all others of the process.
//!
//! Whoever is known waits in a lane of its own, so a flood of strangers does not keep it waiting. Strangers from where a login failed a moment
//! ago wait in another one, which rests after each wrong guess: they do not take the turns of other strangers. What strangers want is
//! computed when the machine has nothing else to do; when that takes too long, those who are no suspects get a thread that has a share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::ApiError;
use crate::limit::neighbourhood;

/// How important the polite threads are, of 99: requests come first. This is what `nice` calls 15. With 5, a flood of bad logins was felt in
/// the polls; with 19, logins would starve on a machine that others load, too.
const IMPORTANCE: u8 = 10;
/// How long a stranger waits for a machine that has nothing else to do.
const WAIT_FOR_IDLE: Duration = Duration::from_millis(500);
/// How long a computation waits for its turn.
const RETRY_LIMIT: Duration = Duration::from_secs(20);
/// Strangers of one address that may wait at the same time. As many as a site connects at once; more come back after a second.
const WAITING_OF_ADDRESS: usize = 256;
/// Strangers that may wait at all: more would not have their turn in time.
const WAITING: usize = 4_096;
/// Suspects that may wait at all.
const WAITING_SUSPECTS: usize = 1_024;
/// Rest of the suspects' lane after a wrong guess, in times of what the guess took.
const REST: u32 = 9;
/// Where the processor is busy a guess takes long, and the lane rests no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Who waits for a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Somebody who has shown the same secret before, or who is logged in.
    Known,
    /// Anybody.
    Unknown,
    /// Anybody at an address from where logins failed not long ago.
    Suspect,
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads; cheap to clone. They end with the last clone.
#[derive(Clone)]
pub struct SlowPool {
    threads: Threads,
    known: Arc<Semaphore>,
    unknown: Arc<Semaphore>,
    suspect: Arc<Semaphore>,
    waiting: Arc<Waiting>,
    waiting_suspects: Arc<Waiting>,
}

/// How many strangers wait, by address.
#[derive(Debug)]
struct Waiting {
    most: usize,
    places: Mutex<HashMap<Option<IpAddr>, usize>>,
}

/// A place among those who wait; free again when dropped.
#[derive(Debug)]
struct Place {
    waiting: Arc<Waiting>,
    address: Option<IpAddr>,
}

impl Waiting {
    fn new(most: usize) -> Arc<Waiting> {
        Arc::new(Waiting { most, places: Mutex::default() })
    }

    /// Takes a place; `None` when there is none for this address.
    fn enter(self: &Arc<Waiting>, address: Option<IpAddr>) -> Option<Place> {
        let address = address.map(neighbourhood);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = places.values().sum();
        let own = places.get(&address).copied().unwrap_or_default();
        if own >= WAITING_OF_ADDRESS || total >= self.most {
            return None;
        }
        places.insert(address, own + 1);
        Some(Place { waiting: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.waiting.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = places.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.address);
            }
        }
    }
}

impl SlowPool {
    /// Starts threads for `parallel` strangers at a time, one known caller and one suspect.
    pub fn new(parallel: usize) -> SlowPool {
        let parallel = parallel.max(1);
        SlowPool {
            threads: Threads::start(parallel + 1),
            known: Arc::new(Semaphore::new(1)),
            unknown: Arc::new(Semaphore::new(parallel)),
            suspect: Arc::new(Semaphore::new(1)),
            waiting: Waiting::new(WAITING),
            waiting_suspects: Waiting::new(WAITING_SUSPECTS),
        }
    }

    /// Runs `work` for somebody at `address` when it is its turn and `is_refused` still does not object. `is_wrong` knows a wrong guess by the
    /// outcome.
    ///
    /// # Errors
    /// 429 when too many wait, or its turn does not come in time; what `is_refused` says.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        address: Option<IpAddr>,
        is_refused: impl FnOnce() -> Result<(), ApiError>,
        work: impl Fn() -> T + Send + Sync + 'static,
        is_wrong: impl FnOnce(&T) -> bool + Send + 'static,
    ) -> Result<T, ApiError> {
        let busy =
            || ApiError::TooMany { retry_after: 1, message: "too many logins at once, try again".to_owned() };
        let place = match lane {
            Lane::Known => None,
            Lane::Unknown => Some(self.waiting.enter(address).ok_or_else(busy)?),
            Lane::Suspect => Some(self.waiting_suspects.enter(address).ok_or_else(busy)?),
        };
        let turn =
            tokio::time::timeout(RETRY_LIMIT, self.turn(lane)).await.ok().flatten().ok_or_else(busy)?;
        drop(place);
        is_refused()?;
        let (answer, result) = oneshot::channel();
        let threads = self.threads.clone();
        // A task of its own: whoever goes away before the answer gives its turn back no sooner, and does not get around the rest.
        tokio::spawn(async move {
            let begin = Instant::now();
            let Some(outcome) = threads.compute(lane, Arc::new(work)).await else { return };
            let is_resting = lane == Lane::Suspect && is_wrong(&outcome);
            let turn = is_resting.then_some(turn);
            // Nobody listens when the request is gone.
            let _ = answer.send(outcome);
            if is_resting {
                tokio::time::sleep((begin.elapsed() * REST).min(LONGEST_REST)).await;
            }
            drop(turn);
        });
        result.await.map_err(|_| busy())
    }

    /// Waits for the turn of a lane; `None` when there are no turns any more.
    async fn turn(&self, lane: Lane) -> Option<OwnedSemaphorePermit> {
        let unknown = || self.unknown.clone().acquire_owned();
        let turn = match lane {
            Lane::Unknown => unknown().await,
            Lane::Suspect => self.suspect.clone().acquire_owned().await,
            Lane::Known => tokio::select! {
                biased;
                turn = self.known.clone().acquire_owned() => turn,
                turn = unknown() => turn,
            },
        };
        turn.ok()
    }
}

/// Two kinds of threads.
#[derive(Clone)]
struct Threads {
    /// They have a small share of a busy machine.
    polite: Sender<Job>,
    /// They run when nothing else does. A thread that is only polite keeps the processor for some milliseconds when others wake up.
    idle: Sender<Job>,
}

impl Threads {
    fn start(count: usize) -> Threads {
        let polite = ThreadPriorityValue::try_from(IMPORTANCE)
            .map_or(ThreadPriority::Min, ThreadPriority::Crossplatform);
        Threads {
            polite: start(count, NormalThreadSchedulePolicy::Other, polite),
            idle: start(count, NormalThreadSchedulePolicy::Idle, ThreadPriority::Min),
        }
    }

    /// Computes where the lane belongs; `None` when there are no threads any more.
    async fn compute<T: Send + 'static>(
        &self,
        lane: Lane,
        work: Arc<impl Fn() -> T + Send + Sync + 'static>,
    ) -> Option<T> {
        let idle = give(&self.idle, work.clone());
        match lane {
            Lane::Known => give(&self.polite, work).await,
            Lane::Suspect => idle.await,
            Lane::Unknown => {
                let mut idle = pin!(idle);
                match tokio::time::timeout(WAIT_FOR_IDLE, idle.as_mut()).await {
                    Ok(outcome) => outcome,
                    Err(_) => tokio::select! {
                        outcome = idle => outcome,
                        outcome = give(&self.polite, work) => outcome,
                    },
                }
            }
        }
    }
}

/// Has one of the threads compute something.
async fn give<T: Send + 'static>(
    jobs: &Sender<Job>,
    work: Arc<impl Fn() -> T + Send + Sync + 'static>,
) -> Option<T> {
    let (answer, result) = oneshot::channel();
    let job = move || {
        // Another thread may have been faster.
        if !answer.is_closed() {
            let _ = answer.send(work());
        }
    };
    jobs.send(Box::new(job)).ok()?;
    result.await.ok()
}

/// Starts threads that work off what is sent.
fn start(count: usize, policy: NormalThreadSchedulePolicy, priority: ThreadPriority) -> Sender<Job> {
    let (jobs, queue) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..count {
        let queue = queue.clone();
        let thread = std::thread::Builder::new().name("slow-hash".to_owned());
        let run = move || {
            let policy = ThreadSchedulePolicy::Normal(policy);
            // Without the lower priority the work is the same, only less polite.
            let _ = set_thread_priority_and_policy(thread_native_id(), priority, policy);
            work_off(&queue);
        };
        if let Err(error) = thread.spawn(run) {
            tracing::error!("a thread for checking passwords could not be started: {error}");
        }
    }
    jobs
}

fn work_off(queue: &Mutex<Receiver<Job>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use thread_priority::unix::thread_schedule_policy;

    use super::*;

    /// Work that takes until something is sent.
    fn held_up() -> (Sender<()>, impl Fn() -> bool + Send + Sync) {
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        (release, move || held.lock().is_ok_and(|held| held.recv().is_ok()))
    }

    #[tokio::test]
    async fn known_callers_do_not_wait_for_strangers() {
        let pool = SlowPool::new(1);
        let (release, work) = held_up();
        let stranger = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Lane::Unknown, None, || Ok(()), work, |_| false).await })
        };
        while pool.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            pool.run(Lane::Known, None, || Ok(()), || 7, |_| false).await.expect("a lane of its own"),
            7
        );
        release.send(()).expect("the stranger is still there");
        assert!(stranger.await.expect("no panic").expect("its turn"));
    }

    #[tokio::test]
    async fn suspects_are_served_when_the_machine_is_idle_and_known_callers_have_a_share() {
        let pool = SlowPool::new(1);
        for (lane, policy) in [
            (Lane::Known, NormalThreadSchedulePolicy::Other),
            (Lane::Suspect, NormalThreadSchedulePolicy::Idle),
        ] {
            let found = pool.run(lane, None, || Ok(()), || thread_schedule_policy().ok(), |_| false).await;
            assert_eq!(found.expect("its turn"), Some(ThreadSchedulePolicy::Normal(policy)), "{lane:?}");
        }
    }

    #[tokio::test]
    async fn stranger_gets_a_share_when_the_machine_is_never_idle() {
        let pool = SlowPool::new(1);
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let begun = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let (held, begun) = (held.clone(), begun.clone());
            let endless = move || {
                begun.wait();
                let _ = held.lock().expect("no panic").recv();
            };
            pool.threads.idle.send(Box::new(endless)).expect("the threads are there");
        }
        begun.wait();
        let count = Arc::new(AtomicUsize::new(0));
        let work = {
            let count = count.clone();
            move || {
                count.fetch_add(1, Ordering::SeqCst);
                thread_schedule_policy().ok()
            }
        };
        let found = pool.run(Lane::Unknown, None, || Ok(()), work, |_| false).await.expect("its turn");
        assert_eq!(found, Some(ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other)));
        drop(release);
        let (done, last) = channel();
        pool.threads.idle.send(Box::new(move || done.send(()).expect("the test waits"))).expect("a thread");
        last.recv().expect("what came before is over");
        assert_eq!(count.load(Ordering::SeqCst), 1, "nobody computes what was answered already");
    }

    #[tokio::test]
    async fn strangers_do_not_wait_for_suspects() {
        let pool = SlowPool::new(1);
        let (release, work) = held_up();
        let suspect = pool.run(Lane::Suspect, None, || Ok(()), work, |_| false);
        let stranger = async {
            while pool.suspect.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let outcome = pool.run(Lane::Unknown, None, || Ok(()), || 7, |_| false).await;
            release.send(()).expect("the suspect is still there");
            outcome
        };
        let (suspect, stranger) = tokio::join!(suspect, stranger);
        assert!(suspect.expect("its turn"));
        assert_eq!(stranger.expect("its turn beside the suspect"), 7);
    }

    #[tokio::test]
    async fn objection_that_comes_up_while_waiting_is_heard() {
        let pool = SlowPool::new(1);
        let refused = || Err(ApiError::access_denied("late"));
        let outcome = pool.run(Lane::Unknown, None, refused, || 7, |_| false).await;
        assert!(matches!(outcome, Err(ApiError::Answer { .. })));
        assert_eq!(
            pool.run(Lane::Unknown, None, || Ok(()), || 8, |_| false).await.expect("the turn was given back"),
            8
        );
    }

    #[tokio::test]
    async fn one_address_cannot_take_all_places_of_those_who_wait() {
        let pool = SlowPool::new(1);
        let attacker = Some(IpAddr::from([192, 0, 2, 1]));
        let other = Some(IpAddr::from([192, 0, 2, 2]));
        let (release, work) = held_up();
        let busy = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Lane::Unknown, None, || Ok(()), work, |_| false).await })
        };
        while pool.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting: Vec<_> =
            (0..WAITING_OF_ADDRESS).map(|_| pool.waiting.enter(attacker).expect("a place")).collect();
        let refused = pool.run(Lane::Unknown, attacker, || Ok(()), || 7, |_| false).await;
        assert!(matches!(refused, Err(ApiError::TooMany { .. })), "no place is left for this address");
        let waits = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Lane::Unknown, other, || Ok(()), || 8, |_| false).await })
        };
        release.send(()).expect("the thread still waits");
        assert_eq!(waits.await.expect("no panic").expect("another address has places of its own"), 8);
        assert!(busy.await.expect("no panic").is_ok());
        drop(waiting);
        assert_eq!(
            pool.run(Lane::Unknown, attacker, || Ok(()), || 9, |_| false)
                .await
                .expect("places are free again"),
            9
        );
        assert!(pool.waiting.places.lock().expect("no panic").is_empty());
    }

    #[tokio::test]
    async fn wrong_guess_of_a_suspect_keeps_other_suspects_waiting_and_nobody_else() {
        const GUESS: Duration = Duration::from_millis(80);
        let pool = SlowPool::new(1);
        let guess = |is_right: bool| {
            pool.run(
                Lane::Suspect,
                None,
                || Ok(()),
                move || {
                    std::thread::sleep(GUESS);
                    is_right
                },
                |is_right| !is_right,
            )
        };
        let begin = tokio::time::Instant::now();
        assert!(guess(true).await.expect("its turn"));
        assert_eq!(pool.suspect.available_permits(), 1, "a good login needs no rest");
        assert!(!guess(false).await.expect("its turn"));
        assert_eq!(pool.run(Lane::Unknown, None, || Ok(()), || 7, |_| true).await.expect("its turn"), 7);
        assert!(begin.elapsed() < GUESS * REST, "other strangers do not wait");
        assert!(guess(true).await.expect("its turn"));
        assert!(begin.elapsed() >= GUESS * REST, "the next suspect does");
    }

    #[test]
    fn many_addresses_together_wait_in_bounded_number() {
        let waiting = Waiting::new(WAITING);
        let address = |number: usize| Some(IpAddr::from(u32::try_from(number).expect("small").to_be_bytes()));
        let places: Vec<Place> =
            (0..2 * WAITING).filter_map(|number| waiting.enter(address(number))).collect();
        assert_eq!(places.len(), WAITING);
    }
}
