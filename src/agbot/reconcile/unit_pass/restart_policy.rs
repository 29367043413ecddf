//! The restart supervisor: whether the slot of an ended task gets a new one, and when it may start.
//!
//! Source: orchestration B10.

use evenkeel_domain::orchestration::{OnExhausted, Restart, RestartCondition};
use evenkeel_planner_record::{
    time::later,
    workload::{Cause, Ending, SlotTasks, Task, TaskState},
};
use jiff::{SignedDuration, Timestamp};

/// The decision about an ended task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A new task is created, and starts at this time at the earliest.
    Restart {
        /// Earliest time of the start.
        start_at: Timestamp,
    },
    /// The task ended before its own delay was over: nothing happens until then.
    Wait {
        /// End of the delay.
        until: Timestamp,
    },
    /// The policy wants no restart after such an end.
    Unwanted,
    /// The restarts are used up.
    Exhausted {
        /// Restarts that count.
        attempts: u32,
    },
}

/// Decides about a task that ended by itself.
///
/// # Shape
/// `history`: the tasks of its slot. `cleared_at`: when a user last cleared the node; earlier restarts do not count.
pub fn judge(
    policy: &Restart,
    history: &SlotTasks,
    ended: &Task,
    cleared_at: Option<Timestamp>,
    now: Timestamp,
) -> Verdict {
    let is_wanted = match policy.condition {
        RestartCondition::None => false,
        RestartCondition::OnFailure => ended.state != TaskState::Ended(Ending::Complete),
        RestartCondition::Any => true,
    };
    if !is_wanted {
        return Verdict::Unwanted;
    }
    if now < ended.start_at {
        return Verdict::Wait { until: ended.start_at };
    }
    let attempts = attempts(policy, history, ended, cleared_at);
    if policy.max_attempts > 0 && attempts >= policy.max_attempts {
        return Verdict::Exhausted { attempts };
    }
    Verdict::Restart { start_at: later(now, policy.delay_seconds) }
}

/// Counts the restarts of a slot that led to the task.
///
/// The history is that of the task records, so that a new agbot counts alike. If another node is tried after
/// the last attempt, each node counts by itself, and the first task on it is not a restart. Restarts by the
/// node of a task count like those by the engine.
pub fn attempts(policy: &Restart, history: &SlotTasks, ended: &Task, cleared_at: Option<Timestamp>) -> u32 {
    let end = ended.state_at;
    let begin = match policy.window_seconds {
        0 => None,
        window => Some(end - SignedDuration::from_secs(i64::try_from(window).unwrap_or(i64::MAX))),
    };
    let is_counted = |at: Timestamp| {
        at <= end && begin.is_none_or(|begin| at > begin) && cleared_at.is_none_or(|cleared| at > cleared)
    };
    let same = history.iter().filter(|task| task.spec == ended.spec);
    let (meant, restarts): (Vec<&Task>, Vec<&Task>) = match policy.on_exhausted {
        OnExhausted::None => {
            let meant: Vec<&Task> = same.collect();
            let restarts = meant.iter().filter(|task| task.cause == Cause::TaskFailed);
            let restarts = restarts.copied().collect();
            (meant, restarts)
        }
        OnExhausted::Switch => {
            let on_node: Vec<&Task> = same.filter(|task| task.node == ended.node).collect();
            let mut restarts = on_node.clone();
            restarts.pop();
            (on_node, restarts)
        }
    };
    let by_engine = restarts.into_iter().filter(|task| is_counted(task.created_at)).count() as u64;
    let by_node = meant.into_iter().map(|task| {
        let own = if task.id == ended.id { &ended.restarts } else { &task.restarts };
        // The clock of a node may be ahead.
        let latest = own.latest.iter().filter(|at| is_counted((**at).min(end))).count() as u64;
        let is_all = begin.is_none() && cleared_at.is_none();
        if is_all { own.count } else { latest }
    });
    u32::try_from(by_engine + by_node.sum::<u64>()).unwrap_or(u32::MAX)
}
