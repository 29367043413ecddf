//! The guardian process: accepts requests of the agent, and kills tasks whose leases were not renewed.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use evenkeel_domain::causes::chain;
use evenkeel_runtime::files::FileLock;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    Confirmation, Lease, Request,
    kill::Killer,
    leases::{LeaseFile, Leases},
    link::program_of,
    socket,
};
use crate::{clock, files};

/// Interval at which leases are examined.
const ROUND: Duration = Duration::from_millis(250);
/// Interval between searches for services of which nothing was left.
const CLEARED_PAUSE: Duration = Duration::from_secs(1);
/// Interval at which containers are listed.
const PREPARE_INTERVAL: Duration = Duration::from_secs(5);
/// Pause between attempts to get the lock from another guardian.
const LOCK_PAUSE: Duration = Duration::from_millis(500);
/// Time without a lease and without an agent after which a guardian ends that an agent has started.
const IDLE_END: Duration = Duration::from_secs(60);

/// The reason why a guardian cannot run.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error.
        reason: String,
    },
}

/// Guards the leases of the agent with this data directory until `shutdown` is canceled. A second guardian waits until the first one ends.
///
/// `is_of_agent`: the agent has started it, and no other process would end it.
///
/// # Errors
/// [`GuardianError`] when the directory cannot be used.
pub async fn serve(
    directory: &Path,
    is_of_agent: bool,
    shutdown: CancellationToken,
) -> Result<(), GuardianError> {
    if is_of_agent {
        // A signal to the session of the agent must not end the guardian. The call fails for the leader of a process
        // group, which already has a session of its own.
        let _own = nix::unistd::setsid();
    }
    let unusable = |reason: String| GuardianError::Directory { path: directory.to_owned(), reason };
    let Some(_lock) = lock(directory, is_of_agent, &shutdown).await.map_err(unusable)? else { return Ok(()) };
    let listener = socket::listen(directory).map_err(|error| unusable(error.to_string()))?;
    let boot = clock::boot();
    let (file, leases) = LeaseFile::open(directory, &boot);
    let mut guardian = Guardian {
        directory: directory.to_owned(),
        is_of_agent,
        boot,
        file,
        leases,
        killer: Killer::new(),
        prepared_at: None,
        cleared_at: None,
        busy_at: Instant::now(),
    };
    tracing::info!("the guardian of the agent runs");
    guardian.run(listener, shutdown).await;
    Ok(())
}

/// Waits for the lock; none when the guardian is to end instead.
async fn lock(
    directory: &Path,
    is_of_agent: bool,
    shutdown: &CancellationToken,
) -> Result<Option<FileLock>, String> {
    let path = directory.join("guardian.lock");
    loop {
        if let Some(lock) = files::lock_file(&path).map_err(|error| chain(&error))? {
            return Ok(Some(lock));
        }
        // The agent starts another one when it needs one.
        if is_of_agent || shutdown.is_cancelled() {
            return Ok(None);
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = sleep(LOCK_PAUSE) => {}
        }
    }
}

struct Guardian {
    directory: PathBuf,
    is_of_agent: bool,
    boot: String,
    file: LeaseFile,
    leases: Option<Leases>,
    killer: Killer,
    prepared_at: Option<Instant>,
    /// Time at which nothing was left of any expired lease.
    cleared_at: Option<Instant>,
    /// Last time with a lease to guard or a connected agent.
    busy_at: Instant,
}

/// The agent at the other end.
struct Agent {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Agent {
    fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    /// Returns the next request; none if the agent has disconnected.
    async fn next(&mut self) -> Option<Request> {
        let line = self.lines.next_line().await.ok()??;
        serde_json::from_str(&line)
            .inspect_err(|error| tracing::warn!(%error, "a request of the agent cannot be read"))
            .ok()
    }

    async fn confirm(&mut self, confirmation: &Confirmation) -> io::Result<()> {
        let mut text = serde_json::to_string(confirmation)?;
        text.push('\n');
        self.writer.write_all(text.as_bytes()).await
    }
}

async fn next_request(agent: &mut Option<Agent>) -> Option<Request> {
    match agent {
        Some(agent) => agent.next().await,
        None => std::future::pending().await,
    }
}

impl Guardian {
    async fn run(&mut self, listener: UnixListener, shutdown: CancellationToken) {
        let mut agent: Option<Agent> = None;
        let mut tick = interval(ROUND);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    // Only one agent at a time can lock the data directory, so the last one to connect is the live one.
                    Ok((stream, _)) => agent = Some(Agent::new(stream)),
                    Err(error) => tracing::warn!(%error, "the agent cannot connect"),
                },
                request = next_request(&mut agent) => match request {
                    Some(request) => {
                        if self.renew_leases(&request, &mut agent).await {
                            return;
                        }
                    }
                    None => agent = None,
                },
                _ = tick.tick() => {
                    self.enforce().await;
                    if self.is_over(agent.is_some()) {
                        return;
                    }
                }
            }
        }
    }

    /// Stores the leases of a request and confirms them. Returns whether it is the last request.
    async fn renew_leases(&mut self, request: &Request, agent: &mut Option<Agent>) -> bool {
        let leases = Leases::of(request, &self.boot, self.leases.as_ref());
        let has_more = self.leases.as_ref().is_none_or(|known| known.keys() != leases.keys());
        if let Err(error) = self.file.save(&leases) {
            // Without a confirmation there is no lease.
            tracing::error!(error = chain(&error), "the leases cannot be written, and are not confirmed");
            *agent = None;
            return false;
        }
        let killed = leases.killed();
        self.leases = Some(leases);
        if has_more {
            (self.prepared_at, self.cleared_at) = (None, None);
        }
        let confirmation = Confirmation {
            number: request.number,
            program: program_of(Path::new("/proc/self/exe")),
            is_of_agent: self.is_of_agent,
            killed,
        };
        let is_confirmed = match agent {
            Some(one) => one.confirm(&confirmation).await.is_ok(),
            None => false,
        };
        if !is_confirmed {
            *agent = None;
        }
        request.is_last && self.is_of_agent
    }

    /// Kills what may no longer run.
    async fn enforce(&mut self) {
        let Some(leases) = &mut self.leases else { return };
        let over: Vec<Lease> = leases.over(clock::uptime_ms()).cloned().collect();
        // Dead processes are searched for less often.
        let is_time = self.cleared_at.is_none_or(|at| at.elapsed() >= CLEARED_PAUSE);
        if is_time && !over.is_empty() {
            self.cleared_at = Some(Instant::now());
            for lease in over {
                let keys: BTreeSet<String> = lease.keys.iter().cloned().collect();
                let means = (leases.agent.as_str(), &leases.means);
                let count = self.killer.kill(&self.directory, means, &keys).await;
                if count == 0 {
                    continue;
                }
                self.cleared_at = None;
                if leases.record_killed(&lease.task) {
                    let Lease { task, lease_secs, .. } = lease;
                    tracing::error!(
                        task.id = task,
                        lease_secs,
                        "a task was killed: its agent has not renewed the lease"
                    );
                }
                if let Err(error) = self.file.save(leases) {
                    tracing::warn!(error = chain(&error), "the leases cannot be written");
                }
            }
        }
        let is_due = self.prepared_at.is_none_or(|at| at.elapsed() >= PREPARE_INTERVAL);
        if is_due {
            self.prepared_at = Some(Instant::now());
            self.killer.prepare(&leases.agent, &leases.means, leases.keys());
        }
    }

    /// Returns whether a guardian that an agent has started has nothing left to do.
    fn is_over(&mut self, has_agent: bool) -> bool {
        let now_ms = clock::uptime_ms();
        let is_busy = has_agent || self.leases.as_ref().is_some_and(|leases| leases.is_open(now_ms));
        if is_busy {
            self.busy_at = Instant::now();
        }
        // Without its directory there is no agent.
        self.is_of_agent && (self.busy_at.elapsed() >= IDLE_END || !self.directory.exists())
    }
}
