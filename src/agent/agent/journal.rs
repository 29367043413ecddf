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
    /// True if the registration is complete, so that agreements may be made.
    pub is_configured: bool,
    /// When that last changed, seconds since 1970.
    pub changed_at: u64,
    /// True if the hub ever knew the node.
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
    /// Reason for reporting nothing to the hub while another agent has the identity of the node.
    #[serde(skip)]
    pub superseded: Option<String>,
    /// The maintenance that the operator of the machine announced.
    pub maintenance: Option<Maintenance>,
    /// Description of the loss of an earlier journal, until it was reported to the hub.
    pub loss: Option<String>,
    /// When the last heartbeat was sent that the hub has recorded, in milliseconds since the boot.
    #[serde(skip)]
    pub heartbeat_ms: Option<u64>,
}

/// A maintenance that the operator of the machine announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// When it ends, seconds since 1970; none: when the operator ends it.
    pub until: Option<u64>,
    /// True if the node is upgraded.
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
    pub fn record_heartbeat(&mut self, ms: u64) {
        self.heartbeat_ms = Some(ms);
        // Nothing else depends on it after a restart.
        let has_lease = !self.state.leases().is_empty();
        self.state.heartbeat = has_lease.then(|| BootTime { boot: clock::boot(), ms });
    }

    /// Adds an entry to the event log.
    pub fn log_event(&mut self, message: String, at: u64) {
        self.log.push_back(LogEntry { id: self.next_entry, at, message });
        self.next_entry += 1;
        while self.log.len() > MOST_LOGGED {
            self.log.pop_front();
        }
    }
}

/// Identity of the agent, which must survive the loss of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Identity {
    agent: String,
    hardware_id: String,
    registration: Option<Registration>,
}

impl Identity {
    fn of(journal: &Journal) -> Self {
        let Journal { agent, hardware_id, registration, .. } = journal;
        let (agent, hardware_id) = (agent.clone(), hardware_id.clone());
        Self { agent, hardware_id, registration: registration.clone() }
    }
}

/// The files behind a [`Journal`].
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    written: String,
    identity_path: PathBuf,
    identity: Option<Identity>,
}

impl JournalFile {
    /// Reads the journal of a data directory, or creates one.
    ///
    /// A missing or damaged journal is reported, because only the journal contained the agreements; a damaged one is
    /// moved aside. Identity and
    /// registration are in a file of their own and survive.
    ///
    /// # Errors
    /// [`AgentError::DataDir`] when the files cannot be read, [`AgentError::Journal`] when a damaged journal cannot be kept aside.
    pub fn open(directory: &Path) -> Result<(Self, Journal), AgentError> {
        let path = directory.join("journal.json");
        let identity_path = directory.join("identity.json");
        let identity: Option<Identity> =
            files::read_optional(&identity_path)?.and_then(|text| serde_json::from_str(&text).ok());
        let text = files::read_optional(&path)?;
        let read = text.as_deref().map(serde_json::from_str::<Journal>);
        let loss = match (&read, &identity) {
            (Some(Ok(_)), _) | (None, None) => None,
            (None, Some(_)) => Some(format!("the journal {} no longer exists", path.display())),
            (Some(Err(error)), _) => {
                let aside = directory.join("journal.json.damaged");
                std::fs::rename(&path, &aside)
                    .map_err(|error| AgentError::Journal { path: path.clone(), reason: error.to_string() })?;
                Some(format!("the journal was damaged and is kept as {}: {error}", aside.display()))
            }
        };
        let journal = match read {
            Some(Ok(journal)) => journal,
            _ => Self::begun_anew(identity.clone().unwrap_or_default(), loss),
        };
        Ok((Self { path, written: text.unwrap_or_default(), identity_path, identity }, journal))
    }

    fn begun_anew(identity: Identity, loss: Option<String>) -> Journal {
        let new = |known: String| if known.is_empty() { Uuid::new_v4().simple().to_string() } else { known };
        let mut journal = Journal {
            agent: new(identity.agent),
            hardware_id: new(identity.hardware_id),
            registration: identity.registration,
            ..Journal::default()
        };
        if let Some(why) = loss {
            let text = format!(
                "{why}; the agent has lost its agreements, stops the services that ran under them, and gets new ones from the hub"
            );
            tracing::error!("{text}");
            journal.log_event(text.clone(), clock::now_secs());
            journal.loss = Some(text);
        }
        journal
    }

    /// Writes the journal when it differs from what is on disk.
    ///
    /// # Errors
    /// [`AgentError::DataDir`] when it cannot be written.
    pub fn save(&mut self, journal: &Journal) -> Result<(), AgentError> {
        let identity = Identity::of(journal);
        if self.identity.as_ref() != Some(&identity) {
            let text = serde_json::to_string_pretty(&identity)
                .map_err(|error| AgentError::DataDir(error.to_string()))?;
            files::write_atomic(&self.identity_path, text.as_bytes(), 0o600)?;
            self.identity = Some(identity);
        }
        let text = serde_json::to_string(journal).map_err(|error| AgentError::DataDir(error.to_string()))?;
        if text == self.written {
            return Ok(());
        }
        files::write_atomic(&self.path, text.as_bytes(), 0o600)?;
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
        journal.log_event("hello".to_owned(), 7);
        journal.state.node = "a/b".to_owned();
        file.save(&journal).unwrap();
        let (_, again) = JournalFile::open(directory.path()).unwrap();
        assert_eq!((again.agent, again.state.node), (journal.agent, journal.state.node));
        assert_eq!(again.log.len(), 1);
    }

    #[test]
    fn identity_survives_the_loss_of_the_journal_which_is_reported() {
        for damage in [None, Some("{"), Some("")] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("journal.json");
            let (mut file, mut journal) = JournalFile::open(directory.path()).unwrap();
            assert_eq!(journal.loss, None, "a first start is no loss");
            journal.registration = Some(Registration { id: "edge-1".to_owned(), ..Registration::default() });
            file.save(&journal).unwrap();
            match damage {
                None => std::fs::remove_file(&path).unwrap(),
                Some(text) => std::fs::write(&path, text).unwrap(),
            }
            let (mut file, again) = JournalFile::open(directory.path()).unwrap();
            assert_eq!((&again.agent, &again.hardware_id), (&journal.agent, &journal.hardware_id));
            assert_eq!(again.registration, journal.registration);
            assert!(again.loss.is_some() && again.log.len() == 1, "{damage:?}");
            file.save(&again).unwrap();
            assert!(JournalFile::open(directory.path()).unwrap().1.loss.is_some(), "until the hub knows it");
            assert_eq!(directory.path().join("journal.json.damaged").exists(), damage.is_some());
        }
    }

    #[test]
    fn event_log_is_bounded() {
        let mut journal = Journal::default();
        (0..500).for_each(|number| journal.log_event(number.to_string(), number));
        assert_eq!(journal.log.len(), MOST_LOGGED);
        assert_eq!(journal.log.back().map(|entry| entry.id), Some(499));
    }
}
