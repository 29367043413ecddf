//! Monitors what a connection waits for, and since when.
//!
//! A slow client is detected by three ages: of an incomplete request head, of an idle connection, and of a blocked
//! write. Requests do not read a clock for this. They increment counters, and a periodic check sees which have not
//! changed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{HttpLimits, HttpMetrics};

/// The activity of one connection.
#[derive(Debug)]
pub struct Activity {
    begun: Instant,
    // Stored here and not with the handler, so that requests of different connections share no reference count.
    metrics: HttpMetrics,
    /// Random, so that the requests of two connections differ.
    first_number: u64,
    /// Requests that have begun, ever.
    begun_count: AtomicU64,
    /// Requests under way.
    request_count: AtomicU32,
    is_multiplexed: AtomicBool,
    /// A request had good credentials.
    has_logged_in: Arc<AtomicBool>,
    /// Something of a request's head has come.
    is_in_head: AtomicBool,
    /// Milliseconds from `begun` to the time at which a write was blocked, plus one; zero if none is blocked.
    write_since: AtomicU64,
}

impl Activity {
    pub fn new(metrics: &HttpMetrics) -> Self {
        Self {
            begun: Instant::now(),
            metrics: metrics.clone(),
            first_number: rand::random(),
            begun_count: AtomicU64::new(0),
            request_count: AtomicU32::new(0),
            is_multiplexed: AtomicBool::new(false),
            has_logged_in: Arc::default(),
            is_in_head: AtomicBool::new(false),
            write_since: AtomicU64::new(0),
        }
    }

    /// Returns the flag that a request with good credentials sets.
    pub fn has_logged_in(&self) -> &Arc<AtomicBool> {
        &self.has_logged_in
    }

    /// Returns whether a request had good credentials.
    pub fn has_login(&self) -> bool {
        self.has_logged_in.load(Ordering::Relaxed)
    }

    /// Returns whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.request_count.load(Ordering::Relaxed) == 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// A request's head is complete; the request is in flight until the response is dropped.
    pub fn begin_request(self: &Arc<Self>, is_multiplexed: bool) -> RequestInFlight {
        self.request_count.fetch_add(1, Ordering::Relaxed);
        let ordinal = self.begun_count.fetch_add(1, Ordering::Relaxed);
        self.is_in_head.store(false, Ordering::Relaxed);
        self.is_multiplexed.store(is_multiplexed, Ordering::Relaxed);
        RequestInFlight { activity: self.clone(), ordinal }
    }

    fn note_read(&self) {
        if self.request_count.load(Ordering::Relaxed) == 0 {
            self.is_in_head.store(true, Ordering::Relaxed);
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

/// Time since when a connection has been idle, as seen by periodic checks: it may have been idle for up to one check interval longer.
#[derive(Debug)]
pub struct Ages {
    begun_count: u64,
    quiet_since: Instant,
    head_since: Option<Instant>,
}

impl Ages {
    pub fn new() -> Self {
        Self { begun_count: 0, quiet_since: Instant::now(), head_since: None }
    }

    /// Returns why the connection should end now, if it should.
    pub fn overdue(&mut self, activity: &Activity, limits: &HttpLimits) -> Option<&'static str> {
        let blocked_at = activity.write_since.load(Ordering::Relaxed);
        let blocked_for = Duration::from_millis(activity.now().saturating_sub(blocked_at));
        if blocked_at != 0 && blocked_for > limits.stall_time {
            return Some("the client does not read");
        }
        let begun_count = activity.begun_count.load(Ordering::Relaxed);
        if activity.request_count.load(Ordering::Relaxed) > 0 || begun_count != self.begun_count {
            *self = Self { begun_count, ..Self::new() };
            return None;
        }
        // Between requests, HTTP/2 also exchanges frames that start no request.
        let is_multiplexed = activity.is_multiplexed.load(Ordering::Relaxed);
        if activity.is_in_head.load(Ordering::Relaxed) && !is_multiplexed {
            let since = *self.head_since.get_or_insert_with(Instant::now);
            if since.elapsed() > limits.header_time {
                return Some("the request's head does not arrive");
            }
        }
        if !activity.has_login() && self.quiet_since.elapsed() > limits.anonymous_idle_time {
            return Some("no login");
        }
        (self.quiet_since.elapsed() > limits.idle_time).then_some("no request for a long time")
    }
}

/// Marks a request as under way while it lives.
#[derive(Debug)]
pub struct RequestInFlight {
    activity: Arc<Activity>,
    ordinal: u64,
}

impl RequestInFlight {
    /// A number that is unique in its connection, and almost certainly among all connections.
    pub fn number(&self) -> u64 {
        self.activity.first_number.wrapping_add(self.ordinal)
    }

    /// Counts the response.
    pub fn count(&self, status: StatusCode) {
        self.activity.metrics.count(status);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.activity.request_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Responses up to this size are sent as one piece: copying them costs less than several system calls.
const SMALL_RESPONSE_BYTES: usize = 1024;

/// Returns the concatenated slices, if they fit.
fn joined<'b>(slices: &[io::IoSlice<'_>], buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let mut length = 0;
    for slice in slices {
        buffer.get_mut(length..length + slice.len())?.copy_from_slice(slice);
        length += slice.len();
    }
    Some(&buffer[..length])
}

/// A stream that records its activity.
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
        let mut small = [0; SMALL_RESPONSE_BYTES];
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
