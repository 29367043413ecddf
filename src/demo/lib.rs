//! `evenkeel demo`: a hub and three edge agents as real processes; a service reaches all of them by policy, and its next version rolls
//! through their HA group while at least one copy answers at every instant.

pub mod fleet;
mod observer;
mod processes;
pub mod service;
mod view;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_client::ClientError;
use evenkeel_runtime::files::{DataDirectory, write_private_file};
use evenkeel_runtime::process::block_on;
use evenkeel_runtime::{ExitStatus, Failure};

use fleet::Fleet;
use observer::{Observer, Seen};
use processes::{Processes, log_file};
use tokio::signal::unix::{SignalKind, signal};
use view::View;

/// PostgreSQL may have to be fetched first.
const HUB_TIMEOUT: Duration = Duration::from_secs(600);
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(120);
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between two questions to the agbot how the nodes stand.
const REASONS_PERIOD: Duration = Duration::from_millis(250);

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// End after the summary: status 0 only if a copy answered at every instant of the rollout
    #[arg(long)]
    exit: bool,
    /// Number of edge agents
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=20))]
    nodes: u16,
    /// Directory for everything the demo makes [default: a new one, removed at the end]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Address of the hub, HOST:PORT; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Programs of the embedded PostgreSQL: found, fetched, or auto
    #[arg(long, env = "EVENKEEL_POSTGRES_BINARIES", default_value = "auto")]
    postgres_binaries: String,
}

/// Runs the demo.
pub fn run(arguments: DemoArguments) -> Result<(), Failure> {
    block_on(run_demo(arguments))
}

async fn run_demo(arguments: DemoArguments) -> Result<(), Failure> {
    let temporary = match &arguments.data_dir {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new().prefix("evenkeel-demo-").tempdir().map_err(|error| broken(&error))?,
        ),
    };
    let directory = match (&arguments.data_dir, &temporary) {
        (Some(directory), _) => directory.clone(),
        (None, Some(directory)) => directory.path().to_owned(),
        (None, None) => PathBuf::from("."),
    };
    let _held =
        DataDirectory::open(&directory).map_err(|error| Failure::from_error(error.exit_status(), &error))?;
    // What was started ends with this value, however the demo ends; its directory goes after that.
    let mut processes = Processes::default();
    let outcome = tokio::select! {
        outcome = play(&arguments, &directory, &mut processes) => outcome,
        stopped = stop_signal() => stopped.map(|()| println!("\nstopping the agents and the hub")),
    };
    processes.stop();
    // The instances of the service end when their directory is gone.
    let _ = std::fs::remove_dir_all(directory.join("sockets"));
    outcome
}

/// Returns when the demo shall end: Ctrl-C, SIGTERM, or the terminal was closed.
async fn stop_signal() -> Result<(), Failure> {
    let on = |kind: SignalKind| signal(kind).map_err(|error| broken(&error));
    let (mut interrupt, mut terminate, mut hang_up) =
        (on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}

async fn play(arguments: &DemoArguments, directory: &Path, processes: &mut Processes) -> Result<(), Failure> {
    let nodes: Vec<String> = (1..=arguments.nodes).map(|number| format!("edge-{number}")).collect();
    let mut view = View::new(&nodes);
    let sockets = directory.join("sockets");
    std::fs::create_dir_all(&sockets).map_err(|error| broken(&error))?;

    view.print("starting the hub: exchange and agbot on an embedded PostgreSQL (the first run may fetch it)");
    let hub = start_hub(arguments, directory, processes).await?;
    view.print(&format!("the hub answers at {}", hub.url));
    let root = fleet::root_client(&hub.url, &hub.password).map_err(|error| refused(&error))?;
    let fleet = Fleet::create(&root, arch()).await.map_err(|error| refused(&error))?;
    view.print(&format!("made organization {} with an administrator", fleet::ORG));
    for node in &nodes {
        let token = fleet.create_node(node).await.map_err(|error| refused(&error))?;
        start_agent(node, &token, &hub.url, directory, processes)?;
    }
    view.print(&format!("made and started {} edge agents: {}", nodes.len(), nodes.join(", ")));
    fleet.create_group(&nodes).await.map_err(|error| refused(&error))?;
    view.print(&format!("formed HA group {} of all of them", fleet::GROUP));

    let observer = Observer::start(sockets.clone(), nodes.clone());
    fleet.publish_service("1.0.0", &sockets).await.map_err(|error| refused(&error))?;
    let deployed_at = Instant::now();
    fleet.create_policy("1.0.0").await.map_err(|error| refused(&error))?;
    view.print("published service 1.0.0 and a deployment policy for the members of the group");
    let mut stage = Stage { fleet: &fleet, observer: &observer, view: &mut view, nodes: &nodes };
    stage.await_version("1.0.0", DEPLOY_TIMEOUT, processes).await?;
    let deploy_time = deployed_at.elapsed();

    stage.view.print("publishing 2.0.0; the agbot rolls it through the group, one member at a time");
    observer.begin_counting();
    fleet.publish_service("2.0.0", &sockets).await.map_err(|error| refused(&error))?;
    let rolled_at = Instant::now();
    fleet.change_policy("2.0.0").await.map_err(|error| refused(&error))?;
    stage.await_version("2.0.0", ROLLOUT_TIMEOUT, processes).await?;
    let roll_time = rolled_at.elapsed();
    let seen = observer.seen();
    summary(deploy_time, roll_time, &seen);
    if !arguments.exit {
        invite(&hub, &fleet, directory)?;
        std::future::pending::<()>().await;
    }
    match seen.lowest {
        Some(lowest) if lowest >= 1 => Ok(()),
        _ => Err(Failure::new(
            ExitStatus::Failure,
            "there was an instant at which no copy of the service answered",
        )),
    }
}

/// The URL of the demo's hub, and its root password.
struct Hub {
    url: String,
    password: String,
}

async fn start_hub(
    arguments: &DemoArguments,
    directory: &Path,
    processes: &mut Processes,
) -> Result<Hub, Failure> {
    let data = directory.join("hub");
    let data_text = data.display().to_string();
    processes.start(
        "hub",
        &["up", "--data-dir", &data_text, "--listen", &arguments.listen],
        &[
            ("EVENKEEL_POSTGRES_BINARIES", &arguments.postgres_binaries),
            ("EVENKEEL_UPGRADE_MONITOR_SECS", "1"),
        ],
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

fn start_agent(
    node: &str,
    token: &str,
    url: &str,
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
    processes.start(node, &arguments, &[], &log_file(directory, node))
}

/// The observed state while a version spreads.
struct Stage<'a> {
    fleet: &'a Fleet,
    observer: &'a Observer,
    view: &'a mut View,
    nodes: &'a [String],
}

impl Stage<'_> {
    /// Waits until every node responds with the version.
    async fn await_version(
        &mut self,
        version: &str,
        limit: Duration,
        processes: &mut Processes,
    ) -> Result<(), Failure> {
        let fail = |text: String| Err(Failure::new(ExitStatus::Failure, text));
        let until = Instant::now() + limit;
        let mut asked_at: Option<Instant> = None;
        loop {
            let seen = self.observer.seen();
            self.view.show(&seen.versions);
            if self.nodes.iter().all(|node| seen.versions.get(node).is_some_and(|found| found == version)) {
                return Ok(());
            }
            if let Some(name) = processes.find_ended() {
                return fail(format!("the process {name} has ended unexpectedly"));
            }
            if Instant::now() > until {
                return fail(format!("not every node runs {version} after {} s", limit.as_secs()));
            }
            if asked_at.is_none_or(|at| at.elapsed() >= REASONS_PERIOD) {
                asked_at = Some(Instant::now());
                // A busy agbot is queried again; the shown state stays meanwhile.
                if let Ok(reasons) = self.fleet.reasons().await {
                    self.view.show_reasons(&reasons);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn summary(deploy_time: Duration, roll_time: Duration, seen: &Seen) {
    println!();
    println!("Summary");
    println!("  time to first deployment   {:.1} s", deploy_time.as_secs_f64());
    println!("  time to roll 2.0.0         {:.1} s", roll_time.as_secs_f64());
    println!(
        "  lowest number of copies    {} (seen by an observer outside the hub, {} observations, one every {} ms)",
        seen.lowest.unwrap_or_default(),
        seen.observation_count,
        POLL_INTERVAL.as_millis()
    );
}

/// Prints how to use the hub, which continues to run.
fn invite(hub: &Hub, fleet: &Fleet, directory: &Path) -> Result<(), Failure> {
    let (login, password) = fleet.login();
    let login_file = directory.join("login");
    write_private_file(&login_file, format!("{login}:{password}\n").as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
    println!("  API and its document       {0}/v1 and {0}/docs", hub.url);
    println!("  log in                     user and password are in {}", login_file.display());
    println!(
        "  try                        curl -u \"$(cat {})\" {}/v1/orgs/{}/hagroups",
        login_file.display(),
        hub.url,
        fleet::ORG
    );
    println!("The hub stays up until Ctrl-C.");
    Ok(())
}

/// Architecture of this machine, as nodes and services name it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}

fn refused(error: &ClientError) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}
