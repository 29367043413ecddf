//! Observed states of tasks: from the report of the node, or, if the node does not report tasks, from the
//! agreement and the instance in the node's status.
//!
//! Source: orchestration 1.8, 1.9, B3.

use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, STOP_CONFIRMATION_SECS},
    report::Blocked,
    time::later,
    workload::{Ending, Task, TaskReport, TaskState, Workload},
};
use jiff::Timestamp;

use super::{Model, Observed};

/// A task as it is seen now.
#[derive(Debug, Default)]
pub struct Seen {
    /// The task; none when it is as it is stored.
    pub task: Option<Task>,
    /// When time alone changes it.
    pub wake_at: Option<Timestamp>,
}

/// Returns what is seen of a task that has not ended.
pub fn observe(model: &Model, task: &Task, workload: &Workload, now: Timestamp) -> Seen {
    let Some(node) = &task.node else { return Seen::default() };
    if let Some(Blocked::NodeDeparting { until, .. }) = model.departing_task(task, workload, now) {
        return Seen { task: None, wake_at: until };
    }
    let agreement = agreement_of(model, task);
    let mut wake_at = None;
    let reported = if model.is_capable(node) {
        reported(model, task, agreement, now, &mut wake_at)
    } else {
        Reported::Unknown
    };
    let state = match (reported, agreement) {
        (Reported::State(state, at), _) => Some((state, Some(at))),
        (Reported::Awaited, _) => None,
        (Reported::Unknown, Some(agreement)) => state_by(model, task, agreement, workload, now, &mut wake_at),
        (Reported::Unknown, None) => without_agreement(task),
    };
    let mut seen = task.clone();
    if let Some(agreement) = agreement {
        seen.agreement.get_or_insert_with(|| agreement.id.clone());
    }
    if let Some((state, at)) = state {
        let report = TaskReport { node: node.clone(), state, seq: task.seq + 1, at: at.unwrap_or(now) };
        // A state that would go back is no news.
        let _ = seen.report(report, now);
    }
    let reported = model.node(node).and_then(|record| record.health.get(&task.id));
    if let Some(reported) = reported.filter(|reported| reported.restarts.count > seen.restarts.count) {
        seen.restarts.clone_from(&reported.restarts);
    }
    Seen { task: (seen != *task).then_some(seen), wake_at }
}

/// Returns the live or recently ended agreement that carries a task out.
pub fn agreement_of<'m>(model: &'m Model, task: &'m Task) -> Option<&'m Agreement> {
    if let Some(id) = &task.agreement {
        return model.agreement(id);
    }
    let (node, policy) = (task.node.as_ref()?, &task.unit_id.policy);
    let live = model.live_agreements(node, policy);
    let ended = model.lately_ended_on(node).filter(|one| one.policy == *policy);
    live.chain(ended).find(|one| one.task.as_ref() == Some(&task.id))
}

type At = Option<Timestamp>;

/// Report of a capable node about a task.
enum Reported {
    /// A later state than the known one, and when it was reached.
    State(TaskState, Timestamp),
    /// Nothing new; it will report the next state.
    Awaited,
    /// No more reports will follow.
    Unknown,
}

/// Returns what a capable node reported about a task.
///
/// A node that was asked to end the agreement reports when everything has stopped; if it does not do so in
/// time, its status counts. The clock of a node may be wrong, so a change counts as made after the one before
/// and not in the future.
fn reported(
    model: &Model,
    task: &Task,
    agreement: Option<&Agreement>,
    now: Timestamp,
    wake_at: &mut At,
) -> Reported {
    let node = task.node.as_ref().and_then(|node| model.node(node));
    let report = node.and_then(|record| record.tasks.get(&task.id));
    if let Some(report) = report.filter(|report| task.state.may_become(&report.state)) {
        return Reported::State(report.state.clone(), report.at.max(task.state_at).min(now));
    }
    let Some(agreement) = agreement else { return Reported::Unknown };
    let AgreementState::Ended { at, was_final, .. } = agreement.state else { return Reported::Awaited };
    let until = later(at, STOP_CONFIRMATION_SECS);
    let has_accepted = was_final || task.state.rank() >= TaskState::Accepted.rank();
    if !has_accepted || now >= until {
        return Reported::Unknown;
    }
    *wake_at = Some(until);
    Reported::Awaited
}

/// A task without agreement never had one, or its end was forgotten.
fn without_agreement(task: &Task) -> Option<(TaskState, At)> {
    match (task.is_wanted(), &task.agreement) {
        (false, _) => Some((TaskState::Ended(Ending::Shutdown), None)),
        (true, Some(_)) => Some((failed("the agreement no longer exists"), None)),
        (true, None) => None,
    }
}

fn failed(error: &str) -> TaskState {
    TaskState::Ended(Ending::Failed { exit_code: None, error: error.to_owned() })
}

fn state_by(
    model: &Model,
    task: &Task,
    agreement: &Agreement,
    workload: &Workload,
    now: Timestamp,
    wake_at: &mut At,
) -> Option<(TaskState, At)> {
    match agreement.state {
        AgreementState::Proposed => {
            model.proposal_status(agreement).is_accepted.then_some((TaskState::Accepted, None))
        }
        AgreementState::Finalized { .. } => {
            // Where there must never be a second instance, a failed one has ended when its stop is confirmed.
            if !workload.goal.is_exclusive()
                && let Some(error) = failure(model, task, agreement, workload, now)
            {
                return Some((failed(&error), None));
            }
            let is_running = model.observed(agreement, now) == Observed::Running;
            if !is_running {
                *wake_at = model.broken_at(agreement, now).filter(|at| *at > now);
            }
            Some((if is_running { TaskState::RUNNING } else { TaskState::Starting }, None))
        }
        AgreementState::Ended { at, reason, was_final } => {
            let is_stopping = if workload.goal.is_exclusive() {
                model.unconfirmed_stop(agreement, now).is_some()
            } else {
                let (may_run, is_listed) =
                    (model.stopping_since(agreement, now).is_some(), model.is_listed(agreement));
                // The cancel may be lost, and is repeated as long as the node reports the instance. An
                // instance that the node ended by itself had stopped before, and the last report may be older
                // than the message.
                if reason.is_of_agbot() { may_run || is_listed } else { may_run && is_listed }
            };
            if is_stopping {
                *wake_at = Some(later(at, STOP_CONFIRMATION_SECS)).filter(|until| *until > now);
                return None;
            }
            if !task.is_wanted() {
                return Some((TaskState::Ended(Ending::Shutdown), Some(at)));
            }
            let known = model.failure_text(&agreement.node, &agreement.service_key, &agreement.version);
            let error = known.unwrap_or_else(|| reason.text().to_owned());
            let ending = if was_final || task.is_running() {
                Ending::Failed { exit_code: None, error }
            } else {
                Ending::Rejected { error }
            };
            Some((TaskState::Ended(ending), Some(at)))
        }
    }
}

/// Returns why the instance of a wanted task is not worth waiting for: it exited, or stays away after it ran.
pub(super) fn failure(
    model: &Model,
    task: &Task,
    agreement: &Agreement,
    workload: &Workload,
    now: Timestamp,
) -> Option<String> {
    if !task.is_wanted() {
        return None;
    }
    let is_absent = model.observed(agreement, now) == Observed::Absent;
    let has_failed = model.is_crash_looping(agreement, workload.update.monitor_secs)
        || is_absent && (model.has_exited(agreement) || task.is_running() && model.is_broken(agreement, now));
    has_failed.then(|| {
        let why = model.why_not_running(agreement, now);
        why.unwrap_or_else(|| "the node reports that it does not run".to_owned())
    })
}
