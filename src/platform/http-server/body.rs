//! Bodies of requests: the time in which they must arrive, and the memory that they may take together. The memory for responses.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::limit::client_prefix;

/// Bytes of a body that are not counted, so that ordinary requests are admitted regardless of the number of large ones.
const UNCOUNTED_BYTES: usize = 16 * 1024;

/// Bytes of a part of a response that are not counted, for the same reason.
const UNCOUNTED_PART: usize = 64 * 1024;

/// The memory for bodies of requests whose responses do not exist yet, or for responses that clients have not read yet.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    limit: usize,
    /// For each client.
    share: usize,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: usize,
    /// By client prefix.
    by_client: HashMap<IpAddr, usize>,
}

impl BodyBudget {
    pub fn new(limit: usize, share: usize) -> Self {
        Self { limit, share, held: Mutex::default() }
    }

    /// Adds bytes of a client; false if there is no room for them.
    fn try_hold(&self, client: IpAddr, bytes: usize) -> bool {
        let mut held = self.lock();
        let of_client = held.by_client.get(&client).copied().unwrap_or_default();
        // This machine's own address may be that of an undeclared proxy with many clients.
        let share = if client.is_loopback() { self.limit } else { self.share };
        if held.total + bytes > self.limit || of_client + bytes > share {
            return false;
        }
        held.total += bytes;
        held.by_client.insert(client, of_client + bytes);
        true
    }

    fn release(&self, client: IpAddr, bytes: usize) {
        let mut held = self.lock();
        held.total -= bytes;
        if let Some(of_client) = held.by_client.get_mut(&client) {
            *of_client -= bytes;
            if *of_client == 0 {
                held.by_client.remove(&client);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of the budget that one request holds, from their arrival until its response exists.
#[derive(Debug)]
pub(crate) struct HeldBody {
    budget: Arc<BodyBudget>,
    client: IpAddr,
    received: AtomicUsize,
    held: AtomicUsize,
    is_refused: AtomicBool,
}

impl HeldBody {
    pub fn new(budget: Arc<BodyBudget>, client: IpAddr) -> Self {
        Self {
            budget,
            client: client_prefix(client),
            received: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Returns true if the budget had no room for the body.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    fn receive(&self, bytes: usize) -> Result<(), axum::Error> {
        let received = self.received.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let more = received.saturating_sub(UNCOUNTED_BYTES).min(bytes);
        if more == 0 {
            return Ok(());
        }
        if !self.budget.try_hold(self.client, more) {
            self.is_refused.store(true, Ordering::Relaxed);
            return Err(axum::Error::new(io::Error::other("there is no memory for the body")));
        }
        self.held.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        if held > 0 {
            self.budget.release(self.client, held);
        }
    }
}

/// The memory for the response to one client.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    budget: Arc<BodyBudget>,
    client: IpAddr,
}

impl ResponseMemory {
    pub fn new(budget: Arc<BodyBudget>, client: IpAddr) -> Self {
        Self { budget, client: client_prefix(client) }
    }

    /// Returns whether there is room for a response, as far as its size is known before it is sent.
    pub fn has_room(&self, body: &impl HttpBody) -> bool {
        let bytes = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if bytes <= UNCOUNTED_PART {
            return true;
        }
        let is_held = self.budget.try_hold(self.client, bytes);
        if is_held {
            self.budget.release(self.client, bytes);
        }
        is_held
    }

    /// Counts a part of the response until it is sent or dropped.
    ///
    /// # Errors
    /// When there is no room for it: the response breaks off.
    pub fn hold(&self, part: Frame<Bytes>) -> Result<Frame<Bytes>, axum::Error> {
        let bytes = part.data_ref().map_or(0, Bytes::len);
        if bytes <= UNCOUNTED_PART {
            return Ok(part);
        }
        if !self.budget.try_hold(self.client, bytes) {
            return Err(axum::Error::new(io::Error::other("there is no memory for the response")));
        }
        let (budget, client) = (self.budget.clone(), self.client);
        Ok(part.map_data(|bytes| Bytes::from_owner(HeldPart { bytes, budget, client })))
    }
}

/// A part of a response that waits for its client.
struct HeldPart {
    bytes: Bytes,
    budget: Arc<BodyBudget>,
    client: IpAddr,
}

impl AsRef<[u8]> for HeldPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for HeldPart {
    fn drop(&mut self) {
        self.budget.release(self.client, self.bytes.len());
    }
}

/// A request's body that fails when it takes too long to arrive, or when there is no memory for it.
pub(crate) struct LimitedBody {
    body: Incoming,
    held: Arc<HeldBody>,
    limit: Duration,
    // Created at the first wait, because most bodies arrive together with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl LimitedBody {
    /// Wraps a body, and returns its share of the budget; an empty body needs no limit.
    pub fn wrap(
        body: Incoming,
        limit: Duration,
        held: impl FnOnce() -> HeldBody,
    ) -> (Body, Option<Arc<HeldBody>>) {
        if body.is_end_stream() {
            return (Body::empty(), None);
        }
        let held = Arc::new(held());
        (Body::new(Self { body, held: held.clone(), limit, timer: None }), Some(held))
    }
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let counted = |frame: Frame<Bytes>| {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.held.receive(bytes).map(|()| frame)
            };
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new).and_then(counted)));
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let error = io::Error::new(io::ErrorKind::TimedOut, "the body does not arrive");
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn budget() -> Arc<BodyBudget> {
        Arc::new(BodyBudget::new(400 * KIB, 100 * KIB))
    }

    fn body_of(budget: &Arc<BodyBudget>, address: &str) -> HeldBody {
        HeldBody::new(budget.clone(), address.parse().unwrap())
    }

    #[test]
    fn client_holds_its_share_and_leaves_the_rest_to_others() {
        let budget = budget();
        let first = body_of(&budget, "192.0.2.1");
        first.receive(UNCOUNTED_BYTES + 60 * KIB).unwrap();
        let second = body_of(&budget, "192.0.2.1");
        assert!(second.receive(UNCOUNTED_BYTES + 60 * KIB).is_err() && second.is_refused());
        body_of(&budget, "192.0.2.2").receive(UNCOUNTED_BYTES + 60 * KIB).unwrap();
        drop(first);
        body_of(&budget, "192.0.2.1").receive(UNCOUNTED_BYTES + 100 * KIB).unwrap();
        let held = budget.lock();
        assert_eq!((held.total, held.by_client.len()), (0, 0), "nothing is held any longer");
    }

    #[test]
    fn parts_of_responses_are_counted_until_they_are_sent() {
        let budget = budget();
        let memory = |address: &str| ResponseMemory::new(budget.clone(), address.parse().unwrap());
        let part = |bytes: usize| Frame::data(Bytes::from(vec![b'x'; bytes]));
        let first = memory("192.0.2.1");
        let held = first.hold(part(90 * KIB)).unwrap().into_data().unwrap();
        let rest = held.slice(10..);
        assert!(first.hold(part(70 * KIB)).is_err(), "more than the share of a client");
        assert!(!first.has_room(&axum::body::Body::from(vec![b'x'; 70 * KIB])));
        assert!(first.hold(part(UNCOUNTED_PART)).is_ok() && first.has_room(&Body::from("small")));
        assert!(memory("192.0.2.2").hold(part(90 * KIB)).is_ok());
        drop(held);
        assert!(first.hold(part(70 * KIB)).is_err(), "a part of it is not sent yet");
        drop(rest);
        assert!(first.has_room(&Body::from(vec![b'x'; 70 * KIB])) && first.hold(part(70 * KIB)).is_ok());
        let held = budget.lock();
        assert_eq!((held.total, held.by_client.len()), (0, 0), "nothing is held any longer");
    }

    #[test]
    fn small_bodies_pass_while_the_budget_is_spent() {
        let budget = budget();
        let large = body_of(&budget, "127.0.0.1");
        large.receive(UNCOUNTED_BYTES + 400 * KIB).unwrap();
        assert!(large.receive(1).is_err(), "the whole budget is held");
        let small = body_of(&budget, "192.0.2.1");
        small.receive(UNCOUNTED_BYTES).unwrap();
        assert!(small.receive(1).is_err());
    }
}
