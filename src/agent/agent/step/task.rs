//! Tasks: agreements whose start, end and restarts the hub's engine decides.
//!
//! A task is read from the hub before the proposal of its agreement. The node starts it when the engine wants it to run, never
//! starts it again, and reports every state in order; reports wait in the journal until the hub has recorded them.
//! Source: orchestration 1.8, B3.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_domain::orchestration::{DesiredState, TaskState};
use evenkeel_wire::agreement::reason;
use evenkeel_wire::exchange::node_task::{NodeTask, PutNodeTaskStatus, TaskConflict};
use evenkeel_wire::exchange::task_health::{EndedCommand, PostLifecycle, TaskCheck, TaskSupervision};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Agreement, Command, Failures, Observation, OpenEnd, Outcome, OwnRestarts, PendingRestart, Reported,
    RunState, State, TaskSlot,
};

/// Longest error of a report, in characters.
const LONGEST_ERROR: usize = 1000;

/// A task of this node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// The agbot that published it, as `org/agbot`; `None` when the exchange does not state it.
    pub agbot: Option<String>,
    /// The agreement that it owns.
    pub agreement: Option<String>,
    /// The state that the engine wants.
    pub desired: DesiredState,
    /// Since when it may run, seconds since 1970.
    pub wanted_at: Option<u64>,
    /// Its state.
    pub state: TaskState,
    /// Sequence number of the last report.
    pub seq: i64,
    /// Reports that the hub has not recorded, oldest first.
    pub reports: VecDeque<TaskReport>,
    /// End of the task.
    pub end: Option<TaskEnd>,
    /// Supervision that the engine asks for.
    pub supervision: TaskSupervision,
    /// The last command that has ended.
    pub ended_command: Option<EndedCommand>,
    /// True if the hub has recorded the outcome of the command.
    pub is_command_reported: bool,
    /// Outcome of the last check.
    pub health: Option<TaskCheck>,
    /// The outcome that the hub has recorded.
    pub reported_health: Reported<Option<bool>>,
    /// State of the check itself that the hub has recorded: true if it is broken.
    pub reported_broken: Reported<bool>,
    /// True for each examined member that responds, by task.
    pub peers: BTreeMap<String, bool>,
    /// The responses that the hub has recorded.
    pub reported_peers: Reported<BTreeMap<String, bool>>,
    /// The length of its lease in seconds, as the hub has recorded it.
    pub reported_lease: Reported<Option<u32>>,
    /// A life-cycle event that the hub has not recorded.
    pub lifecycle: Option<PostLifecycle>,
    /// True if a life-cycle event was queued since the service last ran.
    pub is_down_reported: bool,
    /// True if the lease has expired, so that the containers are killed.
    pub is_fenced: bool,
    /// The end of its instance about which nothing is decided.
    pub open_end: Option<OpenEnd>,
    /// The slot that it fills.
    pub slot: TaskSlot,
    /// Its end, until the hub has replaced it.
    pub pending_restart: Option<PendingRestart>,
    /// True if this node has started it again after its end was reported.
    pub is_reopened: bool,
    /// Its restarts by this node.
    pub restarts: OwnRestarts,
    /// The number of them that the hub has recorded.
    pub reported_restarts: Reported<u64>,
}

/// A state of a task, to be reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The state, with exit code and error.
    #[serde(flatten)]
    pub end: TaskEnd,
    /// Sequence number.
    pub seq: i64,
    /// When it was reached, seconds since 1970.
    pub at: u64,
}

/// A state with the details of an end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskEnd {
    /// The state.
    pub state: TaskState,
    /// The error, in words.
    pub error: Option<String>,
    /// The exit code.
    pub exit_code: Option<i32>,
}

impl TaskEnd {
    pub(super) fn new(state: TaskState) -> Self {
        Self { state, ..Self::default() }
    }

    pub(super) fn with_error(state: TaskState, error: &str) -> Self {
        let error = error.chars().take(LONGEST_ERROR).collect();
        Self { state, error: Some(error), exit_code: None }
    }
}

impl TaskReport {
    /// Returns the body of the report.
    pub fn body(&self) -> PutNodeTaskStatus {
        let at = i64::try_from(self.at).ok().and_then(|secs| Timestamp::from_second(secs).ok());
        PutNodeTaskStatus {
            state: self.end.state,
            seq: self.seq,
            at: at.unwrap_or_default().to_string(),
            message: None,
            err: self.end.error.clone(),
            exit_code: self.end.exit_code,
            containers: Vec::new(),
        }
    }
}

impl Task {
    pub(super) fn is_wanted(&self) -> bool {
        !self.desired.is_stop() && !self.state.is_ended() && self.end.is_none()
    }

    fn report(&mut self, end: TaskEnd, now: u64) {
        if !self.state.may_become(end.state) {
            return;
        }
        self.state = end.state;
        self.seq += 1;
        self.reports.push_back(TaskReport { end, seq: self.seq, at: now });
    }
}

impl State {
    /// Returns the task that owns an agreement.
    pub fn task_of(&self, agreement: &str) -> Option<&Task> {
        self.tasks.values().find(|task| task.agreement.as_deref() == Some(agreement))
    }

    /// Returns the id of the task that owns an agreement.
    pub fn task_id_of(&self, agreement: &str) -> Option<&str> {
        let owns = |(_, task): &(&String, &Task)| task.agreement.as_deref() == Some(agreement);
        self.tasks.iter().find(owns).map(|(id, _)| id.as_str())
    }

    fn task_of_mut(&mut self, agreement: &str) -> Option<&mut Task> {
        self.tasks.values_mut().find(|task| task.agreement.as_deref() == Some(agreement))
    }

    /// Returns whether an agreement may start now. One without a task may always.
    pub(super) fn may_run(&self, agreement: &Agreement) -> bool {
        self.task_of(&agreement.id).is_none_or(|task| task.is_wanted() && task.wanted_at.is_some())
    }

    /// Returns why a proposal cannot be accepted because of its task.
    pub(super) fn task_refusal(&self, agreement: &str) -> Option<&'static str> {
        let task = self.task_of(agreement)?;
        (!task.is_wanted()).then_some("its task is to be stopped or has ended")
    }

    /// Returns since when an accepted agreement could have started.
    pub(super) fn startable_since(&self, agreement: &Agreement) -> Option<u64> {
        let accepted = agreement.accepted_at?;
        match self.task_of(&agreement.id) {
            None => Some(accepted),
            Some(task) => task.wanted_at.map(|wanted| wanted.max(accepted)),
        }
    }

    /// Updates the tasks to those that the hub has for this node. Agreements of tasks that it no longer has are like any other from then on.
    pub(super) fn update_tasks(&mut self, found: Vec<NodeTask>, now: u64) -> Outcome {
        let (found, foreign): (Vec<NodeTask>, Vec<NodeTask>) =
            found.into_iter().partition(|task| self.is_of_its_agbot(task));
        let ids: BTreeSet<&String> = found.iter().map(|task| &task.task_id).collect();
        self.tasks.retain(|id, _| ids.contains(id));
        for found in found {
            let slot = TaskSlot::of(&found);
            let NodeTask {
                task_id, agbot, agreement_id, desired_state, state, seq, supervision, health, ..
            } = found;
            let fresh = || Task { state, seq, ..Task::default() };
            let task = self.tasks.entry(task_id).or_insert_with(fresh);
            task.agbot = agbot.or(task.agbot.take());
            task.agreement = agreement_id.or(task.agreement.take());
            task.desired = task.desired.max(desired_state);
            task.supervision = supervision;
            task.slot = slot;
            // After the loss of the journal the hub knows which command was carried out, and what was restarted.
            let health = health.unwrap_or_default();
            if let Some(known) = health.restarts.filter(|known| known.count > task.restarts.count) {
                task.restarts.count = known.count;
                task.reported_restarts.succeed(known.count);
            }
            if task.ended_command.is_none() {
                task.ended_command = health.command;
                task.is_command_reported = true;
            }
            if task.desired >= DesiredState::Running {
                task.wanted_at.get_or_insert(now);
            }
        }
        self.record_contact(true, now);
        let is_doomed = |task: &&Task| task.desired.is_stop() || self.is_replaced(task);
        let doomed = self.tasks.values().filter(is_doomed);
        let doomed = doomed.filter_map(|task| Some((task.agreement.clone()?, reason::AGBOT_REQUESTED)));
        let doomed = doomed.collect();
        let left = self.end_unwatched(now);
        let stopped = self.end_many(doomed, now);
        let ignored = foreign.iter().map(|task| {
            let agbot = task.agbot.as_deref().unwrap_or_default();
            format!(
                "task {} is ignored: its agreement is not one of agbot {agbot}, which published it",
                task.task_id
            )
        });
        let notes: Vec<String> =
            left.into_iter().filter_map(|outcome| outcome.note).chain(stopped.note).chain(ignored).collect();
        Outcome { note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }

    /// Returns whether a task names no agreement of another agbot than its own.
    fn is_of_its_agbot(&self, task: &NodeTask) -> bool {
        let named = task.agreement_id.as_ref().and_then(|id| self.agreements.get(id));
        let (Some(agreement), Some(agbot)) = (named, &task.agbot) else { return true };
        agreement.agbot == *agbot
    }

    /// Ends the tasks that were reported down and that the hub no longer keeps for a recovery: what is left of them was seen before.
    fn end_unwatched(&mut self, now: u64) -> Vec<Outcome> {
        let is_left =
            |task: &&Task| task.is_down_reported && !task.supervision.lifecycle && task.end.is_none();
        let left = self.tasks.values().filter(is_left).filter_map(|task| {
            let key = task.agreement.clone()?;
            let seen = self.observed.get(&key)?.clone();
            Some((key, seen))
        });
        let left: Vec<(String, Observation)> = left.collect();
        left.into_iter().map(|(key, seen)| self.end_exited(&key, &seen, now)).collect()
    }

    /// Records that the proposal of a task was refused.
    pub(super) fn reject_task(&mut self, agreement: &str, why: &str) {
        if let Some(task) = self.task_of_mut(agreement).filter(|task| task.is_wanted()) {
            task.end = Some(TaskEnd::with_error(TaskState::Rejected, why));
        }
    }

    /// Records why the agreement of a task ends; an earlier cause prevails. Returns whether that is not an
    /// error.
    pub(super) fn record_task_end(&mut self, agreement: &str, reason: u64, is_own: bool) -> bool {
        let has_started = self.agreements.get(agreement).is_some_and(|one| one.is_start_ordered);
        let error = self.failure_text(agreement).unwrap_or_else(|| reason::describe(reason).to_owned());
        let Some(task) = self.task_of_mut(agreement) else { return false };
        let end = task.end.get_or_insert_with(|| {
            match (is_own && reason != reason::AGBOT_REQUESTED, has_started) {
                (false, _) => TaskEnd::new(TaskState::Shutdown),
                (true, false) => TaskEnd::with_error(TaskState::Rejected, &error),
                (true, true) => TaskEnd::with_error(TaskState::Failed, &error),
            }
        });
        end.state == TaskState::Complete
    }

    /// Ends the agreement of a task whose containers ended: it is the engine that starts another one.
    pub(super) fn end_exited(&mut self, key: &str, observation: &Observation, now: u64) -> Outcome {
        let end = exit_of(observation);
        let is_paused = observation.containers.iter().any(|one| one.state == RunState::Paused);
        match end {
            Some(end) if self.hold_end(key, end.clone(), now) => Outcome::default(),
            None if !is_paused => Outcome::default(),
            end => self.report_end(key, observation, end, now),
        }
    }

    /// Ends the agreement of a task of which nothing is left, because it ended unobserved.
    pub(super) fn end_gone(&mut self, key: &str, now: u64) -> Outcome {
        let error = "it ended while the agent did not run; its exit code is not known";
        let end = TaskEnd::with_error(TaskState::Failed, error);
        if self.hold_end(key, end.clone(), now) {
            return Outcome::default();
        }
        self.report_end(key, &Observation::default(), Some(end), now)
    }

    pub(super) fn end_task(&mut self, key: &str, end: TaskEnd, now: u64) -> Outcome {
        let is_running = self.agreements.get(key).is_some_and(|one| one.is_live() && one.is_start_ordered);
        let Some(task) = self.task_of_mut(key).filter(|_| is_running) else { return Outcome::default() };
        task.end.get_or_insert(end);
        self.end(key, reason::SERVICE_TERMINATED, true, now)
    }

    /// Derives the states of all tasks from their agreements, and queues reports about those that have changed.
    pub(super) fn report_task_states(&mut self, now: u64) {
        let reached: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.state.is_ended())
            .filter_map(|(id, task)| Some((id.clone(), self.reached(task)?)))
            .collect();
        for (id, end) in reached {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.report(end, now);
            }
        }
    }

    fn reached(&self, task: &Task) -> Option<TaskEnd> {
        let agreement = task.agreement.as_ref().and_then(|id| self.agreements.get(id));
        let Some(agreement) = agreement else {
            let lost = task.state >= TaskState::Accepted;
            let error = "the agent has lost the agreement of the task";
            return match (&task.end, task.desired.is_stop()) {
                (Some(end), _) => Some(end.clone()),
                (None, true) => Some(TaskEnd::new(TaskState::Shutdown)),
                (None, false) => lost.then(|| TaskEnd::with_error(TaskState::Failed, error)),
            };
        };
        if agreement.ending.is_some() {
            let end = || task.end.clone().unwrap_or_else(|| TaskEnd::new(TaskState::Shutdown));
            return agreement.is_stopped.then(end);
        }
        Some(TaskEnd::new(match agreement {
            Agreement { started_at: Some(_), .. } => TaskState::Running,
            Agreement { is_start_ordered: true, .. } => TaskState::Starting,
            Agreement { is_prepared: true, .. } => TaskState::Ready,
            Agreement { accepted_at: Some(_), .. } => TaskState::Preparing,
            _ => TaskState::Accepted,
        }))
    }

    /// Removes a report that the hub has recorded.
    pub(super) fn task_reported(&mut self, task: &str, seq: i64) -> Outcome {
        if let Some(task) = self.tasks.get_mut(task) {
            task.reports.retain(|report| report.seq != seq);
        }
        Outcome::default()
    }

    /// Takes the hub's refusal of a report. One that the hub does not know yet is numbered again after those that it has.
    pub(super) fn task_refused(&mut self, task: &str, seq: i64, stored: &TaskConflict) -> Outcome {
        let Some(task) = self.tasks.get_mut(task) else { return Outcome::default() };
        task.reports.retain(|report| report.seq != seq || stored.state.may_become(report.end.state));
        if stored.seq >= seq {
            for (report, number) in task.reports.iter_mut().zip(stored.seq + 1..) {
                report.seq = number;
            }
            task.seq = task.reports.back().map_or(stored.seq, |report| report.seq);
        }
        Outcome::default()
    }

    /// Returns the reports to send, the oldest of each task. The hub counts the restarts by this node before it decides about an end.
    pub(super) fn task_reports(&self) -> impl Iterator<Item = Command> {
        self.tasks.iter().filter_map(|(id, task)| {
            let is_counted = task.reported_restarts.is(&task.restarts.count);
            let report =
                task.reports.iter().next().filter(|one| is_counted || !one.end.state.is_ended())?.clone();
            Some(Command::ReportTask { task: id.clone(), report })
        })
    }
}

/// Returns the end of a service: at the first container that fails, or when all have completed.
fn exit_of(observation: &Observation) -> Option<TaskEnd> {
    let has_ended = |state: RunState, failures: &Failures| state == RunState::Exited && !failures.is_empty();
    let ended = observation.containers.iter().filter(|one| has_ended(one.state, &one.failures));
    let failed = ended.clone().find(|one| one.failures.code != Some(0) || one.failures.error.is_some());
    if let Some(failed) = failed {
        let failures = &failed.failures;
        let cause = failures.error.clone().unwrap_or_else(|| failures.last_exit());
        let output = if failures.output.is_empty() {
            String::new()
        } else {
            format!(": {}", failures.output.join(" | "))
        };
        let end = TaskEnd::with_error(TaskState::Failed, &format!("{}: {cause}{output}", failed.name));
        // The convention of shells and container engines for signals.
        let code = failures.code.or(failures.signal.map(|signal| 128 + i64::from(signal)));
        return Some(TaskEnd { exit_code: code.and_then(|code| i32::try_from(code).ok()), ..end });
    }
    let is_complete = !observation.containers.is_empty() && ended.count() == observation.containers.len();
    is_complete.then(|| TaskEnd { exit_code: Some(0), ..TaskEnd::new(TaskState::Complete) })
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
