//! Invalid invocations end at once, with one message and the documented status.

use std::os::unix::fs::PermissionsExt;

use sqlx::Executor;

use crate::support::{Hub, Program, Scratch, TestDatabase, account};

/// Runs `up` to its end; returns its status and its only message.
async fn refused(scratch: &Scratch, options: &[&str]) -> (i32, String) {
    let data_dir = scratch.join("hub");
    let data_dir = data_dir.to_string_lossy();
    let mut arguments = vec!["up", "--log", "error"];
    if !options.contains(&"--data-dir") {
        arguments.extend(["--data-dir", &data_dir]);
    }
    if !options.contains(&"--listen") {
        arguments.extend(["--listen", "127.0.0.1:0"]);
    }
    arguments.extend_from_slice(options);
    let mut program = Program::start(scratch, &arguments, None);
    let status = program.wait().await;
    (status, program.errors())
}

fn assert_single_line(message: &str) {
    assert_eq!(message.trim_end().lines().count(), 1, "one message: {message}");
    assert!(message.starts_with("evenkeel: "), "{message}");
}

#[tokio::test]
async fn taken_port_is_status_3() {
    let scratch = Scratch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (status, message) = refused(&scratch, &["--listen", &address]).await;
    assert_eq!(status, 3);
    assert_single_line(&message);
    assert!(message.contains(&format!("the address {address} is taken")), "{message}");
    assert!(!scratch.join("hub").exists(), "nothing is begun");
}

#[tokio::test]
async fn bad_option_is_status_2() {
    let scratch = Scratch::new();
    let (status, message) = refused(&scratch, &["--lisen", "x"]).await;
    assert_eq!(status, 2);
    assert!(message.contains("--lisen") && message.contains("--listen"), "{message}");
    let (status, message) = refused(&scratch, &["--postgres-binaries", "stolen"]).await;
    assert_eq!(status, 2);
    assert!(message.contains("`stolen` is none of"), "{message}");
    let (status, message) = refused(&scratch, &["--listen", "nonsense"]).await;
    assert_eq!(status, 2);
    assert_single_line(&message);
    assert!(message.contains("\"nonsense\" does not have the form HOST:PORT"), "{message}");
}

#[tokio::test]
async fn unknown_key_in_the_configuration_file_is_status_2() {
    let scratch = Scratch::new();
    let file = scratch.write("settings.toml", "lisen = \"127.0.0.1:0\"\n");
    let (status, message) = refused(&scratch, &["--config", &file.to_string_lossy()]).await;
    assert_eq!(status, 2);
    assert_single_line(&message);
    assert!(message.contains("unknown key `lisen`"), "{message}");
}

#[tokio::test]
async fn password_file_that_is_not_there_is_status_2() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let options = ["--database-url", database.url(), "--root-password-file", "/nowhere/password"];
    let (status, message) = refused(&scratch, &options).await;
    assert_eq!(status, 2);
    assert_single_line(&message);
}

#[tokio::test]
async fn file_instead_of_the_data_directory_is_status_4() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    let (status, message) = refused(&scratch, &["--data-dir", &file.to_string_lossy()]).await;
    assert_eq!(status, 4);
    assert_single_line(&message);
    assert!(message.contains(&*file.to_string_lossy()), "{message}");
}

#[tokio::test]
async fn unreadable_data_directory_is_status_4() {
    let scratch = Scratch::new();
    let directory = scratch.join("hub");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o000)).expect("its mode");
    let data_dir = directory.to_string_lossy().into_owned();
    let arguments = ["up", "--data-dir", &data_dir, "--listen", "127.0.0.1:0"];
    let mut program = Program::start(&scratch, &arguments, account::ordinary());
    assert_eq!(program.wait().await, 4);
    assert_single_line(&program.errors());
    assert!(program.errors().contains(&data_dir), "{}", program.errors());
}

#[tokio::test]
async fn database_that_is_not_there_is_status_5() {
    let scratch = Scratch::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let url = format!("postgres://someone:hunter2@127.0.0.1:{port}/nothing");
    let (status, message) = refused(&scratch, &["--database-url", &url]).await;
    assert_eq!(status, 5);
    assert_single_line(&message);
    assert!(message.contains("Connection refused") && !message.contains("hunter2"), "{message}");
}

#[tokio::test]
async fn database_that_refuses_the_login_is_status_5() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let (user, rest) = database.url().split_once('@').expect("a URL with a password");
    let wrong = format!("{}:wrong@{rest}", user.rsplit_once(':').expect("a password").0);
    let (status, message) = refused(&scratch, &["--database-url", &wrong]).await;
    assert_eq!(status, 5);
    assert_single_line(&message);
}

#[tokio::test]
async fn database_of_a_newer_version_is_status_6_and_stays_as_it_is() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let mut connection = database.connection().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (99990101000000, 'from the future', true, '', 0)";
    connection.execute(newer).await.expect("a row");
    let (status, message) = refused(&scratch, &["--database-url", database.url()]).await;
    assert_eq!(status, 6);
    assert_single_line(&message);
    assert!(message.contains("99990101000000"), "{message}");
    let orgs: i64 = sqlx::query_scalar("SELECT count(*) FROM organization")
        .fetch_one(&mut connection)
        .await
        .expect("the table is there");
    assert_eq!(orgs, 0, "nothing was written");
}

#[tokio::test]
async fn second_hub_on_a_directory_is_status_7_and_leaves_the_first_alone() {
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &[], None).await;
    let (status, message) = refused(&scratch, &[]).await;
    assert_eq!(status, 7);
    assert_single_line(&message);
    assert!(message.contains(&format!("(process {})", hub.program.id())), "{message}");
    assert_eq!(hub.call("GET", "/orgs", None).await.0, 200);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn cluster_whose_version_is_not_installed_is_status_8() {
    let scratch = Scratch::new();
    let data = scratch.join("hub/postgres/data");
    std::fs::create_dir_all(&data).expect("a directory");
    std::fs::write(data.join("PG_VERSION"), "9\n").expect("a file");
    let (status, message) = refused(&scratch, &["--postgres-binaries", "found"]).await;
    assert_eq!(status, 8);
    assert_single_line(&message);
    assert!(message.contains("no PostgreSQL 9 is installed"), "{message}");
}

#[tokio::test]
async fn certificate_that_is_not_there_is_status_2() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let options = [
        "--database-url",
        database.url(),
        "--tls-cert-file",
        "/nowhere/cert.pem",
        "--tls-key-file",
        "/nowhere",
    ];
    let (status, message) = refused(&scratch, &options).await;
    assert_eq!(status, 2);
    assert_single_line(&message);
    assert!(message.contains("/nowhere/cert.pem"), "{message}");
}

#[tokio::test]
async fn help_and_version_are_no_failures() {
    let scratch = Scratch::new();
    for arguments in [["--version"], ["--help"]] {
        let mut program = Program::start(&scratch, &arguments, None);
        assert_eq!(program.wait().await, 0);
        assert!(program.output().starts_with(if arguments == ["--help"] { "Keeps" } else { "evenkeel 0" }));
    }
}
