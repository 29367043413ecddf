//! Kills what a lease is about.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::timeout;

use super::Means;
use crate::drivers::{docker::Containers, process};

/// Longest wait for the container engine; after that, the guardian proceeds without it.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(3);

/// Ids of containers by service.
type Ids = BTreeMap<String, BTreeSet<String>>;

/// Kills services of an agent.
pub(super) struct Killer {
    engine: Option<(String, Arc<Containers>)>,
    /// As the engine last listed them, because it may not respond when they must be killed.
    containers: Arc<Mutex<Ids>>,
}

impl Killer {
    pub fn new() -> Self {
        Self { engine: None, containers: Arc::default() }
    }

    /// Collects the facts that are required to kill the services of these keys without the engine. Does not wait for the engine.
    pub fn prepare(&mut self, agent: &str, means: &Means, keys: BTreeSet<String>) {
        let Means::Containers(endpoint) = means else { return };
        let (engine, containers, agent) = (self.engine(endpoint), self.containers.clone(), agent.to_owned());
        tokio::spawn(async move {
            lock(&containers).retain(|key, _| keys.contains(key));
            if let Ok(Ok(found)) = timeout(ENGINE_TIMEOUT, engine.list(&agent)).await {
                for (key, id) in found.into_iter().filter(|(key, _)| keys.contains(key)) {
                    lock(&containers).entry(key).or_default().insert(id);
                }
            }
        });
    }

    /// Kills the running processes and containers of these services. Returns their number.
    pub async fn kill(
        &mut self,
        directory: &Path,
        (agent, means): (&str, &Means),
        keys: &BTreeSet<String>,
    ) -> usize {
        let endpoint = match means {
            Means::Processes => {
                return process::kill_services(&directory.join("processes"), agent, keys);
            }
            Means::Containers(endpoint) => endpoint,
        };
        let engine = self.engine(endpoint);
        let why = match timeout(ENGINE_TIMEOUT, engine.kill(agent, keys)).await {
            Ok(Ok(count)) => return count,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not respond".to_owned(),
        };
        tracing::warn!(why, "the container engine cannot kill; the cgroups of the containers are used");
        let known: BTreeSet<String> = {
            let containers = lock(&self.containers);
            keys.iter().filter_map(|key| containers.get(key)).flatten().cloned().collect()
        };
        kill_in_cgroups(&known)
    }

    fn engine(&mut self, endpoint: &str) -> Arc<Containers> {
        if let Some((known, engine)) = &self.engine
            && known == endpoint
        {
            return engine.clone();
        }
        let engine = Arc::new(Containers::new(endpoint.to_owned()));
        self.engine = Some((endpoint.to_owned(), engine.clone()));
        engine
    }
}

/// The data of a poisoned lock is consistent: every change is a single insertion or removal.
fn lock(containers: &Mutex<Ids>) -> MutexGuard<'_, Ids> {
    containers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every process in the cgroups of containers. Every cgroup driver names the cgroup after the id of its container.
fn kill_in_cgroups(containers: &BTreeSet<String>) -> usize {
    if containers.is_empty() {
        return 0;
    }
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_meant = |pid: &i32| {
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        containers.iter().any(|id| cgroups.contains(id.as_str()))
    };
    // The process has already ended.
    pids.filter(is_meant).filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok()).count()
}
