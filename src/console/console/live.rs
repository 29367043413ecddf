//! The event stream of a page: it says that something has happened, and the page reads itself again.
//!
//! It is made from the event stream of the API, whose limits and rights therefore hold. The more tabs are open, the longer each of them waits
//! between two renewals while events follow each other, so that all of them together cost a hub no more than a few.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{self, State};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use evenkeel_client::{Path, Pieces};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep_until};

use crate::Console;
use crate::failure::Failure;
use crate::session::Reader;

/// Time after which a page without events is renewed as well: not everything that it shows is an event.
const RENEWAL: Duration = Duration::from_secs(10);

/// Shortest time between two renewals of a page.
const PAUSE: Duration = Duration::from_secs(1);

/// Pages that all tabs together renew in a second at most, while events follow each other.
const RENEWALS_PER_SEC: u32 = 25;

/// An open stream, until it is dropped.
struct OpenStream(Arc<AtomicUsize>);

impl OpenStream {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    /// Returns the time between two renewals of each page.
    fn pause(&self) -> Duration {
        pause(self.0.load(Ordering::Relaxed))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pause(streams: usize) -> Duration {
    let streams = u32::try_from(streams).unwrap_or(u32::MAX);
    (PAUSE * streams / RENEWALS_PER_SEC).max(PAUSE)
}

/// Sends `change` when something has happened in an organization, and at least every [`RENEWAL`], or every pause if that is longer.
pub(crate) async fn stream(
    State(console): State<Console>,
    reader: Reader,
    extract::Path(org): extract::Path<String>,
) -> Result<Response, Failure> {
    let path = Path::org(&org, &["orchestration", "events", "stream"]);
    let events = reader.client.follow(&path).await?;
    let open = OpenStream::new(console.open_streams);
    let changes = stream::unfold((events, open, Instant::now()), |(mut events, open, earliest)| async move {
        let goes_on = next_change(&mut events, earliest).await;
        let next = Instant::now() + open.pause();
        // Browsers drop events without data.
        let event = Event::default().event("change").data("changed");
        goes_on.then_some((Ok::<_, Infallible>(event), (events, open, next)))
    });
    Ok(Sse::new(changes).keep_alive(KeepAlive::default()).into_response())
}

/// Waits until the page is to be renewed, not before `earliest`; false when the events have ended: the browser asks again.
async fn next_change(events: &mut Pieces, earliest: Instant) -> bool {
    let mut renewal = earliest.max(Instant::now() + RENEWAL);
    loop {
        tokio::select! {
            () = sleep_until(renewal) => return true,
            piece = events.next() => match piece {
                Some(Ok(piece)) if has_event(&piece) => renewal = earliest,
                // A comment that keeps the connection open.
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            },
        }
    }
}

fn has_event(piece: &[u8]) -> bool {
    piece.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"event:") || line.starts_with(b"data:"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use evenkeel_client::ClientError;

    use super::*;

    fn events(pieces: Vec<Result<&'static str, ClientError>>) -> Pieces {
        let pieces: Vec<_> =
            pieces.into_iter().map(|piece| piece.map(|text| Bytes::from_static(text.as_bytes()))).collect();
        stream::iter(pieces).boxed()
    }

    #[tokio::test]
    async fn page_is_renewed_by_events_and_not_by_comments() {
        let (all, now) = (vec![Ok(":\n\n"), Ok("id: 1\nevent: node.frozen\ndata: {}\n\n")], Instant::now());
        let mut all = events(all).chain(stream::pending()).boxed();
        assert!(next_change(&mut all, now).await);
        assert!(!next_change(&mut events(Vec::new()), now).await, "the stream has ended");
        let lost = ClientError::Transport { retryable: true, reason: "gone".to_owned() };
        assert!(!next_change(&mut events(vec![Err(lost)]), now).await);
    }

    #[tokio::test]
    async fn events_that_follow_each_other_are_one_renewal_at_its_time() {
        let event = || Ok("id: 1\nevent: node.frozen\ndata: {}\n\n");
        let mut all = events(vec![event(), event(), event()]).chain(stream::pending()).boxed();
        let earliest = Instant::now() + Duration::from_millis(50);
        assert!(next_change(&mut all, earliest).await);
        assert!(Instant::now() >= earliest);
        let rest = tokio::time::timeout(Duration::from_millis(20), next_change(&mut all, earliest));
        assert!(rest.await.is_err(), "all of them were seen");
    }

    #[test]
    fn many_tabs_renew_their_pages_less_often() {
        assert_eq!([0, 1, 25].map(pause), [PAUSE; 3]);
        assert_eq!(pause(200), Duration::from_secs(8));
        let count = Arc::new(AtomicUsize::new(0));
        let (one, other) = (OpenStream::new(count.clone()), OpenStream::new(count.clone()));
        assert_eq!(one.pause(), PAUSE);
        drop((one, other));
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
