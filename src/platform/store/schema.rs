//! The migrations of all roles as one schema, recorded in one table of the database.

use sqlx::migrate::{AppliedMigration, Migrate, Migrator};
use sqlx::{Connection as _, PgConnection};

use crate::error::StoreError;

const TABLE: &str = "_sqlx_migrations";

/// Commits durably, and with it everything that was committed before.
const FLUSH_MIGRATIONS: &str = "-- schema.migrate
    SET synchronous_commit = on;
    UPDATE _sqlx_migrations SET success = success WHERE version = (SELECT max(version) FROM _sqlx_migrations)";

/// The migrations of the roles that share a database. Their versions are unique across roles.
#[derive(Debug)]
pub struct Schema {
    migrator: Migrator,
}

impl Schema {
    /// Combines the migrations of some roles.
    #[must_use]
    pub fn of_roles(roles: &[&Migrator]) -> Schema {
        let migrations = roles.iter().flat_map(|role| role.iter().cloned()).collect();
        Schema { migrator: Migrator::with_migrations(migrations) }
    }

    /// Returns the newest version that this program knows.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
    }

    /// Applies what is missing.
    pub(crate) async fn migrate(&self, mut connection: PgConnection) -> Result<(), StoreError> {
        // One flush at the end suffices for all migrations, because later ones never reach the disk before earlier ones.
        sqlx::raw_sql("SET synchronous_commit = off").execute(&mut connection).await?;
        connection.ensure_migrations_table(TABLE).await.map_err(StoreError::Migration)?;
        let applied = connection.list_applied_migrations(TABLE).await.map_err(StoreError::Migration)?;
        let known = self.version();
        let newest = applied.iter().map(|migration| migration.version).max();
        if let Some(found) = newest.filter(|found| *found > known) {
            return Err(StoreError::NewerSchema { found, known });
        }
        // This check costs less than the lock and the round trips of a run, and most starts find nothing to do.
        if !self.is_complete(&applied) {
            self.migrator.run(&mut connection).await.map_err(StoreError::Migration)?;
            sqlx::raw_sql(FLUSH_MIGRATIONS).execute(&mut connection).await?;
        }
        connection.close().await?;
        Ok(())
    }

    /// Returns whether exactly the known migrations have been applied.
    fn is_complete(&self, applied: &[AppliedMigration]) -> bool {
        let known = self.migrator.iter().map(|migration| (migration.version, &migration.checksum));
        known.eq(applied.iter().map(|migration| (migration.version, &migration.checksum)))
    }
}
