//! Databases to test statements in.

use evenkeel_test_database::TestDatabase;
use jiff::Timestamp;
use sqlx::PgConnection;
use sqlx::migrate::Migrator;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::partition::{LeaseRow, insert_partitions, take_free};

pub const ROLES: &[&Migrator] = &[&crate::MIGRATIONS];

/// The length of the leases of tests.
pub const LEASE_SECS: f64 = 600.0;

/// The agbot of the tests, and another one.
pub const OWN: Uuid = Uuid::from_u128(1);
pub const OTHER: Uuid = Uuid::from_u128(2);

/// The database of the tests whose statements stay with their nodes, policies and groups.
static SHARED: OnceCell<TestDatabase> = OnceCell::const_new();

pub async fn shared() -> &'static TestDatabase {
    SHARED.get_or_init(|| TestDatabase::new(ROLES)).await
}

/// Returns the instant so many seconds after the beginning of the tests.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Adds partitions and leases them to the owners, in their order.
pub async fn lease(connection: &mut PgConnection, owners: &[Uuid]) -> Vec<LeaseRow> {
    insert_partitions(connection, i32::try_from(owners.len()).unwrap()).await.unwrap();
    let mut leases = Vec::new();
    for owner in owners {
        leases.extend(take_free(connection, *owner, LEASE_SECS, 1, None).await.unwrap());
    }
    leases
}
