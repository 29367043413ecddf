//! Brings the database of a reference exchange (schema level 62) over into ours.
//!
//! The source is read in one snapshot. Each table streams into a temporary one (checked value by value on the way), loses the rows that
//! break a rule, and is merged into its target; all of it is one transaction at the target. Statements are put together from the tables'
//! descriptions, which are constants of this module. Source: the public table definitions of the reference exchange.

mod identities;
mod merge;
mod parts;
mod publications;
mod row;
mod source;
mod stage;
mod table;

use sqlx::{Connection, PgConnection};
use thiserror::Error;

pub use source::{SCHEMA_LEVEL, Source};
use table::Table;

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

/// What is not taken of any row, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("users.password of root/root", "this hub has a password of its own for root"),
    ("users.created_at, apikeys.created_at", "nothing reads the instant of creation"),
    (
        "apikeys.created_by, apikeys.modified_by",
        "an API key belongs to its user; who made it is in no answer",
    ),
    (
        "users.identity_provider and users.external_id, when the provider is no http address or several users are the same person",
        "no token could name such a provider, or it would open several accounts: the user comes without this link",
    ),
    ("agbotagreements.dataLastReceived", "no agbot sets it, and every answer shows it empty"),
    ("search_service", "it holds searches that live for seconds"),
];

/// Why nothing was imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The source does not answer, or refuses the login or a statement.
    #[error("the source of the import cannot be read")]
    Source(#[source] StoreError),
    /// The source is the database of something else, or of another version.
    #[error("the source is no database of a reference exchange at schema level {SCHEMA_LEVEL}: {found}")]
    WrongSource {
        /// What was found instead.
        found: String,
    },
    /// The target does not answer or refuses a statement.
    #[error("the import could not be written")]
    Target(#[from] StoreError),
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        ImportError::Target(error.into())
    }
}

/// How to import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Do everything, tell what happened, and take it back.
    pub is_dry_run: bool,
    /// Remove what the source does not have from the organizations that it has.
    pub removes_absent: bool,
}

/// A row that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Table at the source.
    pub table: &'static str,
    /// Key of the row.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// What became of the rows of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableCount {
    /// Table at the source.
    pub table: &'static str,
    /// Rows read.
    pub read: u64,
    /// Rows that were not taken.
    pub refused: u64,
    /// Rows that are new here.
    pub inserted: u64,
    /// Rows that were older here.
    pub updated: u64,
    /// Rows that are newer here, and stay.
    pub newer_here: u64,
    /// Rows removed here, because the source does not have them.
    pub removed: u64,
}

impl TableCount {
    /// Rows that were here already.
    #[must_use]
    pub fn unchanged(&self) -> u64 {
        self.read.saturating_sub(self.refused + self.inserted + self.updated + self.newer_here)
    }
}

/// Who is told how the import goes on.
pub trait Observer {
    /// A table begins; so many rows are to be read.
    fn begin(&mut self, table: &'static str, rows: u64);
    /// Rows were read.
    fn advance(&mut self, rows: u64);
    /// A row is not taken.
    fn refuse(&mut self, refusal: &Refusal);
}

/// Imports everything in one transaction; answers the counts of each table.
///
/// # Errors
/// Then nothing was imported.
pub async fn import(
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
        merge::move_sequences(&mut tx).await?;
        tx.commit().await?;
    }
    close(connection).await;
    Ok(counts)
}

async fn close(connection: PgConnection) {
    // Everything is committed or taken back; the server notices the end by itself.
    let _ = connection.close().await;
}
