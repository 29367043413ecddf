//! A private PostgreSQL server: found or downloaded, initialized, started, monitored, restarted and stopped with the process.
//!
//! It listens on a Unix socket in a directory that only its user may enter, and requires a random password that is kept
//! in a file of mode 0600. It ends with its owner, however that ends. See the design, section 2.

mod account;
mod binaries;
mod cluster;
mod fetch;
mod home;
mod leftover;
mod server;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use evenkeel_domain::causes::chain;
use serde::Deserialize;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, Executor};
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use evenkeel_runtime::exit::ExitStatus;
use evenkeel_runtime::files::{DataDirectory, FileError, default_state_directory};
use evenkeel_runtime::settings::Secret;

pub use account::Account;
use home::Home;
use server::{Launch, Server};

/// The database user and the database of the embedded server.
const NAME: &str = "evenkeel";

/// Pause before a server that died is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// The source of the PostgreSQL binaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BinarySource {
    /// Those of the machine if there are any, else downloaded ones.
    #[default]
    Auto,
    /// Only the machine's own.
    Found,
    /// Only fetched ones.
    Fetched,
}

impl FromStr for BinarySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "found" => Ok(Self::Found),
            "fetched" => Ok(Self::Fetched),
            other => Err(format!("`{other}` is none of `auto`, `found`, `fetched`")),
        }
    }
}

/// Settings of the embedded server.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// The source of the binaries.
    pub binaries: BinarySource,
    /// True if acknowledged writes survive a power failure. False only in tests.
    pub is_durable: bool,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self { binaries: BinarySource::Auto, is_durable: true }
    }
}

/// The embedded server could not be run.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// No suitable binaries on the machine, and downloads are disabled.
    #[error(
        "no PostgreSQL {wanted} is installed on this machine: install it, allow fetching, or name a database"
    )]
    NotInstalled {
        /// The accepted versions.
        wanted: String,
    },
    /// The programs could not be fetched.
    #[error("PostgreSQL cannot be fetched; install it, or name a database")]
    Fetch(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file or directory of the server cannot be used.
    #[error("the directory of the embedded PostgreSQL cannot be used")]
    Directory(#[from] FileError),
    /// A PostgreSQL binary could not be run.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `initdb` failed or took too long.
    #[error("the embedded PostgreSQL cannot be initialized: {output}")]
    Initialise {
        /// The end of what it printed.
        output: String,
    },
    /// The server ended, or did not become ready.
    #[error("the embedded PostgreSQL cannot be started: {output}")]
    Start {
        /// The end of its log.
        output: String,
    },
    /// A server that an earlier process left running does not end.
    #[error(
        "an earlier PostgreSQL server (process {process}) still runs on the data directory and does not stop"
    )]
    Leftover {
        /// Its process id.
        process: i32,
    },
    /// The running server rejects its initial setup.
    #[error("the embedded PostgreSQL cannot be prepared")]
    Prepare(#[source] sqlx::Error),
}

impl PostgresError {
    /// The status to end the process with.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Directory(_) => ExitStatus::DataDirectory,
            _ => ExitStatus::Postgres,
        }
    }
}

/// A running embedded server. Dropping it also stops the server, without waiting.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    url: Secret<String>,
    programs: PathBuf,
    log: PathBuf,
    stop: CancellationToken,
    supervisor: Option<JoinHandle<()>>,
}

impl EmbeddedPostgres {
    /// Starts the server of a data directory: finds or downloads its binaries, initializes it at the first start, stops
    /// a server that an earlier process left running, and waits until it responds.
    ///
    /// # Errors
    /// See [`PostgresError`]; nothing is left running.
    pub async fn start(
        directory: &DataDirectory,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresError> {
        let home = Home::prepare(directory.path())?;
        let caches: Vec<PathBuf> = default_state_directory()
            .iter()
            .map(PathBuf::as_path)
            .chain([home.directory()])
            .map(|directory| directory.join("postgresql"))
            .collect();
        let major = cluster::existing_major(&home)?;
        let binaries = binaries::obtain(settings.binaries, major, home.account(), &caches).await?;
        tracing::debug!(postgres.directory = %binaries.directory.display(), "using these PostgreSQL programs");
        let password = cluster::ensure(&home, &binaries).await?;
        leftover::stop(&home.data()).await?;
        let launch = Launch::new(&home, &binaries, settings.is_durable)?;
        let server = Server::start(&launch).await?;
        let stop = CancellationToken::new();
        let options = connect_options(&launch.socket_directory, &password);
        let url = url(&launch.socket_directory, &password);
        let supervisor = Some(tokio::spawn(supervise(server, launch, stop.clone())));
        let log = home.log_file();
        let postgres = Self { url, programs: binaries.directory, log, stop, supervisor };
        ensure_database(options).await.map_err(PostgresError::Prepare)?;
        Ok(postgres)
    }

    /// The URL of the database, with its password.
    #[must_use]
    pub fn url(&self) -> &Secret<String> {
        &self.url
    }

    /// The directory with the programs of the running version.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The file with what the server writes down.
    #[must_use]
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// Stops the server: open transactions are rolled back, everything committed is kept.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            // It fails only by a panic, which has already been reported.
            let _ = supervisor.await;
        }
    }
}

impl Drop for EmbeddedPostgres {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn supervise(mut server: Server, launch: Launch, stop: CancellationToken) {
    loop {
        match stop.run_until_cancelled(server.wait()).await {
            None => return server.stop().await,
            Some(ending) => tracing::error!("the embedded PostgreSQL ended ({ending}): restarting it"),
        }
        server = loop {
            if stop.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE)).await.is_none() {
                return;
            }
            match Server::start(&launch).await {
                Ok(server) => break server,
                Err(error) => tracing::error!("{}", chain(&error)),
            }
        };
    }
}

fn connect_options(socket_directory: &Path, password: &Secret<String>) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_directory)
        .username(NAME)
        .password(password.expose())
        .ssl_mode(PgSslMode::Disable)
        .disable_statement_logging()
}

fn url(socket_directory: &Path, password: &Secret<String>) -> Secret<String> {
    let host = percent_encode(&socket_directory.to_string_lossy());
    Secret::new(format!(
        "postgres://{NAME}:{}@localhost/{NAME}?host={host}&sslmode=disable",
        password.expose()
    ))
}

// Everything but unreserved characters and slashes, as in the query of a URL.
fn percent_encode(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

async fn ensure_database(options: PgConnectOptions) -> Result<(), sqlx::Error> {
    let mut connection = options.database("postgres").connect().await?;
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'evenkeel')")
            .fetch_one(&mut connection)
            .await?;
    if !exists {
        connection.execute("CREATE DATABASE evenkeel").await?;
    }
    connection.close().await
}

#[cfg(test)]
mod tests;
