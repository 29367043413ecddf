//! A hub starts anywhere: as root and as an ordinary user, on found and on fetched programs, on a named database.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use evenkeel_embedded_postgres::Account;

use crate::support::process::client;
use crate::support::{Hub, Scratch, TestDatabase, account};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("the file is there").mode() & 0o777
}

async fn get(hub: &Hub, path: &str) -> String {
    hub.get(path).await.expect("a response").1
}

#[tokio::test]
async fn hub_is_ready_and_reports_its_health_and_version() {
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &[], None).await;
    let report: serde_json::Value = serde_json::from_str(&get(&hub, "/readyz").await).expect("JSON");
    let expected =
        serde_json::json!({ "status": "ready", "dependencies": { "agbot": "ok", "database": "ok" } });
    assert_eq!(report, expected);
    assert_eq!(get(&hub, "/livez").await, r#"{"status":"alive"}"#);
    assert!(get(&hub, "/version").await.contains(env!("CARGO_PKG_VERSION")));
    let metrics = get(&hub, "/metrics").await;
    assert!(metrics.contains("http_requests_total{class=\"2xx\"}"), "{metrics}");
    assert_eq!(get(&hub, "/v1/admin/version").await, "2.154.0\n");
    assert_eq!(hub.get("/elsewhere").await.map(|(status, _)| status), Some(404));
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn private_authority_secures_the_listener_and_stays_the_same() {
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &["--tls", "auto"], None).await;
    assert!(hub.url.starts_with("https://"), "{}", hub.url);
    assert_eq!(mode(&hub.directory().join("tls/ca-key.pem")), 0o600);
    assert_eq!(mode(&hub.directory().join("tls/server-key.pem")), 0o600);
    let response = hub.client.get(format!("{}/livez", hub.url)).send().await.expect("a response");
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    assert!(
        client().get(format!("{}/livez", hub.url)).send().await.is_err(),
        "another client does not trust it"
    );
    let authority = std::fs::read(hub.directory().join("tls/ca.pem")).expect("the authority");
    assert_eq!(hub.stop().await, 0);
    let hub = Hub::start_as(&scratch, &["--tls", "auto"], None).await;
    assert_eq!(std::fs::read(hub.directory().join("tls/ca.pem")).expect("the authority"), authority);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn secrets_are_private_files_and_never_logged() {
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &["--log", "debug"], None).await;
    let password = hub.root_password();
    let server_password =
        std::fs::read_to_string(hub.directory().join("postgres/password")).expect("a password file");
    assert_eq!(mode(&hub.directory().join("root-password")), 0o600);
    assert_eq!(mode(&hub.directory().join("postgres/password")), 0o600);
    let (status, _) = hub.call("GET", "/orgs", None).await;
    assert_eq!(status, 200, "the password in the file is root's");
    let written = hub.program.errors() + &hub.program.output();
    assert!(!written.is_empty() && !written.contains(&password) && !written.contains(&server_password));
    for process in std::fs::read_dir("/proc").expect("processes").flatten() {
        let command_line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line);
        assert!(
            !command_line.contains(&password) && !command_line.contains(&server_password),
            "{command_line}"
        );
    }
}

#[tokio::test]
async fn password_file_decides_the_password_of_root() {
    let scratch = Scratch::new();
    let file = scratch.write("password", "chosen-by-me\n");
    let hub = Hub::start_as(&scratch, &["--root-password-file", &file.to_string_lossy()], None).await;
    let login = |password: &'static str| {
        client().get(format!("{}/v1/orgs", hub.url)).basic_auth("root/root", Some(password)).send()
    };
    assert_eq!(login("chosen-by-me").await.expect("a response").status(), 200);
    assert_eq!(login("another").await.expect("a response").status(), 401);
    assert!(!hub.directory().join("root-password").exists());
}

#[tokio::test]
async fn ordinary_user_runs_a_hub() {
    let scratch = Scratch::new();
    account::give(scratch.path());
    let hub = Hub::start_as(&scratch, &[], account::ordinary()).await;
    let owner =
        account::ordinary().map_or_else(|| nix::unistd::geteuid().as_raw(), |account: Account| account.uid);
    assert_ne!(owner, 0);
    assert_eq!(std::fs::metadata(hub.directory().join("postgres/data")).expect("a cluster").uid(), owner);
    assert_eq!(hub.call("GET", "/orgs", None).await.0, 200);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn root_keeps_the_database_in_the_data_directory_below_a_private_one() {
    if account::ordinary().is_none() {
        return; // Only root meets this.
    }
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o700)).expect("its own mode");
    let hub = Hub::start_as(&scratch, &[], None).await;
    assert!(hub.directory().join("postgres/data/PG_VERSION").exists());
    assert!(!hub.directory().join("postgres-folder").exists());
    assert_eq!(mode(hub.directory()), 0o710, "the group of the database passes, and nobody else");
    let org = serde_json::json!({ "label": "x", "description": "y" });
    assert_eq!(hub.call("POST", "/orgs/kept", Some(org)).await.0, 201);
    assert_eq!(hub.stop().await, 0);
    let hub = Hub::start_as(&scratch, &[], None).await;
    assert_eq!(hub.call("GET", "/orgs/kept", None).await.0, 200);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn fetched_programs_serve_as_well_as_found_ones() {
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &["--postgres-binaries", "fetched"], None).await;
    let version =
        std::fs::read_to_string(hub.directory().join("postgres/data/PG_VERSION")).expect("a version");
    assert_eq!(version.trim(), "18");
    assert_eq!(hub.call("GET", "/orgs", None).await.0, 200);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn several_exchanges_share_a_named_database() {
    let database = TestDatabase::new().await;
    let (one, two) = (Scratch::new(), Scratch::new());
    let url = one.write("database-url", database.url());
    let password = one.write("password", "shared\n");
    let (url, password) = (url.to_string_lossy(), password.to_string_lossy());
    let options = ["--database-url-file", &*url, "--root-password-file", &*password];
    let (first, second) =
        (Hub::start_as(&one, &options, None).await, Hub::start_as(&two, &options, None).await);
    assert!(!first.directory().join("postgres").exists(), "no server of its own is started");
    let as_root = |hub: &Hub, method: reqwest::Method, path: &str| {
        client().request(method, format!("{}/v1{path}", hub.url)).basic_auth("root/root", Some("shared"))
    };
    let body = serde_json::json!({ "label": "x", "description": "y" });
    let made =
        as_root(&first, reqwest::Method::POST, "/orgs/common").json(&body).send().await.expect("a response");
    assert_eq!(made.status(), 201);
    let seen = as_root(&second, reqwest::Method::GET, "/orgs/common").send().await.expect("a response");
    assert_eq!(seen.status(), 200);
    // Both run the same agbot: neither shuts the other out.
    for file in ["agbot-token", "agbot-key.pem"] {
        let [one, two] =
            [&first, &second].map(|hub| std::fs::read(hub.directory().join(file)).expect("a secret file"));
        assert_eq!(one, two, "{file}");
    }
    for hub in [&first, &second] {
        assert!(!hub.program.errors().contains(" 401"), "{}", hub.program.errors());
    }
    assert_eq!((first.stop().await, second.stop().await), (0, 0));
}

#[tokio::test]
async fn settings_come_from_a_file_and_options_win() {
    let database = TestDatabase::new().await;
    let scratch = Scratch::new();
    let password = scratch.write("password", "from-file\n");
    let file = format!(
        "listen = \"256.256.256.256:1\"\nlog-format = \"json\"\nroot-password-file = \"{}\"\ndatabase-url = \"{}\"\n",
        password.display(),
        database.url()
    );
    let file = scratch.write("settings.toml", &file);
    // Hub::start gives --listen, which wins over the file's useless address.
    let hub = Hub::start_as(&scratch, &["--config", &file.to_string_lossy()], None).await;
    let response =
        client().get(format!("{}/v1/orgs", hub.url)).basic_auth("root/root", Some("from-file")).send().await;
    assert_eq!(response.expect("a response").status(), 200);
    let line = hub.program.errors().lines().next().map(str::to_owned).expect("a log line");
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "not JSON: {line}");
}
