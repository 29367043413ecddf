//! Supervision of tasks for the hub's engine: commands on their containers, life-cycle events and checks.
//!
//! Effects of the engine's own commands are not life-cycle events: while a command is open, nothing is
//! reported.
//! Source: orchestration C3 to C6.

use std::collections::BTreeMap;

use evenkeel_wire::exchange::task_health::{
    CommandResult, EndedCommand, PeerWatch, PostLifecycle, TaskCheck, TaskCommand, TaskProbe,
};
use jiff::Timestamp;

use crate::deployment::Deployment;

use super::{Agreement, Command, Observation, Outcome, RunState, State, Task};

/// Command, and the event of its failure.
const REBUILD: &str = "REBUILD";

/// A task whose URL is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedTask {
    /// The task.
    pub task: String,
    /// The URL.
    pub probe: TaskProbe,
    /// True if the last check succeeded; none before the first one.
    pub is_healthy: Option<bool>,
    /// Reason why the last check was broken itself.
    pub check_error: Option<String>,
}

/// A task that examines other members of its workload unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPeers {
    /// The task.
    pub task: String,
    /// The members.
    pub watch: PeerWatch,
    /// The port to connect to, if there is one.
    pub port: Option<u16>,
    /// True for each member that responded when it was last examined, by task.
    pub seen: BTreeMap<String, bool>,
}

impl Task {
    /// Returns the command that is not carried out yet.
    pub(super) fn open_command(&self) -> Option<&TaskCommand> {
        let command = self.supervision.command.as_ref()?;
        let has_ended = self.ended_command.as_ref().is_some_and(|ended| ended.id == command.id);
        (!has_ended && self.end.is_none() && !self.desired.is_stop()).then_some(command)
    }
}

impl State {
    /// Returns the command to carry out on the service of an agreement.
    pub(super) fn supervising_command(&self, agreement: &Agreement) -> Option<Command> {
        let (id, task) =
            self.tasks.iter().find(|(_, task)| task.agreement.as_deref() == Some(&agreement.id))?;
        let command = task.open_command()?.clone();
        Some(Command::Supervise { agreement: agreement.id.clone(), task: id.clone(), command })
    }

    /// Returns the reports about the health of tasks that the hub has not recorded.
    pub(super) fn health_reports(&self) -> impl Iterator<Item = Command> {
        self.tasks.iter().flat_map(|(id, task)| {
            let health = task.health.clone().filter(|health| {
                !task.reported_health.is(&Some(health.healthy)) || !task.reported_broken.is(&health.is_broken)
            });
            let health = health.map(|health| Command::ReportHealth { task: id.clone(), health });
            let event = task.lifecycle.clone();
            let event =
                event.map(|event| Command::ReportLifecycle { task: id.clone(), event: Box::new(event) });
            let ended = task.ended_command.clone().filter(|_| !task.is_command_reported);
            let ended = ended.map(|ended| Command::ReportCommand { task: id.clone(), ended });
            let peers = Some(&task.peers).filter(|peers| !task.reported_peers.is(peers));
            let peers = peers.map(|peers| Command::ReportPeers { task: id.clone(), peers: peers.clone() });
            health.into_iter().chain(event).chain(ended).chain(peers)
        })
    }

    /// Records the outcome of a command. The next check decides again whether the task is healthy.
    pub(super) fn command_ended(
        &mut self,
        id: &str,
        ended: EndedCommand,
        seen: Observation,
        now: u64,
    ) -> Outcome {
        let publisher = self.publisher();
        let Some(task) = self.tasks.get_mut(id) else { return Outcome::default() };
        let text = format!("command {} ended: {:?}", ended.id, ended.result);
        let is_rebuild = task.supervision.command.as_ref().is_some_and(|command| command.op == REBUILD);
        if is_rebuild && ended.result == CommandResult::Failed && task.supervision.lifecycle {
            let key = task.agreement.clone().unwrap_or_default();
            task.lifecycle = Some(lifecycle_event((REBUILD, "error"), (&key, ""), id, &publisher, now));
            task.is_down_reported = true;
        }
        (task.ended_command, task.is_command_reported) = (Some(ended), false);
        let key = task.agreement.clone().unwrap_or_default();
        if let Some(agreement) = self.agreements.get_mut(&key) {
            agreement.down_since = None;
        }
        // A service that does not run yet is observed once it runs.
        if seen.is_running() {
            self.observed.insert(key.clone(), seen);
        }
        self.record_running(&key, now);
        Outcome { note: Some(text) }
    }

    /// Records the outcome of a check.
    pub(super) fn probed(&mut self, task: &str, health: TaskCheck) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.health = Some(health);
        }
        Outcome::default()
    }

    /// Records which of the members that a task examines respond.
    pub(super) fn peers_seen(&mut self, task: &str, peers: BTreeMap<String, bool>) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.peers = peers;
        }
        Outcome::default()
    }

    /// See [`State::health_reported`]; of the members that a task examines.
    pub(super) fn peers_reported(&mut self, task: &str, peers: BTreeMap<String, bool>) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.reported_peers.succeed(peers);
        }
        Outcome::default()
    }

    /// Returns the tasks that run and examine other members.
    pub fn watched_peers(&self) -> Vec<WatchedPeers> {
        let running = self.tasks.iter().filter_map(|(id, task)| {
            let watch = task.supervision.peers.clone()?;
            let agreement = self.agreements.get(task.agreement.as_ref()?)?;
            let is_running = agreement.is_live() && agreement.started_at.is_some();
            let port = || published_port(agreement);
            is_running.then(|| WatchedPeers {
                task: id.clone(),
                port: watch.port.or_else(port),
                watch,
                seen: task.peers.clone(),
            })
        });
        running.collect()
    }

    /// Records that the hub has a report, or does not want it.
    pub(super) fn health_reported(&mut self, task: &str, healthy: bool, is_broken: bool) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.reported_health.succeed(Some(healthy));
            task.reported_broken.succeed(is_broken);
        }
        Outcome::default()
    }

    /// See [`State::health_reported`]; of a life-cycle event.
    pub(super) fn lifecycle_reported(&mut self, task: &str, event: &PostLifecycle, now: u64) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task)
            && task.lifecycle.as_ref() == Some(event)
        {
            task.lifecycle = None;
            let key = task.agreement.clone().unwrap_or_default();
            self.record_running(&key, now);
        }
        Outcome::default()
    }

    /// See [`State::health_reported`]; of a command.
    pub(super) fn command_reported(&mut self, task: &str, id: &str) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task)
            && task.ended_command.as_ref().is_some_and(|ended| ended.id == id)
        {
            task.is_command_reported = true;
        }
        Outcome::default()
    }

    /// Takes the end or the pause of containers of a supervised task: the engine decides what follows. Returns whether the task is supervised.
    pub(super) fn record_lifecycle(&mut self, key: &str, observation: &Observation, now: u64) -> bool {
        let publisher = self.publisher();
        let of_key = |(_, task): &(&String, &mut Task)| task.agreement.as_deref() == Some(key);
        let Some((id, task)) = self.tasks.iter_mut().find(of_key) else { return false };
        if !task.supervision.lifecycle || task.end.is_some() || task.desired.is_stop() {
            return false;
        }
        if task.open_command().is_some() || task.is_down_reported {
            return true;
        }
        let (event, state, instance) = lifecycle_of(observation);
        task.is_down_reported = true;
        task.lifecycle = Some(lifecycle_event((event, state), (key, instance), id, &publisher, now));
        true
    }

    /// Returns who publishes life-cycle events.
    fn publisher(&self) -> String {
        format!("agent:{}", self.node.rsplit('/').next().unwrap_or_default())
    }

    /// Reports that the service of a task runs again, if it was seen to, and the hub knows that it did not.
    pub(super) fn record_running(&mut self, key: &str, now: u64) {
        if !self.observed.get(key).is_some_and(Observation::is_running) {
            return;
        }
        let publisher = self.publisher();
        let task = self.tasks.iter_mut().find(|(_, task)| task.agreement.as_deref() == Some(key));
        let Some((id, task)) = task.filter(|(_, task)| task.open_command().is_none()) else { return };
        if task.lifecycle.is_some() {
            return;
        }
        // Also when it is no longer supervised: the last action of a recovery that has failed may help late.
        if std::mem::take(&mut task.is_down_reported) {
            task.lifecycle = Some(lifecycle_event(("POWER_ON", "running"), (key, ""), id, &publisher, now));
        }
    }

    /// Returns whether the containers of an agreement are killed instead of stopped with grace.
    pub(super) fn is_fenced(&self, agreement: &str) -> bool {
        self.task_of(agreement).is_some_and(|task| task.is_fenced)
    }

    /// Returns the tasks whose URLs are polled: those that run and on which no command is being carried out.
    pub fn probed_tasks(&self) -> Vec<ProbedTask> {
        let runs = |task: &Task| {
            let agreement = task.agreement.as_ref().and_then(|id| self.agreements.get(id));
            agreement.is_some_and(|agreement| agreement.is_live() && agreement.started_at.is_some())
        };
        let running = self.tasks.iter().filter(|(_, task)| task.open_command().is_none() && runs(task));
        let probed = running.filter_map(|(id, task)| {
            let probe = task.supervision.probe.clone()?;
            let is_healthy = task.health.as_ref().and_then(TaskCheck::found);
            let broken = task.health.as_ref().filter(|health| health.is_broken);
            let check_error = broken.and_then(|health| health.message.clone());
            Some(ProbedTask { task: id.clone(), probe, is_healthy, check_error })
        });
        probed.collect()
    }
}

/// Returns the first port that the service of an agreement publishes: the other members run the same service.
fn published_port(agreement: &Agreement) -> Option<u16> {
    let deployment = Deployment::parse(&agreement.deployment, &agreement.deployment_overrides).ok()?;
    let mut ports = deployment.services.values().flat_map(|container| &container.ports);
    ports.find_map(|port| {
        let is_udp = port.host_port.ends_with("/udp");
        let number = port.host_port.split([':', '/']).next().filter(|_| !is_udp)?;
        number.parse().ok()
    })
}

/// Builds an event about a container of an agreement.
fn lifecycle_event(
    (event, state): (&str, &str),
    (key, container): (&str, &str),
    task: &str,
    publisher: &str,
    now: u64,
) -> PostLifecycle {
    let at = i64::try_from(now).ok().and_then(|secs| Timestamp::from_second(secs).ok()).unwrap_or_default();
    PostLifecycle {
        event: event.to_owned(),
        state: state.to_owned(),
        instance_id: format!("{key}/{container}"),
        agreement_id: Some(key.to_owned()),
        task_id: Some(task.to_owned()),
        timestamp: at.to_string(),
        publisher: publisher.to_owned(),
    }
}

/// Returns the event, the state and the container of a service that ended or was paused.
fn lifecycle_of(observation: &Observation) -> (&'static str, &'static str, &str) {
    let in_state = |state| observation.containers.iter().find(|one| one.state == state);
    let exited = in_state(RunState::Exited).filter(|one| !one.failures.is_empty());
    let Some(container) = exited else {
        return match in_state(RunState::Paused) {
            Some(container) => ("PAUSE", "paused", &container.name),
            None => ("SOFT_DELETE", "deleted", ""),
        };
    };
    // The convention of shells and container engines for signals.
    let has_code_of = |number: i64| container.failures.code == Some(128 + number);
    // An exit after a terminating signal was a deliberate stop, whatever the exit code.
    let is_stopped = container.failures.is_stopped_from_outside();
    if is_stopped || has_code_of(15) || has_code_of(9) {
        ("POWER_OFF", "stopped", &container.name)
    } else {
        ("SHUTDOWN", "shutdown", &container.name)
    }
}
