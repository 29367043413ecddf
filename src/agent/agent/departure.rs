//! Nodes that were removed at the hub and whose end has not been reported to it yet. They are reported when everything
//! has stopped, also after a restart of the agent.

use std::path::{Path, PathBuf};

use evenkeel_domain::causes::chain;
use evenkeel_ids::NodeId;
use serde::{Deserialize, Serialize};

use crate::{AgentError, files};

/// The file, with the tokens of the nodes.
const FILE: &str = "departures.json";

/// A node that was removed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    pub org: String,
    pub id: String,
    /// The token of the removed node, with which its agent may report the end.
    pub token: String,
}

impl Departure {
    fn node(&self) -> NodeId {
        NodeId::new(&self.org, &self.id)
    }
}

/// The nodes whose end the hub does not know.
pub(crate) struct Departures {
    path: PathBuf,
    all: Vec<Departure>,
    /// Nodes whose report is in progress, or failed in this run of the agent.
    reported: Vec<NodeId>,
}

impl Departures {
    /// Reads the nodes. A damaged file is ignored: the hub then waits for an administrator, or until the node counts as down.
    ///
    /// # Errors
    /// [`AgentError::DataDir`] when the file exists and cannot be read.
    pub fn read(data_dir: &Path) -> Result<Self, AgentError> {
        let path = data_dir.join(FILE);
        let text = files::read_optional(&path)?;
        let all = text.map(|text| serde_json::from_str(&text)).transpose().unwrap_or_else(|error| {
            tracing::error!(%error, "the nodes whose stop the hub has not confirmed cannot be read");
            None
        });
        Ok(Self { path, all: all.unwrap_or_default(), reported: Vec::new() })
    }

    /// Adds a node; a node that was removed twice counts once.
    pub fn begin(&mut self, departure: Departure) {
        let node = departure.node();
        self.all.retain(|one| one.node() != node);
        self.reported.retain(|one| *one != node);
        self.all.push(departure);
        self.save();
    }

    /// Begins the reports of all nodes that have none in progress, and returns these.
    pub fn begin_reports(&mut self) -> Vec<Departure> {
        let open: Vec<Departure> =
            self.all.iter().filter(|one| !self.reported.contains(&one.node())).cloned().collect();
        self.reported.extend(open.iter().map(Departure::node));
        open
    }

    /// Removes a node whose end the hub knows.
    pub fn end(&mut self, node: &NodeId) {
        self.all.retain(|one| one.node() != *node);
        self.reported.retain(|one| one != node);
        self.save();
    }

    /// Writes the file. With a full disk the nodes are reported nevertheless, unless the agent ends before.
    fn save(&self) {
        let written = if self.all.is_empty() {
            files::remove(&self.path).map_err(|error| chain(&error))
        } else {
            serde_json::to_vec(&self.all)
                .map_err(|error| error.to_string())
                .and_then(|text| files::write_atomic(&self.path, &text, 0o600).map_err(|error| chain(&error)))
        };
        if let Err(error) = written {
            tracing::error!(error, "the nodes whose stop the hub has not confirmed cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn departure(id: &str) -> Departure {
        Departure { org: "o".to_owned(), id: id.to_owned(), token: format!("secret-{id}") }
    }

    #[test]
    fn nodes_are_reported_once_in_a_run_and_again_in_the_next_one_until_the_hub_knows() {
        let directory = tempfile::tempdir().unwrap();
        let mut departures = Departures::read(directory.path()).unwrap();
        assert!(departures.begin_reports().is_empty());
        departures.begin(departure("a"));
        departures.begin(departure("b"));
        departures.begin(departure("a"));
        let ids = |found: Vec<Departure>| found.into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(departures.begin_reports()), ["b", "a"]);
        assert!(departures.begin_reports().is_empty());
        departures.end(&NodeId::new("o", "b"));
        let file = directory.path().join(FILE);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut later = Departures::read(directory.path()).unwrap();
        assert!(later.begin_reports() == [departure("a")]);
        later.end(&NodeId::new("o", "a"));
        assert!(!file.exists());
    }
}
