//! Connections to the database are used again, and none is lost or comes back with something unfinished.

use std::time::Duration;

use evenkeel_store::{Connection, Database};
use tokio::task::JoinSet;

use crate::support::TestDatabase;
use crate::support::wait::must;

/// Longer than a connection is believed to be alive.
const REST: Duration = Duration::from_millis(700);

async fn with_connections(database: &TestDatabase, count: u32) -> Database {
    must(Database::connect(database.url(), count).await, "connecting")
}

async fn process_of(connection: &mut Connection) -> i32 {
    let process = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **connection).await;
    must(process, "asking for the process")
}

async fn count_of(database: &Database) -> i64 {
    let mut connection = must(database.acquire().await, "a connection");
    let count = sqlx::query_scalar("SELECT count(*) FROM organization").fetch_one(&mut *connection).await;
    connection.release();
    must(count, "counting")
}

const INSERT: &str =
    "INSERT INTO organization (org, label, description, updated_at) VALUES ('o', '', '', now())";

#[tokio::test]
async fn released_connection_is_used_again_and_one_that_rested_is_tested_first() {
    let test = TestDatabase::new().await;
    let database = with_connections(&test, 4).await;
    let mut connection = must(database.acquire().await, "a connection");
    let process = process_of(&mut connection).await;
    connection.release();
    let mut again = must(database.acquire().await, "a connection");
    assert_eq!(process_of(&mut again).await, process);
    again.release();
    let killed = sqlx::query_scalar::<_, bool>("SELECT pg_terminate_backend($1)").bind(process);
    assert!(must(killed.fetch_one(&mut test.connection().await).await, "ending the server's process"));
    tokio::time::sleep(REST).await;
    let mut other = must(database.acquire().await, "a connection");
    assert_ne!(process_of(&mut other).await, process, "the dead one was found out");
}

#[tokio::test]
async fn transaction_that_is_dropped_leaves_nothing_and_holds_nothing() {
    let test = TestDatabase::new().await;
    let database = with_connections(&test, 1).await;
    let before = count_of(&database).await;
    let mut tx = must(database.begin().await, "a transaction");
    must(sqlx::query(INSERT).execute(&mut *tx).await, "a row");
    drop(tx);
    assert_eq!(count_of(&database).await, before);
    let mut tx = must(database.begin().await, "a transaction");
    must(sqlx::query(INSERT).execute(&mut *tx).await, "the same row, which nobody holds");
    must(tx.commit().await, "the commit");
    assert_eq!(count_of(&database).await, before + 1);
}

#[tokio::test]
async fn statement_that_is_broken_off_disturbs_nobody() {
    let test = TestDatabase::new().await;
    let database = with_connections(&test, 1).await;
    for _ in 0..3 {
        let mut tx = must(database.begin().await, "a transaction");
        let slow = sqlx::query("SELECT pg_sleep(0.2)").execute(&mut *tx);
        assert!(tokio::time::timeout(Duration::from_millis(20), slow).await.is_err());
        drop(tx);
        let mut connection = must(database.acquire().await, "a connection");
        let slow = sqlx::query("SELECT pg_sleep(0.2)").execute(&mut *connection);
        assert!(tokio::time::timeout(Duration::from_millis(20), slow).await.is_err());
        drop(connection);
        assert_eq!(count_of(&database).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_gets_a_connection_when_there_are_few() {
    let test = TestDatabase::new().await;
    let database = with_connections(&test, 2).await;
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let database = database.clone();
        tasks.spawn(async move {
            for turn in 0..20 {
                match (number + turn) % 3 {
                    0 => drop(must(database.begin().await, "a transaction")),
                    1 => must(must(database.begin().await, "a transaction").commit().await, "a commit"),
                    _ => assert_eq!(count_of(&database).await, 0),
                }
            }
        });
    }
    let all = tokio::time::timeout(Duration::from_secs(30), tasks.join_all());
    must(all.await, "all of them");
    must(tokio::time::timeout(Duration::from_secs(10), database.close()).await, "closing");
    assert!(database.acquire().await.is_err(), "a closed pool gives none");
}
