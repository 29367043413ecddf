//! Commands that a step of the agent returns.

use std::collections::BTreeMap;

use evenkeel_wire::exchange::{
    node::RegisteredService,
    node_part::PutNodeStatus,
    task_health::{EndedCommand, PostLifecycle, TaskCheck, TaskCommand},
};

use super::{ExchangeState, OwnRestarts, SurfaceError, TaskReport};

/// A command.
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
    /// Fetch what the service of a task needs.
    Prepare {
        /// Agreement.
        agreement: String,
    },
    /// Order the driver to restart the containers of a service that end, or not to.
    SetRestarts {
        /// Agreement.
        agreement: String,
        /// True if the driver restarts them.
        restarts: bool,
    },
    /// Carry out a command on the containers of a task.
    Supervise {
        /// Agreement.
        agreement: String,
        /// Task.
        task: String,
        /// The command.
        command: TaskCommand,
    },
    /// Report the outcome of a command.
    ReportCommand {
        /// Task.
        task: String,
        /// The outcome.
        ended: EndedCommand,
    },
    /// Report the outcome of a check.
    ReportHealth {
        /// Task.
        task: String,
        /// The outcome.
        health: TaskCheck,
    },
    /// Ask whether the hub responds.
    CheckContact,
    /// Restart a service that has ended, without the hub.
    Restart {
        /// Agreement.
        agreement: String,
    },
    /// Report the restarts of a task by this node.
    ReportRestarts {
        /// Task.
        task: String,
        /// The restarts.
        restarts: OwnRestarts,
    },
    /// Report that the guardian enforces the lease of a task.
    ReportLease {
        /// Task.
        task: String,
        /// Length of the lease in seconds.
        lease_secs: u32,
    },
    /// Report which other members respond.
    ReportPeers {
        /// Task.
        task: String,
        /// True for each member that responds, by task.
        peers: BTreeMap<String, bool>,
    },
    /// Report a life-cycle event.
    ReportLifecycle {
        /// Task.
        task: String,
        /// The event.
        event: Box<PostLifecycle>,
    },
    /// Report the state of a task.
    ReportTask {
        /// Task.
        task: String,
        /// The report.
        report: TaskReport,
    },
    /// Start a service.
    Start {
        /// Agreement.
        agreement: String,
    },
    /// Stop a service and remove its remains.
    Stop {
        /// Agreement.
        agreement: String,
    },
    /// Kill a service and remove its remains.
    Kill {
        /// Agreement.
        agreement: String,
    },
    /// Start a dependency.
    StartDependency {
        /// Its key.
        key: String,
    },
    /// Stop a dependency that is no longer needed.
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
            Self::Prepare { agreement: key }
            | Self::SetRestarts { agreement: key, .. }
            | Self::Start { agreement: key }
            | Self::Restart { agreement: key }
            | Self::Supervise { agreement: key, .. }
            | Self::Kill { agreement: key }
            | Self::Stop { agreement: key }
            | Self::StartDependency { key }
            | Self::StopDependency { key } => Some(key),
            _ => None,
        }
    }

    /// Returns the identity of the command, so that it does not run twice concurrently; starting and stopping one service exclude
    /// each other.
    pub fn key(&self) -> String {
        match self {
            Self::Send(number) => format!("send {number}"),
            Self::Record { agreement, .. } => format!("record {agreement}"),
            Self::Prepare { agreement }
            | Self::SetRestarts { agreement, .. }
            | Self::Start { agreement }
            | Self::Restart { agreement }
            | Self::Supervise { agreement, .. }
            | Self::Stop { agreement } => format!("service {agreement}"),
            // It does not wait for another stop during its grace period.
            Self::Kill { agreement } => format!("kill {agreement}"),
            Self::ReportCommand { task, .. } => format!("command {task}"),
            Self::ReportHealth { task, .. } => format!("health {task}"),
            Self::ReportLifecycle { task, .. } => format!("lifecycle {task}"),
            Self::ReportPeers { task, .. } => format!("peers {task}"),
            Self::ReportLease { task, .. } => format!("lease {task}"),
            Self::ReportRestarts { task, .. } => format!("restarts {task}"),
            Self::CheckContact => "contact".to_owned(),
            Self::ReportTask { task, .. } => format!("task {task}"),
            Self::StartDependency { key } | Self::StopDependency { key } => format!("service {key}"),
            Self::ReportStatus(_) => "status".to_owned(),
            Self::ReportServices(_) => "services".to_owned(),
            Self::ReportErrors(_) => "errors".to_owned(),
        }
    }
}
