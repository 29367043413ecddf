//! Runs services as containers through the Engine API (Docker or podman).
//!
//! The engine keeps containers running; this driver creates them, finds them again by label, and removes them. Labels and
//! names are those of the existing agents (agreement protocol 5.7), plus one that distinguishes several agents on one
//! machine.

mod body;
mod containers;
mod exits;
mod output;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use bollard::{
    Docker,
    auth::DockerCredentials,
    errors::Error,
    models::{
        ContainerSummary, ContainerSummaryStateEnum, ContainerUpdateBody, NetworkConnectRequest,
        NetworkCreateRequest, RestartPolicyNameEnum,
    },
    query_parameters::{
        CreateContainerOptionsBuilder, CreateImageOptionsBuilder, InspectContainerOptions,
        ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
        StartContainerOptions, StopContainerOptionsBuilder,
    },
};
use futures_util::StreamExt;
use tokio::sync::OnceCell;

pub(crate) use self::containers::Containers;
use self::exits::Exits;
use super::{Driver, DriverError, LogPart, LogStart, RegistryLogin, Role, ServiceSpec};
use crate::{
    deployment::Container,
    step::{ContainerState, Failures, Observation, RunState},
};

/// Label with the agreement id.
const AGREEMENT_LABEL: &str = "openhorizon.anax.agreement_id";
/// Label with the container's name in the deployment.
const NAME_LABEL: &str = "openhorizon.anax.service_name";
/// Label on networks.
const NETWORK_LABEL: &str = "openhorizon.anax.network";
/// Label on services that others need.
const INFRASTRUCTURE_LABEL: &str = "openhorizon.anax.infrastructure";
/// Label on services that are shared.
const SHARED_LABEL: &str = "openhorizon.anax.service_pattern.shared";
/// Label with the task of a container.
const TASK_LABEL: &str = "evenkeel.task";
/// Label with the node and the data directory of the agent.
const PLACE_LABEL: &str = "evenkeel.place";
/// Label with the identity of the agent.
const AGENT_LABEL: &str = "evenkeel.agent";

/// Timeout of a call to the engine in seconds; stopping a container takes its grace period.
const TIMEOUT_SECS: u64 = 120;

/// Runs services as containers.
pub struct DockerDriver {
    endpoint: String,
    /// The connection; created at the first call, because the engine may start after the agent.
    connection: OnceCell<Docker>,
    agent: String,
    /// Node and data directory of the agent, if they are known.
    place: Option<String>,
    grace: Duration,
    exits: Exits,
}

/// Longest wait for the engine before it counts as down.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the engine's events are requested again after the stream ended.
const EVENTS_PAUSE: Duration = Duration::from_secs(2);

impl DockerDriver {
    /// Creates a driver for the engine at `endpoint` (`unix:///…`, `http://…`), or at the default one when empty.
    ///
    /// `output_lines`: last lines of output that are reported when a container exits.
    pub fn new(endpoint: impl Into<String>, agent: String, grace: Duration, output_lines: usize) -> Self {
        let exits = Exits::new(agent.clone(), output_lines);
        Self { endpoint: endpoint.into(), connection: OnceCell::new(), agent, place: None, grace, exits }
    }

    /// Labels containers with the node and the data directory of the agent, by which they are found after the loss of the directory.
    #[must_use]
    pub fn at(self, place: Option<String>) -> Self {
        Self { place, ..self }
    }

    async fn engine(&self) -> Result<&Docker, DriverError> {
        self.connection
            .get_or_try_init(|| async {
                let docker = connect(&self.endpoint).map_err(transient)?;
                // The engine may support only an older version of the API than this program.
                docker.negotiate_version().await.map_err(transient)
            })
            .await
    }

    /// Lists the containers of one service, or of all services of this agent.
    async fn containers(&self, key: Option<&str>) -> Result<Vec<ContainerSummary>, DriverError> {
        let mut labels = vec![format!("{AGENT_LABEL}={}", self.agent)];
        labels.extend(key.map(|key| format!("{AGREEMENT_LABEL}={key}")));
        let filters = HashMap::from([("label".to_owned(), labels)]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        self.engine().await?.list_containers(Some(options)).await.map_err(transient)
    }

    async fn remove(&self, container: &ContainerSummary, grace: Duration) -> Result<(), DriverError> {
        let Some(id) = &container.id else { return Ok(()) };
        let grace = i32::try_from(grace.as_secs()).unwrap_or(10);
        let stop = StopContainerOptionsBuilder::new().t(grace).build();
        gone_is_fine(self.engine().await?.stop_container(id, Some(stop)).await)?;
        let remove = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        gone_is_fine(self.engine().await?.remove_container(id, Some(remove)).await)
    }

    /// Ends the containers of a service and removes its remains.
    async fn end(&self, key: &str, grace: Duration) -> Result<(), DriverError> {
        self.exits.begin_stop(key);
        let containers = self.containers(Some(key)).await?;
        let removals = containers.iter().map(|container| self.remove(container, grace));
        futures_util::future::try_join_all(removals).await?;
        if let Some(network) = self.find_network(key).await? {
            gone_is_fine(self.engine().await?.remove_network(&network).await)?;
        }
        self.exits.forget(key);
        Ok(())
    }

    /// Returns the id of a service's network. The engine would interpret an unknown name as a prefix of an id.
    async fn find_network(&self, key: &str) -> Result<Option<String>, DriverError> {
        let filters = HashMap::from([("name".to_owned(), vec![format!("^{key}$")])]);
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let found = self.engine().await?.list_networks(Some(options)).await.map_err(transient)?;
        Ok(found
            .into_iter()
            .find(|network| network.name.as_deref() == Some(key))
            .and_then(|network| network.id))
    }

    async fn ensure_network(&self, key: &str) -> Result<(), DriverError> {
        if self.find_network(key).await?.is_some() {
            return Ok(());
        }
        let labels = HashMap::from([
            (NETWORK_LABEL.to_owned(), String::new()),
            (AGENT_LABEL.to_owned(), self.agent.clone()),
            (AGREEMENT_LABEL.to_owned(), key.to_owned()),
        ]);
        let request = NetworkCreateRequest {
            name: key.to_owned(),
            driver: Some("bridge".to_owned()),
            labels: Some(labels),
            ..NetworkCreateRequest::default()
        };
        self.engine().await?.create_network(request).await.map(|_| ()).map_err(transient)
    }

    async fn ensure_image(&self, image: &str, logins: &[RegistryLogin]) -> Result<(), DriverError> {
        if self.engine().await?.inspect_image(image).await.is_ok() {
            return Ok(());
        }
        self.pull_any(image, logins).await
    }

    /// Pulls an image with the first login that the registry accepts, or without one.
    async fn pull_any(&self, image: &str, logins: &[RegistryLogin]) -> Result<(), DriverError> {
        let registry = image.split_once('/').map_or("", |(registry, _)| registry);
        let mut last = DriverError::Image {
            image: image.to_owned(),
            reason: "it was not tried".to_owned(),
            is_unauthorized: false,
        };
        let candidates = logins.iter().filter(|login| login.registry == registry).map(Some).chain([None]);
        for login in candidates {
            match self.pull(image, login).await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn pull(&self, image: &str, login: Option<&RegistryLogin>) -> Result<(), DriverError> {
        let credentials = login.map(|login| DockerCredentials {
            username: Some(login.username.clone()),
            password: Some(login.password.clone()),
            serveraddress: Some(login.registry.clone()),
            ..DockerCredentials::default()
        });
        // Without a tag the engine would pull every tag.
        let has_tag = image.contains('@') || image.rsplit('/').next().is_some_and(|name| name.contains(':'));
        let full = if has_tag { image.to_owned() } else { format!("{image}:latest") };
        let options = CreateImageOptionsBuilder::new().from_image(&full).build();
        let mut progress = Box::pin(self.engine().await?.create_image(Some(options), None, credentials));
        while let Some(step) = progress.next().await {
            step.map_err(|error| {
                let reason = error.to_string();
                let is_unauthorized = reason.contains("unauthorized") || reason.contains("denied");
                DriverError::Image { image: image.to_owned(), reason, is_unauthorized }
            })?;
        }
        Ok(())
    }

    async fn create(
        &self,
        service: &ServiceSpec,
        name: &str,
        container: &Container,
    ) -> Result<(), DriverError> {
        self.ensure_image(&container.image, &service.logins).await?;
        let mut labels = HashMap::from([
            (AGREEMENT_LABEL.to_owned(), service.key.clone()),
            (NAME_LABEL.to_owned(), name.to_owned()),
            (AGENT_LABEL.to_owned(), self.agent.clone()),
        ]);
        labels.extend(service.task.clone().map(|task| (TASK_LABEL.to_owned(), task)));
        labels.extend(self.place.clone().map(|place| (PLACE_LABEL.to_owned(), place)));
        if service.role != Role::TopLevel {
            labels.insert(INFRASTRUCTURE_LABEL.to_owned(), String::new());
        }
        if service.role == Role::Shared {
            labels.insert(SHARED_LABEL.to_owned(), "singleton".to_owned());
        }
        let body = body::container_body(service, name, container, labels)?;
        let full_name = format!("{}-{name}", service.key);
        let options = CreateContainerOptionsBuilder::new().name(&full_name).build();
        let id = self.engine().await?.create_container(Some(options), body).await.map_err(transient)?.id;
        if container.network != "host" {
            for network in &service.networks {
                self.join(&id, network).await?;
            }
        }
        self.engine().await?.start_container(&id, None::<StartContainerOptions>).await.map_err(transient)
    }
}

impl DockerDriver {
    /// Reads the exit codes of containers that ended while the engine's events were not followed, and that are not restarted.
    async fn record_unseen_exits(&self, key: &str, containers: &[ContainerSummary]) {
        use ContainerSummaryStateEnum as Engine;
        for container in containers {
            let name = label(container, NAME_LABEL);
            let has_ended = matches!(container.state, Some(Engine::EXITED | Engine::DEAD));
            if !has_ended || !self.exits.of(key, &name).is_empty() {
                continue;
            }
            let (Ok(engine), Some(id)) = (self.engine().await, &container.id) else { return };
            let Ok(found) = engine.inspect_container(id, None::<InspectContainerOptions>).await else {
                continue;
            };
            let policy = found.host_config.and_then(|config| config.restart_policy);
            if policy.and_then(|policy| policy.name) == Some(RestartPolicyNameEnum::NO) {
                let code = found.state.and_then(|state| state.exit_code);
                self.exits.record_exit(engine, (key, &name), id, code).await;
            }
        }
    }

    /// Removes the containers that an agent with this node and data directory has started under another identity.
    async fn remove_orphans(&self) -> Result<(), DriverError> {
        let Some(place) = &self.place else { return Ok(()) };
        let filters = HashMap::from([("label".to_owned(), vec![format!("{PLACE_LABEL}={place}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.engine().await?.list_containers(Some(options)).await.map_err(transient)?;
        for container in found.iter().filter(|one| label(one, AGENT_LABEL) != self.agent) {
            let key = label(container, AGREEMENT_LABEL);
            tracing::info!(
                agreement.id = key,
                "container of an agent that lost its data directory is removed"
            );
            self.remove(container, self.grace).await?;
        }
        Ok(())
    }

    /// Connects a container to the network of a required service, whose containers it reaches by name.
    async fn join(&self, container: &str, network: &str) -> Result<(), DriverError> {
        let request =
            NetworkConnectRequest { container: container.to_owned(), ..NetworkConnectRequest::default() };
        match self.engine().await?.connect_network(network, request).await {
            // A service on the host's network has no network of its own that a container could join.
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
            other => other.map_err(transient),
        }
    }
}

#[async_trait]
impl Driver for DockerDriver {
    async fn adopt(&self, wanted: &[ServiceSpec]) -> Result<(), DriverError> {
        for container in self.containers(None).await? {
            let key = label(&container, AGREEMENT_LABEL);
            if !wanted.iter().any(|service| service.key == key) {
                tracing::info!(agreement.id = key, "container without agreement is removed");
                self.remove(&container, self.grace).await?;
            }
        }
        self.remove_orphans().await?;
        let filters = HashMap::from([("label".to_owned(), vec![format!("{AGENT_LABEL}={}", self.agent)])]);
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        for network in self.engine().await?.list_networks(Some(options)).await.map_err(transient)? {
            let (name, id) = (network.name.unwrap_or_default(), network.id.unwrap_or_default());
            if !wanted.iter().any(|service| service.key == name) {
                gone_is_fine(self.engine().await?.remove_network(&id).await)?;
            }
        }
        Ok(())
    }

    async fn prepare(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        for (name, container) in &service.deployment.services {
            check_image(name, container)?;
            self.ensure_image(&container.image, &service.logins).await?;
        }
        Ok(())
    }

    async fn refresh(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        for (name, container) in &service.deployment.services {
            check_image(name, container)?;
            self.pull_any(&container.image, &service.logins).await?;
        }
        Ok(())
    }

    async fn set_restarts(&self, key: &str, restarts: bool) -> Result<(), DriverError> {
        for id in self.containers(Some(key)).await?.into_iter().filter_map(|container| container.id) {
            let restart_policy = Some(body::restart_policy(restarts));
            let change = ContainerUpdateBody { restart_policy, ..ContainerUpdateBody::default() };
            gone_is_fine(self.engine().await?.update_container(&id, change).await)?;
        }
        Ok(())
    }

    async fn is_gone(&self, key: &str) -> bool {
        self.containers(Some(key)).await.is_ok_and(|containers| containers.is_empty())
    }

    async fn start(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        for (name, container) in &service.deployment.services {
            check_image(name, container)?;
        }
        let present: BTreeMap<String, ContainerSummary> = self
            .containers(Some(&service.key))
            .await?
            .into_iter()
            .map(|container| (label(&container, NAME_LABEL), container))
            .collect();
        if service.deployment.services.values().any(|container| container.network != "host") {
            self.ensure_network(&service.key).await?;
        }
        for (name, container) in &service.deployment.services {
            match present.get(name) {
                Some(found) if found.state == Some(ContainerSummaryStateEnum::CREATED) => {
                    let id = found.id.as_deref().unwrap_or_default();
                    self.engine()
                        .await?
                        .start_container(id, None::<StartContainerOptions>)
                        .await
                        .map_err(transient)?;
                }
                Some(_) => {}
                None => self.create(service, name, container).await?,
            }
        }
        Ok(())
    }

    async fn stop(&self, key: &str) -> Result<(), DriverError> {
        self.end(key, self.grace).await
    }

    async fn kill(&self, key: &str) -> Result<(), DriverError> {
        self.end(key, Duration::ZERO).await
    }

    async fn unpause(&self, key: &str) -> Result<(), DriverError> {
        let paused = |one: &ContainerSummary| one.state == Some(ContainerSummaryStateEnum::PAUSED);
        for container in self.containers(Some(key)).await?.iter().filter(|one| paused(one)) {
            let id = container.id.as_deref().unwrap_or_default();
            self.engine().await?.unpause_container(id).await.map_err(transient)?;
        }
        Ok(())
    }

    async fn observe(&self, key: &str) -> Observation {
        let containers = match self.containers(Some(key)).await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::warn!(agreement.id = key, %error, "the engine does not respond");
                return Observation::default();
            }
        };
        self.record_unseen_exits(key, &containers).await;
        let with_exits = |container: &ContainerSummary| {
            let state = state(container);
            ContainerState { failures: self.exits.of(key, &state.name), ..state }
        };
        let mut containers: Vec<_> = containers.iter().map(with_exits).collect();
        containers.sort_by(|one, two| one.name.cmp(&two.name));
        Observation { containers }
    }

    async fn read_log(&self, key: &str, container: &str, start: LogStart) -> Result<LogPart, DriverError> {
        let found = self.containers(Some(key)).await?;
        let found = found.into_iter().find(|one| label(one, NAME_LABEL) == container);
        match found.and_then(|one| one.id) {
            Some(id) => output::read(self.engine().await?, &id, start).await,
            None => Ok(LogPart::default()),
        }
    }

    async fn is_engine_up(&self) -> bool {
        let ping = async { self.engine().await.ok()?.ping().await.ok() };
        tokio::time::timeout(PING_TIMEOUT, ping).await.is_ok_and(|response| response.is_some())
    }

    async fn changed(&self) {
        let ended = match self.engine().await {
            Ok(engine) => self.exits.next(engine).await.map_err(transient),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "the engine's events cannot be read");
            tokio::time::sleep(EVENTS_PAUSE).await;
        }
    }
}

/// Checks that a container of a deployment names an image.
fn check_image(name: &str, container: &Container) -> Result<(), DriverError> {
    if container.image.is_empty() {
        return Err(DriverError::Unsuitable(format!("\"{name}\" names no image, which containers need")));
    }
    Ok(())
}

pub(crate) fn connect(endpoint: &str) -> Result<Docker, Error> {
    match endpoint {
        "" => Docker::connect_with_defaults(),
        socket if socket.starts_with("unix://") => {
            Docker::connect_with_socket(socket, TIMEOUT_SECS, bollard::API_DEFAULT_VERSION)
        }
        address => Docker::connect_with_http(address, TIMEOUT_SECS, bollard::API_DEFAULT_VERSION),
    }
}

fn state(container: &ContainerSummary) -> ContainerState {
    use ContainerSummaryStateEnum as Engine;
    let state = match container.state {
        Some(Engine::RUNNING) => RunState::Running,
        Some(Engine::RESTARTING) => RunState::Restarting,
        Some(Engine::CREATED) => RunState::Starting,
        None | Some(Engine::EMPTY) => RunState::NotStarted,
        Some(Engine::PAUSED) => RunState::Paused,
        Some(Engine::EXITED | Engine::REMOVING | Engine::DEAD | Engine::STOPPING) => RunState::Exited,
    };
    ContainerState {
        name: label(container, NAME_LABEL),
        image: container.image.clone().unwrap_or_default(),
        created_at: container.created.and_then(|secs| u64::try_from(secs).ok()).unwrap_or_default(),
        state,
        failures: Failures::default(),
    }
}

fn label(container: &ContainerSummary, name: &str) -> String {
    container.labels.as_ref().and_then(|labels| labels.get(name)).cloned().unwrap_or_default()
}

fn transient(error: Error) -> DriverError {
    DriverError::Transient(error.to_string())
}

fn gone_is_fine(result: Result<(), Error>) -> Result<(), DriverError> {
    match result {
        // 304: already stopped; 404: gone; 409: its removal is in progress.
        Err(Error::DockerResponseServerError { status_code: 304 | 404 | 409, .. }) => Ok(()),
        other => other.map_err(transient),
    }
}

#[cfg(test)]
mod tests;
