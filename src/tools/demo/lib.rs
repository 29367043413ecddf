//! `evenkeel demo`: a hub and edge agents as real processes.
//!
//! The main story deploys a service to three agents by policy and rolls its next version through their HA
//! group while at least one instance responds at every time; the others show how slots move, how a pair fails
//! over, how a cluster is operated, how a bad version is rolled back, how an unhealthy one does not get
//! beyond its first upgrade domain, and how failed instances are recovered.

mod cluster;
pub mod fleet;
mod gateway;
mod observer;
mod processes;
mod rollout;
mod self_healing;
pub mod service;
mod stage;
mod start;
mod stories;
mod upgrade_domains;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use evenkeel_client::ClientError;
use evenkeel_runtime::files::{DataDirectory, write_private_file};
use evenkeel_runtime::process::block_on;
use evenkeel_runtime::{ExitStatus, Failure};

use fleet::Fleet;
use observer::Observer;
use processes::Processes;
use stage::{AgentStart, Stage};
use start::{Hub, start_agent, start_hub};
use tokio::signal::unix::{SignalKind, signal};
use view::View;

/// A story that the demo shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Story {
    /// A version rolls through an HA group while at least one instance responds at every time
    Rollout,
    /// The hub keeps three of five nodes running the service; one of them dies and its slot moves
    Replicated,
    /// A pair of which one node runs the service; it dies and the other takes over
    Failover,
    /// A user moves the instance of a pair; its node is restarted on purpose, and then dies
    Cluster,
    /// A version that does not work is rolled back by the hub
    Rollback,
    /// An update goes through upgrade domains, and stops before the second because the first became unhealthy
    UpgradeDomains,
    /// An instance hangs, one is stopped by hand and the node of one freezes: all are recovered, and none runs twice
    SelfHealing,
}

impl Story {
    /// Returns the usual number of agents.
    fn node_count(self) -> u16 {
        match self {
            Self::Rollout | Self::Rollback => 3,
            Self::Replicated => 5,
            Self::Failover | Self::Cluster => 2,
            Self::SelfHealing => 4,
            Self::UpgradeDomains => 6,
        }
    }

    /// Returns settings of hub and agents: the stories without a rollout detect a lost node within seconds instead of minutes.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rollout => &[],
            Self::Cluster => &[
                ("EVENKEEL_NODE_DOWN_AFTER_SECS", "8"),
                ("EVENKEEL_UPGRADE_GRACE_SECS", "1"),
                ("EVENKEEL_HEARTBEAT_INTERVAL", "1"),
            ],
            _ => &[
                ("EVENKEEL_NODE_DOWN_AFTER_SECS", "16"),
                ("EVENKEEL_UPGRADE_GRACE_SECS", "1"),
                ("EVENKEEL_HEARTBEAT_INTERVAL", "1"),
            ],
        }
    }
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Story to show
    #[arg(value_enum, default_value_t = Story::Rollout)]
    story: Story,
    /// End after the summary: status 0 only if an observer outside the hub saw what the story promises
    #[arg(long)]
    exit: bool,
    /// Number of edge agents [default: 3, replicated: 5, failover and cluster: 2, upgrade-domains: 6, self-healing: 4]
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=20))]
    nodes: Option<u16>,
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
    // All started processes end when this value is dropped, however the demo ends; its directory is removed
    // afterwards.
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
    let story = arguments.story;
    let node_count = arguments.nodes.unwrap_or(story.node_count());
    let nodes: Vec<String> = (1..=node_count).map(|number| format!("edge-{number}")).collect();
    let mut view = View::new(&nodes);
    let sockets = directory.join("sockets");
    std::fs::create_dir_all(&sockets).map_err(|error| broken(&error))?;

    view.print("starting the hub: exchange and agbot on an embedded PostgreSQL (the first run may fetch it)");
    let hub = start_hub(arguments, story.settings(), directory, processes).await?;
    view.print(&format!("the hub is ready at {}", hub.url));
    let root = fleet::root_client(&hub.url, &hub.password).map_err(|error| refused(&error))?;
    let fleet = Fleet::create(&root, arch()).await.map_err(|error| refused(&error))?;
    view.print(&format!("made organization {} with an administrator", fleet::ORG));
    let mut tokens = BTreeMap::new();
    for node in &nodes {
        let token = fleet.create_node(node).await.map_err(|error| refused(&error))?;
        start_agent((node, &token), &hub.url, story.settings(), directory, processes)?;
        tokens.insert(node.clone(), token);
    }
    view.print(&format!("made and started {} edge agents: {}", nodes.len(), nodes.join(", ")));

    let observer = Observer::start(sockets.clone(), nodes.clone());
    let mut stage = Stage {
        fleet: &fleet,
        observer: &observer,
        view: &mut view,
        nodes: &nodes,
        sockets: &sockets,
        processes,
        agents: AgentStart { url: &hub.url, environment: story.settings(), directory, tokens },
    };
    let verdict = match story {
        Story::Rollout => rollout::play(&mut stage).await?,
        Story::Replicated => stories::play_replicated(&mut stage).await?,
        Story::Failover => stories::play_failover(&mut stage).await?,
        Story::Cluster => cluster::play(&mut stage).await?,
        Story::Rollback => stories::play_rollback(&mut stage).await?,
        Story::UpgradeDomains => upgrade_domains::play(&mut stage).await?,
        Story::SelfHealing => self_healing::play(&mut stage).await?,
    };
    if !arguments.exit {
        invite(&hub, &fleet, directory)?;
        std::future::pending::<()>().await;
    }
    verdict.map_err(|text| Failure::new(ExitStatus::Failure, text))
}

/// Prints how to use the hub, which continues to run.
fn invite(hub: &Hub, fleet: &Fleet, directory: &Path) -> Result<(), Failure> {
    let (login, password) = fleet.login();
    let login_file = directory.join("login");
    write_private_file(&login_file, format!("{login}:{password}\n").as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
    println!("  console                    {}/console", hub.url);
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

fn broken(error: &std::io::Error) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}

fn refused(error: &ClientError) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}
