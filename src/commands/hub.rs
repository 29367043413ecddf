//! The parts of a hub and the order of their start and stop: data directory, database, exchange.

use clap::Args;
use evenkeel_embedded_postgres::{EmbeddedPostgres, PostgresError};
use evenkeel_exchange::{Exchange, ExchangeSettings, OidcSettings, StartError};
use evenkeel_runtime::files::{DataDirectory, DataDirectoryError, read_or_make_secret};
use evenkeel_runtime::settings::SettingsFile;
use evenkeel_runtime::{ExitStatus, Failure, Secret};
use evenkeel_store::{Database, Schema, StoreError};
use tokio_util::sync::CancellationToken;

use super::limits::{ClientOptions, LimitOptions};
use super::settings::{
    ConfigArguments, DatabaseSettings, DirectorySettings, ExchangeOptions, LogSettings, PostgresChoice,
    secret_of_setting,
};

/// Timeout of the exchange's final writes.
const FINISH_LIMIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Timeout of closing the connections to the database.
const CLOSE_LIMIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Options of commands that need only the database of a hub.
#[derive(Debug, Args)]
pub struct DatabaseArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    directory: DirectorySettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    postgres: PostgresChoice,
    #[command(flatten)]
    log: LogSettings,
}

impl DatabaseArguments {
    /// Completes the options from the configuration file, which is returned with them, and starts logging.
    pub fn read(self) -> Result<(SettingsFile, Self), Failure> {
        let file = self.config.read()?;
        let arguments = Self {
            directory: self.directory.over(&file)?,
            database: self.database.over(&file)?,
            postgres: self.postgres.over(&file)?,
            log: self.log.over(&file)?,
            config: self.config,
        };
        arguments.log.start()?;
        Ok((file, arguments))
    }

    /// Uses the named database without reading the data directory, or starts the embedded one of the directory, whose
    /// lock must be held as long.
    pub async fn open(&self) -> Result<(OpenDatabase, Option<DataDirectory>), Failure> {
        if let Some(url) = self.database.url()? {
            let database = connect(&url, self.database.connections()).await?;
            return Ok((OpenDatabase { database, postgres: None }, None));
        }
        let directory = open_directory(&self.directory.path()?)?;
        let open = OpenDatabase::open(&directory, &self.database, &self.postgres).await?;
        Ok((open, Some(directory)))
    }
}

/// A migrated database, with the embedded server if there is one.
pub struct OpenDatabase {
    pub database: Database,
    pub postgres: Option<EmbeddedPostgres>,
}

impl OpenDatabase {
    /// Uses the database that the settings name, or starts the embedded one of `directory`; migrates it.
    pub async fn open(
        directory: &DataDirectory,
        settings: &DatabaseSettings,
        choice: &PostgresChoice,
    ) -> Result<Self, Failure> {
        let (url, postgres) = match settings.url()? {
            Some(url) => (url, None),
            None => {
                let postgres =
                    EmbeddedPostgres::start(directory, &choice.settings()).await.map_err(no_postgres)?;
                (postgres.url().clone(), Some(postgres))
            }
        };
        match connect(&url, settings.connections()).await {
            Ok(database) => Ok(Self { database, postgres }),
            Err(failure) => {
                if let Some(postgres) = postgres {
                    postgres.stop().await;
                }
                Err(failure)
            }
        }
    }

    /// Closes the connections, then stops the embedded server.
    pub async fn close(self) {
        // Connections that are still busy end with the server or with this process.
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.database.close()).await;
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
    }
}

/// The tables of all roles: each may share its database with the others.
pub fn schema() -> Schema {
    Schema::of_roles(&[&evenkeel_exchange_store::MIGRATIONS, &evenkeel_agbot_store::MIGRATIONS])
}

/// Connects and migrates.
pub async fn connect(url: &Secret<String>, connections: u32) -> Result<Database, Failure> {
    let database = Database::connect(url.expose(), connections).await.map_err(|error| no_database(&error))?;
    database.migrate(&schema()).await.map_err(|error| no_database(&error))?;
    Ok(database)
}

/// Opens the data directory.
pub fn open_directory(path: &std::path::Path) -> Result<DataDirectory, Failure> {
    DataDirectory::open(path)
        .map_err(|error: DataDirectoryError| Failure::from_error(error.exit_status(), &error))
}

/// A running exchange, which ends in this order: parked polls, requests, workers.
pub struct RunningExchange {
    pub exchange: Exchange,
    workers: CancellationToken,
}

impl RunningExchange {
    /// Ends the workers, when the listeners have drained; writes what is only in memory.
    pub async fn finish(&self) {
        self.workers.cancel();
        if tokio::time::timeout(FINISH_LIMIT, self.exchange.finish()).await.is_err() {
            tracing::warn!("the exchange's workers did not end in time");
        }
    }
}

/// Arguments with which an exchange is started.
pub struct ExchangeSetup<'a> {
    pub root_password: Option<Secret<String>>,
    pub options: &'a ExchangeOptions,
    pub limits: &'a LimitOptions,
    pub clients: &'a ClientOptions,
    pub oidc: Option<OidcSettings>,
    /// Time without a heartbeat after which a node is down for the agbot of the same process.
    pub node_down_after_secs: Option<u64>,
    /// Time after its start in which this agbot waits for heartbeats of nodes.
    pub rejoin_grace_secs: Option<u64>,
}

/// Starts the exchange on an open database; its parked polls end at `shutdown`.
pub async fn start_exchange(
    database: &Database,
    setup: ExchangeSetup<'_>,
    shutdown: CancellationToken,
) -> Result<RunningExchange, Failure> {
    let ExchangeSetup {
        root_password,
        options,
        limits,
        clients,
        oidc,
        node_down_after_secs,
        rejoin_grace_secs,
    } = setup;
    let workers = CancellationToken::new();
    let defaults = ExchangeSettings::default();
    let mut settings = ExchangeSettings {
        root_password: root_password.map(|password| password.expose().clone()),
        node_down_after_secs: node_down_after_secs.unwrap_or(defaults.node_down_after_secs),
        rejoin_grace_secs: rejoin_grace_secs.unwrap_or(defaults.rejoin_grace_secs),
        max_body_bytes: options.max_body_bytes(),
        invalid_constraints: options.invalid_constraints.unwrap_or_default(),
        weak_identities: options.weak_identities.unwrap_or_default(),
        oidc,
        ..defaults
    };
    limits.apply(clients, &mut settings);
    let started = Exchange::start(database.clone(), settings, workers.clone()).await;
    let exchange = started.map_err(|error| match &error {
        StartError::Store(inner) => no_database(inner),
        StartError::Seed(_) => Failure::from_error(ExitStatus::Failure, &error),
        StartError::Oidc(_) => Failure::from_error(ExitStatus::Usage, &error),
    })?;
    let waiting = exchange.clone();
    tokio::spawn(async move {
        shutdown.cancelled().await;
        waiting.drain();
    });
    Ok(RunningExchange { exchange, workers })
}

/// Returns the password of root: from the named file, else from the data directory, where it is created at first start.
pub fn root_password(
    directory: &DataDirectory,
    options: &ExchangeOptions,
) -> Result<Secret<String>, Failure> {
    match &options.root_password_file {
        Some(file) => secret_of_setting(file),
        None => read_or_make_secret(&directory.path().join("root-password"))
            .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error)),
    }
}

fn no_postgres(error: PostgresError) -> Failure {
    Failure::from_error(error.exit_status(), &error)
}

/// A store error at the start of a process.
pub fn no_database(error: &StoreError) -> Failure {
    let status = match error {
        StoreError::NewerSchema { .. } => ExitStatus::DatabaseNewer,
        StoreError::Unavailable(_) | StoreError::Database(_) => ExitStatus::DatabaseUnreachable,
        _ => ExitStatus::Failure,
    };
    Failure::from_error(status, error)
}
