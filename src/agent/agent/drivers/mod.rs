//! Drivers: how services are started, watched and stopped on this machine.

pub mod docker;
pub mod process;

use async_trait::async_trait;
use evenkeel_domain::causes::chain;
use evenkeel_runtime::files::FileError;
use evenkeel_wire::agreement::reason;

use crate::{
    deployment::Deployment,
    step::{Failures, Observation},
};

/// Longest line of a service's output that is reported, in characters.
pub(crate) const LONGEST_LINE: usize = 200;

/// Returns the last `count` lines of an output that are not blank, each cut to [`LONGEST_LINE`], without control characters.
pub(crate) fn lines_of(output: &str, count: usize) -> Vec<String> {
    let clean = |line: &str| -> String {
        let letters = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        letters.take(LONGEST_LINE).collect()
    };
    let mut lines: Vec<String> =
        output.lines().rev().filter(|line| !line.trim().is_empty()).take(count).map(clean).collect();
    lines.reverse();
    lines
}

/// Logs that a container or process of a service ended unexpectedly.
pub(crate) fn log_exit(key: &str, name: &str, failures: &Failures) {
    let (exit, output) = (failures.last_exit(), failures.output.join(" | "));
    let exits = failures.exits;
    if failures.code == Some(0) {
        tracing::info!(service.key = key, container = name, exit, exits, "service exited");
    } else {
        tracing::warn!(service.key = key, container = name, exit, exits, output, "service exited");
    }
}

/// A service to run, complete with its environment.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// Key: the agreement id, or that of an instance.
    pub key: String,
    /// Its deployment.
    pub deployment: Deployment,
    /// Variables of the platform and the user, in order; the deployment's own follow.
    pub environment: Vec<(String, String)>,
    /// Registry logins: registry, user name, secret.
    pub logins: Vec<RegistryLogin>,
    /// Its role on the node.
    pub role: Role,
    /// Keys of the services whose networks it joins, because it needs them.
    pub networks: Vec<String>,
    /// Id of the task that it runs for, if there is one.
    pub task: Option<String>,
}

/// The role of a service on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// The service of an agreement.
    #[default]
    TopLevel,
    /// Needed by the service of one agreement.
    Dependency,
    /// Needed by several, once on the node.
    Shared,
}

impl ServiceSpec {
    /// Returns whether the driver restarts containers that end. Those of a task are restarted by the hub's engine, as another
    /// task.
    pub fn restarts(&self) -> bool {
        self.task.is_none()
    }

    /// Creates the service of an agreement that has no dependencies.
    pub fn new(key: String, deployment: Deployment, environment: Vec<(String, String)>) -> Self {
        Self {
            key,
            deployment,
            environment,
            logins: Vec::new(),
            role: Role::TopLevel,
            networks: Vec::new(),
            task: None,
        }
    }
}

/// A login for an image registry.
#[derive(Clone)]
pub struct RegistryLogin {
    /// Registry host.
    pub registry: String,
    /// User name.
    pub username: String,
    /// Secret.
    pub password: String,
}

impl std::fmt::Debug for RegistryLogin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RegistryLogin({}@{})", self.username, self.registry)
    }
}

/// The reason why a driver cannot carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// This driver does not support the deployment.
    #[error("{0}")]
    Unsuitable(String),
    /// An image cannot be pulled.
    #[error("image {image}: {reason}")]
    Image {
        /// Image.
        image: String,
        /// Error of the engine.
        reason: String,
        /// True if the registry refused the login.
        is_unauthorized: bool,
    },
    /// A temporary failure.
    #[error("{0}")]
    Transient(String),
}

impl From<FileError> for DriverError {
    fn from(error: FileError) -> Self {
        Self::Transient(chain(&error))
    }
}

impl DriverError {
    /// Returns the cancellation reason for a permanent failure; `None` for a temporary one.
    pub fn cancel_reason(&self) -> Option<u64> {
        match self {
            Self::Unsuitable(_) => Some(reason::SERVICE_TERMINATED),
            Self::Image { is_unauthorized: true, .. } => Some(reason::IMAGE_FETCH_UNAUTHORIZED),
            Self::Image { .. } => Some(reason::IMAGE_FETCH_FAILED),
            Self::Transient(_) => None,
        }
    }
}

impl DriverError {
    /// Returns the cancellation reason for agreements that depend on a service with this failure.
    pub fn dependency_cancel_reason(&self) -> Option<u64> {
        self.cancel_reason().map(|_| match self {
            Self::Image { .. } => reason::DEPENDENCY_IMAGE_FETCH_FAILED,
            _ => reason::DEPENDENCY_FAILED,
        })
    }
}

/// Largest part of an output that is read at once, in bytes.
pub(crate) const LARGEST_LOG_PART: usize = 1024 * 1024;

/// The beginning of a part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogStart {
    /// That many lines before the end.
    Last(usize),
    /// The position at which an earlier part ended.
    After(String),
}

/// A part of the output of a container or process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPart {
    /// The output; its last line may be incomplete.
    pub text: String,
    /// Start of the next part.
    pub position: String,
}

/// Returns the last `count` lines of a text, with their line ends.
pub(crate) fn last_lines(text: &str, count: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(count.saturating_sub(1)) {
        _ if count == 0 => "",
        Some((end, _)) => &text[end + 1..],
        None => text,
    }
}

/// Runs services. Every method is idempotent.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Adopts the services of `wanted` that already run, and removes every other service of this agent. Starts nothing.
    /// Called once, before all other functions.
    async fn adopt(&self, wanted: &[ServiceSpec]) -> Result<(), DriverError>;

    /// Fetches what a service needs to start; fails like its start.
    async fn prepare(&self, service: &ServiceSpec) -> Result<(), DriverError>;

    /// Fetches what a service needs to start, even if an older copy exists.
    async fn refresh(&self, service: &ServiceSpec) -> Result<(), DriverError>;

    /// Sets whether the containers of a service that exists are restarted when they end.
    async fn set_restarts(&self, key: &str, restarts: bool) -> Result<(), DriverError>;

    /// Returns whether nothing of a service exists; false if that is not known.
    async fn is_gone(&self, key: &str) -> bool;

    /// Starts a service, or does nothing when it already exists.
    async fn start(&self, service: &ServiceSpec) -> Result<(), DriverError>;

    /// Stops a service and removes its remains.
    async fn stop(&self, key: &str) -> Result<(), DriverError>;

    /// Kills a service and removes its remains.
    async fn kill(&self, key: &str) -> Result<(), DriverError>;

    /// Resumes the paused containers of a service; the others are left as they are.
    async fn unpause(&self, key: &str) -> Result<(), DriverError>;

    /// Returns the driver's observation of a service.
    async fn observe(&self, key: &str) -> Observation;

    /// Reads a part of the output of one container or process of a service; empty when it has written nothing.
    ///
    /// # Errors
    /// [`DriverError::Unsuitable`] for a position that no part had.
    async fn read_log(&self, key: &str, container: &str, start: LogStart) -> Result<LogPart, DriverError>;

    /// Returns whether services can be started and stopped now, which requires that the container engine responds.
    async fn is_engine_up(&self) -> bool;

    /// Waits until an observation may have changed.
    async fn changed(&self);

    /// Releases all services without stopping them: another program of the agent adopts them.
    async fn release(&self) {}
}
