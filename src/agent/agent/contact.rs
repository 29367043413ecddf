//! Warnings about a persistent failure: the first one soon, the next ones at growing intervals.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evenkeel_client::ClientError;
use tokio::time::{Instant, sleep_until};

/// A shorter failure is not reported: a restarting hub is back by then.
const FIRST_WARNING: Duration = Duration::from_secs(2);
/// Interval between the first two warnings; it doubles up to [`LONGEST_INTERVAL`].
const FIRST_INTERVAL: Duration = Duration::from_secs(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(600);

/// A failure that may persist, with the time of its next report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    since: Instant,
    next_warning: Instant,
    interval: Duration,
    is_reported: bool,
}

impl Outage {
    /// Records the start of a failure.
    pub fn begin(now: Instant) -> Self {
        Self { since: now, next_warning: now + FIRST_WARNING, interval: FIRST_INTERVAL, is_reported: false }
    }

    /// Returns how long the failure has lasted if a warning is due. The interval to the next warning doubles.
    pub fn warning_due(&mut self, now: Instant) -> Option<Duration> {
        if now < self.next_warning {
            return None;
        }
        self.next_warning = now + self.interval;
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
        self.is_reported = true;
        Some(now - self.since)
    }
}

/// A kind of call to the hub, with the warnings about its failures.
pub(crate) struct Contact {
    call: &'static str,
    hub: String,
    node: String,
    outage: Mutex<Option<Outage>>,
}

impl Contact {
    /// `call`: name of the call, for the log.
    pub fn new(call: &'static str, hub: &str, node: String) -> Self {
        Self { call, hub: hub.to_owned(), node, outage: Mutex::new(None) }
    }

    /// Awaits a call, and warns if it does not return. `is_parked`: the response may take long, so that a missing one
    /// is reported only during a known outage.
    pub async fn watch<T>(&self, call: impl Future<Output = T>, is_parked: bool) -> T {
        let mut call = std::pin::pin!(call);
        if is_parked && self.outage().is_none() {
            return call.await;
        }
        // A call that fails reports its error itself; only one that hangs is reported before it ends.
        let hangs_from = Instant::now() + FIRST_WARNING;
        loop {
            let next = self.outage().get_or_insert_with(|| Outage::begin(Instant::now())).next_warning;
            let next = next.max(hangs_from);
            tokio::select! {
                result = &mut call => return result,
                () = sleep_until(next) => self.warn("no response yet"),
            }
        }
    }

    /// Records a failed call.
    pub fn failed(&self, error: &ClientError) {
        self.outage().get_or_insert_with(|| Outage::begin(Instant::now()));
        match (error.is_unauthorized(), error) {
            (true, _) => self.warn(&format!(
                "login refused ({error}): the node does not exist or its token is wrong; check with `hzn exchange \
                 node confirm`"
            )),
            (false, ClientError::Transport { reason, .. }) => self.warn(&format!("not reachable: {reason}")),
            (false, _) => self.warn(&error.to_string()),
        }
    }

    /// Records a successful call.
    pub fn restored(&self) {
        let ended = self.outage().take().filter(|outage| outage.is_reported);
        if let Some(outage) = ended {
            let lasted_secs = outage.since.elapsed().as_secs();
            tracing::info!(
                node.id = self.node,
                hub = self.hub,
                call = self.call,
                lasted_secs,
                "contact with the hub restored"
            );
        }
    }

    fn warn(&self, reason: &str) {
        let mut outage = self.outage();
        let Some(lasted) = outage.as_mut().and_then(|outage| outage.warning_due(Instant::now())) else {
            return;
        };
        tracing::warn!(
            node.id = self.node,
            hub = self.hub,
            call = self.call,
            reason,
            lasted_secs = lasted.as_secs(),
            "no contact with the hub; running services are kept and the call is repeated"
        );
    }

    /// The data of a poisoned lock is consistent: every change is a single assignment.
    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_at_growing_intervals() {
        let start = Instant::now();
        let mut outage = Outage::begin(start);
        let seconds: Vec<u64> = (0..2000)
            .filter(|second| outage.warning_due(start + Duration::from_secs(*second)).is_some())
            .collect();
        assert_eq!(seconds, [2, 12, 32, 72, 152, 312, 632, 1232, 1832]);
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_hangs_is_reported_while_it_hangs() {
        use tokio::time::timeout;
        let contact = Contact::new("change feed", "http://hub.test", "acme/n1".to_owned());
        let is_reported = || contact.outage().is_some_and(|outage| outage.is_reported);
        let limit = FIRST_WARNING + Duration::from_millis(200);
        assert!(timeout(limit, contact.watch(std::future::pending::<()>(), false)).await.is_err());
        assert!(is_reported());
        contact.restored();
        assert!(contact.outage().is_none());
        assert!(timeout(limit, contact.watch(std::future::pending::<()>(), true)).await.is_err());
        assert!(contact.outage().is_none(), "a parked poll is allowed to take long");
    }
}
