//! What the node tells the exchange about its services (agreement protocol 5.4, 5.6).

use evenkeel_client::model::{ContainerStatus, NodeStatus, RegisteredService, ServiceStatus};
use serde::{Deserialize, Serialize};

use super::{Agreement, State};

/// How one container or process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunState {
    /// It was never started.
    NotStarted,
    /// It was started a moment ago; whether it stays is not known yet.
    Starting,
    /// It runs.
    Running,
    /// It ended and is started again after a pause.
    Restarting,
    /// It ended and stays so.
    Exited,
}

impl RunState {
    /// The word in the status document.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::Starting => "created",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Exited => "exited",
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
    /// When it was started last, seconds since 1970; 0 when never.
    pub created_at: u64,
    /// How it is doing.
    pub state: RunState,
}

/// What a driver sees of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// All containers or processes of the deployment.
    pub containers: Vec<ContainerState>,
}

impl Observation {
    /// Tells whether everything that the deployment names runs.
    pub fn is_running(&self) -> bool {
        !self.containers.is_empty()
            && self.containers.iter().all(|container| container.state == RunState::Running)
    }
}

impl State {
    /// The status document: one entry per service that the driver knows something of.
    pub fn status(&self) -> NodeStatus {
        let services = self
            .agreements
            .values()
            .filter(|agreement| !agreement.is_stopped)
            .filter_map(|agreement| self.service_status(agreement))
            .collect();
        NodeStatus { services, ..NodeStatus::default() }
    }

    fn service_status(&self, agreement: &Agreement) -> Option<ServiceStatus> {
        let observation = self.observed.get(&agreement.id)?;
        let containers = observation.containers.iter().map(|container| ContainerStatus {
            name: format!("/{}-{}", agreement.id, container.name),
            image: container.image.clone(),
            created: i64::try_from(container.created_at).unwrap_or_default(),
            state: container.state.word().to_owned(),
        });
        Some(ServiceStatus {
            agreement_id: agreement.id.clone(),
            service_url: agreement.workload.url.clone(),
            orgid: agreement.workload.org.clone(),
            version: agreement.workload.version.clone(),
            arch: agreement.workload.arch.clone(),
            container_status: containers.collect(),
            operator_status: None,
            config_state: Some("active".to_owned()),
        })
    }

    /// The services used by final agreements, together with those that are suspended.
    pub fn used_services(&self) -> Vec<RegisteredService> {
        let mut services: Vec<_> = self
            .facts
            .registered
            .iter()
            .filter(|service| service.config_state == "suspended")
            .cloned()
            .collect();
        for agreement in self.live().filter(|agreement| agreement.finalized_at.is_some()) {
            let url = agreement.workload.qualified_url();
            if services.iter().any(|service| service.url == url) {
                continue;
            }
            services.push(RegisteredService {
                url,
                version: agreement.workload.version.clone(),
                config_state: "active".to_owned(),
                ..RegisteredService::default()
            });
        }
        services.sort_by(|one, two| (&one.url, &one.version).cmp(&(&two.url, &two.version)));
        services
    }
}
