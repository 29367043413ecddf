//! The machine's process table: liveness and ownership of processes, and signals to them (`/proc`).

use std::{fs, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

use super::{DIRECTORY, MARK, record::ProcessRecord};
use crate::clock::boot;

/// Interval between checks of a process that is not a child.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Fields of `/proc/<pid>/stat`.
struct Stat {
    state: char,
    group: i32,
    start_ticks: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks and parentheses; the fields after the last one are plain.
    let rest = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the start time of a live process in clock ticks since the boot; `None` for ended ones, including zombies.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    stat(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X')).map(|stat| stat.start_ticks)
}

/// Returns whether a live process is suspended by a signal.
pub(crate) fn is_suspended(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'T')
}

/// Returns whether the recorded process is alive: same process id, same start time, same boot.
pub(crate) fn is_same_process(record: &ProcessRecord) -> bool {
    record.boot == boot() && start_ticks(record.pid) == Some(record.start_ticks)
}

/// Returns exit code and signal of a child that has ended; none for other processes.
pub(crate) fn reap(pid: i32) -> (Option<i64>, Option<i32>) {
    match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(_, code)) => (Some(i64::from(code)), None),
        Ok(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
        Ok(_) | Err(_) => (None, None),
    }
}

/// Returns all live processes that carry the mark of an agent.
pub(crate) fn find_marked(agent: &str) -> Vec<ProcessRecord> {
    find(|environment| value_of(environment, MARK)?.strip_prefix(agent)?.strip_prefix('/'))
}

/// Returns all live processes that an agent with this directory has started under another identity.
pub(crate) fn find_orphans(directory: &str, agent: &str) -> Vec<ProcessRecord> {
    find(|environment| {
        let (owner, mark) = value_of(environment, MARK)?.split_once('/')?;
        let is_orphan = owner != agent && value_of(environment, DIRECTORY) == Some(directory);
        is_orphan.then_some(mark)
    })
}

/// Returns the value of a variable.
fn value_of<'e>(environment: &'e [u8], name: &str) -> Option<&'e str> {
    let mut pairs = environment.split(|byte| *byte == 0);
    let value = pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()
}

/// Returns all live processes in whose environment `mark` finds key and name, separated by a slash.
fn find(mark: impl Fn(&[u8]) -> Option<&str>) -> Vec<ProcessRecord> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let boot = boot();
    let pids = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = pids.filter_map(|pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let (key, name) = mark(&environment)?.split_once('/')?;
        let stat = stat(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
        Some(ProcessRecord {
            key: key.to_owned(),
            name: name.to_owned(),
            pid,
            start_ticks: stat.start_ticks,
            boot: boot.clone(),
            started_at: crate::clock::now_secs(),
            is_leader: stat.group == pid,
        })
    });
    found.collect()
}

/// Sends a signal to a process, and to its whole group when it leads one. Its identity is checked first, so that another
/// process with a reused id is not signaled.
fn signal(process: &ProcessRecord, signal: Signal) {
    if !is_same_process(process) {
        return;
    }
    let pid = Pid::from_raw(process.pid);
    let result = if process.is_leader { killpg(pid, signal) } else { kill(pid, signal) };
    if let Err(error) = result.or_else(|error| if error == Errno::ESRCH { Ok(()) } else { Err(error) }) {
        tracing::warn!(pid = process.pid, %error, "process cannot be signalled");
    }
}

pub(crate) fn kill_all(processes: &[ProcessRecord]) {
    processes.iter().for_each(|process| signal(process, Signal::SIGKILL));
}

/// Resumes suspended processes.
pub(crate) fn continue_all(processes: &[ProcessRecord]) {
    processes.iter().for_each(|process| signal(process, Signal::SIGCONT));
}

/// Ends processes: first with `SIGTERM`, after `grace` with `SIGKILL`. Returns when none of them is left.
pub(crate) async fn end_all(mut processes: Vec<ProcessRecord>, grace: Duration) {
    processes.iter().for_each(|process| signal(process, Signal::SIGTERM));
    // A suspended process would not see the signal.
    continue_all(&processes);
    let deadline = Instant::now() + grace;
    while !processes.is_empty() {
        processes.retain(is_same_process);
        if Instant::now() >= deadline {
            processes.iter().for_each(|process| signal(process, Signal::SIGKILL));
        }
        if !processes.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}
