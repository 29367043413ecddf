//! The containers of an agent, for the guardian, which has no driver because the agent may not run.

use std::collections::{BTreeSet, HashMap};

use bollard::{
    Docker,
    errors::Error,
    models::{ContainerSummary, ContainerSummaryStateEnum},
    query_parameters::{
        KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    },
};
use tokio::sync::OnceCell;

use super::{AGENT_LABEL, AGREEMENT_LABEL, connect, gone_is_fine, label, transient};
use crate::drivers::DriverError;

/// The containers of agents at one engine.
pub(crate) struct Containers {
    endpoint: String,
    connection: OnceCell<Docker>,
}

impl Containers {
    /// Creates a client for an engine; see [`super::DockerDriver::new`].
    pub fn new(endpoint: String) -> Self {
        Self { endpoint, connection: OnceCell::new() }
    }

    /// Lists the containers of an agent that may run, by the key of their service and their id.
    ///
    /// # Errors
    /// When the engine does not respond.
    pub async fn list(&self, agent: &str) -> Result<Vec<(String, String)>, DriverError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{AGENT_LABEL}={agent}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.engine().await?.list_containers(Some(options)).await.map_err(transient)?;
        let may_run = found.into_iter().filter(may_run);
        Ok(may_run.filter_map(|one| Some((label(&one, AGREEMENT_LABEL), one.id?))).collect())
    }

    /// Kills the containers of some services of an agent. Returns how many there were.
    ///
    /// # Errors
    /// When the engine does not respond, or cannot kill one.
    pub async fn kill(&self, agent: &str, keys: &BTreeSet<String>) -> Result<usize, DriverError> {
        let mut count = 0;
        for (_, id) in self.list(agent).await?.iter().filter(|(key, _)| keys.contains(key)) {
            let engine = self.engine().await?;
            let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            if gone_is_fine_unless_running(engine.kill_container(id, Some(options)).await).is_err() {
                // Not every engine can kill a paused container.
                let options = RemoveContainerOptionsBuilder::new().force(true).build();
                gone_is_fine(engine.remove_container(id, Some(options)).await)?;
            }
            count += 1;
        }
        Ok(count)
    }

    async fn engine(&self) -> Result<&Docker, DriverError> {
        self.connection
            .get_or_try_init(|| async {
                let docker = connect(&self.endpoint).map_err(transient)?;
                docker.negotiate_version().await.map_err(transient)
            })
            .await
    }
}

fn may_run(container: &ContainerSummary) -> bool {
    use ContainerSummaryStateEnum as Engine;
    matches!(container.state, Some(Engine::RUNNING | Engine::PAUSED | Engine::RESTARTING | Engine::STOPPING))
}

/// Accepts that a container is gone; a conflict may also mean that it cannot be killed in its state.
fn gone_is_fine_unless_running(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        other => other,
    }
}
