//! The node's reports to the exchange about its services (agreement protocol 5.4, 5.6).

use evenkeel_wire::exchange::node::RegisteredService;
use evenkeel_wire::exchange::node_part::{ContainerStatus, PutNodeStatus, RunningService};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{State, WorkloadName};

/// The state of one container or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunState {
    /// It was never started.
    NotStarted,
    /// It was started recently; its stability is not known yet.
    Starting,
    /// It runs.
    Running,
    /// It exists and is suspended.
    Paused,
    /// It ended and is started again after a pause.
    Restarting,
    /// It ended and stays so.
    Exited,
}

impl RunState {
    /// Returns the spelling in the status document.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::Starting => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Restarting => "restarting",
            Self::Exited => "exited",
        }
    }
}

/// Number of exits reported with their times.
pub const MOST_RECENT: usize = 3;

/// The exits of a container or process since its service was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Failures {
    /// Exits so far.
    pub exits: u32,
    /// When it ended, seconds since 1970; the latest [`MOST_RECENT`] exits, newest last.
    pub recent: Vec<u64>,
    /// Exit code of the last one; `None` when a signal ended it, or when it is not known.
    pub code: Option<i64>,
    /// Signal that ended it last.
    pub signal: Option<i32>,
    /// Last lines of its output.
    pub output: Vec<String>,
    /// Error of the driver, when it cannot be started.
    pub error: Option<String>,
}

impl Failures {
    /// Returns whether there is no failure.
    pub fn is_empty(&self) -> bool {
        self.exits == 0 && self.error.is_none()
    }

    /// Counts an exit at `at`, seconds since 1970; the details of the previous one are replaced.
    pub fn add_exit(&mut self, at: u64, code: Option<i64>, signal: Option<i32>, output: Vec<String>) {
        self.exits = self.exits.saturating_add(1);
        self.recent.push(at);
        let surplus = self.recent.len().saturating_sub(MOST_RECENT);
        self.recent.drain(..surplus);
        *self = Self { code, signal, output, error: None, ..std::mem::take(self) };
    }

    /// Returns true if the last exit followed a terminating signal that was sent to the program.
    pub fn is_stopped_from_outside(&self) -> bool {
        // The other signals are caused by errors of the program itself.
        matches!(self.signal, Some(signal) if ![4, 5, 6, 7, 8, 11, 13, 14, 31].contains(&signal))
    }

    /// Returns the last exit in words.
    pub fn last_exit(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "exit code unknown".to_owned(),
        }
    }
}

/// One container or process of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerState {
    /// Name in the deployment.
    pub name: String,
    /// Image or program.
    pub image: String,
    /// Time of the last start, seconds since 1970; 0 for never.
    pub created_at: u64,
    /// Its state.
    pub state: RunState,
    /// Its exits since its service was started.
    pub failures: Failures,
}

/// A driver's observation of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// All containers or processes of the deployment.
    pub containers: Vec<ContainerState>,
}

impl Observation {
    /// Returns whether every container or process of the deployment runs.
    pub fn is_running(&self) -> bool {
        !self.containers.is_empty()
            && self.containers.iter().all(|container| container.state == RunState::Running)
    }
}

impl State {
    /// Builds the status document: one entry per service that the driver has observed.
    pub fn status(&self) -> PutNodeStatus {
        let services =
            self.agreements.values().filter(|agreement| !agreement.is_stopped).filter_map(|agreement| {
                self.service_status(&agreement.id, &agreement.id, &agreement.workload)
            });
        // Only the service of an agreement carries the agreement's id; dependencies have none.
        let needed = self.instances.iter();
        let needed =
            needed.filter_map(|(key, instance)| self.service_status(key, "", &instance.dependency.service));
        let failures = self.failure_documents();
        PutNodeStatus { services: services.chain(needed).collect(), failures, ..PutNodeStatus::default() }
    }

    fn service_status(&self, key: &str, agreement: &str, service: &WorkloadName) -> Option<RunningService> {
        let observation = self.observed.get(key)?;
        let containers = observation.containers.iter().map(|container| ContainerStatus {
            name: Some(format!("/{key}-{}", container.name)),
            image: Some(container.image.clone()),
            created: i64::try_from(container.created_at).unwrap_or_default(),
            state: Some(container.state.word().to_owned()),
        });
        Some(RunningService {
            agreement_id: Some(agreement.to_owned()),
            service_url: Some(service.url.clone()),
            orgid: Some(service.org.clone()),
            version: Some(service.version.clone()),
            arch: Some(service.arch.clone()),
            container_status: Some(containers.collect()),
            operator_status: Value::Null,
            config_state: Some("active".to_owned()),
        })
    }

    /// Returns the services used by final agreements, and the suspended ones.
    pub fn used_services(&self) -> Vec<RegisteredService> {
        let mut services: Vec<_> = self
            .facts
            .registered
            .iter()
            .filter(|service| service.config_state == "suspended")
            .cloned()
            .collect();
        let live = self.live().filter(|agreement| agreement.finalized_at.is_some());
        let used = live.flat_map(|agreement| {
            let needed = agreement.dependencies.iter().map(|dependency| &dependency.service);
            [&agreement.workload].into_iter().chain(needed)
        });
        for used in used {
            let url = used.qualified_url();
            if services.iter().any(|service| service.url == url) {
                continue;
            }
            services.push(RegisteredService {
                url,
                version: used.version.clone(),
                config_state: "active".to_owned(),
                policy: Some(String::new()),
                ..RegisteredService::default()
            });
        }
        services.sort_by(|one, two| (&one.url, &one.version).cmp(&(&two.url, &two.version)));
        services
    }
}
