//! Hashes of every kind, and hashes that a new column leaves alone.

use evenkeel_test_database::{TestDatabase, backend};
use jiff::Timestamp;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::*;
use crate::MIGRATIONS;

const ROLES: &[&Migrator] = &[&MIGRATIONS];

const ROWS: &str = include_str!("rows.sql");
/// Subject, id with part, and the hash of the state in [`ROWS`]. They were recorded with the first implementation, a function of the database.
const HASHES: &str = include_str!("hashes.txt");

/// The subjects of [`HASHES`] with their hashes.
fn recorded() -> Vec<(AuditedResource, String)> {
    let resource = |line: &str| {
        let [kind, id, hash] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let kind = *Subject::ALL.iter().find(|other| other.name() == kind).unwrap();
        let (id, part) = id.split_once('/').unwrap_or((id, ""));
        (AuditedResource { kind, org: "o".into(), id: id.into(), part: part.into() }, hash.to_owned())
    };
    HASHES.lines().map(resource).collect()
}

fn hex(hash: Option<Vec<u8>>) -> String {
    hash.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of the state after a write, as the record of the write gets it.
async fn recorded_after(
    connection: &mut PgConnection,
    resource: Option<&AuditedResource>,
) -> Option<Vec<u8>> {
    let record = NewAuditRecord {
        org: "o".into(),
        recorded_at: Timestamp::UNIX_EPOCH,
        caller: "o/u".into(),
        caller_role: "user".into(),
        address: String::new(),
        request: String::new(),
        method: "PUT".into(),
        operation: "test".into(),
        resource: String::new(),
        status: 201,
        state_before: None,
    };
    insert_with_changes(connection, &record, resource, &[]).await.unwrap();
    let taken = "DELETE FROM audit_outbox RETURNING state_after";
    sqlx::query_scalar(taken).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn hash_of_every_kind_is_as_recorded() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    connection.execute(ROWS).await.unwrap();
    let recorded = recorded();
    for kind in Subject::ALL {
        assert!(recorded.iter().any(|(resource, _)| resource.kind == *kind), "{kind:?} has no recorded hash");
    }
    for (resource, expected) in recorded {
        assert_eq!(hex(lock(&mut connection, &resource).await.unwrap().hash), expected, "{resource:?}");
        assert_eq!(hex(recorded_after(&mut connection, Some(&resource)).await), expected, "{resource:?}");
        let absent = AuditedResource { id: "absent".into(), org: "absent".into(), ..resource };
        assert_eq!(lock(&mut connection, &absent).await.unwrap(), State::default(), "{absent:?}");
        assert_eq!(recorded_after(&mut connection, Some(&absent)).await, None, "{absent:?}");
    }
    assert_eq!(recorded_after(&mut connection, None).await, None);
}

/// A later migration may add columns: the hash of a state that was recorded before must not change by that.
#[tokio::test]
async fn added_column_changes_no_hash() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    connection.execute(ROWS).await.unwrap();
    let tables =
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    for table in tables {
        let add = format!("ALTER TABLE {table} ADD COLUMN added_later text DEFAULT 'x'");
        connection.execute(AssertSqlSafe(add)).await.unwrap();
    }
    for (resource, expected) in recorded() {
        assert_eq!(hex(lock(&mut connection, &resource).await.unwrap().hash), expected, "{resource:?}");
    }
}

/// Two writes that change the same group at the same time: the second one hashes what the first one has committed.
#[tokio::test]
async fn state_is_read_after_the_lock_was_awaited() {
    let database = TestDatabase::new(ROLES).await;
    let mut first = database.connection().await;
    let mut second = database.connection().await;
    first.execute(ROWS).await.unwrap();
    let waiting = backend(&mut second).await;
    let group =
        AuditedResource { kind: Subject::HaGroup, org: "o".into(), id: "g".into(), part: String::new() };
    let node = AuditedResource { kind: Subject::Node, id: "n".into(), ..group.clone() };
    for (resource, change) in [
        (group, "DELETE FROM ha_group_member WHERE node = 'm'"),
        (node, "UPDATE node SET name = 'changed' WHERE node = 'n'"),
    ] {
        first.execute("BEGIN").await.unwrap();
        let before = lock(&mut first, &resource).await.unwrap().hash;
        first.execute(change).await.unwrap();
        let after = recorded_after(&mut first, Some(&resource)).await;
        assert_ne!(before, after);
        let commit = first.execute("COMMIT");
        let found = database.release_when_awaited(waiting, lock(&mut second, &resource), commit).await;
        assert_eq!(found.unwrap().hash, after, "{resource:?}");
    }
}
