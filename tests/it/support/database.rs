//! One embedded PostgreSQL for the whole test process, and a fresh, migrated database for each test.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_embedded_postgres::{EmbeddedPostgres, PostgresSettings};
use evenkeel_runtime::files::DataDirectory;
use evenkeel_store::{Database, Schema};
use sqlx::{Connection, Executor, PgConnection};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use super::scratch::Scratch;
use super::wait::must;

/// The database that all others are copies of.
const TEMPLATE: &str = "evenkeel";

/// Removes the directory when the test process is gone and the server, which ends with it, has left the directory.
const SWEEPER: &str = r#"
    read -r word
    tries=0
    server=$1/data/postgres
    [ -e "$1/data/postgres-folder" ] && read -r server <"$1/data/postgres-folder"
    while [ -e "$server/data/postmaster.pid" ] && [ $tries -lt 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    rm -rf "$server" "$1"
"#;

/// The server, on a runtime that outlives the runtimes of the tests.
struct Server {
    runtime: Runtime,
    postgres: EmbeddedPostgres,
    _directory: DataDirectory,
    // Its standard input ends with this process.
    _sweeper: std::process::Child,
}

static SERVER: OnceCell<Server> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(0);

async fn server() -> &'static Server {
    SERVER
        .get_or_init(|| async { must(tokio::task::spawn_blocking(start).await, "starting the test server") })
        .await
}

fn start() -> Server {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = must(runtime, "a runtime");
    let root = Scratch::new().keep();
    let sweeper =
        Command::new("/bin/sh").args(["-c", SWEEPER, "sweeper"]).arg(&root).stdin(Stdio::piped()).spawn();
    let sweeper = must(sweeper, "the sweeper");
    let directory = must(DataDirectory::open(&root.join("data")), "the data directory");
    // Rows need only outlive processes here, not power failures.
    let settings = PostgresSettings { is_durable: false, ..PostgresSettings::default() };
    let postgres = must(runtime.block_on(EmbeddedPostgres::start(&directory, &settings)), "PostgreSQL");
    runtime.block_on(async {
        let database = must(Database::connect(postgres.url().expose(), 2).await, "connecting");
        let schema =
            Schema::of_roles(&[&evenkeel_exchange_store::MIGRATIONS, &evenkeel_agbot_store::MIGRATIONS]);
        must(database.migrate(&schema).await, "migrating");
        database.close().await;
    });
    Server { runtime, postgres, _directory: directory, _sweeper: sweeper }
}

/// A database of its own, with the newest schema and no rows. It is dropped with the value.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    /// A fresh database.
    pub async fn new() -> Self {
        let server = server().await;
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        administrate(format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}")).await;
        let url = url_of(&server.postgres, &name);
        Self { name, url }
    }

    /// A database without any table of ours.
    pub async fn empty() -> Self {
        let server = server().await;
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        administrate(format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let url = url_of(&server.postgres, &name);
        Self { name, url }
    }

    /// Its URL, with the password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool on it.
    pub async fn connect(&self) -> Database {
        must(Database::connect(&self.url, 8).await, "connecting to the test's database")
    }

    /// One plain connection, for looking behind the store.
    pub async fn connection(&self) -> PgConnection {
        must(PgConnection::connect(&self.url).await, "connecting to the test's database")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Some(server) = SERVER.get() {
            let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            // The server goes away with the process: a drop that does not come to pass does no harm.
            server.runtime.spawn(administrate(statement));
        }
    }
}

fn url_of(postgres: &EmbeddedPostgres, name: &str) -> String {
    postgres.url().expose().replace("/evenkeel?", &format!("/{name}?"))
}

/// Runs a statement on the maintenance database. Names come from this module alone.
async fn administrate(statement: String) {
    let server = server().await;
    let mut connection =
        must(PgConnection::connect(&url_of(&server.postgres, "postgres")).await, "connecting");
    must(connection.execute(sqlx::AssertSqlSafe(statement)).await, "administrating the test server");
    must(connection.close().await, "closing");
}
