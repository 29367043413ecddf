//! Members that a user's recovery is about.
//!
//! Source: orchestration C7.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_placement::place::UnitNode;
use evenkeel_planner_record::{
    health::is_unhealthy_member,
    workload::{ActionGoal, ActionGoals, DesiredState, Slot, SlotTasks, Task},
};

use super::{Accepting, ActionRefusal, Candidate, conflict};
use crate::user_action::RequestedRecovery;

impl Accepting<'_> {
    pub(super) fn recover(&self) -> Result<ActionGoals, ActionRefusal> {
        let Some(request) = self.request.recovery else {
            return Err(ActionRefusal::Malformed(
                "the action recover needs to know what to recover".to_owned(),
            ));
        };
        if self.record.is_stopped || self.record.is_frozen {
            let (state, action) =
                if self.record.is_stopped { ("stopped", "start") } else { ("frozen", "thaw") };
            return conflict(format!("{} is {state}: use the action {action} first", self.policy()));
        }
        self.check_update()?;
        let node = self.request.node;
        let named = node.map(|node| self.part_of(node)).transpose()?;
        let without_checks = HealthPolicy::without_checks();
        let policy = self.workload.health.as_ref().unwrap_or(&without_checks);
        let mut goals = ActionGoals::new();
        for part in self.parts.iter().filter(|part| named.is_none_or(|named| named.id == part.id)) {
            let (mut slots, mut nodes, mut checks) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for (slot, task) in
                part.members().filter(|(_, task)| node.is_none() || task.node.as_ref() == node)
            {
                let is_checked_first = request.examines && is_checked_by_node(part, task);
                if is_checked_first {
                    checks.insert(slot.clone());
                }
                if is_checked_first || self.is_to_recover(part, task, policy, request) {
                    slots.insert(slot.clone());
                    nodes.extend(task.node.clone());
                }
            }
            if !slots.is_empty() || request.fills_up {
                let (operation, fills_up) = (request.operation.clone(), request.fills_up);
                let goal = ActionGoal::Recovered { slots, nodes, operation, fills_up, checks };
                goals.push((Some(part.id.part.clone()), goal));
            }
        }
        Ok(goals)
    }

    fn is_to_recover(
        &self,
        part: &Candidate<'_>,
        task: &Task,
        policy: &HealthPolicy,
        request: &RequestedRecovery,
    ) -> bool {
        let is_lost = |row: Option<&UnitNode>| row.is_none_or(|row| row.down_since().is_some());
        let node = task.node.as_ref();
        // A task that waits for its node is being created.
        let Some(node) = node else { return false };
        if is_lost(part.unit.table.find(node)) || task.state.is_ended() {
            return true;
        }
        if !task.is_running() {
            // A check counts what is being created as healthy (C3).
            return !request.examines || task.running_at.is_some();
        }
        let found = self.model.found_health(task, self.now);
        request.examines && is_unhealthy_member(policy, task, found.as_ref(), self.now)
    }
}

/// Returns true if the agent of a member checks it by a URL, and can do so now: the last report may be out of date.
fn is_checked_by_node(part: &Candidate<'_>, task: &Task) -> bool {
    let row = task.node.as_ref().and_then(|node| part.unit.table.find(node));
    let is_reached = row.is_some_and(|row| row.is_capable && row.down_since().is_none());
    let is_recovering = task.health.is_recovering();
    is_reached && !is_recovering && task.is_running() && task.health.supervision.probe.is_some()
}

impl<'a> Candidate<'a> {
    /// Returns the member of each slot: the task that is wanted, or the one that ended and that nothing starts again.
    fn members(&self) -> impl Iterator<Item = (&'a Slot, &'a Task)> {
        self.unit.slots.iter().filter_map(|(slot, tasks)| Some((slot, member(tasks)?)))
    }
}

fn member(tasks: &SlotTasks) -> Option<&Task> {
    let given_up =
        || tasks.newest().filter(|task| task.desired != DesiredState::Remove && task.ended_by_itself());
    tasks.wanted().next().or_else(given_up)
}
