//! A database that refuses statements for a while: the exchange responds with 503, and continues when the database accepts them again.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

async fn execute(connection: &mut PgConnection, statement: &str) {
    must(sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await, statement);
}

/// Ends the sessions of the hub, which opens new ones with the settings of the database.
async fn reconnect(connection: &mut PgConnection) {
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(connection, ended).await;
}

fn organization(name: &str) -> (String, Option<Value>) {
    (format!("/orgs/{name}"), Some(json!({"label": name, "description": name})))
}

#[tokio::test]
async fn write_to_a_read_only_database_is_503_and_says_what_to_do() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let hub = Hub::start(&scratch, &["--database-url", database.url()]).await;
    let mut connection = database.connection().await;
    let (name,): (String,) =
        must(sqlx::query_as("SELECT current_database()::text").fetch_one(&mut connection).await, "the name");
    execute(&mut connection, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    reconnect(&mut connection).await;
    let write = async |name: &str| {
        let (path, body) = organization(name);
        hub.call("POST", &path, body).await
    };
    let body = eventually("the write is refused", || async {
        let (status, body) = write("o").await;
        // A session that was just ended is 503, too.
        (status == 503 && body["code"] == "database-read-only").then_some(body)
    })
    .await;
    assert!(body["msg"].as_str().is_some_and(|text| text.contains("primary server")), "{body}");
    assert_eq!(hub.call("GET", "/orgs/root", None).await.0, 200, "reads go on");

    execute(&mut connection, "SET default_transaction_read_only = off").await;
    execute(&mut connection, &format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    reconnect(&mut connection).await;
    eventually("writes go on", || async { (write("o").await.0 == 201).then_some(()) }).await;
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn statement_that_is_canceled_is_503_and_may_be_tried_again() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let hub = Hub::start(&scratch, &["--database-url", database.url()]).await;
    let (mut holder, mut watcher) = (database.connection().await, database.connection().await);
    execute(&mut holder, "BEGIN; LOCK TABLE organization IN EXCLUSIVE MODE").await;
    let (path, body) = organization("o");
    let write = hub.call("POST", &path, body.clone());
    let cancel = async {
        // As the server does when the statement timeout is over.
        let canceled = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%organization%'";
        let mut count = 0;
        while count == 0 {
            let row: (i64,) = must(sqlx::query_as(canceled).fetch_one(&mut watcher).await, "a count");
            count = row.0;
            tokio::task::yield_now().await;
        }
    };
    let ((status, refusal), ()) = tokio::join!(write, cancel);
    assert_eq!((status, refusal["code"].as_str()), (503, Some("database-timeout")), "{refusal}");
    execute(&mut holder, "ROLLBACK").await;
    assert_eq!(hub.call("POST", &path, body).await.0, 201);
    assert_eq!(hub.stop().await, 0);
}
