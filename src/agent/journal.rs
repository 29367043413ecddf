//! The agent's durable state over restarts and crashes: `journal.json`.
//!
//! The file is replaced atomically before a change takes effect, so that after a kill at any moment the agent knows at least
//! everything it has acknowledged.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
};

use evenkeel_wire::exchange::node_report::NodeMonitorState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AgentError, clock, files,
    step::{BootTime, State, management::Job},
};

/// Maximum number of event log entries.
const MOST_LOGGED: usize = 200;

/// The identity under which the agent is registered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Registration {
    /// Organization.
    pub org: String,
    /// Node id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Requested pattern, or empty.
    pub pattern: String,
    /// Whether the registration is complete, so that agreements may be made.
    pub is_configured: bool,
    /// When that last changed, seconds since 1970.
    pub changed_at: u64,
    /// Whether the hub ever knew the node.
    pub was_known: bool,
}

/// One entry of the event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Number.
    pub id: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// Human-readable message.
    pub message: String,
}

/// The durable state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// Identity of this data directory.
    pub agent: String,
    /// Registration.
    pub registration: Option<Registration>,
    /// Generated serial number for machines without one.
    pub hardware_id: String,
    /// Agreements and what belongs to them.
    pub state: State,
    /// Management jobs by policy name.
    pub jobs: BTreeMap<String, Job>,
    /// Event log, oldest first.
    pub log: VecDeque<LogEntry>,
    /// Number of the next log entry.
    pub next_entry: u64,
    /// Number of the first log entry since the node was last unregistered.
    pub first_entry: u64,
    /// The maintenance that the operator of the machine announced.
    pub maintenance: Option<Maintenance>,
    /// When the last heartbeat was sent that the hub has recorded, in milliseconds since the boot.
    #[serde(skip)]
    pub heartbeat_ms: Option<u64>,
}

/// A maintenance that the operator of the machine announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// When it ends, seconds since 1970; none: when the operator ends it.
    pub until: Option<u64>,
    /// Whether the node is upgraded.
    #[serde(default)]
    pub is_upgrade: bool,
}

impl Maintenance {
    /// Returns what is announced to the hub.
    pub fn monitor_state(self) -> NodeMonitorState {
        if self.is_upgrade { NodeMonitorState::Upgrade } else { NodeMonitorState::Maintenance }
    }

    /// Returns whether its time has passed.
    pub fn is_over(self, now: u64) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl Journal {
    /// Returns when the last heartbeat was sent that the hub has recorded, in milliseconds since the boot: the start of the agent without any, and
    /// the boot itself if that was before it.
    pub fn heartbeat_ms(&mut self) -> u64 {
        let recorded = self.state.heartbeat.as_ref();
        *self.heartbeat_ms.get_or_insert_with(|| match recorded {
            Some(time) if time.boot == clock::boot() => time.ms,
            Some(_) => 0,
            None => clock::uptime_ms(),
        })
    }

    /// Records that the hub has recorded a heartbeat that was sent at this time in milliseconds since the boot.
    pub fn note_heartbeat(&mut self, ms: u64) {
        self.heartbeat_ms = Some(ms);
        // Nothing else depends on it after a restart.
        let has_lease = !self.state.leases().is_empty();
        self.state.heartbeat = has_lease.then(|| BootTime { boot: clock::boot(), ms });
    }

    /// Adds an entry to the event log.
    pub fn note(&mut self, message: String, at: u64) {
        self.log.push_back(LogEntry { id: self.next_entry, at, message });
        self.next_entry += 1;
        while self.log.len() > MOST_LOGGED {
            self.log.pop_front();
        }
    }
}

/// The file behind a [`Journal`].
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    written: String,
}

impl JournalFile {
    /// Reads the journal of a data directory, or creates one.
    ///
    /// # Errors
    /// [`AgentError::DataDir`] when it cannot be read, [`AgentError::Journal`] when its content is not a journal: it
    /// is never discarded silently, because only it may know of running services.
    pub fn open(directory: &Path) -> Result<(Self, Journal), AgentError> {
        let path = directory.join("journal.json");
        let text = files::read_optional(&path).map_err(|error| AgentError::DataDir(error.to_string()))?;
        let journal = match &text {
            None => Journal {
                agent: Uuid::new_v4().simple().to_string(),
                hardware_id: Uuid::new_v4().simple().to_string(),
                ..Journal::default()
            },
            Some(text) => serde_json::from_str(text)
                .map_err(|error| AgentError::Journal { path: path.clone(), reason: error.to_string() })?,
        };
        Ok((Self { path, written: text.unwrap_or_default() }, journal))
    }

    /// Writes the journal when it differs from what is on disk.
    ///
    /// # Errors
    /// [`AgentError::DataDir`] when it cannot be written.
    pub fn save(&mut self, journal: &Journal) -> Result<(), AgentError> {
        let text = serde_json::to_string(journal).map_err(|error| AgentError::DataDir(error.to_string()))?;
        if text == self.written {
            return Ok(());
        }
        files::write_atomic(&self.path, text.as_bytes(), 0o600)
            .map_err(|error| AgentError::DataDir(error.to_string()))?;
        self.written = text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_survives_and_keeps_its_identity() {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, mut journal) = JournalFile::open(directory.path()).unwrap();
        journal.note("hello".to_owned(), 7);
        journal.state.node = "a/b".to_owned();
        file.save(&journal).unwrap();
        let (_, again) = JournalFile::open(directory.path()).unwrap();
        assert_eq!((again.agent, again.state.node), (journal.agent, journal.state.node));
        assert_eq!(again.log.len(), 1);
    }

    #[test]
    fn damaged_journal_is_an_error_and_not_a_new_beginning() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("journal.json"), "{").unwrap();
        assert!(matches!(JournalFile::open(directory.path()), Err(AgentError::Journal { .. })));
    }

    #[test]
    fn event_log_is_bounded() {
        let mut journal = Journal::default();
        (0..500).for_each(|number| journal.note(number.to_string(), number));
        assert_eq!(journal.log.len(), MOST_LOGGED);
        assert_eq!(journal.log.back().map(|entry| entry.id), Some(499));
    }
}
