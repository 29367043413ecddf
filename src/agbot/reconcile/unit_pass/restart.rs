//! The restart supervisor at work in a workload unit: what applies on which node.
//!
//! Source: orchestration B10, 1.9; engine 6.

use evenkeel_domain::orchestration::{Restart, RestartCondition};
use evenkeel_ids::{NodeId, TaskId};
use evenkeel_planner_record::workload::{NodeRestarts, RestartRule, Slot, Supervision, Task, TaskHealth};

use super::{RestartVerdict, UnitPass, count_attempts, judge_restart};

impl UnitPass<'_> {
    /// Returns the restart supervisor's verdict on an ended task.
    pub fn judge(&self, slot: &Slot, ended: &Task) -> RestartVerdict {
        let cleared_at = self.node_of(ended).and_then(|node| node.marks.cleared_at);
        let policy = Restart { condition: self.restart_condition(ended), ..self.facts.workload.restart };
        // The next version of the list has attempts of its own.
        let has_versions = ended.node.as_ref().is_some_and(|node| self.has_versions_left(node));
        let max_attempts = if has_versions { 0 } else { policy.max_attempts };
        judge_restart(&Restart { max_attempts, ..policy }, self.tasks(slot), ended, cleared_at, self.now)
    }

    /// Returns when a task that ended is restarted: the agent of a node that reads no tasks restarts whatever ends.
    pub(super) fn restart_condition(&self, ended: &Task) -> RestartCondition {
        let is_degraded = self.node_of(ended).is_some_and(|node| !node.is_capable);
        if is_degraded { RestartCondition::Any } else { self.facts.workload.restart.condition }
    }

    /// Lets the nodes of a slot restart its tasks by themselves while they have no contact to the hub.
    pub(crate) fn set_restart_rules(&mut self, slot: &Slot) {
        let wanted: Vec<Task> = self.tasks(slot).wanted().cloned().collect();
        for task in wanted {
            // Agents that do not name themselves would not understand the rule.
            let knows_rule = self.node_of(&task).is_some_and(|node| node.is_capable && node.is_named);
            let rule = knows_rule.then(|| self.restart_rule(slot, &task));
            let known = task.health.supervision.restart;
            let is_same = match (&rule, &known) {
                (Some(rule), Some(known)) => rule.is_like(known),
                (rule, known) => rule == known,
            };
            if !is_same {
                let supervision = Supervision { restart: rule, ..task.health.supervision.clone() };
                let health = TaskHealth { supervision, ..task.health.clone() };
                self.set_health(slot, &task.id, health);
            }
        }
    }

    fn restart_rule(&self, slot: &Slot, task: &Task) -> RestartRule {
        let cleared_at = self.node_of(task).and_then(|node| node.marks.cleared_at);
        let restart = &self.facts.workload.restart;
        // Its own restarts are counted by the node.
        let begun = Task { restarts: NodeRestarts::default(), state_at: self.now, ..task.clone() };
        RestartRule {
            condition: restart.condition,
            delay_secs: restart.delay_seconds,
            max_attempts: restart.max_attempts,
            window_secs: restart.window_seconds,
            attempts: count_attempts(restart, self.tasks(slot), &begun, cleared_at),
        }
    }

    /// Reports that the agent of a node restarts what ends by itself, whatever the condition of the policy.
    ///
    /// # Source
    /// Orchestration 1.9; engine 6.
    pub(super) fn note_own_restarts(&mut self, slot: &Slot, id: &TaskId, node: &NodeId) {
        let is_degraded = self.facts.workload.restart.condition != RestartCondition::Any
            && self.facts.table.find(node).is_some_and(|row| !row.is_capable);
        let is_first =
            !self.tasks(slot).iter().any(|task| task.id != *id && task.node.as_ref() == Some(node));
        if is_degraded && is_first {
            let text = "the agent of the node restarts instances by itself, regardless of restart.condition"
                .to_owned();
            self.emit("restart.degraded", Some(slot), Some(node), text);
        }
    }
}
