//! Fencing: whether an instance on a lost node may still run.
//!
//! The agent of a capable node kills the containers by itself when it has had no contact to the hub for the length of the lease, and its
//! guardian does so when the agent is frozen or dead. They measure from the last contact, so that no clock has to be right. There is a lease only
//! where a guardian runs and has confirmed it. Source: orchestration C8.

use evenkeel_placement::place::UnitNode;
use evenkeel_planner_record::{
    facts::Guardian,
    health::fenced_at,
    report::{Blocked, NoLease},
    workload::{DesiredState, Task, TaskState},
};
use jiff::Timestamp;

use super::UnitPass;

/// Returns why an instance on a lost node may still run; none when its lease is over.
pub(crate) fn unfenced(pass: &UnitPass<'_>, task: &Task) -> Option<Blocked> {
    let node = task.node.clone()?;
    let row = pass.node_of(task)?;
    if !may_run(task, row) {
        return None;
    }
    let last_heartbeat = row.down_since()?;
    if is_confirmed(row, last_heartbeat) {
        return None;
    }
    match lease_secs(pass, task, row) {
        Ok(lease_secs) => {
            let until = fenced_at(lease_secs, last_heartbeat);
            (pass.now < until).then_some(Blocked::FencePending { node, until })
        }
        Err(cause) => Some(Blocked::FenceFailed { node, cause }),
    }
}

/// Returns whether an instance may run on its node, seen or not: the node has accepted it, and is to start it.
pub(crate) fn may_run(task: &Task, row: &UnitNode) -> bool {
    if task.state.is_ended() {
        return false;
    }
    // Only an agent that reads tasks waits until a task is to run.
    let is_held = row.is_capable && task.desired == DesiredState::Ready;
    let is_accepted = task.agreement.is_some() || task.state.rank() >= TaskState::Accepted.rank();
    task.running_at.is_some() || task.state.rank() >= TaskState::Starting.rank() || is_accepted && !is_held
}

/// Returns the length of the lease of an instance, as its guardian enforces it.
pub(crate) fn lease_secs(pass: &UnitPass<'_>, task: &Task, row: &UnitNode) -> Result<u32, NoLease> {
    if !row.is_capable {
        return Err(NoLease::Unsupported);
    }
    match row.guardian {
        Guardian::Running => {}
        Guardian::Absent => return Err(NoLease::NoGuardian),
        Guardian::Silent => return Err(NoLease::SilentGuardian),
    }
    let reported = pass.facts.health.get(&task.id).and_then(|reported| reported.lease_secs);
    reported.ok_or(NoLease::Unconfirmed)
}

/// Returns whether a user confirmed, after the last heartbeat of a node, that nothing runs on it.
pub(crate) fn is_confirmed(row: &UnitNode, last_heartbeat: Timestamp) -> bool {
    row.marks.fenced_at.is_some_and(|at| at >= last_heartbeat)
}
