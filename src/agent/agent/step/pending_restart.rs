//! Restarts that the hub is to carry out, and has not carried out when contact with it is lost.
//!
//! The end of such a task was reported, and the hub starts another task after the delay of the policy. When there has
//! been no contact for the length of the delay, the node starts the service itself: under the next task if that already
//! has an agreement, else again under the task that ended. Tasks with a lease are left alone: the hub may have started
//! them on another node. Source: orchestration B10.

use evenkeel_wire::exchange::node_task::NodeTask;
use serde::{Deserialize, Serialize};

use super::own_restart::{CONTACT_AGE_SECS, Decision};
use super::{Agreement, OpenEnd, Outcome, State, Task};

/// Longest time until the contact is checked again, in seconds.
const LONGEST_CONTACT_AGE_SECS: u64 = 30;

/// The slot that a task fills. Tasks of the same slot replace each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSlot {
    /// The deployment policy, as `org/policy`.
    pub policy: String,
    /// The workload unit.
    pub workload_unit: String,
    /// Its number; `None` when the slot is the node.
    pub number: Option<i64>,
    /// Version of the spec.
    pub spec_version: i64,
}

/// A restart that is left to the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRestart {
    /// The end of the instance.
    pub ended: OpenEnd,
    /// Start of the time without contact to the hub, in seconds since 1970.
    pub alone_since: Option<u64>,
}

/// The way in which the node carries out a restart.
enum Takeover {
    /// Start the next task, which has this agreement.
    Next(String),
    /// Start the task of this agreement once more.
    Again(String),
}

impl TaskSlot {
    pub(super) fn of(task: &NodeTask) -> Self {
        Self {
            policy: task.policy.clone(),
            workload_unit: task.workload_unit.clone(),
            number: task.slot,
            spec_version: task.spec_version,
        }
    }
}

impl State {
    /// Records the end of a task that the hub is to replace.
    pub(super) fn await_restart(&mut self, key: &str, ended: OpenEnd) {
        let has_ended = self.agreements.get(key).is_some_and(|one| !one.is_live());
        let task = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key));
        if let Some(task) = task.filter(|_| has_ended) {
            task.pending_restart = Some(PendingRestart { ended, alone_since: None });
        }
    }

    /// Removes the ends that the start of a service resolves.
    pub(super) fn forget_pending_restart(&mut self, agreement: &str) {
        let Some(slot) = self.task_of(agreement).map(|task| task.slot.clone()) else { return };
        for task in self.tasks.values_mut().filter(|task| task.slot == slot) {
            task.pending_restart = None;
        }
    }

    /// Records since when there has been no contact.
    pub(super) fn record_contact(&mut self, is_up: bool, now: u64) {
        for pending in self.tasks.values_mut().filter_map(|task| task.pending_restart.as_mut()) {
            pending.alone_since = (!is_up).then(|| pending.alone_since.unwrap_or(now));
        }
    }

    /// Returns after how many seconds the contact is checked again because of pending restarts; `None` if there are none.
    pub(super) fn pending_contact_age(&self) -> Option<u64> {
        let pending = self.tasks.values().filter(|task| self.takeover(task, self.now).is_some());
        let delay =
            pending.filter_map(|task| Some(task.supervision.restart.as_ref()?.delay_seconds)).min()?;
        Some((delay / 2).clamp(CONTACT_AGE_SECS, LONGEST_CONTACT_AGE_SECS))
    }

    /// Carries out the restarts for which the hub has been unreachable for too long.
    pub(super) fn take_over_restarts(&mut self, now: u64) -> Outcome {
        let due = self.tasks.values().filter(|task| is_due(task, now));
        let due: Vec<Takeover> = due.filter_map(|task| self.takeover(task, now)).collect();
        let mut notes = Vec::new();
        for takeover in due {
            let (Takeover::Next(key) | Takeover::Again(key)) = &takeover;
            notes.push(format!(
                "the restart of agreement {key} is no longer left to the hub, which does not respond"
            ));
            match takeover {
                Takeover::Next(key) => self.start_next(&key, now),
                Takeover::Again(key) => self.reopen(&key),
            }
        }
        Outcome { note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }

    fn start_next(&mut self, key: &str, now: u64) {
        if let Some(task) = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key)) {
            task.wanted_at.get_or_insert(now);
        }
        self.forget_pending_restart(key);
    }

    /// Marks an end as undecided again. The restart then follows the rules for a node without contact.
    fn reopen(&mut self, key: &str) {
        let Some(task) = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key)) else {
            return;
        };
        task.open_end = task.pending_restart.take().map(|pending| pending.ended);
        task.end = None;
        task.is_reopened = true;
        self.change(key, |agreement| {
            agreement.ending = None;
            agreement.is_stopped = false;
        });
    }

    /// Returns how the node could carry out the pending restart of a task; `None` if there is none, or the hub has decided otherwise.
    fn takeover(&self, task: &Task, now: u64) -> Option<Takeover> {
        let (rule, pending) = (task.supervision.restart.as_ref()?, task.pending_restart.as_ref()?);
        let has_lease = task.supervision.lease_seconds.is_some();
        let is_over = matches!(task.decide(rule, &pending.ended, now), Decision::GiveUp);
        if has_lease || is_over || self.is_unregistering {
            return None;
        }
        let agreement_of = |task: &Task| self.agreements.get(task.agreement.as_ref()?);
        let next = self.next_of(task);
        if let Some(agreement) = next.and_then(agreement_of).filter(|one| one.accepted_at.is_some()) {
            let waits = agreement.is_live() && !agreement.is_start_ordered;
            return waits.then(|| Takeover::Next(agreement.id.clone()));
        }
        // Without a next task, a numbered slot may have moved to another node.
        let is_of_node = task.slot.number.is_none() && !task.desired.is_stop();
        let has_stopped = |one: &&Agreement| one.ending.is_some() && one.is_stopped;
        let agreement = agreement_of(task).filter(has_stopped)?;
        (next.is_some() || is_of_node).then(|| Takeover::Again(agreement.id.clone()))
    }

    /// Returns the task with which the hub has replaced another one.
    fn next_of(&self, task: &Task) -> Option<&Task> {
        let is_same_slot = |other: &Task| other.slot == task.slot && other.agreement != task.agreement;
        self.tasks.values().find(|other| is_same_slot(other) && other.is_wanted())
    }

    /// Returns whether the hub has replaced a task that this node has restarted.
    pub(super) fn is_replaced(&self, task: &Task) -> bool {
        task.is_reopened && self.next_of(task).is_some_and(|next| next.wanted_at.is_some())
    }

    /// Returns whether the service of an agreement runs under an earlier task of the same slot, which this node has started again.
    pub(super) fn is_reopened_task_running(&self, agreement: &Agreement) -> bool {
        let Some(task) = self.task_of(&agreement.id) else { return false };
        self.tasks.values().any(|other| {
            let before = other.agreement.as_ref().and_then(|id| self.agreements.get(id));
            other.is_reopened
                && other.slot == task.slot
                && other.agreement != task.agreement
                && before.is_some_and(|one| !one.is_stopped)
        })
    }
}

/// Returns whether the contact has been lost for the delay of a task's restart rule.
fn is_due(task: &Task, now: u64) -> bool {
    let delay = task.supervision.restart.as_ref().map(|rule| rule.delay_seconds);
    let since = task.pending_restart.as_ref().and_then(|pending| pending.alone_since);
    delay.zip(since).is_some_and(|(delay, since)| now >= since.saturating_add(delay))
}

#[cfg(test)]
#[path = "pending_restart_tests.rs"]
mod tests;
