//! Threads for slow hashes: a few, and with a lower priority than all others of the process.
//!
//! Whoever is known waits in a lane of its own, so a flood of strangers does not keep it waiting. Strangers from where a login failed a moment
//! ago wait in another one, which rests after each wrong guess: they take neither the turns of other strangers nor the processor.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, setpriority_process};
use rustix::thread::gettid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::ApiError;
use crate::limit::neighbourhood;

/// How much the threads give way, as `nice` counts it: requests come first. With 5, a flood of bad logins was felt in the polls; with 19,
/// logins would starve on a machine that others load, too.
const NICENESS: i32 = 15;
/// How long a computation waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// Strangers of one address that may wait at the same time. As many as a site connects at once; more come back after a second.
const WAITING_OF_ADDRESS: usize = 256;
/// Strangers that may wait at all: more would not have their turn in time.
const WAITING: usize = 4_096;
/// Suspects that may wait at all.
const WAITING_SUSPECTS: usize = 1_024;
/// Rest of the suspects' lane after a wrong guess, in times of what the guess took.
const REST: u32 = 9;

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
    jobs: Sender<Job>,
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
        SlowPool {
            jobs,
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
        work: impl FnOnce() -> T + Send + 'static,
        is_wrong: impl FnOnce(&T) -> bool + Send + 'static,
    ) -> Result<T, ApiError> {
        let busy =
            || ApiError::TooMany { retry_after: 1, message: "too many logins at once, try again".to_owned() };
        let place = match lane {
            Lane::Known => None,
            Lane::Unknown => Some(self.waiting.enter(address).ok_or_else(busy)?),
            Lane::Suspect => Some(self.waiting_suspects.enter(address).ok_or_else(busy)?),
        };
        let turn = tokio::time::timeout(PATIENCE, self.turn(lane)).await.ok().flatten().ok_or_else(busy)?;
        drop(place);
        is_refused()?;
        let (answer, result) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let job: Job = Box::new(move || {
            let begin = Instant::now();
            let outcome = work();
            // Whoever goes away before the answer does not get around the rest.
            if let Some(suspect) = turn.suspect
                && is_wrong(&outcome)
            {
                let rest = begin.elapsed() * REST;
                runtime.spawn(async move {
                    tokio::time::sleep(rest).await;
                    drop(suspect);
                });
            }
            // Nobody listens when the request is gone.
            let _ = answer.send(outcome);
            drop(turn.thread);
        });
        self.jobs.send(job).map_err(|_| busy())?;
        result.await.map_err(|_| busy())
    }

    /// Waits for the turn of a lane; `None` when there are no turns any more.
    async fn turn(&self, lane: Lane) -> Option<Turn> {
        let suspect = match lane {
            Lane::Suspect => Some(self.suspect.clone().acquire_owned().await.ok()?),
            Lane::Known | Lane::Unknown => None,
        };
        let unknown = self.unknown.clone().acquire_owned();
        let thread = match lane {
            Lane::Unknown | Lane::Suspect => unknown.await,
            Lane::Known => tokio::select! {
                biased;
                turn = self.known.clone().acquire_owned() => turn,
                turn = unknown => turn,
            },
        };
        Some(Turn { suspect, thread: thread.ok()? })
    }
}

/// The right to one computation.
struct Turn {
    /// The one turn of all suspects.
    suspect: Option<OwnedSemaphorePermit>,
    thread: OwnedSemaphorePermit,
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
            tokio::spawn(async move {
                pool.run(Lane::Unknown, None, || Ok(()), move || held.recv().is_ok(), |_| false).await
            })
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
        let (release, held) = channel::<()>();
        let busy = {
            let pool = pool.clone();
            tokio::spawn(async move {
                pool.run(Lane::Unknown, None, || Ok(()), move || held.recv().is_ok(), |_| false).await
            })
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
