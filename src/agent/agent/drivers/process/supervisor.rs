//! Keeps one process running: starts it, waits for its end, restarts it after a growing pause, stops it.

use std::{
    fs::File,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::unistd::User;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{DIRECTORY, MARK, Shared, TASK, lock, log_file, record::ProcessRecord, table};
use crate::{
    clock,
    deployment::Container,
    drivers::{DriverError, ServiceSpec, log_exit},
    step::{ContainerState, Failures, RunState},
};

/// A process that ran this long starts with the shortest pause again.
const STABLE: Duration = Duration::from_secs(60);

/// Interval between checks whether a process was suspended; no signal reports it for a process that is not a
/// child of this one.
const PAUSE_CHECK: Duration = Duration::from_secs(1);

/// The start parameters of one process.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub key: String,
    pub name: String,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    user: Option<(u32, u32)>,
    log: PathBuf,
}

impl Plan {
    pub(crate) fn new(
        shared: &Shared,
        service: &ServiceSpec,
        name: &str,
        container: &Container,
    ) -> Result<Self, DriverError> {
        let words = [container.entrypoint.0.as_slice(), container.command.0.as_slice()].concat();
        let Some((program, arguments)) = words.split_first() else {
            return Err(DriverError::Unsuitable(format!(
                "\"{name}\" names no command, which processes need"
            )));
        };
        let mut environment = base_environment();
        environment.extend(service.environment.iter().cloned());
        environment.extend(container.environment.iter().map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        }));
        // Set last, so that no deployment can override task and mark.
        environment.extend(service.task.clone().map(|task| (TASK.to_owned(), task)));
        environment.push((MARK.to_owned(), shared.mark(&service.key, name)));
        environment.push((DIRECTORY.to_owned(), shared.settings.own_directory()));
        environment
            .retain(|(name, value)| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'));
        let settings = &shared.settings;
        let directory = match container.working_directory.as_str() {
            "" => settings.directory.join("work").join(format!("{}-{name}", service.key)),
            path => PathBuf::from(path),
        };
        Ok(Self {
            key: service.key.clone(),
            name: name.to_owned(),
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment,
            directory,
            user: user_ids(&container.user)?,
            log: log_file::path(&settings.directory, &service.key, name),
        })
    }

    fn command(&self, log: &File) -> io::Result<Command> {
        if !self.directory.exists() {
            std::fs::create_dir_all(&self.directory)?;
        }
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }
}

/// Only the search path, locale and time zone of the agent's own environment are passed on.
fn base_environment() -> Vec<(String, String)> {
    ["PATH", "LANG", "LC_ALL", "TZ"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok().map(|value| (name.to_owned(), value)))
        .collect()
}

fn user_ids(name: &str) -> Result<Option<(u32, u32)>, DriverError> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = match name.parse::<u32>() {
        Ok(id) => User::from_uid(id.into()),
        Err(_) => User::from_name(name),
    };
    match found {
        Ok(Some(user)) => Ok(Some((user.uid.as_raw(), user.gid.as_raw()))),
        Ok(None) | Err(_) => {
            Err(DriverError::Unsuitable(format!("there is no user \"{name}\" on this machine")))
        }
    }
}

/// Keeps one process running until it is stopped, or until it ends when it is not to be restarted.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    plan: Plan,
    stop: CancellationToken,
    restarts: Arc<AtomicBool>,
    failures: Failures,
}

/// Exit code and signal of a process that ended; both unknown when it was not a child of this agent.
type ExitStatus = (Option<i64>, Option<i32>);

/// A running process: a child, or one started by an earlier run of the agent.
struct Process {
    record: ProcessRecord,
    child: Option<tokio::process::Child>,
}

impl Process {
    /// Waits for the end of the process and returns its exit status.
    async fn ended(&mut self) -> ExitStatus {
        if let Some(child) = &mut self.child {
            return match child.wait().await {
                Ok(status) => (status.code().map(i64::from), status.signal()),
                Err(error) => {
                    tracing::warn!(pid = self.record.pid, %error, "process cannot be awaited");
                    (None, None)
                }
            };
        }
        while table::is_same_process(&self.record) {
            sleep(table::CHECK_INTERVAL).await;
        }
        // It may still be a child: another program image may have started it in this process before.
        table::reap(self.record.pid)
    }
}

impl Supervisor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        plan: Plan,
        stop: CancellationToken,
        restarts: Arc<AtomicBool>,
    ) -> Self {
        Self { shared, plan, stop, restarts, failures: Failures::default() }
    }

    /// Reports that the process ended while no agent was running.
    pub(crate) fn record_unseen_end(mut self) {
        self.failures.add_exit(clock::now_secs(), None, None, self.last_output());
        self.show(RunState::Exited, 0);
    }

    /// Runs until stopped; `adopted` is a process that already runs.
    pub(crate) async fn run(mut self, adopted: Option<ProcessRecord>) {
        let shared = self.shared.clone();
        let settings = &shared.settings;
        let mut pause = settings.first_pause;
        let mut next = adopted.map(|record| Process { record, child: None });
        while !self.stop.is_cancelled() && !shared.release.is_cancelled() {
            let started = match next.take().map_or_else(|| self.start(), Ok) {
                Ok(process) => process,
                Err(error) => {
                    tracing::warn!(agreement.id = self.plan.key, process = self.plan.name, %error, "process cannot start");
                    self.failures.error = Some(format!("{}: {error}", self.plan.program));
                    if self.stays_down() {
                        return;
                    }
                    self.show(RunState::Restarting, 0);
                    self.wait(pause).await;
                    pause = (pause * 2).min(settings.longest_pause);
                    continue;
                }
            };
            self.failures.error = None;
            let began = Instant::now();
            let Some((code, signal)) = self.watch(started).await else { return };
            self.failures.add_exit(clock::now_secs(), code, signal, self.last_output());
            log_exit(&self.plan.key, &self.plan.name, &self.failures);
            if self.stays_down() {
                return;
            }
            if began.elapsed() >= STABLE {
                pause = settings.first_pause;
            }
            self.show(RunState::Restarting, 0);
            tracing::debug!(
                agreement.id = self.plan.key,
                process = self.plan.name,
                pause_ms = pause.as_millis() as u64,
                "process is started again after a pause"
            );
            self.wait(pause).await;
            pause = (pause * 2).min(settings.longest_pause);
        }
    }

    /// Returns whether a process that has ended is not restarted, and reports that.
    fn stays_down(&self) -> bool {
        let stays_down = !self.restarts.load(Ordering::Relaxed);
        if stays_down {
            self.show(RunState::Exited, 0);
        }
        stays_down
    }

    fn start(&self) -> io::Result<Process> {
        let log = log_file::open(&self.plan.log)?;
        let child = tokio::process::Command::from(self.plan.command(&log)?).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let record = ProcessRecord {
            key: self.plan.key.clone(),
            name: self.plan.name.clone(),
            pid,
            start_ticks: table::start_ticks(pid).unwrap_or_default(),
            boot: clock::boot(),
            started_at: clock::now_secs(),
            is_leader: true,
        };
        // Without its record the process is still found by its mark.
        if let Err(error) = lock(&self.shared.records).insert(record.clone()) {
            tracing::warn!(%error, "process cannot be recorded");
        }
        Ok(Process { record, child: Some(child) })
    }

    fn last_output(&self) -> Vec<String> {
        log_file::last_lines(&self.plan.log, self.shared.settings.output_lines)
            .inspect_err(
                |error| tracing::debug!(path = %self.plan.log.display(), %error, "log cannot be read"),
            )
            .unwrap_or_default()
    }

    /// Waits for the end of a process; `None` when it was stopped on request, or left to another program.
    async fn watch(&self, mut process: Process) -> Option<ExitStatus> {
        let settings = &self.shared.settings;
        let began = process.record.started_at;
        let is_adopted = process.child.is_none();
        self.show(if is_adopted { RunState::Running } else { RunState::Starting }, began);
        let settled = Instant::now() + settings.settle;
        let mut is_settled = is_adopted;
        let mut log_check = tokio::time::interval(Duration::from_secs(10));
        let mut pause_check = tokio::time::interval(PAUSE_CHECK);
        loop {
            tokio::select! {
                status = process.ended() => {
                    self.end_group(&process.record).await;
                    return Some(status);
                }
                () = self.stop.cancelled() => {
                    self.terminate(process).await;
                    return None;
                }
                () = self.shared.release.cancelled() => return None,
                () = sleep_until(settled), if !is_settled => {
                    is_settled = true;
                    self.show(RunState::Running, began);
                }
                _ = pause_check.tick(), if is_settled => {
                    let is_suspended = table::is_suspended(process.record.pid);
                    self.show(if is_suspended { RunState::Paused } else { RunState::Running }, began);
                }
                _ = log_check.tick() => {
                    if let Err(error) = log_file::rotate(&self.plan.log, settings.log_limit) {
                        tracing::debug!(path = %self.plan.log.display(), %error, "log cannot be cut");
                    }
                }
            }
        }
    }

    /// Ends the processes that the leader left in its group, found by their mark.
    async fn end_group(&self, leader: &ProcessRecord) {
        let rest = table::find_marked(&self.shared.settings.agent)
            .into_iter()
            .filter(|process| process.key == leader.key && process.name == leader.name)
            .collect();
        table::end_all(rest, self.shared.settings.grace).await;
    }

    /// Ends a process and its group. The child is awaited at the same time, because otherwise it remains in the process
    /// table as a zombie.
    async fn terminate(&self, mut process: Process) {
        let record = process.record.clone();
        let ((), ()) = tokio::join!(
            async {
                if let Some(child) = &mut process.child {
                    // The outcome is not needed.
                    let _status = child.wait().await;
                }
            },
            table::end_all(vec![record.clone()], self.shared.settings.grace)
        );
        self.end_group(&record).await;
    }

    async fn wait(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.stop.cancelled() => {}
            () = self.shared.release.cancelled() => {}
        }
    }

    fn show(&self, state: RunState, created_at: u64) {
        let state = ContainerState {
            name: self.plan.name.clone(),
            image: self.plan.program.clone(),
            created_at,
            state,
            failures: self.failures.clone(),
        };
        self.shared.set_state(&self.plan.key, state);
    }
}
