//! The guardian: a separate process that enforces the leases of an agent.
//!
//! A task with a lease may start on another node once its agent has had no contact with the hub for the length of the
//! lease. The agent itself kills the task in time; if the agent is frozen or dead, the guardian does. The agent sends
//! the tasks and the ends of their leases to the guardian, which confirms them. Only a confirmed lease is reported to
//! the hub. Its state survives its own restart in `guardian.json`. Times are those of the clock that runs since the
//! boot, which cannot be set and which continues while the machine sleeps. Source: orchestration C8.

mod kill;
mod leases;
mod link;
mod serve;
mod socket;

use std::{ffi::OsString, path::PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use link::{Link, dismiss};
pub use serve::{GuardianError, serve};

/// Name of the command that runs a guardian.
pub const COMMAND: &str = "agent-guardian";

/// Time after the end of a lease in which the agent may still kill the instances itself.
const MARGIN_MS: u64 = 2_000;

/// Settings with which an agent starts its guardian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardianCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, apart from the data directory.
    pub arguments: Vec<OsString>,
}

/// Method by which a guardian kills processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Means {
    /// The process groups of services, and other processes with their mark.
    Processes,
    /// Containers, through the engine at this address or by their cgroups.
    Containers(String),
}

/// Services that may run until a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    /// The task.
    pub task: String,
    /// Keys of the services.
    pub keys: Vec<String>,
    /// Length in seconds, as the agent reports it to the hub.
    pub lease_secs: u32,
    /// When the lease is over, in milliseconds since the boot.
    pub until_ms: u64,
}

/// A request of an agent to its guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Number, which the confirmation repeats.
    pub number: u64,
    /// Identity of the agent, which its services carry.
    pub agent: String,
    /// Means by which to kill.
    pub means: Means,
    /// Every lease that holds.
    pub leases: Vec<Lease>,
    /// True if the guardian must exit, because the agent starts another one or exits with all of its
    /// services.
    #[serde(default)]
    pub is_last: bool,
}

/// Confirmation by a guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Confirmation {
    /// Number of the request.
    pub number: u64,
    /// Its program.
    pub program: PathBuf,
    /// True if the agent started the guardian, and may end it.
    pub is_of_agent: bool,
    /// Tasks that it has killed.
    #[serde(default)]
    pub killed: Vec<String>,
}

#[cfg(test)]
mod tests;
