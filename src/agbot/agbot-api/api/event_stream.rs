//! The events of an organization as server-sent events, in the order of their numbers.
//!
//! A client that reads slowly delays only itself: the next events are read from the log when it has taken the ones before. Source:
//! orchestration 2.6.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use evenkeel_agbot_store::event::{self, PolicyEventFilter};
use evenkeel_api::{OrgPath, Parameters as ReadParameters, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{GroupId, PolicyId};
use evenkeel_store::{Database, StoreError};
use evenkeel_wire::agbot::orchestration::{EventStreamQuery, OrchestrationEvent};
use futures_util::{Stream, stream};
use http::request::Parts;
use serde_json::json;
use tokio::time::Instant;

use super::caller::account_name;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, RightTo, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use super::workload_events::pattern;
use crate::shown::SeenNodes;
use crate::shown::workload_shape::Shape;

/// Events that are read at a time.
const PAGE: i64 = 100;
/// Time between two reads of the log without news.
const PERIOD: Duration = Duration::from_secs(1);
/// Time after which the caller's rights are asked for again.
const RIGHTS_PERIOD: Duration = Duration::from_secs(30);
/// Streams that one caller may have open.
const STREAMS_PER_CALLER: usize = 50;
/// Streams of one organization, and of all.
const STREAMS_PER_ORG: usize = 500;
const STREAMS: usize = 2_000;
/// Seconds after which a refused caller may try again.
const RETRY_SECS: u64 = 30;

impl NamedQuery for EventStreamQuery {
    const KNOWN: Members = known(&["since", "kind", "group"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self {
            since: parameters.number("since", 0..=i64::MAX)?,
            kind: parameters.text("kind")?,
            group: parameters.text("group")?,
        })
    }
}

/// Number of the last event that the client has seen, as browsers state it when they connect again.
pub(super) struct LastEventNumber(Option<i64>);

impl ReadParameters for LastEventNumber {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let Some(value) = request.headers.get("last-event-id") else { return Ok(Self(None)) };
        let number = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|number| *number >= 0);
        let number: i64 =
            number.ok_or_else(|| Refusal::invalid_input("Last-Event-ID must be the id of an event"))?;
        Ok(Self(Some(number)))
    }
}

/// The open streams of each organization and account.
static OPEN: OpenStreams = OpenStreams(Mutex::new(BTreeMap::new()));

/// An organization and an account.
type Reader = (String, String);

struct OpenStreams(Mutex<BTreeMap<Reader, usize>>);

/// One open stream, until it is dropped.
struct OpenStream {
    streams: &'static OpenStreams,
    reader: Reader,
}

impl OpenStreams {
    /// Counts one more stream of an account.
    ///
    /// # Errors
    /// A text that says whose limit is reached.
    fn open(&'static self, org: &str, account: &str) -> Result<OpenStream, &'static str> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = (org.to_owned(), account.to_owned());
        let of_org: usize = counts.iter().filter(|((one, _), _)| one == org).map(|(_, count)| count).sum();
        let own = counts.get(&reader).copied().unwrap_or_default();
        if own >= STREAMS_PER_CALLER {
            return Err("the account has too many event streams open: close some first");
        }
        if of_org >= STREAMS_PER_ORG {
            return Err("the organization has too many event streams open");
        }
        if counts.values().sum::<usize>() >= STREAMS {
            return Err("the agbot has too many event streams open");
        }
        counts.insert(reader.clone(), own + 1);
        Ok(OpenStream { streams: self, reader })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.reader) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.reader);
            }
        }
    }
}

/// The newest event of each organization, read once for all streams.
#[derive(Default)]
pub(super) struct NewestEvents(tokio::sync::Mutex<Newest>);

#[derive(Default)]
struct Newest {
    read_at: Option<Instant>,
    last: i64,
    of_org: BTreeMap<String, i64>,
}

impl NewestEvents {
    /// Returns the number of the newest event of an organization since the first stream began, at most [`PERIOD`] old.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn of_org(&self, database: &Database, org: &str) -> Result<i64, StoreError> {
        let mut newest = self.0.lock().await;
        if newest.read_at.is_none_or(|at| at.elapsed() >= PERIOD) {
            if newest.read_at.is_none() {
                (_, newest.last) = database.read(async |connection| event::ends(connection).await).await?;
            } else {
                let last = newest.last;
                let read = database.read(async |connection| event::newest_of_orgs(connection, last).await);
                for (org, number) in read.await? {
                    newest.last = newest.last.max(number);
                    newest.of_org.insert(org, number);
                }
            }
            newest.read_at = Some(Instant::now());
        }
        Ok(newest.of_org.get(org).copied().unwrap_or_default())
    }
}

/// Sends the events about an organization's policies, nodes and groups.
pub(super) async fn stream_events(
    op: Op<OrgPath, LastEventNumber>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<EventStreamQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let Op { request, path, parameters: LastEventNumber(last) } = op;
    let account = account_name(&request.context, &request.headers, &path.org).await?;
    let open = OPEN.open(&path.org, &account).map_err(|why| Refusal::too_many(RETRY_SECS, why))?;
    let filter = PolicyEventFilter { since: None, kind: query.kind.map(|kind| pattern(&kind)), limit: PAGE };
    let group = query.group.map(|name| GroupId::new(&path.org, &name));
    let mut source = Source {
        seen: permission.into_proof(),
        checked: Instant::now(),
        waiting: Vec::new().into_iter(),
        oldest: None,
        last: 0,
        examined: 0,
        is_begun: false,
        may_have_more: false,
        _open: open,
        request,
        path,
        filter,
        group,
    };
    source.begin(last.or(query.since)).await?;
    Ok(Sse::new(stream::unfold(source, Source::next)).keep_alive(KeepAlive::default()))
}

/// A stream, between two of its events.
struct Source {
    request: AgbotRequest,
    path: OrgPath,
    filter: PolicyEventFilter,
    group: Option<GroupId>,
    /// The nodes that the caller may read.
    seen: SeenNodes,
    /// When that was asked.
    checked: Instant,
    /// Number of the last event that was read.
    last: i64,
    /// Number up to which the organization's events were read, as far as the caller sees them.
    examined: i64,
    /// True once the log was read.
    is_begun: bool,
    /// True if the last read was a whole page.
    may_have_more: bool,
    /// Events that were read and not sent.
    waiting: std::vec::IntoIter<OrchestrationEvent>,
    /// The oldest event of the log, if older ones that the client has not seen are gone.
    oldest: Option<i64>,
    _open: OpenStream,
}

impl Source {
    /// Begins after an event, or with what happens from now on.
    async fn begin(&mut self, after: Option<i64>) -> Result<(), Refusal> {
        let database = &self.request.context.database;
        let ends = database.read(async |connection| event::ends(connection).await).await;
        let (oldest, newest) = ends.map_err(|error| unreadable(&error))?;
        self.last = after.unwrap_or(newest);
        self.oldest = after.filter(|after| after.saturating_add(1) < oldest).map(|_| oldest);
        Ok(())
    }

    /// Returns the next event; none when the stream ends.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if let Some(oldest) = self.oldest.take() {
            let text = "older events are gone: read the state, and follow from here";
            let event = Event::default().event("gap").json_data(json!({"oldest": oldest, "text": text}));
            return Some((Ok(event.ok()?), self));
        }
        loop {
            if let Some(found) = self.waiting.next() {
                let event = Event::default().id(found.seq.to_string()).event(&found.kind).json_data(&found);
                return Some((Ok(event.ok()?), self));
            }
            if self.checked.elapsed() >= RIGHTS_PERIOD {
                // A login or a right that was withdrawn ends the stream.
                self.seen = right::HistoryRead::check(&self.request, &self.path).await.ok()?;
                self.checked = Instant::now();
                // An event that was written late may have a smaller number than one that was seen.
                self.may_have_more = true;
            }
            if !self.may_have_news().await? || !self.read().await? {
                tokio::time::sleep(PERIOD).await;
            }
        }
    }

    /// Returns whether there may be events that were not read; none when that cannot be found out.
    async fn may_have_news(&mut self) -> Option<bool> {
        let newest = self.request.newest_events.of_org(&self.request.context.database, &self.path.org).await;
        let newest = newest.inspect_err(ended).ok()?;
        let has_news = !self.is_begun || newest > self.examined;
        (self.is_begun, self.examined) = (true, newest);
        // A whole page may be followed by another one.
        Some(has_news || std::mem::take(&mut self.may_have_more))
    }

    /// Reads the next events. Returns whether there are any; none when they cannot be read.
    async fn read(&mut self) -> Option<bool> {
        let org = self.path.org.as_str();
        let filter = PolicyEventFilter { since: Some(self.last), ..self.filter.clone() };
        let nodes = self.seen.ids_in(org);
        let about = (nodes.as_deref(), self.group.as_ref());
        let database = &self.request.context.database;
        let read =
            database.read(async |connection| event::list_of_org(connection, org, about, &filter).await);
        let rows = read.await.inspect_err(ended).ok()?;
        self.may_have_more = rows.len() as i64 == PAGE;
        let policy = PolicyId::new(org, "");
        let shape = Shape { policy: &policy, seen: &self.seen, now: self.request.context.now() };
        let events: Vec<_> = rows.into_iter().map(|row| shape.event(row)).collect();
        self.last = events.last().map_or(self.last, |last| last.seq);
        self.waiting = events.into_iter();
        Some(self.waiting.len() > 0)
    }
}

fn ended(error: &StoreError) {
    let error: &(dyn std::error::Error + 'static) = error;
    tracing::warn!(error, "event stream ended: the events could not be read");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> &'static OpenStreams {
        Box::leak(Box::new(OpenStreams(Mutex::new(BTreeMap::new()))))
    }

    #[test]
    fn streams_of_an_account_are_bounded_and_counted_until_they_end() {
        let streams = streams();
        let open = |account| streams.open("o", account);
        let mut all: Vec<_> = (0..STREAMS_PER_CALLER).map(|_| open("o/one").expect("a stream")).collect();
        assert!(open("o/one").is_err_and(|why| why.contains("account")));
        assert!(open("o/other").is_ok());
        all.pop();
        assert!(open("o/one").is_ok());
        drop(all);
        assert!(streams.0.lock().expect("the counts").is_empty());
    }

    #[test]
    fn streams_of_an_organization_leave_room_for_others() {
        let streams = streams();
        let open = |org: &str, number: usize| streams.open(org, &number.to_string());
        let all: Vec<_> = (0..STREAMS_PER_ORG).map(|number| open("o", number).expect("a stream")).collect();
        assert!(open("o", 9_999).is_err_and(|why| why.contains("organization")));
        assert!(open("p", 0).is_ok());
        drop(all);
        let orgs = STREAMS / STREAMS_PER_ORG;
        let all: Vec<_> = (0..STREAMS)
            .map(|number| open(&(number % orgs).to_string(), number).expect("a stream"))
            .collect();
        assert!(open("another", 0).is_err_and(|why| why.contains("agbot")));
        drop(all);
    }

    #[test]
    fn number_of_the_last_event_is_read_from_the_header() {
        let read = |value: &str| {
            let (parts, ()) = http::Request::builder()
                .header("last-event-id", value)
                .body(())
                .expect("a request")
                .into_parts();
            LastEventNumber::read(&parts).map(|LastEventNumber(number)| number)
        };
        assert_eq!(read("42").unwrap(), Some(42));
        for value in ["x", "-1", ""] {
            assert!(read(value).is_err_and(|refusal| refusal.message().contains("Last-Event-ID")), "{value}");
        }
    }
}
