//! Plans of the statements that read lists, and hashes that a new column leaves alone.

use evenkeel_test_database::{TestDatabase, assert_plans};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

const ROLES: &[&Migrator] = &[&crate::MIGRATIONS];

#[tokio::test]
async fn plans_of_lists_are_as_recorded() {
    assert_plans(&TestDatabase::new(ROLES).await, "plans_exchange.txt").await;
}

const ROWS: &str = "
    INSERT INTO organization (org, label, description, updated_at) VALUES ('o', '', '', now());
    INSERT INTO account (org, name, id, updated_at, updated_by) VALUES ('o', 'u', gen_random_uuid(), now(), 'root/root');
    INSERT INTO ha_group (org, name, is_admin, updated_at) VALUES ('o', 'g', false, now())";

async fn state(connection: &mut PgConnection, kind: &str, id: &str) -> Option<Vec<u8>> {
    let state = "SELECT audit_state($1, 'o', $2, '', false)";
    sqlx::query_scalar(state).bind(kind).bind(id).fetch_one(connection).await.unwrap()
}

/// A later migration may add columns: the hash of a state that was recorded before must not change by that.
#[tokio::test]
async fn added_column_changes_no_audit_hash() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    connection.execute(ROWS).await.unwrap();
    let kinds = [("organization", ""), ("account", "u"), ("ha_group", "g")];
    let mut before = Vec::new();
    for (kind, id) in kinds {
        before.push(state(&mut connection, kind, id).await);
    }
    assert!(before.iter().all(Option::is_some));
    let tables =
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    for table in tables {
        let add = format!("ALTER TABLE {table} ADD COLUMN added_later text DEFAULT 'x'");
        connection.execute(AssertSqlSafe(add)).await.unwrap();
    }
    for ((kind, id), before) in kinds.into_iter().zip(before) {
        assert_eq!(state(&mut connection, kind, id).await, before, "{kind}");
    }
    // What the rows above do not show: no kind takes whole rows.
    let source = "SELECT prosrc FROM pg_proc WHERE proname = 'audit_state'";
    let source: String = sqlx::query_scalar(source).fetch_one(&mut connection).await.unwrap();
    assert!(!source.contains('*'), "whole rows");
    for (start, _) in source.match_indices(" AS shown") {
        assert!(source[..start].ends_with(')'), "{}", &source[..start]);
    }
}
