//! Stops a server that an earlier process left running, so that the cluster is free for the next start.
//!
//! This is safe because the lock of the data directory is held: the process that started that server has ended.

use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use super::PostgresError;

/// Timeout of a fast, then an immediate shutdown.
const STAGES: [(Signal, Duration); 2] =
    [(Signal::SIGINT, Duration::from_secs(20)), (Signal::SIGQUIT, Duration::from_secs(10))];

/// Stops the server of `data`, if one runs.
///
/// # Errors
/// [`PostgresError::Leftover`] when it does not end.
pub async fn stop(data: &Path) -> Result<(), PostgresError> {
    let Some(pid) = running_server(data) else { return Ok(()) };
    tracing::warn!(postgres.process = pid.as_raw(), "an earlier PostgreSQL server still runs: stopping it");
    for (signal, limit) in STAGES {
        // It may already be ending, or end between the check and the signal.
        let _ = kill(pid, signal);
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if running_server(data) != Some(pid) {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Err(PostgresError::Leftover { process: pid.as_raw() })
}

/// Returns the server that runs on `data`: the process that its lock file names, if it is alive and its working directory is `data`.
pub fn running_server(data: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid = Pid::from_raw(text.lines().next()?.trim().parse().ok()?);
    let is_alive = !matches!(kill(pid, None), Err(Errno::ESRCH));
    (pid.as_raw() > 1 && is_alive && works_in(pid, data)).then_some(pid)
}

/// Process ids are reused, so the server is identified by its working directory if the system reports it.
fn works_in(pid: Pid, data: &Path) -> bool {
    match std::fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(directory) => std::fs::canonicalize(data).is_ok_and(|data| data == directory),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
