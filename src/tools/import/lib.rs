//! Imports the database of a reference exchange (schema level 62).
//!
//! The source is read in one snapshot. Each table streams into a temporary one (validated value by value), loses the rows that break
//! a rule, and is merged into its target; all of it is one transaction at the target. Statements are built from the tables'
//! descriptions, which are constants of this module. They follow the public table definitions of the reference exchange.

mod identities;
mod merge;
mod parts;
mod publications;
mod row;
mod source;
mod stage;
mod table;
mod terminal;

use sqlx::{Connection, PgConnection};
use thiserror::Error;

use source::{SCHEMA_LEVEL, Source};
use table::Table;
pub use terminal::import_and_print;

use evenkeel_store::{Database, StoreError};

/// Every table, parents first.
const TABLES: &[&Table] = &[
    &identities::ORGANIZATION,
    &identities::ACCOUNT,
    &identities::API_KEY,
    &identities::AGBOT,
    &identities::NODE,
    &identities::NODE_HEARTBEAT,
    &parts::NODE_POLICY,
    &parts::NODE_STATUS,
    &parts::NODE_ERROR,
    &parts::NODE_AGREEMENT,
    &parts::HA_GROUP,
    &parts::HA_GROUP_MEMBER,
    &parts::AGBOT_AGREEMENT,
    &parts::AGBOT_PATTERN,
    &parts::AGBOT_POLICY,
    &parts::NODE_MESSAGE,
    &parts::AGBOT_MESSAGE,
    &publications::SERVICE,
    &publications::SERVICE_POLICY,
    &publications::SERVICE_KEY,
    &publications::SERVICE_DOCKAUTH,
    &publications::PATTERN,
    &publications::PATTERN_KEY,
    &publications::DEPLOYMENT_POLICY,
    &publications::SEARCH_SESSION,
    &publications::MANAGEMENT_POLICY,
    &publications::NODE_MANAGEMENT_STATUS,
    &publications::AGENT_FILE_VERSION,
];

/// Data that is not imported, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("users.password of root/root", "this hub has a password of its own for root"),
    ("users.created_at, apikeys.created_at", "nothing reads the instant of creation"),
    (
        "apikeys.created_by, apikeys.modified_by",
        "an API key belongs to its user; no response shows who made it",
    ),
    (
        "users.identity_provider and users.external_id, when the provider is not an http address or several users are the same person",
        "no token could name such a provider, or it would open several accounts: the user comes without this link",
    ),
    ("agbotagreements.dataLastReceived", "no agbot sets it, and every response shows it empty"),
    ("search_service", "it holds searches that last for seconds"),
];

/// The error of an import; nothing was imported then.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The source does not respond, or refuses the login or a statement.
    #[error("the source of the import cannot be read")]
    Source(#[source] StoreError),
    /// The source is another database, or one of another version.
    #[error("the source is not a database of a reference exchange at schema level {SCHEMA_LEVEL}: {found}")]
    WrongSource {
        /// The actual content.
        found: String,
    },
    /// The target does not respond or refuses a statement.
    #[error("the import could not be written")]
    Target(#[from] StoreError),
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        ImportError::Target(error.into())
    }
}

/// Options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Do everything, report the result, and roll back.
    pub is_dry_run: bool,
    /// Remove what the source does not have from the organizations that it has.
    pub removes_absent: bool,
}

/// A row that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// Table at the source.
    table: &'static str,
    /// Key of the row.
    key: String,
    reason: String,
}

/// Counts of one table's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TableCount {
    /// Table at the source.
    table: &'static str,
    /// Rows read.
    read: u64,
    /// Rows that were not imported.
    refused: u64,
    /// Rows inserted here.
    inserted: u64,
    /// Rows that were older here and updated.
    updated: u64,
    /// Rows that are newer here and kept.
    newer_here: u64,
    /// Rows removed here, because the source does not have them.
    removed: u64,
}

impl TableCount {
    /// Rows that already existed here.
    fn unchanged(&self) -> u64 {
        self.read.saturating_sub(self.refused + self.inserted + self.updated + self.newer_here)
    }
}

/// Receives the progress of an import.
trait Observer {
    /// A table begins, with its number of rows.
    fn begin(&mut self, table: &'static str, rows: u64);
    /// Rows were read.
    fn advance(&mut self, rows: u64);
    /// A row is refused.
    fn refuse(&mut self, refusal: &Refusal);
}

/// Imports everything in one transaction; returns the counts of each table.
///
/// # Errors
/// Any error rolls everything back.
async fn import(
    source: &mut Source,
    database: &Database,
    options: ImportOptions,
    observer: &mut dyn Observer,
) -> Result<Vec<TableCount>, ImportError> {
    let mut connection = database.connect_without_limits().await?;
    let mut tx = connection.begin().await?;
    merge::begin(&mut tx).await?;
    let feed = merge::Feed::find(&mut tx, source.last_change_id()).await?;
    let mut counts = Vec::new();
    for table in TABLES {
        let mut count = stage::stage(source, &mut tx, table, observer).await?;
        stage::apply_rules(&mut tx, table, &mut count, observer).await?;
        merge::merge(&mut tx, table, &feed, &mut count).await?;
        counts.push(count);
    }
    if options.removes_absent {
        for (table, count) in TABLES.iter().zip(&mut counts).rev() {
            count.removed = merge::remove_absent(&mut tx, table, &feed).await?;
        }
    }
    counts.push(feed.carry(source, &mut tx, observer).await?);
    feed.finish(&mut tx, &counts, source.last_change_id()).await?;
    if options.is_dry_run {
        tx.rollback().await?;
    } else {
        merge::approve_agbots(&mut tx).await?;
        merge::move_sequences(&mut tx).await?;
        tx.commit().await?;
    }
    close(connection).await;
    Ok(counts)
}

async fn close(connection: PgConnection) {
    // The transaction has ended; the server closes its side by itself.
    let _ = connection.close().await;
}
