//! The simulated transactions on workloads and tasks.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    agent::ToAgent,
    database::{Database, OutboxRow, Row},
    task_health::Watch,
};
use evenkeel_change::{Grant, may_take};
use evenkeel_ids::{AgreementId, NodeId, PolicyId, TaskId};
use evenkeel_planner_model::{
    command::{Action, Command},
    event::Outcome,
    plan::{StoredPlan, neighbors},
};
use evenkeel_planner_record::{
    agreement::Agreement,
    blocklist::{BlocklistChange, BlocklistEntry, BlocklistKey},
    claims::Claim,
    health::Registration,
    workload::{DesiredState, Task, UnitId, WorkloadRecord},
};

/// Published state of a task: its node, its desired state, its agreement, and what its node does to supervise
/// it.
pub(super) type PublishedTask = (Option<NodeId>, DesiredState, Option<AgreementId>, Watch);

fn published(task: &Task) -> PublishedTask {
    (task.node.clone(), task.desired, task.agreement.clone(), Watch::of(task))
}

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
        let nodes = &plan.apart().0 | &plan.limited_nodes();
        let is_there = |node: Option<&NodeId>| node.is_some_and(|node| nodes.contains(node));
        let tasks: Vec<Task> =
            self.tasks.values().filter(|task| is_there(task.node.as_ref())).cloned().collect();
        let agreements: Vec<Agreement> =
            self.agreements.values().filter(|one| is_there(Some(&one.node))).cloned().collect();
        let beside = neighbors(policy, &tasks, &agreements);
        plan.check(unit_id, &workload, &stored, &held, &beside).map_err(|blocked| blocked.to_string())?;
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
            let mut permitted = plan.permits.iter().filter_map(|permit| permit.claim.as_ref());
            let permit = permitted.find(|claim| claim.group.id == request.group);
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
        for (key, change) in &plan.blocklist {
            self.change_blocklist(key, change);
        }
    }

    /// Stores a registration that is based on the stored one.
    pub(super) fn record_registration(&mut self, registration: &Registration) -> Result<(), String> {
        let target = &registration.target;
        if !registration.may_replace(self.registrations.get(target)) {
            return Err(format!("the registration of {target} was changed meanwhile"));
        }
        self.registrations.insert(target.clone(), registration.clone());
        self.log.push(Row::Registration(target.clone()));
        Ok(())
    }

    pub(super) fn change_blocklist(&mut self, key: &BlocklistKey, change: &BlocklistChange) {
        match BlocklistEntry::changed(self.blocklist.get(key), change) {
            Some(entry) => self.blocklist.insert(key.clone(), entry),
            None => self.blocklist.remove(key),
        };
        self.log.push(Row::Blocklist(key.clone()));
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

    /// Returns what is wanted of the tasks that a command may change.
    pub(super) fn published_tasks(&self, action: &Action) -> BTreeMap<TaskId, PublishedTask> {
        let policy = match action {
            Action::ApplyPlan { unit_id, .. } => &unit_id.policy,
            Action::RecordWorkload { workload, .. } => &workload.policy,
            Action::RemoveWorkload { policy, .. } => policy,
            _ => return BTreeMap::new(),
        };
        let of_policy = self.tasks.values().filter(|task| task.unit_id.policy == *policy);
        of_policy.map(|task| (task.id.clone(), published(task))).collect()
    }

    /// Enqueues the publication of the tasks that a command has changed, and before a proposal that of its task.
    pub(super) fn publish_tasks(
        &mut self,
        command: &Command,
        before: &BTreeMap<TaskId, PublishedTask>,
        is_capable: &dyn Fn(&NodeId) -> bool,
    ) {
        let mut changed: Vec<(TaskId, NodeId)> = Vec::new();
        let after = self.published_tasks(&command.action);
        for (id, published) in after.iter().filter(|(id, published)| before.get(*id) != Some(*published)) {
            changed.extend(published.0.clone().map(|node| (id.clone(), node)));
        }
        for (id, published) in before.iter().filter(|(id, _)| !after.contains_key(*id)) {
            changed.extend(published.0.clone().map(|node| (id.clone(), node)));
        }
        changed.retain(|(_, node)| is_capable(node));
        let partition = command.lease.partition;
        for (task, node) in changed {
            let message = ToAgent::Task { agreement: AgreementId::from_text(task.as_str()), task };
            self.outbox.push(OutboxRow { partition, node, message });
        }
        if let Action::Propose { agreement, .. } = &command.action
            && let Some(task) = agreement.task.clone().filter(|_| is_capable(&agreement.node))
        {
            let subject = AgreementId::from_text(task.as_str());
            let message = ToAgent::Task { agreement: subject, task };
            let row = OutboxRow { partition, node: agreement.node.clone(), message };
            let is_proposal = |row: &OutboxRow| matches!(&row.message, ToAgent::Proposal { agreement: id, .. } if *id == agreement.id);
            let place = self.outbox.iter().position(is_proposal).unwrap_or(self.outbox.len());
            self.outbox.insert(place, row);
        }
    }

    pub(super) fn check_task(&self, task: Option<&TaskId>) -> Result<(), String> {
        let Some(id) = task else { return Ok(()) };
        match self.tasks.get(id).filter(|task| task.is_live()) {
            Some(_) => Ok(()),
            None => Err("the task must no longer run".to_owned()),
        }
    }
}
