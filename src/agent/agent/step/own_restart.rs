//! Restarts by the node itself while it has no contact with the hub, whose engine otherwise decides about them.
//!
//! An instance that ends waits until it is known whether the hub responds. If it does, its end is reported and the engine decides. If it does
//! not, the node applies the restart settings of the policy itself, under the same task and agreement, and reports the restarts afterwards.
//! `pending_restart.rs` is about a hub that is lost between the report and the restart.
//! Source: orchestration B10.

use evenkeel_domain::orchestration::{RestartCondition, TaskState};
use evenkeel_wire::exchange::task_health::{NodeRestarts, TaskRestart};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Agreement, Command, Observation, Outcome, State, Task, task::TaskEnd};

/// Restarts whose times are kept.
const MOST_RECENT: usize = 20;
/// Age after which the check whether the hub responds is repeated, in seconds.
pub(super) const CONTACT_AGE_SECS: u64 = 3;

/// Result of the last check whether the hub responds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contact {
    /// It was not checked recently.
    #[default]
    Unknown,
    /// It did, at this time in seconds since 1970.
    Up(u64),
    /// It did not respond, at this time in seconds since 1970.
    Down(u64),
}

/// The end of an instance that has not been decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenEnd {
    /// End of the task.
    pub end: TaskEnd,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// The restarts of a task by its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnRestarts {
    /// Their number.
    pub count: u64,
    /// Times of the latest restarts, the newest last, in seconds since 1970.
    pub recent: Vec<u64>,
    /// Error with which the instance ended before the last restart.
    pub error: Option<String>,
}

impl OwnRestarts {
    /// Returns what is reported of them.
    pub fn report(&self) -> NodeRestarts {
        let time = |secs: &u64| {
            let at = i64::try_from(*secs).ok().and_then(|secs| Timestamp::from_second(secs).ok());
            at.unwrap_or_default().to_string()
        };
        NodeRestarts {
            count: self.count,
            latest: self.recent.iter().map(time).collect(),
            err: self.error.clone(),
        }
    }
}

/// The decision about an end.
pub(super) enum Decision {
    Wait,
    Restart,
    GiveUp,
}

impl Task {
    /// Decides on an end by the restart settings while the hub is unreachable.
    pub(super) fn decide(&self, rule: &TaskRestart, open: &OpenEnd, now: u64) -> Decision {
        let is_wanted = match rule.condition {
            RestartCondition::None => false,
            RestartCondition::OnFailure => open.end.state != TaskState::Complete,
            RestartCondition::Any => true,
        };
        let is_counted = |at: u64| rule.window_seconds == 0 || now.saturating_sub(at) < rule.window_seconds;
        let own = self.restarts.recent.iter().filter(|at| is_counted(**at)).count();
        // Restarts before its start are at least as old as its start.
        let earlier = if self.wanted_at.is_none_or(is_counted) { rule.attempts as usize } else { 0 };
        let is_exhausted = rule.max_attempts > 0 && own + earlier >= rule.max_attempts as usize;
        match (is_wanted && !is_exhausted, now >= open.at.saturating_add(rule.delay_seconds)) {
            (false, _) => Decision::GiveUp,
            (true, true) => Decision::Restart,
            (true, false) => Decision::Wait,
        }
    }
}

impl State {
    /// Defers the decision about an instance that has ended until its owner is known. Returns whether it waits:
    /// there are restart settings for it.
    pub(super) fn hold_end(&mut self, key: &str, end: TaskEnd, now: u64) -> bool {
        let is_live = |one: &Agreement| one.is_live() && one.is_start_ordered;
        let may_wait = self.agreements.get(key).is_some_and(is_live) && !self.is_unregistering;
        let task = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key));
        let Some(task) = task.filter(|_| may_wait) else { return false };
        let is_wanted = (task.is_reopened || !task.desired.is_stop())
            && task.end.is_none()
            && task.open_command().is_none();
        if !is_wanted || task.supervision.restart.is_none() || task.is_down_reported {
            return false;
        }
        if task.open_end.is_none() {
            self.contact = Contact::Unknown;
        }
        task.open_end.get_or_insert(OpenEnd { end, at: now });
        true
    }

    /// Forgets the end of an instance that runs.
    pub(super) fn forget_end(&mut self, key: &str) {
        if let Some(task) = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key)) {
            task.open_end = None;
        }
    }

    /// Returns whether the end of the instance of an agreement has not been decided on.
    pub(super) fn has_open_end(&self, agreement: &str) -> bool {
        self.task_of(agreement).is_some_and(|task| task.open_end.is_some())
    }

    /// Records the result of the check whether the hub responds.
    pub(super) fn contact_checked(&mut self, is_up: bool, now: u64) -> Outcome {
        self.contact = if is_up { Contact::Up(now) } else { Contact::Down(now) };
        self.record_contact(is_up, now);
        if is_up {
            return self.decide_by_hub(now);
        }
        joined(vec![self.give_up_unwanted(now), self.take_over_restarts(now)])
    }

    /// Leaves all open ends to the engine.
    fn decide_by_hub(&mut self, now: u64) -> Outcome {
        let open = self.tasks.values_mut().filter_map(|task| {
            let open = task.open_end.take()?;
            Some((task.agreement.clone()?, open))
        });
        let open: Vec<(String, OpenEnd)> = open.collect();
        let ended = open.into_iter().map(|(key, open)| {
            let seen = self.observed.get(&key).cloned().unwrap_or_default();
            let outcome = self.report_end(&key, &seen, Some(open.end.clone()), now);
            self.await_restart(&key, open);
            outcome
        });
        joined(ended.collect())
    }

    /// Ends the tasks that the restart settings do not start again.
    fn give_up_unwanted(&mut self, now: u64) -> Outcome {
        let given_up = self.tasks.values_mut().filter_map(|task| {
            let (rule, open) = (task.supervision.restart.as_ref()?, task.open_end.as_ref()?);
            let is_over = matches!(task.decide(rule, open, now), Decision::GiveUp);
            let open = task.open_end.take_if(|_| is_over)?;
            Some((task.agreement.clone()?, open.end))
        });
        let given_up: Vec<(String, TaskEnd)> = given_up.collect();
        joined(given_up.into_iter().map(|(key, end)| self.end_task(&key, end, now)).collect())
    }

    /// Returns the command that checks whether the hub responds, if something depends on it.
    pub(super) fn contact_check(&self) -> Option<Command> {
        let is_open = self.tasks.values().any(|task| task.open_end.is_some());
        let age = if is_open { Some(CONTACT_AGE_SECS) } else { self.pending_contact_age() };
        let is_recent = |age: u64| match self.contact {
            Contact::Unknown => false,
            Contact::Up(at) | Contact::Down(at) => self.now.saturating_sub(at) < age,
        };
        age.is_some_and(|age| !is_recent(age)).then_some(Command::CheckContact)
    }

    /// Returns the restart of a service on whose end the node decides.
    pub(super) fn own_restart(&self, agreement: &Agreement) -> Option<Command> {
        let task = self.task_of(&agreement.id)?;
        let (rule, open) = (task.supervision.restart.as_ref()?, task.open_end.as_ref()?);
        let is_alone = matches!(self.contact, Contact::Down(_)) && self.is_lease_settled(agreement);
        let is_due = is_alone && matches!(task.decide(rule, open, self.now), Decision::Restart);
        is_due.then(|| Command::Restart { agreement: agreement.id.clone() })
    }

    /// Records that the driver has started a service again.
    pub(super) fn restarted(&mut self, key: &str, now: u64) -> Outcome {
        self.observed.remove(key);
        self.change(key, |agreement| agreement.down_since = None);
        let Some(task) = self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(key)) else {
            return Outcome::default();
        };
        let error = task.open_end.take().and_then(|open| open.end.error);
        let OwnRestarts { count, recent, error: last } = &mut task.restarts;
        *count += 1;
        recent.push(now);
        let surplus = recent.len().saturating_sub(MOST_RECENT);
        recent.drain(..surplus);
        last.clone_from(&error);
        let why = error.unwrap_or_else(|| "it completed".to_owned());
        Outcome { note: Some(format!("service of agreement {key} is started again without the hub: {why}")) }
    }

    /// Returns the restarts that have not been reported to the hub.
    pub(super) fn restart_reports(&self) -> impl Iterator<Item = Command> {
        self.tasks.iter().filter_map(|(id, task)| {
            let is_known = task.reported_restarts.is(&task.restarts.count);
            (!is_known).then(|| Command::ReportRestarts { task: id.clone(), restarts: task.restarts.clone() })
        })
    }

    /// Records that the restarts of a task were reported, or that the hub does not have the task.
    pub(super) fn restarts_reported(&mut self, task: &str, count: u64) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.reported_restarts.succeed(count);
        }
        Outcome::default()
    }

    /// Leaves the end of an instance to the engine: as an event, or as the end of the task.
    pub(super) fn report_end(
        &mut self,
        key: &str,
        observation: &Observation,
        end: Option<TaskEnd>,
        now: u64,
    ) -> Outcome {
        if self.record_lifecycle(key, observation, now) {
            return Outcome::default();
        }
        end.map_or_else(Outcome::default, |end| self.end_task(key, end, now))
    }
}

fn joined(outcomes: Vec<Outcome>) -> Outcome {
    let notes: Vec<String> = outcomes.into_iter().filter_map(|outcome| outcome.note).collect();
    Outcome { note: (!notes.is_empty()).then(|| notes.join("; ")) }
}

#[cfg(test)]
#[path = "own_restart_tests.rs"]
pub(super) mod tests;
