//! Runs services as plain processes, each in its own process group.
//!
//! Processes outlive the agent. Each carries a mark in its environment and a line in `processes.json` (process id, start
//! time, boot), so that a restarted agent adopts exactly its own: a process belongs to this agent only when its start time
//! and boot match the record, or its mark names this agent. Output goes directly to files that are copied and truncated
//! when they grow, so that no pipe breaks when the agent ends.

mod log_file;
mod record;
mod supervisor;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    record::{ProcessRecord, Records},
    supervisor::{Plan, Supervisor},
};
use super::{Driver, DriverError, LogPart, LogStart, ServiceSpec};
use crate::step::{ContainerState, Observation};

/// Variable that marks every process of an agent: `<agent>/<service key>/<process name>`.
pub(crate) const MARK: &str = "EVENKEEL_PROCESS";

/// Variable that names the directory of the driver that has started a process.
pub(crate) const DIRECTORY: &str = "EVENKEEL_PROCESS_DIRECTORY";

/// Variable that names the task of a process.
pub(crate) const TASK: &str = "EVENKEEL_TASK";

/// Settings of the process driver.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Directory for records, logs and working directories.
    pub directory: PathBuf,
    /// Identity of this agent, different for every data directory.
    pub agent: String,
    /// Time a process has to end after the stop signal.
    pub grace: Duration,
    /// Time a process must run before it counts as running.
    pub settle: Duration,
    /// Pause before the first restart; it doubles up to `longest_pause`.
    pub first_pause: Duration,
    /// Longest pause before a restart.
    pub longest_pause: Duration,
    /// Size at which a log file is cut, in bytes; one older part is kept.
    pub log_limit: u64,
    /// Last lines of output that are reported when a process ends.
    pub output_lines: usize,
}

impl ProcessSettings {
    /// Returns the directory as in the mark of its processes.
    fn own_directory(&self) -> String {
        let path = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        path.display().to_string()
    }

    /// Returns the default settings for a data directory.
    pub fn new(directory: PathBuf, agent: String) -> Self {
        Self {
            directory,
            agent,
            grace: Duration::from_secs(10),
            settle: Duration::from_millis(700),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            log_limit: 1024 * 1024,
            output_lines: 5,
        }
    }
}

/// The state shared by supervisors and driver.
pub(crate) struct Shared {
    pub settings: ProcessSettings,
    pub records: Mutex<Records>,
    pub states: Mutex<BTreeMap<String, BTreeMap<String, ContainerState>>>,
    pub changed: Notify,
    /// Canceled when all processes are left to another program.
    pub release: CancellationToken,
}

impl Shared {
    pub(crate) fn set_state(&self, key: &str, state: ContainerState) {
        let mut states = lock(&self.states);
        let service = states.entry(key.to_owned()).or_default();
        if service.get(&state.name) != Some(&state) {
            service.insert(state.name.clone(), state);
            self.changed.notify_one();
        }
    }

    pub(crate) fn mark(&self, key: &str, name: &str) -> String {
        format!("{}/{key}/{name}", self.settings.agent)
    }
}

/// The data of a poisoned lock is consistent: every change under these locks is a single insertion or removal.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Kills every process of some services of an agent, no matter which process started it. Returns how many
/// there were.
///
/// `directory`: that of the driver, with its list.
pub(crate) fn kill_services(directory: &Path, agent: &str, keys: &BTreeSet<String>) -> usize {
    // Processes that are not in the list are found by their mark.
    let listed = Records::load(directory.join("processes.json")).map(|records| records.all());
    let found = survivors(listed.unwrap_or_default(), agent);
    let meant: Vec<_> = found.into_iter().filter(|process| keys.contains(&process.key)).collect();
    table::kill_all(&meant);
    meant.len()
}

/// Finds the live processes of an agent: those of the list, and those with its mark.
fn survivors(listed: Vec<ProcessRecord>, agent: &str) -> Vec<ProcessRecord> {
    let mut alive: Vec<_> = listed.into_iter().filter(table::is_same_process).collect();
    for found in table::find_marked(agent) {
        if !alive.iter().any(|known| known.pid == found.pid) {
            alive.push(found);
        }
    }
    alive
}

struct Running {
    stop: CancellationToken,
    restarts: Arc<AtomicBool>,
    tasks: TaskTracker,
}

/// Runs services as plain processes.
pub struct ProcessDriver {
    shared: Arc<Shared>,
    running: Mutex<BTreeMap<String, Running>>,
}

impl ProcessDriver {
    /// Opens the driver's directory.
    ///
    /// # Errors
    /// [`DriverError::Transient`] when the directory cannot be created or the record cannot be read.
    pub fn open(settings: ProcessSettings) -> Result<Self, DriverError> {
        std::fs::create_dir_all(&settings.directory)
            .map_err(|error| DriverError::Transient(format!("{}: {error}", settings.directory.display())))?;
        let records = Records::load(settings.directory.join("processes.json"))?;
        let shared = Shared {
            settings,
            records: Mutex::new(records),
            states: Mutex::default(),
            changed: Notify::new(),
            release: CancellationToken::new(),
        };
        Ok(Self { shared: Arc::new(shared), running: Mutex::default() })
    }

    /// Starts supervising every process of a service; `adopted` are those that already run.
    fn supervise(
        &self,
        service: &ServiceSpec,
        mut adopted: BTreeMap<String, ProcessRecord>,
    ) -> Result<(), DriverError> {
        let mut running = lock(&self.running);
        if running.contains_key(&service.key) {
            return Ok(());
        }
        let plans = self.plans(service)?;
        let restarts = Arc::new(AtomicBool::new(service.restarts()));
        let is_adoption = !adopted.is_empty();
        let entry = Running { stop: CancellationToken::new(), restarts, tasks: TaskTracker::new() };
        for plan in plans {
            let process = adopted.remove(&plan.name);
            let supervisor =
                Supervisor::new(self.shared.clone(), plan, entry.stop.clone(), entry.restarts.clone());
            if process.is_none() && is_adoption && !service.restarts() {
                supervisor.record_unseen_end();
            } else {
                entry.tasks.spawn(supervisor.run(process));
            }
        }
        entry.tasks.close();
        running.insert(service.key.clone(), entry);
        Ok(())
    }

    /// Returns the start parameters of every process of a service.
    fn plans(&self, service: &ServiceSpec) -> Result<Vec<Plan>, DriverError> {
        let containers = service.deployment.services.iter();
        containers.map(|(name, container)| Plan::new(&self.shared, service, name, container)).collect()
    }

    /// Finds the live processes of this agent.
    fn survivors(&self) -> Vec<ProcessRecord> {
        let listed = lock(&self.shared.records).all();
        survivors(listed, &self.shared.settings.agent)
    }
}

#[async_trait]
impl Driver for ProcessDriver {
    async fn adopt(&self, wanted: &[ServiceSpec]) -> Result<(), DriverError> {
        let mut adopted: BTreeMap<String, BTreeMap<String, ProcessRecord>> = BTreeMap::new();
        let settings = &self.shared.settings;
        // An agent that has lost its data directory has a new identity.
        let mut unwanted = table::find_orphans(&settings.own_directory(), &settings.agent);
        for process in self.survivors() {
            let is_wanted = wanted.iter().any(|service| {
                service.key == process.key && service.deployment.services.contains_key(&process.name)
            });
            let wanted_by_name = adopted.entry(process.key.clone()).or_default();
            // Only the leader of a group is supervised; its members are reached through the group.
            if is_wanted && process.is_leader && !wanted_by_name.contains_key(&process.name) {
                wanted_by_name.insert(process.name.clone(), process);
            } else if !is_wanted {
                unwanted.push(process);
            }
        }
        for process in &unwanted {
            tracing::info!(
                pid = process.pid,
                agreement.id = process.key,
                "process without agreement is stopped"
            );
        }
        table::end_all(unwanted, self.shared.settings.grace).await;
        for service in wanted {
            let Some(processes) = adopted.remove(&service.key).filter(|processes| !processes.is_empty())
            else {
                continue;
            };
            for process in processes.values() {
                lock(&self.shared.records).insert(process.clone())?;
                tracing::info!(pid = process.pid, agreement.id = service.key, "running process is adopted");
            }
            // A service that cannot be supervised must not prevent the adoption of the others.
            if let Err(error) = self.supervise(service, processes) {
                tracing::warn!(agreement.id = service.key, %error, "service cannot be taken over");
            }
        }
        lock(&self.shared.records).retain(|record| wanted.iter().any(|service| service.key == record.key))
    }

    async fn prepare(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        self.plans(service).map(drop)
    }

    /// Programs are installed on the machine, so there is nothing to fetch.
    async fn refresh(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        self.prepare(service).await
    }

    async fn set_restarts(&self, key: &str, restarts: bool) -> Result<(), DriverError> {
        if let Some(entry) = lock(&self.running).get(key) {
            entry.restarts.store(restarts, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn is_gone(&self, key: &str) -> bool {
        !lock(&self.running).contains_key(key)
    }

    async fn start(&self, service: &ServiceSpec) -> Result<(), DriverError> {
        self.supervise(service, BTreeMap::new())
    }

    async fn stop(&self, key: &str) -> Result<(), DriverError> {
        let entry = lock(&self.running).remove(key);
        if let Some(entry) = entry {
            entry.stop.cancel();
            entry.tasks.wait().await;
        }
        // Processes that left their process group still carry the mark.
        let prefix = format!("{}/{key}/", self.shared.settings.agent);
        let rest: Vec<_> = self.survivors().into_iter().filter(|process| process.key == key).collect();
        if !rest.is_empty() {
            tracing::debug!(mark = prefix, count = rest.len(), "stragglers are ended");
        }
        table::end_all(rest, self.shared.settings.grace).await;
        lock(&self.shared.states).remove(key);
        lock(&self.shared.records).retain(|record| record.key != key)?;
        self.shared.changed.notify_one();
        Ok(())
    }

    async fn kill(&self, key: &str) -> Result<(), DriverError> {
        let running: Vec<_> = self.survivors().into_iter().filter(|process| process.key == key).collect();
        table::kill_all(&running);
        self.stop(key).await
    }

    async fn unpause(&self, key: &str) -> Result<(), DriverError> {
        let paused: Vec<_> = self.survivors().into_iter().filter(|process| process.key == key).collect();
        table::continue_all(&paused);
        Ok(())
    }

    async fn observe(&self, key: &str) -> Observation {
        let states = lock(&self.shared.states);
        let containers = states.get(key).map(|service| service.values().cloned().collect());
        Observation { containers: containers.unwrap_or_default() }
    }

    async fn read_log(&self, key: &str, container: &str, start: LogStart) -> Result<LogPart, DriverError> {
        let path = log_file::path(&self.shared.settings.directory, key, container);
        let read = tokio::task::spawn_blocking(move || match start {
            LogStart::Last(lines) => Ok::<_, DriverError>(log_file::read_last(&path, lines)),
            LogStart::After(position) => {
                let position = position.parse().map_err(|_| {
                    DriverError::Unsuitable(format!("\"{position}\" is not a position in a log"))
                })?;
                Ok(log_file::read_after(&path, position))
            }
        });
        let part = read.await.map_err(|error| DriverError::Transient(error.to_string()))??;
        part.map_err(|error| DriverError::Transient(format!("the log cannot be read: {error}")))
    }

    /// The operating system always responds; without its directory this driver can start nothing.
    async fn is_engine_up(&self) -> bool {
        tokio::fs::metadata(&self.shared.settings.directory).await.is_ok_and(|found| found.is_dir())
    }

    async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    async fn release(&self) {
        self.shared.release.cancel();
        let running = std::mem::take(&mut *lock(&self.running));
        for entry in running.into_values() {
            entry.tasks.wait().await;
        }
    }
}

#[cfg(test)]
mod tests;
