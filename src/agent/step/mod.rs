//! The agent's decisions: what it knows, what happened, and what has to be done next.
//!
//! Pure: no async, no input or output, no clock, no randomness. The shell (`core.rs`) feeds events in, writes the
//! state to the journal and carries out the commands. Commands follow from the state alone, so that after a crash
//! the same commands come out again; each of them may be repeated without harm.
//! Source: agreement protocol 2.5 and 2.6.

mod agreement;
mod apply;
pub mod dependency;
mod failure;
pub mod management;
mod plan;
mod proposal;
mod report;
mod surface;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::policy::{NodePolicy, PropertyList};
use evenkeel_wire::agreement::message::Message;
use evenkeel_wire::exchange::{node::RegisteredService, node_part::PutNodeStatus};
use serde::{Deserialize, Serialize};

pub use agreement::{Agreement, Ending, ExchangeState, Verification, WorkloadName};
pub use dependency::{Dependency, Instance};
pub use failure::ServiceFailure;
pub use proposal::{Decision, DependencyFacts, ProposalFacts};
pub use report::{ContainerState, Failures, Observation, RunState};
pub use surface::SurfaceError;

/// Seconds after which an unanswered verification is sent again.
pub const VERIFY_AGAIN_SECS: u64 = 60;
/// Unanswered verifications after which an agreement is given up.
pub const MOST_UNANSWERED: u32 = 5;
/// Seconds that an accepted agreement's service may take to start.
pub const START_LIMIT_SECS: u64 = 600;
/// Seconds that a started service may be down before its agreement is given up.
pub const DOWN_LIMIT_SECS: u64 = 60;
/// Seconds after which a message that cannot be sent is given up.
pub const SEND_LIMIT_SECS: u64 = 1800;
/// Ended agreements that are remembered.
pub const MOST_ARCHIVED: usize = 30;
/// Agreements that a node makes at most; more would not fit a small machine's journal.
pub const MOST_LIVE: usize = 500;

/// A message waiting to be sent, kept over restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Receiver, `org/agbot`.
    pub agbot: String,
    /// Agreement it belongs to.
    pub agreement: String,
    /// Message type; at most one message of a type waits per agreement.
    pub kind: String,
    /// The message as JSON text.
    pub text: String,
    /// When it was put here, seconds since 1970.
    pub since: u64,
}

/// What the exchange says about this node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// The node's policy.
    pub policy: NodePolicy,
    /// Its HA group.
    pub ha_group: Option<String>,
    /// Its pattern, empty for policy nodes.
    pub pattern: String,
    /// The services it is recorded to use.
    pub registered: Vec<RegisteredService>,
    /// Longest pause between its heartbeats, in seconds; 0 means not set.
    pub max_heartbeat_secs: u64,
}

/// Everything the decisions look at. What is marked as skipped is observed anew after a restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The node, `org/node`; empty while not registered.
    pub node: String,
    /// Properties of the machine.
    pub builtin: PropertyList,
    /// What the exchange said last.
    pub facts: NodeFacts,
    /// Agreements by id, ended ones included.
    pub agreements: BTreeMap<String, Agreement>,
    /// Services that others need, by key.
    pub instances: BTreeMap<String, Instance>,
    /// Messages waiting to be sent, by number.
    pub outbox: BTreeMap<u64, Outgoing>,
    /// Next number of an outgoing message.
    pub next_message: u64,
    /// Errors of services that people should see.
    pub errors: Vec<SurfaceError>,
    /// Errors that the exchange has.
    pub reported_errors: Vec<SurfaceError>,
    /// Failures of services, oldest first.
    pub failures: Vec<ServiceFailure>,
    /// Keys of services that could not be stopped when the node was unregistered; they are stopped as soon as the
    /// driver can.
    pub leftovers: BTreeSet<String>,
    /// What the driver saw last, by service key.
    #[serde(skip)]
    pub observed: BTreeMap<String, Observation>,
    /// Status document that the exchange has.
    #[serde(skip)]
    pub reported_status: Option<PutNodeStatus>,
    /// Used services that the exchange has.
    #[serde(skip)]
    pub reported_services: Option<Vec<RegisteredService>>,
    /// Whether the exchange's record of this node was read since the start.
    #[serde(skip)]
    pub is_joined: bool,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A proposal arrived, together with what was looked up to judge it.
    Proposal {
        /// Sender named by the exchange, `org/agbot`.
        from: String,
        /// The message.
        message: Message,
        /// What was looked up.
        facts: ProposalFacts,
    },
    /// Any other message arrived.
    Message {
        /// Sender named by the exchange, `org/agbot`.
        from: String,
        /// The message.
        message: Message,
    },
    /// An outgoing message reached the mailbox, or its receiver is gone.
    Sent {
        /// Its number.
        number: u64,
    },
    /// The exchange holds this state of an agreement now.
    Recorded {
        /// Agreement.
        agreement: String,
        /// State that was written.
        state: ExchangeState,
    },
    /// The driver took the order to start a service.
    Started {
        /// Agreement.
        agreement: String,
    },
    /// A service cannot be started at all.
    StartFailed {
        /// Agreement.
        agreement: String,
        /// Reason code for the cancellation.
        reason: u64,
        /// Error of the driver.
        error: String,
    },
    /// A service cannot be started or stopped now; it is tried again.
    ServiceDelayed {
        /// Service key.
        key: String,
        /// Error of the driver.
        error: String,
    },
    /// Nothing of a service is left.
    Stopped {
        /// Agreement.
        agreement: String,
    },
    /// The driver took the order to start a dependency.
    DependencyStarted {
        /// Its key.
        key: String,
    },
    /// A dependency cannot be started at all.
    DependencyFailed {
        /// Its key.
        key: String,
        /// Reason code for the cancellation of what needs it.
        reason: u64,
        /// Error of the driver.
        error: String,
    },
    /// Nothing of a dependency is left.
    DependencyStopped {
        /// Its key.
        key: String,
    },
    /// What the driver sees of a service.
    Observed {
        /// Service key.
        key: String,
        /// Its containers or processes.
        observation: Observation,
    },
    /// The exchange's record of this node was read.
    Joined(Box<NodeFacts>),
    /// The exchange holds this status document now.
    StatusReported(Box<PutNodeStatus>),
    /// The exchange holds these errors now.
    ErrorsReported(Vec<SurfaceError>),
    /// The exchange holds this list of used services now.
    ServicesReported(Vec<RegisteredService>),
    /// The hub answers again after a long silence, or the agent was restarted.
    Reconnected,
    /// Somebody wants agreements ended: one, or all.
    CancelRequested {
        /// One agreement, or `None` for all.
        agreement: Option<String>,
        /// Reason code.
        reason: u64,
    },
    /// The node was deleted at the hub: end everything without telling it.
    Deleted,
    /// Time passed.
    Tick,
}

/// What the shell has to know about an event that was taken in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What happened in words, for the log.
    pub note: Option<String>,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Send an outgoing message.
    Send(u64),
    /// Write an agreement's state to the exchange, or remove it there.
    Record {
        /// Agreement.
        agreement: String,
        /// State to write.
        state: ExchangeState,
    },
    /// Start a service.
    Start {
        /// Agreement.
        agreement: String,
    },
    /// Stop a service and remove what is left of it.
    Stop {
        /// Agreement.
        agreement: String,
    },
    /// Start a service that others need.
    StartDependency {
        /// Its key.
        key: String,
    },
    /// Stop a service that nobody needs any more.
    StopDependency {
        /// Its key.
        key: String,
    },
    /// Write the status document.
    ReportStatus(Box<PutNodeStatus>),
    /// Write the list of used services.
    ReportServices(Vec<RegisteredService>),
    /// Write the errors of services.
    ReportErrors(Vec<SurfaceError>),
}

impl Command {
    /// Returns the key of the service that the command starts or stops.
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Start { agreement: key }
            | Self::Stop { agreement: key }
            | Self::StartDependency { key }
            | Self::StopDependency { key } => Some(key),
            _ => None,
        }
    }

    /// Names the command, so that it does not run twice at the same time; starting and stopping one service exclude
    /// each other.
    pub fn key(&self) -> String {
        match self {
            Self::Send(number) => format!("send {number}"),
            Self::Record { agreement, .. } => format!("record {agreement}"),
            Self::Start { agreement } | Self::Stop { agreement } => format!("service {agreement}"),
            Self::StartDependency { key } | Self::StopDependency { key } => format!("service {key}"),
            Self::ReportStatus(_) => "status".to_owned(),
            Self::ReportServices(_) => "services".to_owned(),
            Self::ReportErrors(_) => "errors".to_owned(),
        }
    }
}

impl State {
    /// The node's effective deployment policy with the machine's own properties, the way constraints are tested
    /// against it.
    pub fn local_policy(&self) -> evenkeel_domain::policy::ExternalPolicy {
        let mut policy = self.facts.policy.deployment_policy();
        merge_builtin(&mut policy.properties, &self.builtin);
        policy.properties.set_ha_group(self.facts.ha_group.as_deref());
        policy
    }

    /// Agreements that are neither ended nor ending.
    pub fn live(&self) -> impl Iterator<Item = &Agreement> {
        self.agreements.values().filter(|agreement| agreement.is_live())
    }

    /// Tells whether anything is left to end or to stop.
    pub fn is_idle(&self) -> bool {
        self.agreements.values().all(Agreement::is_archived) && self.instances.is_empty()
    }

    /// Returns the keys of the services that the driver was asked to run.
    pub fn running_keys(&self) -> impl Iterator<Item = String> {
        let agreements = self.agreements.values();
        let agreements = agreements.filter(|agreement| agreement.is_start_ordered && !agreement.is_stopped);
        let instances = self.instances.iter().filter(|(_, instance)| instance.is_start_ordered);
        agreements.map(|agreement| agreement.id.clone()).chain(instances.map(|(key, _)| key.clone()))
    }

    /// Returns the keys of the services of which something may be left.
    pub fn unstopped_keys(&self) -> impl Iterator<Item = String> {
        let agreements = self.agreements.values().filter(|agreement| !agreement.is_stopped);
        let agreements = agreements.filter(|agreement| agreement.accepted_at.is_some());
        let agreements = agreements.map(|agreement| agreement.id.clone());
        agreements.chain(self.instances.keys().cloned()).chain(self.leftovers.iter().cloned())
    }

    /// Returns whether the exchange has this node's record and status since the start.
    pub fn has_reported(&self) -> bool {
        self.is_joined && self.reported_status.is_some()
    }

    /// Tells whether nothing runs any more.
    pub fn is_stopped(&self) -> bool {
        self.agreements.values().all(|agreement| agreement.is_stopped) && self.instances.is_empty()
    }
}

/// Lays the machine's properties over a list: read-only ones replace, the others only fill a gap.
pub fn merge_builtin(properties: &mut PropertyList, builtin: &PropertyList) {
    for property in builtin.iter() {
        let is_fixed = evenkeel_domain::policy::property::builtin::is_read_only(&property.name);
        // Properties of the machine are valid by construction; a name that is there already stays.
        let _kept =
            if is_fixed { properties.replace(property.clone()) } else { properties.add(property.clone()) };
    }
}
