//! The simulated transactions on workloads and tasks.

use jiff::Timestamp;

use super::database::{Database, Row};
use evenkeel_ids::{PolicyId, TaskId};
use evenkeel_planner::{
    claims::{Claim, Grant, may_take},
    engine::StoredPlan,
    event::Outcome,
    workload::{DesiredState, Task, UnitId, WorkloadRecord},
};

impl Database {
    /// Writes a plan, or nothing of it.
    pub(super) fn apply_plan(
        &mut self,
        unit_id: &UnitId,
        plan: &StoredPlan,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        let policy = &unit_id.policy;
        let workload = self.workloads.get(policy).ok_or("the workload is gone")?.clone();
        if plan.workload.as_ref().is_some_and(|next| !next.may_replace(Some(&workload))) {
            return Err("the workload was changed meanwhile".to_owned());
        }
        let slots = plan.slots();
        let of_slots = |task: &&Task| task.unit_id == *unit_id && slots.contains(&task.slot);
        let stored: Vec<Task> = self.tasks.values().filter(of_slots).cloned().collect();
        let held: Vec<Claim> = self.claims.values().cloned().collect();
        plan.check(unit_id, &workload, &stored, &held).map_err(|blocked| blocked.to_string())?;
        let is_proposed = |task: &&Task| {
            task.state.is_ended()
                && task.agreement.is_none()
                && self.agreements.values().any(|one| one.is_live() && one.task.as_ref() == Some(&task.id))
        };
        if plan.tasks.iter().any(|task| is_proposed(&task)) {
            return Err("an agreement was made for a task meanwhile".to_owned());
        }
        let mut claims = Vec::new();
        for request in &plan.claims {
            let permit = plan.permits.iter().find_map(|permit| permit.claim.as_ref());
            let group = permit.map(|claim| claim.group.clone()).ok_or("there is no permit")?;
            let rows: Vec<Claim> = self.claims.values().cloned().collect();
            let key = (request.group.clone(), request.scope.clone());
            if may_take(&rows, request, &group).map_err(|blocked| blocked.to_string())? == Grant::Insert {
                self.fencing += 1;
                self.claims.insert(key.clone(), request.clone().into_claim(self.fencing, now));
                self.log.push(Row::Claim(key.clone()));
            }
            claims.extend(self.claims.get(&key).cloned());
        }
        self.write_plan(unit_id, plan);
        Ok(Outcome::PlanApplied { claims })
    }

    fn write_plan(&mut self, unit_id: &UnitId, plan: &StoredPlan) {
        if let Some(workload) = &plan.workload {
            self.workloads.insert(unit_id.policy.clone(), (**workload).clone());
            self.log.push(Row::Workload(unit_id.policy.clone()));
        }
        for task in &plan.tasks {
            self.tasks.insert(task.id.clone(), task.clone());
            self.log.push(Row::Task(task.id.clone()));
        }
        for id in &plan.deleted {
            self.tasks.remove(id);
            self.log.push(Row::Task(id.clone()));
        }
        for (node, instance) in &plan.instances {
            self.instances.insert((unit_id.policy.clone(), node.clone()), instance.clone());
            self.log.push(Row::Instance(unit_id.policy.clone(), node.clone()));
        }
    }

    pub(super) fn record_workload(
        &mut self,
        workload: &WorkloadRecord,
        adopted: &[Task],
    ) -> Result<(), String> {
        let stored = self.workloads.get(&workload.policy);
        if !workload.may_replace(stored) {
            return Err("the workload was changed meanwhile".to_owned());
        }
        if stored.is_none() {
            for task in adopted {
                self.tasks.insert(task.id.clone(), task.clone());
                self.log.push(Row::Task(task.id.clone()));
            }
        }
        self.workloads.insert(workload.policy.clone(), workload.clone());
        self.log.push(Row::Workload(workload.policy.clone()));
        Ok(())
    }

    pub(super) fn remove_workload(&mut self, policy: &PolicyId) {
        self.workloads.remove(policy);
        self.tasks.retain(|_, task| task.unit_id.policy != *policy);
        self.instances.retain(|(one, _), _| one != policy);
        self.log.push(Row::Workload(policy.clone()));
    }

    pub(super) fn check_task(&self, task: Option<&TaskId>) -> Result<(), String> {
        let Some(id) = task else { return Ok(()) };
        let is_wanted = |task: &&Task| task.desired == DesiredState::Running && !task.state.is_ended();
        match self.tasks.get(id).filter(is_wanted) {
            Some(_) => Ok(()),
            None => Err("the task is not to run any more".to_owned()),
        }
    }
}
