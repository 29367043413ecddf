//! Turns of the requests that compute much: plans, on a copy of the model, and explanations.
//!
//! One is computed at a time, so that only one copy exists and the decisions keep a processor. The organizations take turns, so that the
//! requests of one do not delay those of the others.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use evenkeel_api::Refusal;
use http::StatusCode;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Requests of an organization that may wait for their turn.
const MOST_WAITING: usize = 32;

static TURNS: LazyLock<Arc<Turns>> = LazyLock::new(Arc::default);

#[derive(Debug)]
struct Turns {
    /// The permit to compute.
    permit: Arc<Semaphore>,
    /// By organization, while it has requests.
    queues: Mutex<HashMap<String, Queue>>,
}

#[derive(Debug)]
struct Queue {
    /// The permit of the one request that waits to compute.
    first: Arc<Semaphore>,
    requests: usize,
}

/// The turn of a request. It has to be kept until the end of the computation, also when the client no longer waits.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
    _first: OwnedSemaphorePermit,
    _request: Waiting,
}

/// A request in the queue of its organization.
#[derive(Debug)]
struct Waiting {
    turns: Arc<Turns>,
    org: String,
}

/// Waits for the turn of a request about an organization.
///
/// # Errors
/// 429 when too many requests of the organization wait; 503 when the agbot is stopping.
pub(super) async fn turn(org: &str) -> Result<Turn, Refusal> {
    TURNS.clone().turn(org).await
}

impl Default for Turns {
    fn default() -> Self {
        Self { permit: Arc::new(Semaphore::new(1)), queues: Mutex::default() }
    }
}

impl Turns {
    async fn turn(self: Arc<Self>, org: &str) -> Result<Turn, Refusal> {
        let ending = |_: AcquireError| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot is stopping");
        let (waiting, first) = self.clone().enter(org)?;
        let first = first.acquire_owned().await.map_err(ending)?;
        let permit = self.permit.clone().acquire_owned().await.map_err(ending)?;
        Ok(Turn { _permit: permit, _first: first, _request: waiting })
    }

    fn enter(self: Arc<Self>, org: &str) -> Result<(Waiting, Arc<Semaphore>), Refusal> {
        let mut queues = self.lock();
        let new = || Queue { first: Arc::new(Semaphore::new(1)), requests: 0 };
        let queue = queues.entry(org.to_owned()).or_insert_with(new);
        if queue.requests == MOST_WAITING {
            let text = format!(
                "{MOST_WAITING} plans and explanations of organization {org} are waiting, try again later"
            );
            return Err(Refusal::too_many(1, text));
        }
        queue.requests += 1;
        let first = queue.first.clone();
        drop(queues);
        Ok((Waiting { turns: self, org: org.to_owned() }, first))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        if let Some(queue) = queues.get_mut(&self.org) {
            queue.requests -= 1;
            if queue.requests == 0 {
                queues.remove(&self.org);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn organizations_take_turns_however_many_requests_one_has() {
        let turns = Arc::new(Turns::default());
        let running = turns.clone().turn("a").await.expect("the first");
        let mut of_a: Vec<_> = (1..MOST_WAITING).map(|_| Box::pin(turns.clone().turn("a"))).collect();
        assert!(of_a.iter_mut().all(|one| one.now_or_never().is_none()));
        let refused = turns.clone().turn("a").await.expect_err("too many wait");
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let mut of_b = Box::pin(turns.clone().turn("b"));
        assert!(of_b.as_mut().now_or_never().is_none(), "one at a time");
        drop(running);
        let of_b = of_b.now_or_never().expect("only one request of the other was before it");
        drop((of_b, of_a));
        assert!(turns.lock().is_empty(), "an organization without requests is forgotten");
    }
}
