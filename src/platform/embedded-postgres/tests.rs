//! Real servers on fresh directories.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Root's server runs as another user, who must be able to traverse the directory.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        Self(directory)
    }

    fn open(&self) -> DataDirectory {
        DataDirectory::open(&self.0.path().join("data directory, with a comma")).unwrap()
    }
}

fn quick() -> PostgresSettings {
    PostgresSettings { binaries: BinarySource::Auto, is_durable: false }
}

async fn count_rows(postgres: &EmbeddedPostgres) -> i64 {
    let options: PgConnectOptions = postgres.url().expose().parse().unwrap();
    let mut connection = options.connect().await.unwrap();
    connection.execute("CREATE TABLE IF NOT EXISTS kept (id int)").await.unwrap();
    connection.execute("INSERT INTO kept VALUES (1)").await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM kept").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn server_keeps_its_rows_over_stop_and_start() {
    let scratch = Scratch::new();
    let directory = scratch.open();
    let first = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    assert_eq!(count_rows(&first).await, 1);
    first.stop().await;
    let home = directory.path().join("postgres");
    assert!(leftover::running_server(&home.join("data")).is_none());
    let second = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    assert_eq!(count_rows(&second).await, 2);
    let password = std::fs::metadata(home.join("password")).unwrap();
    assert_eq!(password.mode() & 0o777, 0o600);
    if nix::unistd::geteuid().is_root() {
        assert_ne!(password.uid(), 0, "the server's files belong to an unprivileged user");
    }
    second.stop().await;
}

#[tokio::test]
async fn wrong_password_is_refused() {
    let scratch = Scratch::new();
    let directory = scratch.open();
    let postgres = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    let options: PgConnectOptions = postgres.url().expose().parse().unwrap();
    let error = options.password("guess").connect().await.unwrap_err();
    assert!(error.to_string().contains("password"), "{error}");
    postgres.stop().await;
}

#[tokio::test]
async fn server_left_behind_is_stopped_and_an_unfinished_cluster_removed() {
    let scratch = Scratch::new();
    let directory = scratch.open();
    let home = directory.path().join("postgres");
    std::fs::create_dir_all(home.join("data.0123.unfinished")).unwrap();
    let first = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    assert!(!home.join("data.0123.unfinished").exists());
    assert_eq!(count_rows(&first).await, 1);
    let left = leftover::running_server(&home.join("data")).unwrap();
    // As after SIGKILL of the owner and its supervisor: the server is unsupervised.
    first.supervisor.as_ref().unwrap().abort();
    let second = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    assert_ne!(leftover::running_server(&home.join("data")), Some(left));
    assert_eq!(count_rows(&second).await, 2);
    second.stop().await;
}

#[tokio::test]
async fn server_that_dies_is_started_again() {
    let scratch = Scratch::new();
    let directory = scratch.open();
    let postgres = EmbeddedPostgres::start(&directory, &quick()).await.unwrap();
    let data = directory.path().join("postgres/data");
    let first = leftover::running_server(&data).unwrap();
    nix::sys::signal::kill(first, nix::sys::signal::Signal::SIGKILL).unwrap();
    let options: PgConnectOptions = postgres.url().expose().parse().unwrap();
    let revived = async {
        while leftover::running_server(&data).is_none_or(|pid| pid == first)
            || options.connect().await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), revived).await.expect("the server comes back");
    postgres.stop().await;
}

#[test]
fn url_carries_any_directory() {
    let secret = Secret::new("pw".to_owned());
    let url = url(Path::new("/data directory, with & and %"), &secret);
    let options: PgConnectOptions = url.expose().parse().unwrap();
    assert_eq!(options.get_socket().unwrap(), Path::new("/data directory, with & and %"));
}
