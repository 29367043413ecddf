//! Nodes of the closed loop.

use evenkeel_ids::TaskId;
use evenkeel_placement::place::UnitNode;
use evenkeel_planner_record::{
    claims::Claim,
    time::{later, secs_since},
    workload::{DesiredState, Ending, Task, TaskReport, TaskState},
};
use jiff::Timestamp;

use super::{Behavior, World};

impl World {
    /// The nodes work for one second.
    pub(super) fn act(&mut self) {
        let now = self.now();
        let ids: Vec<TaskId> = self.tasks.keys().cloned().collect();
        for id in ids {
            let task = &self.tasks[&id];
            let Some(report) = self.next_report(task, now) else { continue };
            let slot = task.slot.clone();
            let task = self.tasks.get_mut(&id).expect("the task exists");
            task.report(report, now).expect("the report is acceptable");
            self.changed_slots.insert(slot);
        }
        self.release_claims();
    }

    fn next_report(&self, task: &Task, now: Timestamp) -> Option<TaskReport> {
        let node = self.find(task.node.as_ref()?).filter(|node| node.down_since().is_none())?;
        let state = self.next_state(task, node, now)?;
        Some(TaskReport { node: node.id.clone(), state, seq: task.seq + 1, at: now })
    }

    fn next_state(&self, task: &Task, node: &UnitNode, now: Timestamp) -> Option<TaskState> {
        if task.state.is_ended() {
            return None;
        }
        let since = task.desired_at.unwrap_or(task.state_at);
        if !task.is_wanted() {
            let is_over = secs_since(since, now) >= self.stop_secs && !self.stuck.contains(&node.id);
            return is_over.then_some(TaskState::Ended(Ending::Shutdown));
        }
        let behavior = self.node_behaviors.get(&node.id).or_else(|| self.behaviors.get(&task.spec.digest));
        let behavior = behavior.copied().unwrap_or(Behavior::Good);
        match (&task.state, behavior) {
            (TaskState::Running { .. }, Behavior::Exits(after, code)) => {
                let running = task.running_at.unwrap_or(now);
                (secs_since(running, now) >= after).then(|| exited(code))
            }
            (TaskState::Running { .. }, _) => None,
            (TaskState::Assigned, Behavior::Rejected) => {
                Some(TaskState::Ended(Ending::Rejected { error: "no such image".into() }))
            }
            (TaskState::Assigned, _) => Some(TaskState::Ready),
            (_, Behavior::Hangs) => None,
            _ if task.desired == DesiredState::Running && secs_since(since, now) >= self.start_secs => {
                Some(TaskState::RUNNING)
            }
            _ => None,
        }
    }

    /// A claim ends when its node has nothing left to stop, and its instances have run for the monitoring
    /// time.
    fn release_claims(&mut self) {
        let (tasks, now) = (&self.tasks, self.now());
        let monitor_secs = self.workload.update.monitor_secs;
        let is_busy = |claim: &Claim| {
            let mut on_node = tasks.values().filter(|task| task.node.as_ref() == Some(&claim.node));
            on_node.any(|task| {
                let is_monitored = task.running_at.is_none_or(|at| now < later(at, monitor_secs));
                !task.state.is_ended() && (!task.is_wanted() || is_monitored)
            })
        };
        let before = self.claims.len();
        self.claims.retain(is_busy);
        self.is_changed |= self.claims.len() != before;
    }
}

pub(super) fn exited(code: i32) -> TaskState {
    TaskState::Ended(match code {
        0 => Ending::Complete,
        _ => Ending::Failed { exit_code: Some(code), error: format!("exited with code {code}") },
    })
}
