//! Reports the state of the agent to the hub, so that an intentional stop does not count as a failure (orchestration A10).

use std::{convert::Infallible, sync::Arc, sync::atomic::Ordering, time::Duration};

use evenkeel_client::ClientError;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::node_report::{NodeMonitorState, PutNodeReport};

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, PassError, SIGNAL_ONLY, Signals, canceled_if_ended, failed, jittered,
    tasks::TaskReader,
};
use crate::{
    clock,
    contact::Contact,
    hub::Hub,
    journal::Journal,
    order::{Ended, Handle},
};

/// Version of the contract between agents and hub for moving instances between nodes. It is increased when agents of
/// different versions could interpret the same decision differently.
pub(crate) const COMPAT_VERSION: i64 = 1;

/// Pause between two reads of the reports that are still due after the start of the agent.
const SETTLING_PAUSE: Duration = Duration::from_millis(200);

/// Reports the monitor state.
pub(super) struct Presence {
    contact: Contact,
    hub: Arc<Hub>,
    handle: Handle,
    signals: Arc<Signals>,
    reader: Arc<TaskReader>,
    reported: Option<NodeMonitorState>,
    pause: Duration,
    backoff: Duration,
}

impl Worker for Presence {
    type Error = Infallible;
    const NAME: &'static str = "presence";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.report_or_retry().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    /// The change feed signals the first report, when it is known what the exchange understands.
    fn first_pause(&self) -> Duration {
        SIGNAL_ONLY
    }

    async fn signaled(&mut self) {
        if self.backoff > FIRST_PAUSE {
            // Further signals must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.signals.presence.notified().await;
    }
}

impl Presence {
    pub fn new(
        contact: Contact,
        hub: Arc<Hub>,
        handle: Handle,
        signals: Arc<Signals>,
        reader: Arc<TaskReader>,
    ) -> Self {
        Self {
            contact,
            hub,
            handle,
            signals,
            reader,
            reported: None,
            pause: SIGNAL_ONLY,
            backoff: FIRST_PAUSE,
        }
    }

    async fn report_or_retry(&mut self) -> Result<(), Ended> {
        self.pause = SIGNAL_ONLY;
        // Third-party exchanges know no monitor states.
        if !self.reader.is_supported() {
            return Ok(());
        }
        let is_joined = self.signals.is_joined.load(Ordering::Relaxed);
        let now = clock::now_secs();
        let (state, left) = self.handle.with(move |journal| wanted(journal, is_joined, now)).await?;
        if self.reported != Some(state) {
            // A report without a response may have been recorded.
            self.reported = None;
            match report(&self.hub, state).await {
                Ok(()) => {
                    self.contact.restored();
                    self.backoff = FIRST_PAUSE;
                    self.reported = Some(state);
                }
                Err(error) => {
                    self.pause = jittered(self.backoff);
                    self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
                    return failed(&self.contact, &self.handle, &error).await;
                }
            }
        }
        self.pause = left.unwrap_or(SIGNAL_ONLY);
        Ok(())
    }
}

/// Returns the state to report, and when to read it again without a signal.
fn wanted(journal: &mut Journal, is_joined: bool, now: u64) -> (NodeMonitorState, Option<Duration>) {
    if journal.maintenance.is_some_and(|maintenance| maintenance.is_over(now)) {
        journal.maintenance = None;
    }
    if let Some(maintenance) = journal.maintenance {
        let left = maintenance.until.map(|until| Duration::from_secs(until.saturating_sub(now).max(1)));
        return (maintenance.monitor_state(), left);
    }
    let has_reported = journal.state.tasks.values().all(|task| task.reports.is_empty());
    match is_joined && has_reported {
        true => (NodeMonitorState::Idle, None),
        false => (NodeMonitorState::Init, Some(SETTLING_PAUSE)),
    }
}

/// Reports the monitor state of an agent that has not joined yet. Third-party exchanges know none.
pub(super) async fn announce(hub: &Hub, handle: &Handle) -> Result<(), PassError> {
    let now = clock::now_secs();
    let (state, _) = handle.with(move |journal| wanted(journal, false, now)).await?;
    match report(hub, state).await {
        Err(error) if matches!(error.status(), Some(400 | 403..=405)) => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Reports a monitor state.
///
/// # Errors
/// When the hub does not accept it.
pub(crate) async fn report(hub: &Hub, state: NodeMonitorState) -> Result<(), ClientError> {
    let report =
        PutNodeReport { compat_version: Some(COMPAT_VERSION), ..PutNodeReport::monitor_state(state) };
    hub.exchange.put_node_report(&hub.node, &report).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::Maintenance,
        step::{Task, TaskEnd, TaskReport},
    };

    #[test]
    fn agent_is_idle_when_it_has_joined_and_all_states_of_tasks_are_reported() {
        let mut journal = Journal::default();
        let state = |journal: &mut Journal, is_joined| wanted(journal, is_joined, 100).0;
        assert_eq!(state(&mut journal, false), NodeMonitorState::Init);
        assert_eq!(state(&mut journal, true), NodeMonitorState::Idle);
        let report = TaskReport { end: TaskEnd::default(), seq: 1, at: 1 };
        let task = Task { reports: [report].into(), ..Task::default() };
        journal.state.tasks.insert("t".to_owned(), task);
        assert_eq!(wanted(&mut journal, true, 100), (NodeMonitorState::Init, Some(SETTLING_PAUSE)));
    }

    #[test]
    fn maintenance_lasts_as_long_as_its_operator_said() {
        let maintenance = Maintenance { until: Some(130), is_upgrade: false };
        let mut journal = Journal { maintenance: Some(maintenance), ..Journal::default() };
        let left = Some(Duration::from_secs(30));
        assert_eq!(wanted(&mut journal, true, 100), (NodeMonitorState::Maintenance, left));
        assert_eq!(wanted(&mut journal, true, 130), (NodeMonitorState::Idle, None));
        assert_eq!(journal.maintenance, None);
        journal.maintenance = Some(Maintenance { until: None, ..maintenance });
        assert_eq!(wanted(&mut journal, false, 100), (NodeMonitorState::Maintenance, None));
        journal.maintenance = Some(Maintenance { until: None, is_upgrade: true });
        assert_eq!(wanted(&mut journal, false, 100), (NodeMonitorState::Upgrade, None));
    }
}
