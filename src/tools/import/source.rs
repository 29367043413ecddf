//! The source database: one connection, one snapshot, read-only.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};

use super::ImportError;
use evenkeel_store::StoreError;

/// The schema that the import understands.
pub const SCHEMA_LEVEL: i32 = 62;

/// An open source.
#[derive(Debug)]
pub struct Source {
    connection: PgConnection,
    last_change_id: i64,
}

impl Source {
    /// Connects, takes a snapshot that holds until the end, and checks the schema level. A URL without password takes it from
    /// `PGPASSWORD` or the password file of the PostgreSQL client programs.
    ///
    /// # Errors
    /// [`ImportError::Source`] when it does not respond, [`ImportError::WrongSource`] when it is another database.
    pub async fn open(url: &str) -> Result<Source, ImportError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(unreadable)?
            .application_name("evenkeel-import")
            .options([
                ("statement_timeout", "0"),
                ("idle_in_transaction_session_timeout", "0"),
                ("TimeZone", "UTC"),
            ])
            .disable_statement_logging();
        let mut connection = PgConnection::connect_with(&options).await.map_err(unreadable)?;
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.map_err(unreadable)?;
        check_level(&mut connection).await?;
        let last_change_id = sqlx::query_scalar::<_, i64>(
            "-- source.last_change_id
            SELECT GREATEST(
                (SELECT max(changeid) FROM public.resourcechanges),
                pg_sequence_last_value(pg_get_serial_sequence('public.resourcechanges', 'changeid')::regclass),
                0)",
        )
        .fetch_one(&mut connection)
        .await
        .map_err(unreadable)?;
        Ok(Source { connection, last_change_id })
    }

    /// Returns the last sequence number of the source's change feed.
    #[must_use]
    pub fn last_change_id(&self) -> i64 {
        self.last_change_id
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Ends the snapshot and the connection.
    pub async fn close(self) {
        // Nothing was written there: a connection that breaks now loses nothing.
        let _ = self.connection.close().await;
    }
}

async fn check_level(connection: &mut PgConnection) -> Result<(), ImportError> {
    let has_table = sqlx::query_scalar::<_, bool>("SELECT to_regclass('public.schema') IS NOT NULL");
    if !has_table.fetch_one(&mut *connection).await.map_err(unreadable)? {
        return Err(ImportError::WrongSource { found: "it has no table public.schema".to_owned() });
    }
    let level = sqlx::query_scalar::<_, i32>("SELECT schemaversion FROM public.schema WHERE id = 0");
    match level.fetch_optional(&mut *connection).await.map_err(unreadable)? {
        Some(SCHEMA_LEVEL) => Ok(()),
        Some(level) => Err(ImportError::WrongSource { found: format!("it is at level {level}") }),
        None => Err(ImportError::WrongSource { found: "its table public.schema has no level".to_owned() }),
    }
}

/// Classifies an error: a missing table or column means another version, anything else a source that does not respond.
pub(super) fn unreadable(error: sqlx::Error) -> ImportError {
    if let sqlx::Error::Database(reported) = &error
        && matches!(reported.code().as_deref(), Some("42P01" | "42703"))
    {
        return ImportError::WrongSource { found: reported.message().to_owned() };
    }
    ImportError::Source(StoreError::from(error))
}
