//! Starts the hub and the agents of the demo.

use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_runtime::files::write_private_file;
use evenkeel_runtime::{ExitStatus, Failure};

use super::processes::{Processes, log_file};
use super::{DemoArguments, broken, fleet};

/// PostgreSQL may have to be fetched first.
const HUB_TIMEOUT: Duration = Duration::from_secs(600);

/// The demo's hub.
pub struct Hub {
    /// Address without `/v1`.
    pub url: String,
    /// Password of `root/root`.
    pub password: String,
}

/// Starts the hub and waits until it is ready; `environment` has settings of the story.
pub async fn start_hub(
    arguments: &DemoArguments,
    environment: &[(&str, &str)],
    directory: &Path,
    processes: &mut Processes,
) -> Result<Hub, Failure> {
    let data = directory.join("hub");
    let data_text = data.display().to_string();
    let common = [
        ("EVENKEEL_POSTGRES_BINARIES", arguments.postgres_binaries.as_str()),
        ("EVENKEEL_UPGRADE_MONITOR_SECS", "1"),
    ];
    processes.start(
        "hub",
        &["up", "--data-dir", &data_text, "--listen", &arguments.listen],
        &[&common, environment].concat(),
        &log_file(directory, "hub"),
    )?;
    let until = Instant::now() + HUB_TIMEOUT;
    while Instant::now() < until {
        if processes.find_ended().is_some() {
            return Err(Failure::new(
                ExitStatus::Failure,
                format!("the hub has ended:\n{}", tail(&log_file(directory, "hub"))),
            ));
        }
        if let (Ok(url), Ok(password)) =
            (std::fs::read_to_string(data.join("url")), std::fs::read_to_string(data.join("root-password")))
        {
            let hub = Hub { url: url.trim().to_owned(), password: password.trim().to_owned() };
            if is_ready(&hub.url).await {
                return Ok(hub);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Failure::new(
        ExitStatus::Failure,
        format!("the hub did not get ready:\n{}", tail(&log_file(directory, "hub"))),
    ))
}

async fn is_ready(url: &str) -> bool {
    let response = reqwest::Client::builder()
        .tls_certs_only([])
        .timeout(Duration::from_secs(5))
        .build()
        .map(|client| client.get(format!("{url}/readyz")).send());
    match response {
        Ok(response) => response.await.is_ok_and(|response| response.status().is_success()),
        Err(_) => false,
    }
}

/// Starts the agent of a node.
pub fn start_agent(
    (node, token): (&str, &str),
    url: &str,
    environment: &[(&str, &str)],
    directory: &Path,
    processes: &mut Processes,
) -> Result<(), Failure> {
    let data = directory.join(node);
    std::fs::create_dir_all(&data).map_err(|error| broken(&error))?;
    let token_file = data.join("token");
    write_private_file(&token_file, format!("{token}\n").as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
    let (data, token_file) = (data.display().to_string(), token_file.display().to_string());
    let arguments = [
        "agent",
        "--hub",
        url,
        "--org",
        fleet::ORG,
        "--node-id",
        node,
        "--token-file",
        &token_file,
        "--driver",
        "process",
        "--data-dir",
        &data,
        "--stop-services",
        "--api-listen",
        "off",
    ];
    processes.start(node, &arguments, environment, &log_file(directory, node))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
