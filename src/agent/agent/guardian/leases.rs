//! State of a guardian: the valid leases, and the tasks that it has killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use evenkeel_domain::causes::chain;
use evenkeel_runtime::files::FileError;
use serde::{Deserialize, Serialize};

use super::{Lease, MARGIN_MS, Means, Request};
use crate::files;

/// The leases of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leases {
    /// The boot in which the times were measured.
    boot: String,
    /// Identity of the agent.
    pub agent: String,
    /// Means by which to kill.
    pub means: Means,
    by_task: BTreeMap<String, Lease>,
    /// Tasks that were killed.
    #[serde(default)]
    killed: BTreeSet<String>,
}

impl Leases {
    /// Returns the leases that an agent names. A task that was killed stays so until the agent no longer names it.
    pub fn of(request: &Request, boot: &str, known: Option<&Self>) -> Self {
        let by_task: BTreeMap<String, Lease> =
            request.leases.iter().map(|lease| (lease.task.clone(), lease.clone())).collect();
        let killed = known.map(|known| known.killed.clone()).unwrap_or_default();
        let killed = killed.into_iter().filter(|task| by_task.contains_key(task)).collect();
        Self {
            boot: boot.to_owned(),
            agent: request.agent.clone(),
            means: request.means.clone(),
            by_task,
            killed,
        }
    }

    /// Returns the expired leases, of which nothing may run.
    ///
    /// # Shape
    /// `now_ms`: milliseconds since the boot. Nothing of an earlier boot runs.
    pub fn over(&self, now_ms: u64) -> impl Iterator<Item = &Lease> {
        self.by_task.values().filter(move |lease| now_ms >= lease.until_ms.saturating_add(MARGIN_MS))
    }

    /// Returns whether a lease is not over.
    pub fn is_open(&self, now_ms: u64) -> bool {
        self.over(now_ms).count() < self.by_task.len()
    }

    /// Returns the keys of all guarded services.
    pub fn keys(&self) -> BTreeSet<String> {
        self.by_task.values().flat_map(|lease| lease.keys.iter().cloned()).collect()
    }

    /// Records that something of a task was killed.
    pub fn record_killed(&mut self, task: &str) -> bool {
        self.killed.insert(task.to_owned())
    }

    /// Returns the tasks that were killed.
    pub fn killed(&self) -> Vec<String> {
        self.killed.iter().cloned().collect()
    }
}

/// The file in which a guardian stores its leases.
pub(super) struct LeaseFile {
    path: PathBuf,
    written: Option<Leases>,
}

impl LeaseFile {
    /// Reads the leases of this boot; a malformed file is replaced.
    pub fn open(directory: &Path, boot: &str) -> (Self, Option<Leases>) {
        let path = directory.join("guardian.json");
        let text = files::read_optional(&path)
            .inspect_err(|error| {
                tracing::warn!(error = chain(error), "the leases of an earlier guardian cannot be read");
            })
            .ok()
            .flatten();
        let read = text.and_then(|text| serde_json::from_str::<Leases>(&text).ok());
        let found = read.filter(|leases| leases.boot == boot);
        (Self { path, written: found.clone() }, found)
    }

    /// Writes the leases if they have changed. They need not reach the disk, because a crash of the machine also ends
    /// the guarded processes.
    ///
    /// # Errors
    /// When the file cannot be written: then nothing may be confirmed.
    pub fn save(&mut self, leases: &Leases) -> Result<(), FileError> {
        if self.written.as_ref() == Some(leases) {
            return Ok(());
        }
        let text = serde_json::to_string(leases).unwrap_or_default();
        files::replace(&self.path, text.as_bytes(), 0o600)?;
        self.written = Some(leases.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(until_ms: u64) -> Request {
        let lease = Lease { task: "t1".to_owned(), keys: vec!["k1".to_owned()], lease_secs: 60, until_ms };
        Request {
            number: 1,
            agent: "a".to_owned(),
            means: Means::Processes,
            leases: vec![lease],
            is_last: false,
        }
    }

    #[test]
    fn lease_is_over_after_its_time_and_not_after_a_renewal() {
        let leases = Leases::of(&request(1_000), "b", None);
        assert_eq!(leases.over(1_000 + MARGIN_MS - 1).count(), 0, "the agent may still do it itself");
        assert_eq!(leases.over(1_000 + MARGIN_MS).count(), 1);
        assert!(leases.is_open(1_000) && !leases.is_open(9_000));
        let renewed = Leases::of(&request(9_000), "b", Some(&leases));
        assert_eq!(renewed.over(1_000 + MARGIN_MS).count(), 0);
    }

    #[test]
    fn what_was_killed_is_reported_until_the_agent_has_ended_its_task() {
        let mut leases = Leases::of(&request(1_000), "b", None);
        assert!(leases.record_killed("t1"));
        assert!(!leases.record_killed("t1"));
        let renewed = Leases::of(&request(9_000), "b", Some(&leases));
        assert_eq!(renewed.killed(), ["t1"]);
        let ended = Leases::of(&Request { leases: Vec::new(), ..request(0) }, "b", Some(&renewed));
        assert!(ended.killed().is_empty() && !ended.is_open(0));
    }

    #[test]
    fn leases_survive_a_restart_within_one_boot() {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, found) = LeaseFile::open(directory.path(), "b");
        assert_eq!(found, None);
        let leases = Leases::of(&request(1_000), "b", None);
        file.save(&leases).unwrap();
        assert_eq!(LeaseFile::open(directory.path(), "b").1, Some(leases));
        assert_eq!(LeaseFile::open(directory.path(), "b2").1, None);
        std::fs::write(directory.path().join("guardian.json"), "{").unwrap();
        assert_eq!(LeaseFile::open(directory.path(), "b").1, None);
    }
}
