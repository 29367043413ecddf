//! Watches one connection: what it waits for, and since when.
//!
//! A slow client is found by three ages: of a request head that has begun, of silence, and of a write that does not move.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{HttpLimits, HttpMetrics};

/// The ages of one connection. Times are milliseconds since its start, plus one; zero means “not now”.
#[derive(Debug)]
pub struct Activity {
    begun: Instant,
    // Here, and not beside the handler, so that a request shares no counter of references with those of other connections.
    metrics: HttpMetrics,
    /// Random, so that the requests of two connections differ.
    first_number: u64,
    served_count: AtomicU64,
    request_count: AtomicU32,
    is_multiplexed: AtomicBool,
    head_since: AtomicU64,
    quiet_since: AtomicU64,
    write_since: AtomicU64,
}

impl Activity {
    pub fn new(metrics: &HttpMetrics) -> Self {
        Self {
            begun: Instant::now(),
            metrics: metrics.clone(),
            first_number: rand::random(),
            served_count: AtomicU64::new(0),
            request_count: AtomicU32::new(0),
            is_multiplexed: AtomicBool::new(false),
            head_since: AtomicU64::new(0),
            quiet_since: AtomicU64::new(1),
            write_since: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// A request's head is complete; the request is under way until the answer is dropped.
    pub fn begin_request(self: &Arc<Self>, is_multiplexed: bool) -> RequestInFlight {
        self.request_count.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        self.is_multiplexed.store(is_multiplexed, Ordering::Relaxed);
        RequestInFlight(self.clone())
    }

    /// Why the connection should end now, if it should.
    pub fn overdue(&self, limits: &HttpLimits) -> Option<&'static str> {
        let now = self.now();
        let is_older = |since: u64, limit: Duration| {
            since != 0 && Duration::from_millis(now.saturating_sub(since)) > limit
        };
        if is_older(self.write_since.load(Ordering::Relaxed), limits.stall_time) {
            return Some("the client does not read");
        }
        if self.request_count.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // Between requests, HTTP/2 exchanges frames that begin no request.
        let is_multiplexed = self.is_multiplexed.load(Ordering::Relaxed);
        if !is_multiplexed && is_older(self.head_since.load(Ordering::Relaxed), limits.header_time) {
            return Some("the request's head does not arrive");
        }
        is_older(self.quiet_since.load(Ordering::Relaxed), limits.idle_time)
            .then_some("no request for a long time")
    }

    fn note_read(&self) {
        if self.request_count.load(Ordering::Relaxed) == 0 && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn note_write(&self, is_blocked: bool) {
        let since = self.write_since.load(Ordering::Relaxed);
        if is_blocked && since == 0 {
            self.write_since.store(self.now(), Ordering::Relaxed);
        } else if !is_blocked && since != 0 {
            self.write_since.store(0, Ordering::Relaxed);
        }
    }
}

/// Marks a request as under way while it lives.
#[derive(Debug)]
pub struct RequestInFlight(Arc<Activity>);

impl RequestInFlight {
    /// A number that no other request of its connection has, and hardly one of another.
    pub fn number(&self) -> u64 {
        self.0.first_number.wrapping_add(self.0.served_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts the answer.
    pub fn count(&self, status: StatusCode) {
        self.0.metrics.count(status);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.quiet_since.store(self.0.now(), Ordering::Relaxed);
        self.0.request_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers of at most so many bytes are sent as one piece: copying them costs less than the system takes for several.
const SMALL_ANSWER: usize = 1024;

/// The slices one after the other, when they fit.
fn joined<'b>(slices: &[io::IoSlice<'_>], buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let mut length = 0;
    for slice in slices {
        buffer.get_mut(length..length + slice.len())?.copy_from_slice(slice);
        length += slice.len();
    }
    Some(&buffer[..length])
}

/// A stream that tells its activity.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.note_read();
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.note_write(outcome.is_pending());
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut small = [0; SMALL_ANSWER];
        if let Some(whole) = joined(slices, &mut small) {
            return self.poll_write(context, whole);
        }
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.activity.note_write(outcome.is_pending());
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        if outcome.is_pending() {
            self.activity.note_write(true);
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_joined_when_they_fit() {
        let mut buffer = [0; 5];
        let slices = [b"ab".as_slice(), b"", b"cde"].map(io::IoSlice::new);
        assert_eq!(joined(&slices, &mut buffer), Some(b"abcde".as_slice()));
        assert_eq!(joined(&slices, &mut [0; 4]), None);
        assert_eq!(joined(&[], &mut [0; 4]), Some(b"".as_slice()));
    }
}
