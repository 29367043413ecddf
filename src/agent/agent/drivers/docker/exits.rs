//! Follows the engine's events: every exit of this agent's containers, with its code and its last output.
//!
//! A list of containers shows only their current state, in which a container that the engine has restarted appears healthy.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bollard::{
    Docker,
    errors::Error,
    models::EventMessage,
    query_parameters::{EventsOptionsBuilder, LogsOptionsBuilder},
};
use futures_util::{StreamExt, stream::BoxStream};
use tokio::time::timeout;

use super::{AGENT_LABEL, AGREEMENT_LABEL, NAME_LABEL};
use crate::{
    clock,
    drivers::{lines_of, log_exit},
    step::Failures,
};

/// Events that change the observation.
const EVENTS: [&str; 7] = ["create", "start", "kill", "die", "destroy", "pause", "unpause"];
/// Longest time between a signal from outside and the resulting exit, in nanoseconds.
const SIGNAL_EFFECT: i64 = 60 * NANOS;
/// Signals that do not request the end of a program: HUP, USR1, USR2, CONT, WINCH.
const OTHER_REQUESTS: [i32; 5] = [1, 10, 12, 18, 28];
/// Longest wait for the output of a container that exited.
const LOG_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for the events that the engine has kept.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);
const NANOS: i64 = 1_000_000_000;

/// Exits of this agent's containers.
pub(super) struct Exits {
    agent: String,
    output_lines: usize,
    events: tokio::sync::Mutex<Option<BoxStream<'static, Result<EventMessage, Error>>>>,
    /// Held while an exit is recorded, so that concurrent observers count it once.
    taking: tokio::sync::Mutex<()>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Time of the last event, in nanoseconds since 1970: a new stream continues from there.
    until: i64,
    /// By service key and name of the container.
    failures: BTreeMap<(String, String), Failures>,
    /// The last signal that was sent to a container, and its time, by service key and name.
    signals: BTreeMap<(String, String), (i32, i64)>,
    /// Services that are being stopped: the exits of their containers are expected.
    stopping: BTreeSet<String>,
}

impl Seen {
    /// Returns the signal from outside that may have led to an exit at a time in nanoseconds.
    fn signal_before(&self, whose: &(String, String), at: i64) -> Option<i32> {
        let (signal, sent) = self.signals.get(whose)?;
        (at.saturating_sub(*sent) <= SIGNAL_EFFECT).then_some(*signal)
    }
}

impl Exits {
    pub fn new(agent: String, output_lines: usize) -> Self {
        let now = i64::try_from(clock::now_secs()).unwrap_or_default();
        let seen = Seen {
            until: now.saturating_mul(NANOS),
            failures: BTreeMap::new(),
            signals: BTreeMap::new(),
            stopping: BTreeSet::new(),
        };
        let (events, taking) = (tokio::sync::Mutex::new(None), tokio::sync::Mutex::new(()));
        Self { agent, output_lines, events, taking, seen: Mutex::new(seen) }
    }

    /// Returns the known exits of one container.
    pub fn of(&self, key: &str, name: &str) -> Failures {
        self.seen().failures.get(&(key.to_owned(), name.to_owned())).cloned().unwrap_or_default()
    }

    /// Marks the service as stopping: exits of its containers are expected from now on.
    pub fn begin_stop(&self, key: &str) {
        self.seen().stopping.insert(key.to_owned());
    }

    /// Removes a service: none of its containers is left, or it is started again.
    pub fn forget(&self, key: &str) {
        let mut seen = self.seen();
        seen.stopping.remove(key);
        seen.failures.retain(|(service, _), _| service != key);
        seen.signals.retain(|(service, _), _| service != key);
    }

    /// Waits for the next event of a container.
    ///
    /// # Errors
    /// When the engine ends the stream; the next call opens another one, which continues after the last event.
    pub async fn next(&self, docker: &Docker) -> Result<(), Error> {
        let mut events = self.events.lock().await;
        let stream = events.get_or_insert_with(|| self.open(docker, None));
        match stream.next().await {
            Some(Ok(event)) => {
                self.handle_event(docker, &event).await;
                Ok(())
            }
            ended => {
                *events = None;
                ended.map_or(Ok(()), |outcome| outcome.map(drop))
            }
        }
    }

    /// Processes the events up to now, because the observation of a container may be ahead of the events that explain it.
    async fn catch_up(&self, docker: &Docker) {
        let now = clock::now_secs().saturating_add(1).to_string();
        let mut stream = self.open(docker, Some(&now));
        let read = async {
            while let Some(Ok(event)) = stream.next().await {
                self.handle_event(docker, &event).await;
            }
        };
        if timeout(CATCH_UP_TIMEOUT, read).await.is_err() {
            tracing::debug!("the events of the container engine could not be read in time");
        }
    }

    fn open(&self, docker: &Docker, until: Option<&str>) -> BoxStream<'static, Result<EventMessage, Error>> {
        let filters = HashMap::from([
            ("type".to_owned(), vec!["container".to_owned()]),
            ("label".to_owned(), vec![format!("{AGENT_LABEL}={}", self.agent)]),
            ("event".to_owned(), EVENTS.map(str::to_owned).to_vec()),
        ]);
        let last = self.seen().until;
        let since = format!("{}.{:09}", last / NANOS, last % NANOS);
        let options = EventsOptionsBuilder::new().since(&since).filters(&filters);
        let options = until.into_iter().fold(options, EventsOptionsBuilder::until);
        docker.events(Some(options.build())).boxed()
    }

    async fn handle_event(&self, docker: &Docker, event: &EventMessage) {
        let _alone = self.taking.lock().await;
        let at = event.time_nano.unwrap_or_default();
        let attributes = event.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
        let attribute =
            |name: &str| attributes.and_then(|all| all.get(name)).map(String::as_str).unwrap_or_default();
        let (key, name) = (attribute(AGREEMENT_LABEL), attribute(NAME_LABEL));
        let whose = (key.to_owned(), name.to_owned());
        let signal = {
            let mut seen = self.seen();
            let is_known = at != 0 && at <= seen.until;
            seen.until = seen.until.max(at);
            if is_known || seen.stopping.contains(key) {
                return;
            }
            match event.action.as_deref() {
                Some("kill") => {
                    let signal = attribute("signal").parse().ok();
                    let meant = signal.filter(|signal| !OTHER_REQUESTS.contains(signal));
                    seen.signals.extend(meant.map(|signal| (whose, (signal, at))));
                    return;
                }
                // A program that was requested to end may do so with any code.
                Some("die") => {
                    let signal = seen.signal_before(&whose, at);
                    seen.signals.remove(&whose);
                    signal
                }
                _ => return,
            }
        };
        let id = event.actor.as_ref().and_then(|actor| actor.id.as_deref()).unwrap_or_default();
        let output = self.output(docker, id).await;
        let code = attribute("exitCode").parse().ok();
        let exited_at = u64::try_from(at / NANOS).ok().filter(|at| *at > 0).unwrap_or_else(clock::now_secs);
        let mut seen = self.seen();
        let failures = seen.failures.entry((key.to_owned(), name.to_owned())).or_default();
        failures.add_exit(exited_at, code, signal, output);
        log_exit(key, name, failures);
    }

    /// Records the exit of a container (service key and name) that no event reported.
    pub async fn record_exit(&self, docker: &Docker, (key, name): (&str, &str), id: &str, code: Option<i64>) {
        // The exit is expected, so that reading the events first would only delay the stop.
        if self.seen().stopping.contains(key) {
            return;
        }
        self.catch_up(docker).await;
        let _alone = self.taking.lock().await;
        if !self.of(key, name).is_empty() {
            return;
        }
        let output = self.output(docker, id).await;
        let mut seen = self.seen();
        if !seen.stopping.contains(key) {
            let whose = (key.to_owned(), name.to_owned());
            let now = clock::now_secs();
            let at = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(NANOS);
            // The signal is kept, because an event may still report this exit.
            let signal = seen.signal_before(&whose, at);
            let failures = seen.failures.entry(whose).or_default();
            failures.add_exit(now, code, signal, output);
            log_exit(key, name, failures);
        }
    }

    /// Returns the last output of a container; none when its log driver keeps nothing readable.
    async fn output(&self, docker: &Docker, id: &str) -> Vec<String> {
        if self.output_lines == 0 || id.is_empty() {
            return Vec::new();
        }
        let tail = self.output_lines.to_string();
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(&tail).build();
        let mut text = String::new();
        let read = async {
            let mut pieces = docker.logs(id, Some(options));
            while let Some(Ok(piece)) = pieces.next().await {
                text.push_str(&String::from_utf8_lossy(&piece.into_bytes()));
            }
        };
        if timeout(LOG_TIMEOUT, read).await.is_err() {
            tracing::debug!(container.id = id, "the output of the container could not be read in time");
        }
        lines_of(&text, self.output_lines)
    }

    /// The data of a poisoned lock is consistent: every change is a single insertion or removal.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
