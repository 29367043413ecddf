//! The settings of the hub's commands, in groups. Each has one name, as option, environment variable and key of the file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use evenkeel_agbot::OtherAgbotsRule;
pub use evenkeel_agent_bin::{ConfigFile, LogSettings, secret_of_setting, state_directory};
use evenkeel_embedded_postgres::{BinarySource, PostgresSettings};
use evenkeel_exchange::{ExchangeSettings, InvalidConstraints, WeakIdentities};
use evenkeel_planner_record::settings::{FailureAction, UpdateOrder};
use evenkeel_runtime::settings::SettingsFile;
use evenkeel_runtime::{ExitStatus, Failure, Secret, settings};

use super::limits::{ClientOptions, HttpOptions, LimitOptions};
use super::tls::TlsOptions;

/// Default number of connections of one process to the database.
const DATABASE_CONNECTIONS: u32 = 16;

/// The keys that a configuration file may have: those of every role.
pub const KEYS: [&[&str]; 14] = [
    LogSettings::KEYS,
    DirectorySettings::KEYS,
    DatabaseSettings::KEYS,
    PostgresChoice::KEYS,
    ListenSettings::KEYS,
    AgbotListenSettings::KEYS,
    ExchangeOptions::KEYS,
    AgbotOptions::KEYS,
    TlsOptions::KEYS,
    HttpOptions::KEYS,
    ClientOptions::KEYS,
    LimitOptions::KEYS,
    super::oidc::KEYS,
    SourceSettings::KEYS,
];

/// Names the configuration file.
#[derive(Clone, Debug, Args)]
pub struct ConfigArguments {
    #[command(flatten)]
    file: ConfigFile,
}

impl ConfigArguments {
    /// Reads the file, if one is named.
    pub fn read(&self) -> Result<SettingsFile, Failure> {
        self.file.read(&KEYS)
    }
}

settings! {
    /// The directory of a process's files.
    pub struct DirectorySettings {
        /// Directory for the database, secrets and all other persistent data [default: in the user's state directory].
        data_dir: PathBuf = "data-dir", "EVENKEEL_DATA_DIR";
    }
}

impl DirectorySettings {
    /// The directory, or its default.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        match &self.data_dir {
            Some(directory) => Ok(directory.clone()),
            None => Ok(state_directory()?.join("hub")),
        }
    }
}

settings! {
    /// The database.
    pub struct DatabaseSettings {
        /// PostgreSQL to use, as a URL; use a file if it contains a password.
        database_url: Secret<String> = "database-url", "EVENKEEL_DATABASE_URL";
        /// File that holds the URL.
        database_url_file: PathBuf = "database-url-file", "EVENKEEL_DATABASE_URL_FILE";
        /// Most connections to the database at the same time [default: 16].
        database_connections: u32 = "database-connections", "EVENKEEL_DATABASE_CONNECTIONS";
    }
}

impl DatabaseSettings {
    /// The URL, if a database is named.
    pub fn url(&self) -> Result<Option<Secret<String>>, Failure> {
        match (&self.database_url, &self.database_url_file) {
            (Some(_), Some(_)) => Err(Failure::new(
                ExitStatus::Usage,
                "give either database-url or database-url-file, not both",
            )),
            (Some(url), None) => Ok(Some(url.clone())),
            (None, Some(file)) => secret_of_setting(file).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The size of the connection pool.
    pub fn connections(&self) -> u32 {
        self.database_connections.unwrap_or(DATABASE_CONNECTIONS).max(2)
    }
}

settings! {
    /// The database that an import reads.
    pub struct SourceSettings {
        /// PostgreSQL of the exchange to import from, as a URL; use a file if it contains a password.
        from: Secret<String> = "from", "EVENKEEL_FROM";
        /// File that holds the URL.
        from_file: PathBuf = "from-file", "EVENKEEL_FROM_FILE";
    }
}

impl SourceSettings {
    /// The URL.
    pub fn url(&self) -> Result<Secret<String>, Failure> {
        match (&self.from, &self.from_file) {
            (Some(url), None) => Ok(url.clone()),
            (None, Some(file)) => secret_of_setting(file),
            _ => Err(Failure::new(ExitStatus::Usage, "give either from or from-file")),
        }
    }
}

settings! {
    /// Settings of the embedded PostgreSQL.
    pub struct PostgresChoice {
        /// Binaries of the embedded PostgreSQL: found (on this machine), fetched, or auto [default: auto].
        postgres_binaries: BinarySource = "postgres-binaries", "EVENKEEL_POSTGRES_BINARIES";
    }
}

impl PostgresChoice {
    /// The settings of the embedded server.
    pub fn settings(&self) -> PostgresSettings {
        PostgresSettings { binaries: self.postgres_binaries.unwrap_or_default(), is_durable: true }
    }
}

settings! {
    /// The listen address of the exchange.
    pub struct ListenSettings {
        /// Address of the API, HOST:PORT; port 0 selects a free one [default: 127.0.0.1:8080].
        listen: String = "listen", "EVENKEEL_LISTEN";
    }
}

impl ListenSettings {
    /// The address, or its default.
    pub fn address(&self) -> &str {
        self.listen.as_deref().unwrap_or("127.0.0.1:8080")
    }
}

settings! {
    /// The listen address of the agbot.
    pub struct AgbotListenSettings {
        /// Address of the agbot's API for nodes, HOST:PORT, besides the main one.
        agbot_listen: String = "agbot-listen", "EVENKEEL_AGBOT_LISTEN";
    }
}

impl AgbotListenSettings {
    /// The separate listen address, if any.
    pub fn address(&self) -> Option<&str> {
        self.agbot_listen.as_deref()
    }
}

settings! {
    /// Settings of the exchange.
    pub struct ExchangeOptions {
        /// File that holds the password of root/root [default: root-password in the data directory, created at first start].
        root_password_file: PathBuf = "root-password-file", "EVENKEEL_ROOT_PASSWORD_FILE";
        /// Largest request body in bytes [default: 1048576].
        max_body_bytes: usize = "max-body-bytes", "EVENKEEL_MAX_BODY_BYTES";
        /// Policies with constraints that cannot be read: warn (store them, with a warning in the response) or refuse [default: warn].
        invalid_constraints: InvalidConstraints = "invalid-constraints", "EVENKEEL_INVALID_CONSTRAINTS";
        /// New names with blanks, control or invisible characters, and new secrets of less than four characters: accept (as the reference does) or refuse [default: accept].
        weak_identities: WeakIdentities = "weak-identities", "EVENKEEL_WEAK_IDENTITIES";
    }
}

impl ExchangeOptions {
    /// Returns the largest request body in bytes.
    pub fn max_body_bytes(&self) -> usize {
        self.max_body_bytes.unwrap_or_else(|| ExchangeSettings::default().max_body_bytes)
    }
}

settings! {
    /// Settings of the agbot.
    pub struct AgbotOptions {
        /// Seconds the new version must be seen running before the next member is upgraded [default: 5].
        upgrade_monitor_secs: u64 = "upgrade-monitor-secs", "EVENKEEL_UPGRADE_MONITOR_SECS";
        /// Seconds a member has to run the new version before the rollout is paused [default: 600].
        upgrade_start_timeout_secs: u64 = "upgrade-start-timeout-secs", "EVENKEEL_UPGRADE_START_TIMEOUT_SECS";
        /// Seconds after the start of the agbot for which nothing starts automatically in a workload unit with a node
        /// that has not sent a heartbeat since; for at most the first 15 no instance is stopped [default: 90].
        upgrade_grace_secs: u64 = "upgrade-grace-secs", "EVENKEEL_UPGRADE_GRACE_SECS";
        /// Seconds without a heartbeat after which a node counts as down [default: 180].
        node_down_after_secs: u64 = "node-down-after-secs", "EVENKEEL_NODE_DOWN_AFTER_SECS";
        /// When the new version fails on a member: pause the rollout, rollback (return the changed members to the old
        /// version), or continue [default: pause].
        upgrade_failure_action: FailureAction = "upgrade-failure-action", "EVENKEEL_UPGRADE_FAILURE_ACTION";
        /// Order of stop and start on a member: stop-first, or start-first if a node can run both instances [default: stop-first].
        upgrade_order: UpdateOrder = "upgrade-order", "EVENKEEL_UPGRADE_ORDER";
        /// HA groups of one policy that are upgraded at the same time; 0 means all [default: 0].
        upgrade_parallelism: u32 = "upgrade-parallelism", "EVENKEEL_UPGRADE_PARALLELISM";
        /// Seconds between two members [default: 0].
        upgrade_delay_secs: u64 = "upgrade-delay-secs", "EVENKEEL_UPGRADE_DELAY_SECS";
        /// Instances that must run on other members before one is stopped [default: 1].
        upgrade_min_running: NonZeroU32 = "upgrade-min-running", "EVENKEEL_UPGRADE_MIN_RUNNING";
        /// Handling of policies and patterns that another agbot of the exchange is configured to serve as well: yield
        /// (leave them to it) or ignore (serve them as well) [default: yield in `up`, ignore in `agbot`].
        other_agbots: OtherAgbotsRule = "other-agbots", "EVENKEEL_OTHER_AGBOTS";
        /// Permission for the health checks and workflow calls of the hub to reach loopback and link-local addresses and
        /// the hub's own machine: true or false [default: false].
        checks_local: bool = "checks-local", "EVENKEEL_CHECKS_LOCAL";
        /// Private addresses that these checks and calls may reach: addresses and networks, separated by commas [default: none].
        checks_networks: String = "checks-networks", "EVENKEEL_CHECKS_NETWORKS";
        /// File with certificate authorities, PEM, that these checks and calls trust in addition to those of the system.
        checks_ca_file: PathBuf = "checks-ca-file", "EVENKEEL_CHECKS_CA_FILE";
        /// Days after which finished rollouts are removed [default: 30].
        rollout_history_days: u32 = "rollout-history-days", "EVENKEEL_ROLLOUT_HISTORY_DAYS";
        /// Days for which events, and the states of instances, claims and nodes, are kept [default: 30].
        history_days: NonZeroU32 = "history-days", "EVENKEEL_HISTORY_DAYS";
        /// MiB that these states may take in the database; the oldest are removed first [default: 2048].
        history_mebibytes: NonZeroU32 = "history-mebibytes", "EVENKEEL_HISTORY_MEBIBYTES";
    }
}
