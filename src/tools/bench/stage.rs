//! Test bed of a benchmark: a directory of its own, an embedded PostgreSQL of its own, and exchanges as
//! processes.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use evenkeel_embedded_postgres::{EmbeddedPostgres, PostgresSettings};
use evenkeel_runtime::files::{DataDirectory, write_private_file};
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::{Database, Schema, StoreError};
use sqlx::{Connection as _, PgConnection};

use super::process::Process;
use super::report::Report;

/// Password of root on the exchanges of benchmarks, which only this machine can reach while they run.
pub const ROOT_PASSWORD: &str = "bench-root-password";
const DATABASE_CONNECTIONS: u32 = 16;

/// Directory and database of one benchmark.
pub struct Stage {
    postgres: EmbeddedPostgres,
    _data: DataDirectory,
    directory: tempfile::TempDir,
}

impl Stage {
    /// Measures on a stage of its own, whose database is stopped whatever comes out.
    pub async fn with(
        measure: impl AsyncFnOnce(&Stage) -> Result<Report, Failure>,
    ) -> Result<Report, Failure> {
        let stage = Stage::open().await?;
        let outcome = measure(&stage).await;
        stage.postgres.stop().await;
        outcome
    }

    /// Starts a durable PostgreSQL in a fresh directory and migrates its database.
    async fn open() -> Result<Stage, Failure> {
        let directory =
            tempfile::Builder::new().prefix("evenkeel-bench-").tempdir().map_err(|e| broken(&e))?;
        // Started by root, the database runs under an account that must pass.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o711))
            .map_err(|error| broken(&error))?;
        let data = DataDirectory::open(&directory.path().join("data"))
            .map_err(|error| Failure::from_error(error.exit_status(), &error))?;
        let started = EmbeddedPostgres::start(&data, &PostgresSettings::default()).await;
        let postgres = started.map_err(|error| Failure::from_error(error.exit_status(), &error))?;
        let stage = Stage { postgres, _data: data, directory };
        write_private_file(&stage.url_file(), stage.url().as_bytes())
            .and_then(|()| write_private_file(&stage.password_file(), ROOT_PASSWORD.as_bytes()))
            .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
        stage.connect().await?.close().await;
        Ok(stage)
    }

    /// The directory, for files of the benchmark.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The programs of the running PostgreSQL.
    pub fn programs(&self) -> &Path {
        self.postgres.programs()
    }

    /// The URL of the database, with its password.
    pub fn url(&self) -> &str {
        self.postgres.url().expose()
    }

    /// Returns the log file of the server.
    pub fn server_log(&self) -> PathBuf {
        self.postgres.log_file().to_owned()
    }

    /// The version of the server, for readers of the numbers.
    pub async fn version(&self) -> Result<String, Failure> {
        let mut observer = self.observer().await?;
        let version = sqlx::query_scalar::<_, String>("SHOW server_version").fetch_one(&mut observer).await;
        let version = version.map_err(|error| refused(&error))?;
        Ok(format!(
            "PostgreSQL {}, fsync on, on the same machine",
            version.split(' ').next().unwrap_or_default()
        ))
    }

    fn url_file(&self) -> PathBuf {
        self.directory().join("database-url")
    }

    fn password_file(&self) -> PathBuf {
        self.directory().join("root-password")
    }

    /// A pool on the migrated database.
    pub async fn connect(&self) -> Result<Database, Failure> {
        let opened = Database::connect(self.url(), DATABASE_CONNECTIONS).await;
        let database = opened.map_err(|error| store_failed(&error))?;
        let schema =
            Schema::of_roles(&[&evenkeel_exchange_store::MIGRATIONS, &evenkeel_agbot_store::MIGRATIONS]);
        database.migrate(&schema).await.map_err(|error| store_failed(&error))?;
        Ok(database)
    }

    /// A connection to another database of the server, whose transactions do not count for the first.
    pub async fn observer(&self) -> Result<PgConnection, Failure> {
        let url = self.url().replacen("/evenkeel?", "/postgres?", 1);
        PgConnection::connect(&url).await.map_err(|error| refused(&error))
    }

    /// Creates another, empty database; returns the file with its URL.
    pub async fn empty_database(&self, name: &str) -> Result<PathBuf, Failure> {
        let mut observer = self.observer().await?;
        // A name of our own making: letters and digits.
        let statement = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(statement).execute(&mut observer).await.map_err(|error| refused(&error))?;
        let file = self.directory().join(format!("database-url-{name}"));
        let url = self.url().replacen("/evenkeel?", &format!("/{name}?"), 1);
        write_private_file(&file, url.as_bytes())
            .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
        Ok(file)
    }

    /// Starts a single exchange and waits until it responds.
    pub async fn start_exchange(&self) -> Result<(Process, SocketAddr), Failure> {
        self.start_named_exchange("exchange").await
    }

    /// Starts one of several exchanges; the name is that of its log.
    pub async fn start_named_exchange(&self, name: &'static str) -> Result<(Process, SocketAddr), Failure> {
        let url = self.url_file().display().to_string();
        let password = self.password_file().display().to_string();
        let arguments = [
            "exchange",
            "--listen",
            "127.0.0.1:0",
            "--database-url-file",
            &url,
            "--root-password-file",
            &password,
            "--log-format",
            "json",
        ];
        let mut process = Process::start(name, &arguments, self.directory())?;
        let address = process.address_after("\"exchange.url\":\"").await?;
        Ok((process, address))
    }

    /// Starts a whole hub on the stage's database, or on that of a file; `listen` is an address, `data` its data directory.
    pub fn start_hub(
        &self,
        listen: SocketAddr,
        data: &Path,
        database: Option<&Path>,
    ) -> Result<Process, Failure> {
        let program = std::env::current_exe().map_err(|error| broken(&error))?;
        self.start_hub_of(&program, listen, data, database)
    }

    /// The same of another build of this program.
    pub fn start_hub_of(
        &self,
        program: &Path,
        listen: SocketAddr,
        data: &Path,
        database: Option<&Path>,
    ) -> Result<Process, Failure> {
        let usual = self.url_file();
        let url = database.unwrap_or(&usual).display().to_string();
        let password = self.password_file().display().to_string();
        let (listen, data) = (listen.to_string(), data.display().to_string());
        let arguments = [
            "up",
            "--listen",
            &listen,
            "--data-dir",
            &data,
            "--database-url-file",
            &url,
            "--root-password-file",
            &password,
            "--upgrade-monitor-secs",
            "1",
        ];
        Process::start_program(program, "hub", &arguments, self.directory())
    }
}

/// A file or socket that could not be used.
pub fn broken(error: &std::io::Error) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}

/// A statement that the database refused.
pub fn refused(error: &sqlx::Error) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}

/// Returns the failure of a query of the store.
pub fn store_failed(error: &StoreError) -> Failure {
    Failure::from_error(ExitStatus::DatabaseUnreachable, error)
}
