//! The real processes of the demo: a hub and its agents, ended with it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longest wait for processes to end by themselves.
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// Processes that end when the demo ends.
#[derive(Default)]
pub struct Processes {
    running: Vec<(String, Child)>,
}

impl Processes {
    /// Starts this program again with other arguments; its output goes to a file.
    pub fn start(
        &mut self,
        name: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
        log: &Path,
    ) -> Result<(), Failure> {
        let broken = |what: &str, error: &std::io::Error| {
            Failure::new(ExitStatus::Failure, format!("{what} for {name}: {error}"))
        };
        let program =
            std::env::current_exe().map_err(|error| broken("this program cannot be found", &error))?;
        let log = File::create(log).map_err(|error| broken("the log file cannot be made", &error))?;
        let errors = log.try_clone().map_err(|error| broken("the log file cannot be made", &error))?;
        let child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().copied())
            // Ctrl-C goes to the whole group of the terminal; these are ended by the demo, in their order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| broken("a process cannot be started", &error))?;
        self.running.push((name.to_owned(), child));
        Ok(())
    }

    /// The name of a process that has ended although it should not.
    pub fn find_ended(&mut self) -> Option<String> {
        self.running
            .iter_mut()
            .find_map(|(name, child)| matches!(child.try_wait(), Ok(Some(_))).then(|| name.clone()))
    }

    /// Kills a process, which gets no chance to do anything first.
    pub fn kill(&mut self, name: &str) {
        if let Some(index) = self.running.iter().position(|(running, _)| running == name) {
            let (_, mut child) = self.running.remove(index);
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal to a process.
    pub fn signal(&self, name: &str, signal: Signal) {
        let process = self.running.iter().find(|(running, _)| running == name);
        if let Some(id) = process.and_then(|(_, child)| i32::try_from(child.id()).ok()) {
            // It may have ended already.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Ends a process, which has time to end in order.
    pub fn terminate(&mut self, name: &str) {
        if let Some(index) = self.running.iter().position(|(running, _)| running == name) {
            end(vec![self.running.remove(index)]);
        }
    }

    /// Ends everything, the agents together and then the hub; kills what does not end in time.
    pub fn stop(&mut self) {
        let first = self.running.len().min(1);
        let agents = self.running.split_off(first);
        end(agents);
        end(std::mem::take(&mut self.running));
    }
}

/// Ends processes at the same time.
fn end(mut processes: Vec<(String, Child)>) {
    for (_, child) in &processes {
        if let Ok(id) = i32::try_from(child.id()) {
            // It may have ended already, or be suspended.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
            let _ = kill(Pid::from_raw(id), Signal::SIGCONT);
        }
    }
    let until = Instant::now() + STOP_LIMIT;
    for (_, child) in &mut processes {
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the log file of a process.
pub fn log_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}
