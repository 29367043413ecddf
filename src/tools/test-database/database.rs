//! One embedded PostgreSQL for the whole test process, and a fresh, migrated database for each test.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_embedded_postgres::{EmbeddedPostgres, PostgresSettings};
use evenkeel_runtime::files::DataDirectory;
use evenkeel_store::{Database, Schema};
use sqlx::migrate::Migrator;
use sqlx::{Connection, Executor, PgConnection};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

/// Roles whose migrations make the schema of all databases of the process.
pub type Roles = &'static [&'static Migrator];

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

async fn server(roles: Roles) -> &'static Server {
    SERVER
        .get_or_init(|| async {
            tokio::task::spawn_blocking(|| start(roles)).await.expect("the test server starts")
        })
        .await
}

/// A temporary directory that other accounts may pass through: the server of a test that runs as root has another account.
fn directory() -> PathBuf {
    let directory =
        tempfile::Builder::new().prefix("evenkeel-test-").tempdir().expect("a temporary directory");
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(directory.path(), mode).expect("a mode of its own");
    directory.keep()
}

fn start(roles: Roles) -> Server {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let root = directory();
    let sweeper =
        Command::new("/bin/sh").args(["-c", SWEEPER, "sweeper"]).arg(&root).stdin(Stdio::piped()).spawn();
    let sweeper = sweeper.expect("the sweeper");
    let directory = DataDirectory::open(&root.join("data")).expect("the data directory");
    // Rows need only outlive processes here, not power failures.
    let settings = PostgresSettings { is_durable: false, ..PostgresSettings::default() };
    let postgres = runtime.block_on(EmbeddedPostgres::start(&directory, &settings)).expect("PostgreSQL");
    runtime.block_on(async {
        let database = Database::connect(postgres.url().expose(), 2).await.expect("a pool");
        database.migrate(&Schema::of_roles(roles)).await.expect("migrations");
        database.close().await;
    });
    Server { runtime, postgres, _directory: directory, _sweeper: sweeper }
}

/// A database of one test. It is dropped with the value.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    /// Creates a database with the newest schema of `roles`, which are the same for all databases of a process, and no rows.
    pub async fn new(roles: Roles) -> Self {
        Self::create(server(roles).await, TEMPLATE).await
    }

    /// Creates a database without tables; `roles` are those of the other databases of the process.
    pub async fn empty(roles: Roles) -> Self {
        Self::create(server(roles).await, "template0").await
    }

    async fn create(server: &Server, template: &str) -> Self {
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        administrate(server, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        let url = url_of(&server.postgres, &name);
        Self { name, url }
    }

    /// Returns its URL, with the password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a pool on it.
    pub async fn connect(&self) -> Database {
        Database::connect(&self.url, 8).await.expect("a pool on the test's database")
    }

    /// Returns one plain connection, for looking behind the store.
    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("a connection to the test's database")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Some(server) = SERVER.get() {
            let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            // The server goes away with the process: a drop that does not come to pass does no harm.
            server.runtime.spawn(administrate(server, statement));
        }
    }
}

fn url_of(postgres: &EmbeddedPostgres, name: &str) -> String {
    postgres.url().expose().replace("/evenkeel?", &format!("/{name}?"))
}

/// Runs a statement on the maintenance database. Names come from this module alone.
async fn administrate(server: &Server, statement: String) {
    let mut connection =
        PgConnection::connect(&url_of(&server.postgres, "postgres")).await.expect("a connection");
    connection.execute(sqlx::AssertSqlSafe(statement)).await.expect("administration of the test server");
    connection.close().await.expect("an orderly end");
}
