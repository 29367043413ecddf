//! The agent's side: starts the guardian when a task needs a lease, and renews the leases.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use evenkeel_client::RunHeader;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::agent_run::GuardianState;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::Child,
    sync::Notify,
    time::{Instant, timeout},
};

use super::{Confirmation, GuardianCommand, Lease, Means, Request, socket};
use crate::{
    AgentSettings, DriverKind, clock,
    contact::Outage,
    journal::Journal,
    order::{Ended, Handle, Order},
    step::{Guard, LeasedTask},
    upgrade,
};

/// Interval at which leases are renewed.
const RENEWAL: Duration = Duration::from_secs(1);
/// Pause between the start of a guardian and the first request to it.
const START_PAUSE: Duration = Duration::from_millis(200);
/// Time without a confirmation after which no lease is valid. A guardian that is killing processes may wait for the
/// container engine for some of it.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a response after which a guardian is stopped and replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(60);

/// Keeps the guardian informed.
pub(crate) struct Link {
    settings: Arc<AgentSettings>,
    handle: Handle,
    run: Arc<RunHeader>,
    /// Signaled when another task needs a lease, or none needs one any longer.
    changed: Arc<Notify>,
    connection: Option<BufReader<UnixStream>>,
    number: u64,
    child: Option<Child>,
    reported: Option<(Guard, Vec<String>)>,
    silent_since: Option<Instant>,
    outage: Option<Outage>,
    pause: Duration,
}

/// Reason why nothing was confirmed.
enum Unconfirmed {
    Gone(String),
    Silent(String),
}

impl Worker for Link {
    type Error = Infallible;
    const NAME: &'static str = "guardian";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        if self.renew().await.is_err() {
            // The core has ended, and is about to cancel its workers.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    async fn signaled(&mut self) {
        self.changed.notified().await;
    }
}

impl Link {
    pub fn new(
        settings: Arc<AgentSettings>,
        handle: Handle,
        run: Arc<RunHeader>,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            settings,
            handle,
            run,
            changed,
            connection: None,
            number: 0,
            child: None,
            reported: None,
            silent_since: None,
            outage: None,
            pause: RENEWAL,
        }
    }

    async fn renew(&mut self) -> Result<(), Ended> {
        self.pause = RENEWAL;
        let wanted =
            |journal: &mut Journal| (journal.state.leases(), journal.heartbeat_ms(), journal.agent.clone());
        let (tasks, heartbeat_ms, agent) = self.handle.with(wanted).await?;
        // Reaps a guardian that has ended; its exit status is not needed.
        self.child = self.child.take().filter_map_running();
        if tasks.is_empty() && self.connection.is_none() {
            return self.report(Guard::Absent, Vec::new(), GuardianState::Absent).await;
        }
        let leases: Vec<Lease> = tasks.into_iter().map(|task| lease(task, heartbeat_ms)).collect();
        match self.ask(&agent, leases.clone()).await {
            Ok(confirmation) => {
                (self.silent_since, self.outage) = (None, None);
                if confirmation.is_of_agent && self.is_outdated(&confirmation) {
                    return self.dismiss(&agent, leases).await;
                }
                let now_ms = clock::uptime_ms();
                let held = leases.iter().filter(|lease| lease.until_ms > now_ms);
                let held: BTreeMap<_, _> = held.map(|lease| (lease.task.clone(), lease.lease_secs)).collect();
                self.report(Guard::Confirmed(held), confirmation.killed, GuardianState::Running).await
            }
            Err(Unconfirmed::Silent(why)) => {
                let since = *self.silent_since.get_or_insert_with(Instant::now);
                self.warn(&why);
                self.report(Guard::Absent, Vec::new(), GuardianState::Silent).await?;
                if since.elapsed() >= REPLACED_AFTER {
                    self.kill_silent();
                }
                Ok(())
            }
            Err(Unconfirmed::Gone(why)) => {
                self.silent_since = None;
                self.report(Guard::Absent, Vec::new(), GuardianState::Absent).await?;
                self.warn(&why);
                self.start();
                Ok(())
            }
        }
    }

    /// Requests a confirmation of the leases, even if the guardian has not responded to an earlier request.
    async fn ask(&mut self, agent: &str, leases: Vec<Lease>) -> Result<Confirmation, Unconfirmed> {
        self.number += 1;
        let request = Request {
            number: self.number,
            agent: agent.to_owned(),
            means: self.means(),
            leases,
            is_last: false,
        };
        let directory = self.settings.data_dir.clone();
        let exchange = async {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => none.insert(BufReader::new(socket::connect(&directory).await?)),
            };
            confirmed(connection, &request).await
        };
        match timeout(CONFIRMATION_TIMEOUT, exchange).await {
            Ok(Ok(confirmation)) => Ok(confirmation),
            Ok(Err(error)) => {
                self.connection = None;
                // A guardian that hangs before it listens refuses connections until it is stopped.
                let is_started = self.child.is_some();
                Err(if is_started { Unconfirmed::Silent } else { Unconfirmed::Gone }(error.to_string()))
            }
            Err(_) => Err(Unconfirmed::Silent("it does not respond".to_owned())),
        }
    }

    fn means(&self) -> Means {
        match self.settings.driver {
            DriverKind::Process => Means::Processes,
            DriverKind::Docker => Means::Containers(self.settings.docker_endpoint.clone()),
        }
    }

    /// Notifies the core and the hub of the state of the guardian, if it has changed. The next request to the
    /// hub already carries it.
    async fn report(&mut self, guard: Guard, killed: Vec<String>, state: GuardianState) -> Result<(), Ended> {
        let is_changed = self.run.guardian() != state;
        if state != GuardianState::Running {
            self.run.set_guardian(state);
        }
        let now = Some((guard, killed));
        if self.reported != now {
            self.reported.clone_from(&now);
            let Some((guard, killed)) = now else { return Ok(()) };
            self.handle.apply(crate::step::Event::Guarded { guard, killed }).await?;
        }
        self.run.set_guardian(state);
        if is_changed {
            self.handle.order(Order::GuardianChanged).await?;
        }
        Ok(())
    }

    /// Starts a guardian, unless another process is starting one.
    fn start(&mut self) {
        let Some(command) = self.settings.guardian.as_ref().filter(|_| self.child.is_none()) else { return };
        let GuardianCommand { program, arguments } = command;
        let spawned = tokio::process::Command::new(program)
            .arg0(program_of(program))
            .args(arguments)
            .arg("--data-dir")
            .arg(&self.settings.data_dir)
            .env_remove(upgrade::WATCHED)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match spawned {
            Ok(child) => {
                tracing::info!(pid = child.id(), "the guardian is started");
                self.child = Some(child);
                self.pause = START_PAUSE;
            }
            Err(error) => self.warn(&format!("{}: {error}", program.display())),
        }
    }

    /// Returns whether the guardian runs a different program than the one that would be started now.
    fn is_outdated(&self, confirmation: &Confirmation) -> bool {
        let own = self.settings.guardian.as_ref().map(|command| program_of(&command.program));
        own.is_some_and(|own| own != confirmation.program)
    }

    /// Stops the guardian, so that another one replaces it.
    async fn dismiss(&mut self, agent: &str, leases: Vec<Lease>) -> Result<(), Ended> {
        self.report(Guard::Absent, Vec::new(), GuardianState::Absent).await?;
        dismiss(&self.settings.data_dir, agent, self.means(), leases).await;
        self.connection = None;
        self.pause = START_PAUSE;
        Ok(())
    }

    fn kill_silent(&mut self) {
        let peer = self.connection.as_ref().and_then(|one| one.get_ref().peer_cred().ok()?.pid());
        let started = || i32::try_from(self.child.as_ref()?.id()?).ok();
        let Some(pid) = peer.or_else(started) else { return };
        tracing::error!(pid, "the guardian does not respond and is stopped; another one replaces it");
        // It may have ended meanwhile.
        let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
        (self.connection, self.silent_since) = (None, None);
    }

    fn warn(&mut self, why: &str) {
        let now = Instant::now();
        let outage = self.outage.get_or_insert_with(|| Outage::begin(now));
        if let Some(lasted) = outage.warning_due(now) {
            let lasted_secs = lasted.as_secs();
            tracing::warn!(
                why,
                lasted_secs,
                "no guardian: tasks that are fenced have no lease, and wait for this node when it is lost"
            );
        }
    }
}

/// A child that is still running.
trait Running {
    fn filter_map_running(self) -> Self;
}

impl Running for Option<Child> {
    fn filter_map_running(self) -> Self {
        let mut child = self?;
        matches!(child.try_wait(), Ok(None)).then_some(child)
    }
}

fn lease(task: LeasedTask, heartbeat_ms: u64) -> Lease {
    let LeasedTask { task, keys, lease_secs } = task;
    Lease { task, keys, lease_secs, until_ms: heartbeat_ms.saturating_add(u64::from(lease_secs) * 1_000) }
}

/// Sends a request and waits for its confirmation; those of earlier requests come first.
async fn confirmed(connection: &mut BufReader<UnixStream>, request: &Request) -> io::Result<Confirmation> {
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    connection.get_mut().write_all(text.as_bytes()).await?;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"));
        }
        let found: Confirmation = serde_json::from_str(&line)?;
        if found.number == request.number {
            return Ok(found);
        }
    }
}

/// Returns the target of a link to a program, as reported by the system.
pub(super) fn program_of(program: &Path) -> PathBuf {
    fs::read_link(program).or_else(|_| fs::canonicalize(program)).unwrap_or_else(|_| program.to_owned())
}

/// Stops the guardian of a data directory if the agent has started it. The stored leases remain for the next one.
pub(crate) async fn dismiss(directory: &Path, agent: &str, means: Means, leases: Vec<Lease>) {
    let request = Request { number: 1, agent: agent.to_owned(), means, leases, is_last: true };
    let exchange = async {
        let mut connection = BufReader::new(socket::connect(directory).await?);
        confirmed(&mut connection, &request).await
    };
    // Without a guardian there is none to end.
    let _ended = timeout(CONFIRMATION_TIMEOUT, exchange).await;
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::exchange::agent_run::AgentRun;

    use super::*;

    #[tokio::test]
    async fn guardian_that_never_listens_is_silent_and_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let guardian = GuardianCommand {
            program: "/bin/sh".into(),
            arguments: ["-c", "exec sleep 100"].map(Into::into).to_vec(),
        };
        let settings = AgentSettings {
            guardian: Some(guardian),
            ..AgentSettings::new("http://hub.test", directory.path())
        };
        let run = Arc::new(RunHeader::new(AgentRun::default()));
        let mut link = Link::new(settings.into(), Handle::new().0, run, Arc::default());
        assert!(matches!(link.ask("a", Vec::new()).await, Err(Unconfirmed::Gone(_))));
        link.start();
        assert!(matches!(link.ask("a", Vec::new()).await, Err(Unconfirmed::Silent(_))));
        link.kill_silent();
        let mut child = link.child.take().unwrap();
        assert!(!child.wait().await.unwrap().success());
    }
}
