//! Settings of an agent.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use evenkeel_client::{AddressRule, HttpSettings, ProbeClient, Transport};

use crate::{
    AgentError,
    guardian::GuardianCommand,
    upgrade::{Restart, software_version},
};

/// The driver that runs services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// As containers, through the Engine API.
    Docker,
    /// As plain processes.
    Process,
}

/// The agent's identity at the hub.
#[derive(Clone)]
pub struct NodeIdentity {
    /// Organization.
    pub org: String,
    /// Node id inside the organization.
    pub id: String,
    /// Secret.
    pub token: String,
}

impl fmt::Debug for NodeIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeIdentity({}/{})", self.org, self.id)
    }
}

/// The listen address of the local API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApiListen {
    /// No listener.
    Off,
    /// The default address that every client expects, [`USUAL_API`], unless another agent on the machine uses it.
    #[default]
    Usual,
    /// This address.
    At(SocketAddr),
}

/// Default address of the local API.
pub const USUAL_API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8510);

impl std::str::FromStr for ApiListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            address => address.parse().map(Self::At).map_err(|_| {
                format!("{address:?} is neither an address like 127.0.0.1:8511 nor the word off")
            }),
        }
    }
}

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Address of the hub, with or without the final `/v1`.
    pub hub: String,
    /// Further addresses of the hub, for as long as one does not respond.
    pub further_hubs: Vec<String>,
    /// Identity; without it the agent waits for a registration through its local API.
    pub identity: Option<NodeIdentity>,
    /// The driver that runs services.
    pub driver: DriverKind,
    /// Address of the container engine, empty for the default one.
    pub docker_endpoint: String,
    /// Directory for the journal, keys, logs and packages; used by one agent at a time.
    pub data_dir: PathBuf,
    /// The listen address of the local API.
    pub api_listen: ApiListen,
    /// Names of hosts under which the local API may be reached besides those of this machine.
    pub api_hosts: Vec<String>,
    /// Address of the agbot's own API, if it differs from that of the hub.
    pub agbot_url: Option<String>,
    /// PEM file of the certificate authority to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Pause between polls of an exchange that does not park them.
    pub poll_interval: Duration,
    /// Longest time a poll is parked.
    pub park: Duration,
    /// Interval between reads of the management policies, and between requests for a group's permission.
    pub management_interval: Duration,
    /// Directory with further trusted signing keys (`*.pem`).
    pub trusted_keys: Option<PathBuf>,
    /// True if only the keys of this machine are trusted, and not those that are stored with a service or pattern in
    /// the exchange.
    pub trusted_keys_only: bool,
    /// Directory with agent packages: `<manifest>.json` and one directory per version.
    pub upgrade_source: Option<PathBuf>,
    /// Version that the agent reports.
    pub software_version: String,
    /// True if services are stopped when the agent ends; otherwise they continue and are adopted later.
    pub stops_services: bool,
    /// Time a process has to end after the stop signal.
    pub stop_grace: Duration,
    /// The command line of the program; without it the agent cannot replace its program.
    pub restart: Option<Restart>,
    /// Longest wait for all services to end when the node is unregistered.
    pub unregister_timeout: Duration,
    /// Last lines of output that are reported to the hub when a service exits; 0 for none.
    pub reported_output_lines: usize,
    /// Authorities that the checks of services trust in addition to those of the system, PEM.
    pub checks_ca_file: Option<PathBuf>,
    /// The program that reboots the machine; without it, reboots fail.
    pub reboot_program: Option<PathBuf>,
    /// The address by which other nodes reach this one; by default the source address of packets to the hub.
    pub node_address: Option<IpAddr>,
    /// Program and arguments that start a guardian; without them no task has a lease unless a guardian is run externally.
    pub guardian: Option<GuardianCommand>,
    /// The transport to use instead of HTTP, for an agent inside the hub's process.
    pub transport: Option<Transport>,
}

impl AgentSettings {
    /// Returns the default settings.
    pub fn new(hub: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            hub: hub.into(),
            further_hubs: Vec::new(),
            identity: None,
            driver: DriverKind::Process,
            docker_endpoint: String::new(),
            data_dir: data_dir.into(),
            api_listen: ApiListen::Off,
            api_hosts: Vec::new(),
            agbot_url: None,
            ca_file: None,
            poll_interval: Duration::from_secs(20),
            park: Duration::from_secs(30),
            management_interval: Duration::from_secs(60),
            trusted_keys: None,
            trusted_keys_only: false,
            upgrade_source: None,
            software_version: software_version(),
            stops_services: false,
            stop_grace: Duration::from_secs(10),
            restart: None,
            unregister_timeout: Duration::from_secs(120),
            reported_output_lines: 5,
            checks_ca_file: None,
            reboot_program: None,
            node_address: None,
            guardian: None,
            transport: None,
        }
    }

    /// Returns the directories with trusted signing keys.
    pub fn key_directories(&self) -> Vec<PathBuf> {
        [Some(self.data_dir.join("userkeys")), self.trusted_keys.clone()].into_iter().flatten().collect()
    }

    /// Returns the address of the hub without `/v1`.
    pub fn hub_root(&self) -> &str {
        root(&self.hub)
    }

    /// Returns the addresses of the hub, the preferred one first.
    pub fn hubs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.hub).chain(&self.further_hubs).map(String::as_str)
    }

    /// Creates the client for checks of services and nodes.
    ///
    /// # Errors
    /// When the file of certificate authorities cannot be used.
    pub(crate) fn probe_client(&self) -> Result<ProbeClient, String> {
        ProbeClient::new(AddressRule::Any, self.checks_ca_file.as_deref())
    }

    /// Creates the transport to the hub.
    ///
    /// # Errors
    /// [`AgentError::Setting`] for an unusable address or CA file.
    pub fn hub_transport(&self) -> Result<Transport, AgentError> {
        match &self.transport {
            Some(transport) => Ok(transport.clone()),
            None => self.http(self.hub_root(), self.further_hubs.iter().map(|hub| root(hub).to_owned())),
        }
    }

    /// Creates the transport to the agbot's own API.
    ///
    /// # Errors
    /// [`AgentError::Setting`] for an unusable address or CA file.
    pub fn agbot_transport(&self) -> Result<Transport, AgentError> {
        match &self.agbot_url {
            Some(url) => self.http(url, std::iter::empty()),
            None => self.hub_transport(),
        }
    }

    fn http(&self, url: &str, further: impl Iterator<Item = String>) -> Result<Transport, AgentError> {
        let ca_pem = match &self.ca_file {
            Some(path) => Some(
                std::fs::read(path)
                    .map_err(|error| AgentError::Setting(format!("{}: {error}", path.display())))?,
            ),
            None => None,
        };
        let settings = HttpSettings { ca_pem, further_urls: further.collect(), ..HttpSettings::new(url) };
        Transport::http(settings).map_err(|error| AgentError::Setting(error.to_string()))
    }
}

/// Returns an address of a hub without `/v1`.
fn root(hub: &str) -> &str {
    let trimmed = hub.trim_end_matches('/');
    trimmed.strip_suffix("/v1").unwrap_or(trimmed)
}
