//! Drivers: how services are started, watched and stopped on this machine.

pub mod docker;
pub mod process;

use async_trait::async_trait;
use evenkeel_wire::agreement::reason;

use crate::{
    deployment::Deployment,
    step::{Failures, Observation},
};

/// Longest line of a service's output that is reported, in characters.
pub(crate) const LONGEST_LINE: usize = 200;

/// The last `count` lines of an output that are not blank, each cut to [`LONGEST_LINE`], without control characters.
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

/// Logs that a container or process of a service ended by itself.
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
    /// What to run.
    pub deployment: Deployment,
    /// Variables of the platform and the user, in order; the deployment's own come after them.
    pub environment: Vec<(String, String)>,
    /// Registry logins: registry, user name, secret.
    pub logins: Vec<RegistryLogin>,
    /// What it is to the node.
    pub role: Role,
    /// Keys of the services whose networks it joins, because it needs them.
    pub networks: Vec<String>,
}

/// Says what a service is to the node.
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
    /// The service of an agreement that needs nothing.
    pub fn new(key: String, deployment: Deployment, environment: Vec<(String, String)>) -> Self {
        Self { key, deployment, environment, logins: Vec::new(), role: Role::TopLevel, networks: Vec::new() }
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

/// Why a driver cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The deployment cannot run with this driver at all.
    #[error("{0}")]
    Unsuitable(String),
    /// An image cannot be had.
    #[error("image {image}: {reason}")]
    Image {
        /// Image.
        image: String,
        /// What the engine said.
        reason: String,
        /// Whether the registry refused the login.
        is_unauthorized: bool,
    },
    /// It did not work now and may work later.
    #[error("{0}")]
    Transient(String),
}

impl DriverError {
    /// The cancellation reason of a failure that will not pass, `None` for one that may.
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
    /// The same for a service that others need: the reason for which those end.
    pub fn dependency_cancel_reason(&self) -> Option<u64> {
        self.cancel_reason().map(|_| match self {
            Self::Image { .. } => reason::DEPENDENCY_IMAGE_FETCH_FAILED,
            _ => reason::DEPENDENCY_FAILED,
        })
    }
}

/// A way to run services. Every method may be repeated without harm.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Called once, before anything else: takes over what runs already of `wanted`, and removes everything of this
    /// agent that is not wanted. Starts nothing that does not run.
    async fn adopt(&self, wanted: &[ServiceSpec]) -> Result<(), DriverError>;

    /// Starts a service, or does nothing when it is there already.
    async fn start(&self, service: &ServiceSpec) -> Result<(), DriverError>;

    /// Stops a service and removes what is left of it.
    async fn stop(&self, key: &str) -> Result<(), DriverError>;

    /// What the driver sees of a service.
    async fn observe(&self, key: &str) -> Observation;

    /// Waits until something may have changed.
    async fn changed(&self);

    /// Lets go of all services, which run on: another program of the agent takes them over.
    async fn release(&self) {}
}
