//! The edge agent as a program: its options and its start.
//!
//! `evenkeel agent` and the smaller program `evenkeel-agent` run it in the same way.

mod guardian;
mod options;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use evenkeel_agent::guardian::{self as guardian_command, GuardianCommand};
use evenkeel_agent::installed::{self, Choice};
use evenkeel_agent::upgrade::{self, End, Restart};
use evenkeel_agent::{AgentError, AgentSettings, ApiListen, DriverKind, NodeIdentity};
use evenkeel_runtime::{ExitStatus, Failure, Lifecycle};

pub use guardian::{GuardianArguments, run_guardian};
pub use options::{ConfigFile, LogSettings, secret_of_setting, state_directory};

/// The keys that the agent knows in its configuration file.
pub const KEYS: [&[&str]; 1] = [LogSettings::KEYS];

/// The driver that runs services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Driver {
    /// As containers, through the Engine API of Docker or podman.
    Docker,
    /// As plain processes, each in its own process group.
    Process,
}

/// Options of `agent`.
#[derive(Debug, Args)]
pub struct AgentArguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Address of the hub, such as https://hub.example:8443; several, separated by commas or given one by one, are used in turn while
    /// one does not respond
    #[arg(long, env = "EVENKEEL_HUB", value_name = "URL", value_delimiter = ',', required = true)]
    hub: Vec<String>,
    /// File with the only certificate authorities to trust, PEM
    #[arg(long, env = "EVENKEEL_HUB_CA_FILE", value_name = "FILE")]
    hub_ca_file: Option<PathBuf>,
    /// Organization of the node; without it the agent waits to be registered through its local API
    #[arg(long, env = "EVENKEEL_ORG", requires_all = ["node_id", "token_file"])]
    org: Option<String>,
    /// Id of the node inside its organization
    #[arg(long, env = "EVENKEEL_NODE_ID", requires_all = ["org", "token_file"])]
    node_id: Option<String>,
    /// File with the node's token
    #[arg(long, env = "EVENKEEL_TOKEN_FILE", value_name = "FILE", requires_all = ["org", "node_id"])]
    token_file: Option<PathBuf>,
    /// Driver that runs the services
    #[arg(long, env = "EVENKEEL_DRIVER", value_enum, default_value_t = Driver::Docker)]
    driver: Driver,
    /// Address of the container engine [default: $DOCKER_HOST, else the usual socket]
    #[arg(
        long,
        env = "EVENKEEL_DOCKER_ENDPOINT",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    docker_endpoint: String,
    /// Directory for journal, keys, logs and packages [default: in the user's state directory, by node]
    #[arg(long, env = "EVENKEEL_DATA_DIR", value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// Listen address of the local API, or off; it has no authentication, so use a loopback address [default: 127.0.0.1:8510,
    /// where hzn expects it; a further agent on the machine runs without it]
    #[arg(long, env = "EVENKEEL_API_LISTEN", value_name = "HOST:PORT")]
    api_listen: Option<ApiListen>,
    /// Names of hosts under which the local API may be reached besides localhost and addresses, separated by commas
    #[arg(long, env = "EVENKEEL_API_HOSTS", value_name = "NAMES", value_delimiter = ',')]
    api_hosts: Vec<String>,
    /// Address of the agbot's own API, if it differs from that of the hub
    #[arg(long, env = "EVENKEEL_AGBOT_URL", value_name = "URL")]
    agbot_url: Option<String>,
    /// Seconds between polls of an exchange that does not park them
    #[arg(long, env = "EVENKEEL_POLL_INTERVAL", value_name = "SECONDS", default_value_t = 20)]
    poll_interval: u64,
    /// Longest time between heartbeats of an idle agent, in seconds: how long the exchange may park its poll
    #[arg(
        long,
        env = "EVENKEEL_HEARTBEAT_INTERVAL",
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=30)
    )]
    heartbeat_interval: u64,
    /// Seconds between checks of management policies
    #[arg(long, env = "EVENKEEL_MANAGEMENT_INTERVAL", value_name = "SECONDS", default_value_t = 60)]
    management_interval: u64,
    /// Directory with further signing keys to trust (*.pem)
    #[arg(long, env = "EVENKEEL_TRUSTED_KEYS", value_name = "DIRECTORY")]
    trusted_keys: Option<PathBuf>,
    /// Accept only services that are signed with a key of this machine; ignore keys that are stored with a service or pattern
    #[arg(long, env = "EVENKEEL_TRUSTED_KEYS_ONLY")]
    trusted_keys_only: bool,
    /// Directory with agent packages: one <manifest>.json each and one directory per version
    #[arg(long, env = "EVENKEEL_UPGRADE_SOURCE", value_name = "DIRECTORY")]
    upgrade_source: Option<PathBuf>,
    /// Seconds after which an upgraded agent must have reported to the hub, or the old one continues
    #[arg(long, env = "EVENKEEL_UPGRADE_TIMEOUT", value_name = "SECONDS", default_value_t = 60)]
    upgrade_timeout: u64,
    /// Seconds that a service has to exit before it is killed
    #[arg(long, env = "EVENKEEL_STOP_GRACE", value_name = "SECONDS", default_value_t = 5)]
    stop_grace: u64,
    /// Last lines of output that are reported to the hub when a service exits; 0 for none
    #[arg(long, env = "EVENKEEL_REPORTED_OUTPUT_LINES", value_name = "LINES", default_value_t = 5)]
    reported_output_lines: usize,
    /// Stop all services when the agent ends; otherwise they keep running and the next start adopts them
    #[arg(long, env = "EVENKEEL_STOP_SERVICES")]
    stop_services: bool,
    /// File with certificate authorities, PEM, that checks of services trust in addition to those of the system
    #[arg(long, env = "EVENKEEL_CHECKS_CA_FILE", value_name = "FILE")]
    checks_ca_file: Option<PathBuf>,
    /// Program that reboots the machine when a health policy requires it, for instance /sbin/reboot; without it that action fails
    #[arg(long, env = "EVENKEEL_REBOOT_PROGRAM", value_name = "FILE")]
    reboot_program: Option<PathBuf>,
    /// Address by which other nodes reach this one, for {nodeip} in checks [default: the one from which packets to the hub leave]
    #[arg(long, env = "EVENKEEL_NODE_ADDRESS", value_name = "IP")]
    node_address: Option<IpAddr>,
    #[command(flatten)]
    log: LogSettings,
}

/// Runs an agent until a signal ends it; `known` are the keys that its configuration file may have.
///
/// # Errors
/// With the status to end the process with.
pub fn run(arguments: AgentArguments, known: &[&[&str]]) -> Result<(), Failure> {
    let file = arguments.config.read(known)?;
    let log = arguments.log.clone().over(&file)?;
    log.start()?;
    let settings = arguments.settings()?;
    run_installed(&settings);
    let data_dir = settings.data_dir.clone();
    // One thread is enough for an edge node and keeps the agent small.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    let outcome = runtime.block_on(async {
        let lifecycle =
            Lifecycle::listen().map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
        evenkeel_agent::run(settings, lifecycle.shutdown()).await.map_err(|error| ended(&error))
    });
    runtime.shutdown_background();
    match outcome? {
        End::Shutdown => Ok(()),
        End::Replaced { program, replaces } => {
            if let Err(error) = installed::record_start(&data_dir) {
                return Err(Failure::new(ExitStatus::DataDirectory, error));
            }
            let error = upgrade::exec(&program, &own_arguments(), &replaces);
            Err(Failure::new(ExitStatus::Failure, format!("{}: {error}", program.display())))
        }
    }
}

/// Runs the agent that an upgrade installed over this program; returns if there is none that can be used.
fn run_installed(settings: &AgentSettings) {
    let is_installed_one = std::env::var_os(upgrade::REPLACES).is_some();
    if is_installed_one {
        return;
    }
    let own = &settings.software_version;
    let program = match installed::choose(&settings.data_dir, own) {
        Choice::Original => return,
        Choice::Fallback(why) => {
            tracing::error!(why, "the upgraded agent is not started; the original version {own} runs");
            return;
        }
        Choice::Installed(program) => program,
    };
    if let Err(error) = installed::record_start(&settings.data_dir) {
        tracing::error!(error, "the upgraded agent is not started; the original version {own} runs");
        return;
    }
    tracing::info!(program = %program.display(), "the upgraded agent is started");
    let error = upgrade::exec(&program, &own_arguments(), own);
    tracing::error!(program = %program.display(), %error, "the upgraded agent cannot be started; version {own} runs");
}

/// Returns the arguments to start this program, or another one that replaces it. Possibly only one of the two needs the
/// word `agent`, but both accept it.
fn own_arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_none_or(|first| first != "agent") {
        arguments.insert(0, "agent".into());
    }
    arguments
}

/// Prints the version that an agent of this program reports.
pub fn print_version() {
    println!("{}", upgrade::software_version());
}

impl AgentArguments {
    fn settings(&self) -> Result<AgentSettings, Failure> {
        let identity = match (&self.org, &self.node_id, &self.token_file) {
            (Some(org), Some(id), Some(file)) => {
                let token = secret_of_setting(file)?.expose().clone();
                Some(NodeIdentity { org: org.clone(), id: id.clone(), token })
            }
            _ => None,
        };
        let data_dir = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => {
                let node = self.node_id.as_deref().unwrap_or("agent").replace(['/', '\\'], "-");
                state_directory()?.join("agents").join(node)
            }
        };
        Ok(AgentSettings {
            identity,
            driver: match self.driver {
                Driver::Docker => DriverKind::Docker,
                Driver::Process => DriverKind::Process,
            },
            docker_endpoint: self.docker_endpoint.clone(),
            api_listen: self.api_listen.unwrap_or_default(),
            api_hosts: self.api_hosts.clone(),
            agbot_url: self.agbot_url.clone(),
            ca_file: self.hub_ca_file.clone(),
            poll_interval: Duration::from_secs(self.poll_interval.max(1)),
            park: Duration::from_secs(self.heartbeat_interval),
            management_interval: Duration::from_secs(self.management_interval.max(1)),
            trusted_keys: self.trusted_keys.clone(),
            trusted_keys_only: self.trusted_keys_only,
            upgrade_source: self.upgrade_source.clone(),
            stops_services: self.stop_services,
            restart: Some(Restart {
                arguments: own_arguments(),
                timeout: Duration::from_secs(self.upgrade_timeout.max(1)),
            }),
            stop_grace: Duration::from_secs(self.stop_grace),
            reported_output_lines: self.reported_output_lines.min(50),
            checks_ca_file: self.checks_ca_file.clone(),
            reboot_program: self.reboot_program.clone(),
            node_address: self.node_address,
            guardian: Some(GuardianCommand {
                // Whatever became of its file.
                program: "/proc/self/exe".into(),
                arguments: vec![guardian_command::COMMAND.into(), "--of-agent".into()],
            }),
            further_hubs: self.hub.iter().skip(1).cloned().collect(),
            ..AgentSettings::new(self.hub.first().cloned().unwrap_or_default(), data_dir)
        })
    }
}

fn ended(error: &AgentError) -> Failure {
    let status = match error {
        AgentError::Setting(_) => ExitStatus::Usage,
        AgentError::DataDir(_) | AgentError::Journal { .. } | AgentError::Key { .. } => {
            ExitStatus::DataDirectory
        }
        AgentError::Busy(_) => ExitStatus::DataDirectoryLocked,
        AgentError::Listen { .. } => ExitStatus::Address,
        AgentError::Driver(_) => ExitStatus::Failure,
    };
    Failure::from_error(status, error)
}
