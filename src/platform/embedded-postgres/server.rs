//! One run of the server: start, readiness, and its end, which follows the end of this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

use super::PostgresError;
use super::binaries::Binaries;
use super::cluster::{last_lines, plain_command};
use super::home::Home;
use evenkeel_runtime::files::FileError;

/// Timeout of a start: after a crash, the server first replays its log.
const START_LIMIT: Duration = Duration::from_secs(300);

/// Time to retry while processes of a killed server still hold its shared memory.
const MEMORY_LIMIT: Duration = Duration::from_secs(20);

/// Timeouts of a fast shutdown and then of an immediate one; together well below the drain time of a process.
const STOP_STAGES: [(Signal, Duration); 2] =
    [(Signal::SIGINT, Duration::from_millis(3_500)), (Signal::SIGQUIT, Duration::from_millis(1_000))];

/// A log larger than this is truncated at the next start.
const LOG_LIMIT: u64 = 8 * 1024 * 1024;

/// Waits for the end of its standard input, which occurs when the process at the other end of the pipe ends for any
/// reason, and then stops the server if its lock file still names it.
const WATCHER: &str = r#"
    read -r word
    [ "$word" = done ] && exit 0
    read -r pid <"$2" && [ "$pid" = "$1" ] && kill -INT "$1"
"#;

/// Parameters of a start.
#[derive(Clone, Debug)]
pub struct Launch {
    home: Home,
    program: PathBuf,
    /// The directory of the socket.
    pub socket_directory: PathBuf,
    is_durable: bool,
}

impl Launch {
    /// Prepares starts of the server of `home`.
    ///
    /// # Errors
    /// When the directory of its socket cannot be created.
    pub fn new(home: &Home, binaries: &Binaries, is_durable: bool) -> Result<Self, PostgresError> {
        let socket_directory = home.socket_directory()?;
        Ok(Self {
            home: home.clone(),
            program: binaries.directory.join("postgres"),
            socket_directory,
            is_durable,
        })
    }

    fn command(&self, log: File) -> io::Result<Command> {
        let mut command = plain_command(&self.program, &self.home);
        let mut set = |key: &str, value: &str| {
            command.arg("-c").arg(format!("{key}={value}"));
        };
        set("listen_addresses", "");
        set("unix_socket_directories", &quote_list_item(&self.socket_directory.to_string_lossy()));
        set("unix_socket_permissions", "0700");
        set("port", "5432");
        set("max_connections", "200");
        set("log_min_messages", "warning");
        set("log_line_prefix", "%m [%p] ");
        set("log_timezone", "UTC");
        set("timezone", "UTC");
        set("jit", "off");
        // The default sizes, which would otherwise shrink with the size of the WAL segments.
        set("min_wal_size", "80MB");
        set("max_wal_size", "1GB");
        if !self.is_durable {
            set("fsync", "off");
            set("full_page_writes", "off");
        }
        command.arg("-D").arg(self.home.data()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn open_log(&self) -> Result<File, FileError> {
        let path = self.home.log_file();
        let is_large = std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG_LIMIT);
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let log = log.map_err(FileError::at("open", &path))?;
        if is_large {
            log.set_len(0).map_err(FileError::at("truncate", &path))?;
        }
        Ok(log)
    }

    fn log_end(&self, since: u64) -> String {
        let text = std::fs::read(self.home.log_file()).unwrap_or_default();
        let start = usize::try_from(since).map_or(0, |since| since.min(text.len()));
        last_lines(&String::from_utf8_lossy(&text[start..]), 3)
    }
}

/// The list of socket directories is separated by commas; quotes keep a comma in a path from splitting it.
fn quote_list_item(path: &str) -> String {
    format!("\"{}\"", path.replace('"', "\"\""))
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    watcher: Option<Watcher>,
}

impl Server {
    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// [`PostgresError::Start`] with the end of its log when it ends or does not become ready.
    pub async fn start(launch: &Launch) -> Result<Self, PostgresError> {
        let retry_until = Instant::now() + MEMORY_LIMIT;
        loop {
            match Self::start_once(launch).await {
                Err(PostgresError::Start { output })
                    if output.contains("shared memory block") && Instant::now() < retry_until =>
                {
                    sleep(Duration::from_millis(200)).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(launch: &Launch) -> Result<Self, PostgresError> {
        let log = launch.open_log()?;
        let since = log.metadata().map_or(0, |log| log.len());
        let spawned = launch.command(log).and_then(|mut command| command.spawn());
        let child =
            spawned.map_err(|source| PostgresError::Run { program: launch.program.clone(), source })?;
        let watcher = Watcher::start(&child, &launch.home.data());
        let mut server = Self { child, watcher };
        match timeout(START_LIMIT, server.become_ready(launch)).await {
            Ok(true) => Ok(server),
            Ok(false) => {
                server.dismiss_watcher().await;
                Err(PostgresError::Start { output: launch.log_end(since) })
            }
            Err(_) => {
                server.stop().await;
                Err(PostgresError::Start { output: "it does not become ready".to_owned() })
            }
        }
    }

    /// Waits for the line `ready` in the server's lock file; returns `false` if the server ended instead.
    async fn become_ready(&mut self, launch: &Launch) -> bool {
        let lock_file = launch.home.data().join("postmaster.pid");
        let pid = self.child.id().map(|id| id.to_string());
        loop {
            let text = std::fs::read_to_string(&lock_file).unwrap_or_default();
            let mut lines = text.lines().map(str::trim);
            if lines.next() == pid.as_deref() && lines.any(|line| line == "ready") {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the server to end; returns a description of its exit.
    pub async fn wait(&mut self) -> String {
        let ending = self.child.wait().await;
        self.dismiss_watcher().await;
        ending.as_ref().map_or_else(ToString::to_string, ExitStatus::to_string)
    }

    /// Stops the server by a fast shutdown, then by an immediate one; both keep every committed write. If neither
    /// completes in time, the watcher takes over, so that this process can end in time.
    pub async fn stop(mut self) {
        for (signal, limit) in STOP_STAGES {
            let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) else { break };
            // The child has not been reaped yet, so its id has not been reused.
            let _ = kill(Pid::from_raw(pid), signal);
            if timeout(limit, self.child.wait()).await.is_ok() {
                break;
            }
            tracing::warn!(postgres.process = pid, "the embedded PostgreSQL is slow to stop");
        }
        if self.child.id().is_none() {
            self.dismiss_watcher().await;
        }
    }

    async fn dismiss_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.dismiss().await;
        }
    }
}

/// The small process that stops the server after this process has ended.
#[derive(Debug)]
struct Watcher {
    child: Child,
    input: ChildStdin,
}

impl Watcher {
    fn start(server: &Child, data: &Path) -> Option<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", WATCHER, "evenkeel-postgres-watcher"])
            .arg(server.id()?.to_string())
            .arg(data.join("postmaster.pid"))
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .inspect_err(|error| {
                // Without a shell, a server that is left running is stopped at the next start.
                tracing::debug!("no watcher for the embedded PostgreSQL: {error}");
            })
            .ok()?;
        let input = child.stdin.take()?;
        Some(Self { child, input })
    }

    async fn dismiss(mut self) {
        // The watcher may already have ended.
        let _ = self.input.write_all(b"done\n").await;
        drop(self.input);
        let _ = timeout(Duration::from_secs(1), self.child.wait()).await;
    }
}
