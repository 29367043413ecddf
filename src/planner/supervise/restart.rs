//! The restart supervisor: whether the slot of an ended task gets a new one, and when it may start.
//!
//! Source: orchestration B10.

use evenkeel_domain::orchestration::{OnExhausted, Restart, RestartCondition};
use jiff::{SignedDuration, Timestamp};

use crate::{
    change::Cause,
    usage::later,
    workload::{Ending, SlotTasks, Task, TaskState},
};

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
/// The history is that of the task records, so that a new agbot counts alike. If another node is tried after the last attempt, each
/// node counts by itself, and the first task on it is no restart.
fn attempts(policy: &Restart, history: &SlotTasks, ended: &Task, cleared_at: Option<Timestamp>) -> u32 {
    let end = ended.state_at;
    let begin = match policy.window_seconds {
        0 => None,
        window => Some(end - SignedDuration::from_secs(i64::try_from(window).unwrap_or(i64::MAX))),
    };
    let is_counted = |task: &&Task| {
        task.created_at <= end
            && begin.is_none_or(|begin| task.created_at > begin)
            && cleared_at.is_none_or(|at| task.created_at > at)
    };
    let same = history.iter().filter(|task| task.spec == ended.spec);
    let restarts: Vec<&Task> = match policy.on_exhausted {
        OnExhausted::None => same.filter(|task| task.cause == Cause::TaskFailed).collect(),
        OnExhausted::Switch => {
            let mut on_node: Vec<&Task> = same.filter(|task| task.node == ended.node).collect();
            on_node.pop();
            on_node
        }
    };
    restarts.into_iter().filter(is_counted).count() as u32
}
