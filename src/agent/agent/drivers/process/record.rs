//! The durable list of processes that were started: `processes.json`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{drivers::DriverError, files};

/// A process that was started, distinguishable from a later one with the same process id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    /// Service key.
    pub key: String,
    /// Name in the deployment.
    pub name: String,
    /// Process id, which is also the id of its group when it leads one.
    pub pid: i32,
    /// Start time in clock ticks since the boot.
    pub start_ticks: u64,
    /// Id of the boot.
    pub boot: String,
    /// When it was started, seconds since 1970.
    pub started_at: u64,
    /// True if the process leads its process group.
    pub is_leader: bool,
}

/// The list with its file. Every change is on disk before it takes effect.
#[derive(Debug)]
pub(crate) struct Records {
    path: PathBuf,
    by_name: BTreeMap<String, ProcessRecord>,
}

impl Records {
    pub(crate) fn load(path: PathBuf) -> Result<Self, DriverError> {
        let text = files::read_optional(&path)?;
        // A damaged list is not an error, because the marks of the processes contain the same information.
        let by_name = text
            .and_then(|text| {
                serde_json::from_str(&text)
                    .inspect_err(
                        |error| tracing::warn!(%error, "the list of processes is damaged and left unused"),
                    )
                    .ok()
            })
            .unwrap_or_default();
        Ok(Self { path, by_name })
    }

    pub(crate) fn all(&self) -> Vec<ProcessRecord> {
        self.by_name.values().cloned().collect()
    }

    pub(crate) fn insert(&mut self, record: ProcessRecord) -> Result<(), DriverError> {
        let name = format!("{}/{}", record.key, record.name);
        if self.by_name.get(&name) == Some(&record) {
            return Ok(());
        }
        self.by_name.insert(name, record);
        self.save()
    }

    pub(crate) fn retain(&mut self, keeps: impl Fn(&ProcessRecord) -> bool) -> Result<(), DriverError> {
        let before = self.by_name.len();
        self.by_name.retain(|_, record| keeps(record));
        if self.by_name.len() == before { Ok(()) } else { self.save() }
    }

    fn save(&self) -> Result<(), DriverError> {
        let text = serde_json::to_string_pretty(&self.by_name)
            .map_err(|error| DriverError::Transient(error.to_string()))?;
        Ok(files::write_atomic(&self.path, text.as_bytes(), 0o600)?)
    }
}
