//! The edge agent: makes agreements with agbots and keeps the agreed services running on this machine.
//!
//! `step` decides and is pure; `core` owns the journal and starts the commands; `workers` communicate with the hub;
//! `drivers` run services; `api` is the local API that the command line uses. See `docs/reference/agent.md` and agreement
//! protocol 1 to 6.

mod address;
mod api;
mod clock;
mod contact;
mod core;
mod departure;
pub mod deployment;
pub mod drivers;
mod effects;
mod environment;
mod files;
pub mod guardian;
mod hub;
pub mod installed;
mod join;
mod journal;
mod keyring;
mod machine;
mod offered;
mod order;
mod settings;
mod statistics;
pub mod step;
pub mod upgrade;
mod workers;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use drivers::{Driver, docker::DockerDriver, process::ProcessDriver, process::ProcessSettings};
use evenkeel_client::RunHeader;
use evenkeel_domain::causes::chain;
use evenkeel_runtime::{files::FileError, worker::Workers};
use evenkeel_wire::exchange::agent_run::AgentRun;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use settings::{AgentSettings, ApiListen, DriverKind, NodeIdentity, USUAL_API};
use upgrade::{End, Replacement};

/// The reason why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The data directory cannot be used.
    #[error("the data directory cannot be used: {0}")]
    DataDir(String),
    /// Another agent uses the data directory.
    #[error("another agent uses the data directory {}", .0.display())]
    Busy(PathBuf),
    /// The journal is damaged.
    #[error("the journal {} is damaged: {reason}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The messaging key cannot be used.
    #[error("the messaging key {} cannot be used: {reason}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The local API cannot listen.
    #[error("the local API cannot listen on {address}: {reason}")]
    Listen {
        /// Its address.
        address: std::net::SocketAddr,
        /// The system's error.
        reason: String,
    },
    /// The driver cannot be used.
    #[error("services cannot be run: {0}")]
    Driver(String),
}

impl From<FileError> for AgentError {
    fn from(error: FileError) -> Self {
        Self::DataDir(chain(&error))
    }
}

/// Runs an agent until `shutdown` is canceled. Services continue afterwards, and the next run adopts them, unless the
/// settings stop them.
///
/// # Errors
/// [`AgentError`] when the agent cannot start, or its data directory becomes unusable. An unreachable hub is
/// not an error.
pub async fn run(settings: AgentSettings, shutdown: CancellationToken) -> Result<End, AgentError> {
    warn_of_plain_hub(&settings);
    loop {
        let Some(replacement) = run_once(settings.clone(), shutdown.clone()).await? else {
            return Ok(End::Shutdown);
        };
        // Only an agent that can restart itself requests a replacement.
        let Some(restart) = &settings.restart else { continue };
        if let Some(end) = upgrade::replace(&settings, restart, &replacement, &shutdown).await? {
            return Ok(end);
        }
    }
}

/// Warns when the token of the node crosses a network without encryption.
fn warn_of_plain_hub(settings: &AgentSettings) {
    if settings.transport.is_some() {
        return;
    }
    for url in settings.hubs().chain(settings.agbot_url.as_deref()) {
        if evenkeel_client::is_plain_off_loopback(url) {
            tracing::warn!(
                hub.url = url,
                "the hub is called without TLS, so others on the network can read the node's token and forge responses; use https"
            );
        }
    }
}

/// Runs until the shutdown, or until another program takes over; services continue then.
async fn run_once(
    settings: AgentSettings,
    shutdown: CancellationToken,
) -> Result<Option<Replacement>, AgentError> {
    let directory = &settings.data_dir;
    let Some(_lock) = files::open_data_directory(directory)? else {
        return Err(AgentError::Busy(directory.clone()));
    };
    let (file, journal) = journal::JournalFile::open(directory)?;
    let machine = Arc::new(machine::Machine::read(&journal.hardware_id));
    let driver = open_driver(&settings, &journal)?;
    let is_registered = settings.identity.is_some() || journal.registration.is_some();
    let settings = Arc::new(settings);
    let (handle, orders) = order::Handle::new();
    let run = Arc::new(RunHeader::new(AgentRun {
        run: Uuid::new_v4().simple().to_string(),
        boot: clock::boot(),
        journal: journal.agent.clone(),
    }));
    let leases_changed = Arc::new(Notify::new());
    let link = guardian::Link::new(settings.clone(), handle.clone(), run.clone(), leases_changed.clone());
    let core = core::Core::new(core::Parts {
        settings: settings.clone(),
        machine: machine.clone(),
        driver: driver.clone(),
        file,
        journal,
        handle: handle.clone(),
        run,
        leases_changed,
        departures: departure::Departures::read(&settings.data_dir)?,
    });
    let stop = shutdown.child_token();
    let _stop_all = stop.clone().drop_guard();
    let router = api::router(api::Api {
        handle: handle.clone(),
        settings: settings.clone(),
        machine,
        driver: driver.clone(),
    });
    let api =
        api::listen::start((settings.api_listen, &settings.api_hosts), is_registered, router, stop.clone())
            .await?;
    let engine = workers::EngineWatch::new(settings.driver, driver.clone(), handle.clone());
    tokio::spawn(Workers::default().run(engine, stop.clone()));
    let observer = workers::Observer::new(driver.clone(), handle);
    tokio::spawn(Workers::default().run(observer, stop.clone()));
    tokio::spawn(Workers::default().run(link, stop.clone()));
    let replacement = core.run(orders, shutdown).await?;
    if replacement.is_some() {
        driver.release().await;
        stop.cancel();
        api::listen::end(api).await;
    }
    Ok(replacement)
}

fn open_driver(settings: &AgentSettings, journal: &journal::Journal) -> Result<Arc<dyn Driver>, AgentError> {
    let agent = &journal.agent;
    let failed = |error: drivers::DriverError| AgentError::Driver(error.to_string());
    Ok(match settings.driver {
        DriverKind::Process => {
            let directory = settings.data_dir.join("processes");
            let process = ProcessSettings {
                grace: settings.stop_grace,
                output_lines: settings.reported_output_lines,
                ..ProcessSettings::new(directory, agent.to_owned())
            };
            Arc::new(ProcessDriver::open(process).map_err(failed)?)
        }
        DriverKind::Docker => {
            let endpoint = settings.docker_endpoint.clone();
            let lines = settings.reported_output_lines;
            let driver = DockerDriver::new(endpoint, agent.to_owned(), settings.stop_grace, lines);
            Arc::new(driver.at(place(settings, journal)))
        }
    })
}

/// Returns the node and the data directory of the agent.
fn place(settings: &AgentSettings, journal: &journal::Journal) -> Option<String> {
    let configured = settings.identity.as_ref().map(|one| (&one.org, &one.id));
    let (org, id) = configured.or(journal.registration.as_ref().map(|one| (&one.org, &one.id)))?;
    let directory = settings.data_dir.canonicalize().ok()?;
    Some(format!("{org}/{id} {}", directory.display()))
}
