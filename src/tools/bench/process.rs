//! Processes under measurement: this program again, with its CPU time and memory as the system counts them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// CPU time is counted in hundredths of a second, on every architecture that this program runs on.
const TICKS_PER_SECOND: f64 = 100.0;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(12);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running process; ended when dropped.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts this program with other arguments; its output goes to a file in `directory`.
    pub fn start(name: &'static str, arguments: &[&str], directory: &Path) -> Result<Process, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
        Process::start_program(&program, name, arguments, directory)
    }

    /// Starts a program; its output goes to a file in `directory`.
    pub fn start_program(
        program: &Path,
        name: &'static str,
        arguments: &[&str],
        directory: &Path,
    ) -> Result<Process, Failure> {
        let broken = |error: std::io::Error| {
            Failure::new(ExitStatus::Failure, format!("the process {name} cannot be started: {error}"))
        };
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).map_err(broken)?;
        // Environment settings of the caller must not reach the measured process.
        let inherited =
            std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("EVENKEEL_"));
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(inherited)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(broken)?)
            .stderr(file)
            .spawn()
            .map_err(broken)?;
        Ok(Process { name, child, log })
    }

    /// Returns the output of the process so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has written an address after `mark`.
    pub async fn address_after(&mut self, mark: &str) -> Result<SocketAddr, Failure> {
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            self.check_running()?;
            let log = self.log();
            let rest = log.split_once(mark).map(|(_, rest)| rest.trim_start_matches("http://"));
            let end = rest.and_then(|rest| rest.find(|c: char| c == '"' || c.is_whitespace()));
            if let (Some(rest), Some(end)) = (rest, end)
                && let Ok(address) = rest[..end].parse()
            {
                return Ok(address);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(self.failure("does not print its address"))
    }

    /// An error when it has ended although it should not.
    pub fn check_running(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(self.failure("has ended")),
        }
    }

    /// Waits for its end, which must be a good one.
    pub fn finish(mut self) -> Result<(), Failure> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure("has failed")),
        }
    }

    fn failure(&self, what: &str) -> Failure {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(10)..].join("\n");
        Failure::new(ExitStatus::Failure, format!("the process {} {what}:\n{end}", self.name))
    }

    /// CPU time of all its threads so far, in seconds.
    pub fn cpu_secs(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name in parentheses may hold anything; user and system time are fields 14 and 15.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields = rest.split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
    }

    /// The same by its clock, to the nanosecond.
    pub fn cpu_time(&self) -> Duration {
        let id = i32::try_from(self.child.id()).unwrap_or_default();
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(id)).and_then(clock_gettime);
        clock.map_or(Duration::ZERO, Duration::from)
    }

    /// Resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        resident_mib(&self.child.id().to_string())
    }

    /// Resident memory in MiB that no other process shares: without pages of the program's file.
    pub fn private_mib(&self) -> f64 {
        mib(&self.child.id().to_string(), "RssAnon:")
    }

    /// Suspends it, or lets it continue.
    pub fn pause(&self, stands_still: bool) {
        self.signal(if stands_still { Signal::SIGSTOP } else { Signal::SIGCONT });
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // It may have ended already.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::SIGTERM);
            self.signal(Signal::SIGCONT);
        }
        let until = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Resident memory of a process (`self` for this one) in MiB, 0 where the system does not report it.
pub fn resident_mib(process: &str) -> f64 {
    mib(process, "VmRSS:")
}

fn mib(process: &str, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_of_this_process_is_measured() {
        assert!(resident_mib("self") > 1.0);
    }
}
