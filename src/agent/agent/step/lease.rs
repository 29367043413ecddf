//! Leases of tasks that another node may run once this node has had no contact with the hub for long enough.
//!
//! The agent kills such a task when it has had no contact with the hub for the length of the lease; the guardian does
//! so if the agent cannot. A lease exists only after the guardian has confirmed it, and is then reported to the hub.
//! Without a guardian the task runs without a lease. Source: orchestration C8.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::TaskState;
use evenkeel_wire::agreement::reason;

use super::{Agreement, Command, Outcome, State, Task, task::TaskEnd};

/// Knowledge about the guardian.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There is no guardian, or it does not respond: no lease is valid.
    Absent,
    /// It has confirmed the leases of these tasks, each with its length in seconds.
    Confirmed(BTreeMap<String, u32>),
}

/// A task that is to have a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedTask {
    /// The task.
    pub task: String,
    /// Keys of its services.
    pub keys: Vec<String>,
    /// Length of the lease in seconds.
    pub lease_secs: u32,
}

impl State {
    /// Returns the tasks that need a lease: those that run, and those that may be about to start.
    pub fn leases(&self) -> Vec<LeasedTask> {
        let leased = self.tasks.iter().filter_map(|(id, task)| {
            let lease_secs = task.supervision.lease_seconds?;
            let agreement = self.agreements.get(task.agreement.as_ref()?)?;
            let own = self.instances.iter().filter(|(_, instance)| !instance.dependency.is_shared);
            let own = own.filter(|(key, _)| agreement.dependency_keys().any(|needed| needed == **key));
            let keys = std::iter::once(agreement.id.clone()).chain(own.map(|(key, _)| key.clone()));
            let is_over = agreement.is_stopped;
            (!is_over).then(|| LeasedTask { task: id.clone(), keys: keys.collect(), lease_secs })
        });
        leased.collect()
    }

    /// Returns whether the lease of a task permits its start: the guardian has confirmed it, or there is no guardian,
    /// and another node may not run the task yet.
    pub(super) fn is_lease_settled(&self, agreement: &Agreement) -> bool {
        let owns = |(_, task): &(&String, &Task)| task.agreement.as_deref() == Some(&agreement.id);
        let Some((id, task)) = self.tasks.iter().find(owns) else { return true };
        let Some(lease_secs) = task.supervision.lease_seconds else { return true };
        let is_fresh = self.silent_secs < u64::from(lease_secs);
        is_fresh
            && match &self.guard {
                Guard::Unknown => false,
                Guard::Absent => true,
                Guard::Confirmed(leases) => leases.get(id) == Some(&lease_secs),
            }
    }

    /// Records the state that the guardian reports, and ends the tasks that it has killed.
    pub(super) fn guarded(&mut self, guard: Guard, killed: &[String], now: u64) -> Outcome {
        self.guard = guard;
        let killed = self.tasks.iter().filter(|(id, _)| killed.contains(id));
        let killed =
            killed.filter_map(|(_, task)| Some((task.agreement.clone()?, task.supervision.lease_seconds?)));
        let killed: Vec<(String, u32)> = killed.collect();
        self.fence(killed, now)
    }

    /// Returns the leases that have not been reported to the hub.
    pub(super) fn lease_reports(&self) -> impl Iterator<Item = Command> {
        let confirmed = match &self.guard {
            Guard::Confirmed(leases) => Some(leases),
            Guard::Unknown | Guard::Absent => None,
        };
        self.tasks.iter().filter_map(move |(id, task)| {
            let lease_secs = *confirmed?.get(id)?;
            let is_known = task.reported_lease.is(&Some(lease_secs));
            (!is_known).then(|| Command::ReportLease { task: id.clone(), lease_secs })
        })
    }

    /// Records that a lease was reported, or that the hub does not have the task.
    pub(super) fn lease_reported(&mut self, task: &str, lease_secs: u32) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.reported_lease.succeed(Some(lease_secs));
        }
        Outcome::default()
    }

    /// Records the time without contact to the hub, and ends the tasks whose lease has expired, because another node may have started them.
    pub(super) fn record_silence(&mut self, silent_secs: u64, now: u64) -> Outcome {
        self.silent_secs = silent_secs;
        let leased = self.tasks.values();
        let leased =
            leased.filter_map(|task| Some((task.agreement.clone()?, task.supervision.lease_seconds?)));
        let over = leased.filter(|(_, lease)| silent_secs >= u64::from(*lease)).collect();
        self.fence(over, now)
    }

    /// Ends the tasks of these agreements that run, with the length of their leases.
    fn fence(&mut self, over: Vec<(String, u32)>, now: u64) -> Outcome {
        let mut notes = Vec::new();
        for (key, lease) in over {
            let error = format!("fenced: no contact to the hub for {lease} s");
            let is_running =
                self.agreements.get(&key).is_some_and(|one| one.is_live() && one.is_start_ordered);
            let task = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(&key));
            let Some(task) = task.filter(|_| is_running) else { continue };
            task.is_fenced = true;
            task.end.get_or_insert(TaskEnd::with_error(TaskState::Failed, &error));
            notes.extend(self.end(&key, reason::SERVICE_TERMINATED, true, now).note);
        }
        Outcome { note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
