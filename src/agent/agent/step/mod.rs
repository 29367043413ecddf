//! The agent's decisions: state, events and commands.
//!
//! Pure: no async, no input or output, no clock, no randomness. The shell (`core.rs`) feeds events in, writes the state to
//! the journal and starts the commands. Commands follow from the state alone, so that after a crash the same commands
//! result again; each of them is idempotent.
//! Source: agreement-protocol 2.5, 2.6.

mod agreement;
mod apply;
mod command;
pub mod dependency;
mod failure;
mod lease;
pub mod management;
mod own_restart;
mod pending_restart;
mod plan;
mod proposal;
mod report;
mod reported;
mod supervise;
mod surface;
mod task;

#[cfg(test)]
mod hostile_agbot_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::policy::{NodePolicy, PropertyList};
use evenkeel_wire::agreement::message::Message;
use evenkeel_wire::exchange::{
    node::RegisteredService,
    node_part::PutNodeStatus,
    node_task::{NodeTask, TaskConflict},
    task_health::{EndedCommand, PostLifecycle, TaskCheck},
};
use serde::{Deserialize, Serialize};

pub use agreement::{Agreement, Ending, ExchangeState, Verification, WorkloadName};
pub use command::Command;
pub use dependency::{Dependency, Instance};
pub use failure::ServiceFailure;
pub use lease::{Guard, LeasedTask};
pub use own_restart::{Contact, OpenEnd, OwnRestarts};
pub use pending_restart::{PendingRestart, TaskSlot};
pub use proposal::{AgbotStanding, Decision, DependencyFacts, ProposalFacts, PublishedDeployment};
pub use report::{ContainerState, Failures, Observation, RunState};
pub use reported::Reported;
pub use supervise::{ProbedTask, WatchedPeers};
pub use surface::SurfaceError;
pub use task::{Task, TaskEnd, TaskReport};

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
/// Maximum number of ended agreements kept.
pub const MOST_ARCHIVED: usize = 30;
/// Maximum number of agreements of a node, which limits the size of the journal.
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
    /// When it was queued, seconds since 1970.
    pub since: u64,
}

/// The exchange's facts about this node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// The node's policy.
    pub policy: NodePolicy,
    /// Its HA group.
    pub ha_group: Option<String>,
    /// Its pattern, empty for policy nodes.
    pub pattern: String,
    /// The recorded services.
    pub registered: Vec<RegisteredService>,
    /// Longest interval between its heartbeats, in seconds; 0 means not set.
    pub max_heartbeat_secs: u64,
}

/// A time since the boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootTime {
    /// Id of the boot.
    pub boot: String,
    /// Milliseconds since then.
    pub ms: u64,
}

/// The inputs of the decisions. Skipped members are observed again after a restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The node, `org/node`; empty while not registered.
    pub node: String,
    /// Properties of the machine.
    pub builtin: PropertyList,
    /// The last facts from the exchange.
    pub facts: NodeFacts,
    /// Agreements by id, ended ones included.
    pub agreements: BTreeMap<String, Agreement>,
    /// Tasks of the hub's engine by id.
    pub tasks: BTreeMap<String, Task>,
    /// Dependencies, by key.
    pub instances: BTreeMap<String, Instance>,
    /// Messages waiting to be sent, by number.
    pub outbox: BTreeMap<u64, Outgoing>,
    /// Next number of an outgoing message.
    pub next_message: u64,
    /// When the last heartbeat was sent that the hub has recorded; only while a task has a lease.
    pub heartbeat: Option<BootTime>,
    /// Errors of services that users should see.
    pub errors: Vec<SurfaceError>,
    /// Errors recorded at the exchange.
    pub reported_errors: Reported<Vec<SurfaceError>>,
    /// Failures of services, oldest first.
    pub failures: Vec<ServiceFailure>,
    /// Keys of services that could not be stopped when the node was unregistered; they are stopped as soon as the driver can.
    pub leftovers: BTreeSet<String>,
    /// The driver's last observations, by service key.
    #[serde(skip)]
    pub observed: BTreeMap<String, Observation>,
    /// Status document recorded at the exchange; none before the first since the start.
    #[serde(skip)]
    pub reported_status: Reported<Option<PutNodeStatus>>,
    /// Used services recorded at the exchange; none before the record was read.
    #[serde(skip)]
    pub reported_services: Reported<Option<Vec<RegisteredService>>>,
    /// Knowledge about the guardian.
    #[serde(skip)]
    pub guard: Guard,
    /// Seconds since the last heartbeat.
    #[serde(skip)]
    pub silent_secs: u64,
    /// Last result of the check whether the hub responds, if something depends on it.
    #[serde(skip)]
    pub contact: Contact,
    /// When the last event was applied, in seconds since 1970.
    #[serde(skip)]
    pub now: u64,
    /// True if the exchange's record of this node was read since the start.
    #[serde(skip)]
    pub is_joined: bool,
    /// True if the node is being unregistered: it accepts no more proposals.
    #[serde(skip)]
    pub is_unregistering: bool,
}

/// An event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A proposal arrived, with the facts to judge it.
    Proposal {
        /// Sender named by the exchange, `org/agbot`.
        from: String,
        /// The message.
        message: Message,
        /// The facts.
        facts: Box<ProposalFacts>,
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
    /// The exchange has recorded this state of an agreement.
    Recorded {
        /// Agreement.
        agreement: String,
        /// State that was written.
        state: ExchangeState,
    },
    /// The tasks of this node were read.
    TasksRead(Vec<NodeTask>),
    /// The exchange has recorded a report about a task, or does not have the task.
    TaskReported {
        /// Task.
        task: String,
        /// Sequence number of the report.
        seq: i64,
    },
    /// The exchange has refused a report about a task.
    TaskRefused {
        /// Task.
        task: String,
        /// Sequence number of the report.
        seq: i64,
        /// The stored task.
        stored: TaskConflict,
    },
    /// A command on the containers of a task was carried out, or failed.
    CommandEnded {
        /// Task.
        task: String,
        /// The command.
        ended: EndedCommand,
        /// Observation of the service after the command, so that the hub need not wait for the next
        /// observation of all services.
        seen: Observation,
        /// Result of a check; none for other commands.
        health: Option<TaskCheck>,
    },
    /// The exchange has recorded the outcome of a command.
    CommandReported {
        /// Task.
        task: String,
        /// Id of the command.
        id: String,
    },
    /// A task was checked, with another outcome than before.
    Probed {
        /// Task.
        task: String,
        /// The outcome.
        health: TaskCheck,
    },
    /// A task examined other members, with another outcome than before.
    PeersSeen {
        /// Task.
        task: String,
        /// True for each member that responds, by task.
        peers: BTreeMap<String, bool>,
    },
    /// The exchange has recorded which members respond.
    PeersReported {
        /// Task.
        task: String,
        /// The recorded responses, by task.
        peers: BTreeMap<String, bool>,
    },
    /// The exchange has recorded the outcome of a check.
    HealthReported {
        /// Task.
        task: String,
        /// The outcome.
        healthy: bool,
        /// True if the check itself is broken.
        is_broken: bool,
    },
    /// The exchange has recorded a life-cycle event.
    LifecycleReported {
        /// Task.
        task: String,
        /// The event.
        event: Box<PostLifecycle>,
    },
    /// The hub has recorded no heartbeat for this time.
    Silent {
        /// Seconds since the last one.
        secs: u64,
    },
    /// The guardian confirmed leases, or does not respond.
    Guarded {
        /// Knowledge about the guardian.
        guard: Guard,
        /// Tasks that it has killed.
        killed: Vec<String>,
    },
    /// The hub was asked whether it responds.
    ContactChecked {
        /// True if the hub responds.
        is_up: bool,
    },
    /// The driver has started a service again.
    Restarted {
        /// Agreement.
        agreement: String,
    },
    /// The exchange has recorded restarts of a task.
    RestartsReported {
        /// Task.
        task: String,
        /// Their number.
        count: u64,
    },
    /// The exchange has recorded a lease.
    LeaseReported {
        /// Task.
        task: String,
        /// Its length in seconds.
        lease_secs: u32,
    },
    /// The container engine started or stopped responding.
    EngineSeen {
        /// Description of the problem if the engine does not respond.
        lack: Option<&'static str>,
    },
    /// Everything that the service of a task needs is on this machine.
    Prepared {
        /// Agreement.
        agreement: String,
    },
    /// The driver was ordered to restart the containers of a service that end, or not to.
    RestartsSet {
        /// Agreement.
        agreement: String,
        /// True if the driver restarts them.
        restarts: bool,
    },
    /// The driver accepted the order to start a service.
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
    /// A service cannot be started or stopped now; it is retried.
    ServiceDelayed {
        /// Service key.
        key: String,
        /// Error of the driver.
        error: String,
    },
    /// A service is completely stopped.
    Stopped {
        /// Agreement.
        agreement: String,
    },
    /// The driver accepted the order to start a dependency.
    DependencyStarted {
        /// Its key.
        key: String,
    },
    /// A dependency cannot be started at all.
    DependencyFailed {
        /// Its key.
        key: String,
        /// Reason code for the cancellation of its dependents.
        reason: u64,
        /// Error of the driver.
        error: String,
    },
    /// A dependency is completely stopped.
    DependencyStopped {
        /// Its key.
        key: String,
    },
    /// The driver's observation of a service.
    Observed {
        /// Service key.
        key: String,
        /// Its containers or processes.
        observation: Observation,
    },
    /// Nothing is left of a service that was started.
    Gone {
        /// Service key.
        key: String,
    },
    /// The exchange's record of this node was read.
    Joined(Box<NodeFacts>),
    /// The exchange has recorded this status document.
    StatusReported(Box<PutNodeStatus>),
    /// The exchange has recorded these errors.
    ErrorsReported(Vec<SurfaceError>),
    /// The exchange has recorded this list of used services.
    ServicesReported(Vec<RegisteredService>),
    /// The hub responds again after a long silence, or the agent was restarted.
    Reconnected,
    /// A user requested the end of agreements: one, or all.
    CancelRequested {
        /// One agreement, or `None` for all.
        agreement: Option<String>,
        /// Reason code.
        reason: u64,
    },
    /// The node was deleted at the hub: end everything without notifying it.
    Deleted,
    /// Time passed.
    Tick,
}

/// The effects of an applied event for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Log messages.
    pub note: Option<String>,
}

impl State {
    /// Returns the node's effective deployment policy with the machine's own properties, against which constraints are tested.
    pub fn local_policy(&self) -> evenkeel_domain::policy::ExternalPolicy {
        let mut policy = self.facts.policy.deployment_policy();
        merge_builtin(&mut policy.properties, &self.builtin);
        policy.properties.set_ha_group(self.facts.ha_group.as_deref());
        policy
    }

    /// Returns the agreements that are neither ended nor ending.
    pub fn live(&self) -> impl Iterator<Item = &Agreement> {
        self.agreements.values().filter(|agreement| agreement.is_live())
    }

    /// Returns whether anything is left to end or to stop.
    pub fn is_idle(&self) -> bool {
        self.agreements.values().all(Agreement::is_archived) && self.instances.is_empty()
    }

    /// Returns the keys of the services that the driver was ordered to run.
    pub fn running_keys(&self) -> impl Iterator<Item = String> {
        let agreements = self.agreements.values();
        let agreements = agreements.filter(|agreement| agreement.is_start_ordered && !agreement.is_stopped);
        let instances = self.instances.iter().filter(|(_, instance)| instance.is_start_ordered);
        agreements.map(|agreement| agreement.id.clone()).chain(instances.map(|(key, _)| key.clone()))
    }

    /// Returns the keys of the services that may not be completely stopped.
    pub fn unstopped_keys(&self) -> impl Iterator<Item = String> {
        let agreements = self.agreements.values().filter(|agreement| !agreement.is_stopped);
        let agreements = agreements.filter(|agreement| agreement.accepted_at.is_some());
        let agreements = agreements.map(|agreement| agreement.id.clone());
        agreements.chain(self.instances.keys().cloned()).chain(self.leftovers.iter().cloned())
    }

    /// Returns whether the exchange has this node's record and status since the start.
    pub fn has_reported(&self) -> bool {
        self.is_joined && self.reported_status.known().is_some_and(Option::is_some)
    }

    /// Returns true if nothing is running.
    pub fn is_stopped(&self) -> bool {
        self.agreements.values().all(|agreement| agreement.is_stopped) && self.instances.is_empty()
    }
}

/// Overlays the machine's properties on a list: read-only ones replace, the others only fill a gap.
pub fn merge_builtin(properties: &mut PropertyList, builtin: &PropertyList) {
    for property in builtin.iter() {
        let is_fixed = evenkeel_domain::policy::property::builtin::is_read_only(&property.name);
        // Properties of the machine are valid by construction; existing names are kept.
        let _kept =
            if is_fixed { properties.replace(property.clone()) } else { properties.add(property.clone()) };
    }
}
