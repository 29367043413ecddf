//! The replacement of the agent's own program.
//!
//! The running program ends its workers without stopping services, starts the new program as its child, and supervises it until
//! it has reported to the hub. Only then the new program is installed and replaces the old one in the same process. Otherwise
//! the old program ends its child and continues.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentError, AgentSettings, files,
    installed::{self, Installed},
};

/// Version of the agent's software: that of the existing agents with which this one is compatible.
pub const AGENT_VERSION: &str = "2.31.0";

/// Variable that overrides the reported version, for packages that wrap a program.
const VERSION: &str = "EVENKEEL_SOFTWARE_VERSION";

/// Returns the version that this program reports.
pub fn software_version() -> String {
    std::env::var(VERSION)
        .ok()
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| AGENT_VERSION.to_owned())
}

/// Variable that marks a program as supervised by the old one.
pub const WATCHED: &str = "EVENKEEL_AGENT_WATCHED";
/// Variable with the version of the originally started program; set for the installed one.
pub const REPLACES: &str = "EVENKEEL_AGENT_REPLACES";

/// Timeout of the version query of a program.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the new program is checked.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of the end of the supervised program before the old one takes over again.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// The command line of this program, so that another one can be started in the same way.
#[derive(Debug, Clone)]
pub struct Restart {
    /// Arguments, without the name of the program.
    pub arguments: Vec<OsString>,
    /// Timeout of the new program's report to the hub.
    pub timeout: Duration,
}

/// A program that is to replace the running one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    /// The management policy.
    pub job: String,
    /// Version that the program reports.
    pub version: String,
    /// The program.
    pub program: PathBuf,
}

/// The reason why an agent ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// On request.
    Shutdown,
    /// Another program replaces it in this process.
    Replaced {
        /// The program.
        program: PathBuf,
        /// Version of the originally started program.
        replaces: String,
    },
}

fn confirmed_path(data_dir: &Path) -> PathBuf {
    data_dir.join("upgrade-confirmed")
}

fn failed_path(data_dir: &Path) -> PathBuf {
    data_dir.join("upgrade-failed")
}

/// Replaces this program in the same process. Returns only on failure; the caller has verified the integrity of the program.
pub fn exec(program: &Path, arguments: &[OsString], replaces: &str) -> io::Error {
    std::process::Command::new(program)
        .args(arguments)
        .env(REPLACES, replaces)
        .env_remove(WATCHED)
        .env_remove(VERSION)
        .exec()
}

/// Returns whether the previous program supervises this one.
pub(crate) fn is_watched() -> bool {
    std::env::var_os(WATCHED).is_some()
}

/// Notifies the supervising program that this one has reported to the hub.
pub(crate) fn confirm(data_dir: &Path, version: &str) -> Result<(), AgentError> {
    Ok(files::write_atomic(&confirmed_path(data_dir), version.as_bytes(), 0o600)?)
}

/// Returns the reason why the last replacement was abandoned, and forgets it.
pub(crate) fn take_failure(data_dir: &Path) -> Result<Option<String>, AgentError> {
    let reason = files::read_optional(&failed_path(data_dir))?;
    if reason.is_some() {
        files::remove(&failed_path(data_dir))?;
    }
    Ok(reason)
}

/// Runs a program to get the version that it would report.
///
/// # Errors
/// A message: why it cannot be started on this machine, or its unexpected output.
pub(crate) async fn version_of(program: &Path) -> Result<String, String> {
    let query = Command::new(program)
        .arg("agent-version")
        .env_remove(VERSION)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(VERSION_TIMEOUT, query)
        .await
        .map_err(|_| "the program does not report its version".to_owned())?
        .map_err(|error| format!("the program cannot be started on this machine: {error}"))?;
    if !output.status.success() {
        return Err(format!("the program does not report its version: {}", output.status));
    }
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if version.is_empty() { Err("the program reports no version".to_owned()) } else { Ok(version) }
}

/// Starts the new program and supervises it until it has reported to the hub; then installs it.
///
/// `None`: it did not start, or the agent was stopped; the old program continues.
///
/// # Errors
/// [`AgentError::DataDir`] when the outcome cannot be written.
pub(crate) async fn replace(
    settings: &AgentSettings,
    restart: &Restart,
    replacement: &Replacement,
    shutdown: &CancellationToken,
) -> Result<Option<End>, AgentError> {
    let data_dir = &settings.data_dir;
    files::remove(&confirmed_path(data_dir))?;
    let replaces = std::env::var(REPLACES).unwrap_or_else(|_| settings.software_version.clone());
    tracing::info!(version = replacement.version, program = %replacement.program.display(), "new agent program is started");
    let outcome = watch(data_dir, restart, replacement, &replaces, shutdown).await;
    files::remove(&confirmed_path(data_dir))?;
    let Err(reason) = outcome else {
        let (version, program) = (replacement.version.clone(), replacement.program.clone());
        let record = Installed {
            version,
            program: program.clone(),
            replaces: replaces.clone(),
            sha256: None,
            failed_starts: 0,
        };
        installed::install(data_dir, &record).map_err(AgentError::DataDir)?;
        tracing::info!(
            version = replacement.version,
            "new agent program has reported to the hub and takes over"
        );
        return Ok(Some(End::Replaced { program, replaces }));
    };
    tracing::error!(version = replacement.version, reason, "new agent program failed; the old one continues");
    files::write_atomic(&failed_path(data_dir), reason.as_bytes(), 0o600)?;
    Ok(None)
}

/// Runs the new program until it has reported to the hub, and then ends it; its services continue under the program
/// that takes over.
async fn watch(
    data_dir: &Path,
    restart: &Restart,
    replacement: &Replacement,
    replaces: &str,
    shutdown: &CancellationToken,
) -> Result<(), String> {
    let mut child = Command::new(&replacement.program)
        .args(&restart.arguments)
        .env(WATCHED, "1")
        .env(REPLACES, replaces)
        .env_remove(VERSION)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let deadline = Instant::now() + restart.timeout;
    let outcome = loop {
        if shutdown.is_cancelled() {
            break Err("the agent was stopped meanwhile".to_owned());
        }
        match fs::read_to_string(confirmed_path(data_dir)) {
            Ok(version) if version == replacement.version => break Ok(()),
            Ok(version) => break Err(format!("it runs as version {version}")),
            Err(_) => {}
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("it ended: {status}"));
        }
        if Instant::now() >= deadline {
            break Err(format!("it did not report to the hub within {} s", restart.timeout.as_secs()));
        }
        sleep(WATCH_INTERVAL).await;
    };
    end(&mut child).await.map_err(|error| format!("it cannot be ended: {error}"))?;
    outcome
}

async fn end(child: &mut Child) -> io::Result<()> {
    let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) else { return Ok(()) };
    // It may already have ended.
    let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
    match timeout(END_TIMEOUT, child.wait()).await {
        Ok(status) => status.map(drop),
        Err(_) => child.kill().await,
    }
}
