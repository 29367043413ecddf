//! The simulated database of the agbots: their tables, and each command's transaction.
//!
//! It checks what a real executor checks inside its transaction: the fencing numbers of lease and claim, unique keys, the
//! state of the record.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::agent::ToAgent;
use evenkeel_change::{self as change, Grant};
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_model::{
    command::{Action, Command},
    event::{Event, Outcome},
    model::ENDED_MEMORY_SECS,
};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, PendingUpdate},
    blocklist::{BlocklistEntry, BlocklistKey},
    claims::{Claim, ClaimKey, ClaimRef, ClaimRequest},
    facts::HaGroupFacts,
    health::{Entity, HealthEvent, Registration, StoredReport, stored_reports},
    lease::Lease,
    rollout::{Rollout, act},
    time::{later, secs_since},
    usage::{Backoff, WorkloadUsage},
    workload::{Instance, Requester, RolloutAction, Task, WorkloadRecord},
};

#[derive(Debug, Clone)]
pub(crate) struct LeaseRow {
    pub owner: usize,
    pub fencing: u64,
    pub until: Timestamp,
}

/// A changed row, as named in the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    Agreement(AgreementId),
    Usage(NodeId, PolicyId),
    Claim(ClaimKey),
    Rollout(GroupId, PolicyId),
    Workload(PolicyId),
    Task(TaskId),
    Instance(PolicyId, NodeId),
    Health(Entity),
    Blocklist(BlocklistKey),
    Registration(Entity),
}

/// A message that is not delivered yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutboxRow {
    pub partition: u32,
    pub node: NodeId,
    pub message: ToAgent,
}

#[derive(Debug, Default)]
pub(crate) struct Database {
    pub outbox: Vec<OutboxRow>,
    pub leases: BTreeMap<u32, LeaseRow>,
    pub agreements: BTreeMap<AgreementId, Agreement>,
    pub usage: BTreeMap<(NodeId, PolicyId), (Option<WorkloadUsage>, Option<Backoff>)>,
    pub claims: BTreeMap<ClaimKey, Claim>,
    pub rollouts: BTreeMap<(GroupId, PolicyId), Rollout>,
    pub workloads: BTreeMap<PolicyId, WorkloadRecord>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub instances: BTreeMap<(PolicyId, NodeId), Instance>,
    pub health: BTreeMap<Entity, Vec<StoredReport>>,
    pub blocklist: BTreeMap<BlocklistKey, BlocklistEntry>,
    pub registrations: BTreeMap<Entity, Registration>,
    pub log: Vec<Row>,
    /// When an agbot last read heartbeats.
    pub alive_at: Option<Timestamp>,
    pub(super) fencing: u64,
}

impl Database {
    /// Takes or renews the lease of a partition.
    pub fn lease(&mut self, partition: u32, owner: usize, now: Timestamp, secs: u64) -> Option<u64> {
        let until = later(now, secs);
        match self.leases.get_mut(&partition) {
            Some(row) if row.until > now && row.owner == owner => row.until = until,
            // A time further ahead than any agbot writes is from before the clock was set back.
            Some(row) if row.until > now && row.until <= later(now, 3 * secs) => return None,
            // One that expired has another number, even if its owner takes it again.
            _ => {
                self.fencing += 1;
                self.leases.insert(partition, LeaseRow { owner, fencing: self.fencing, until });
            }
        }
        self.leases.get(&partition).map(|row| row.fencing)
    }

    /// Carries out the transaction of a command.
    pub fn execute(
        &mut self,
        command: &Command,
        group: Option<&HaGroupFacts>,
        is_capable: &dyn Fn(&NodeId) -> bool,
        now: Timestamp,
    ) -> Outcome {
        let before = self.published_tasks(&command.action);
        match self.try_execute(command, group, now) {
            Ok(outcome) => {
                self.publish_tasks(command, &before, is_capable);
                outcome
            }
            Err(why) => Outcome::Refused { why },
        }
    }

    fn try_execute(
        &mut self,
        command: &Command,
        group: Option<&HaGroupFacts>,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        self.check_lease(command.lease, now)?;
        match &command.action {
            Action::Propose { agreement, claim } => {
                self.check_claim(claim.as_ref())?;
                self.check_task(agreement.task.as_ref())?;
                self.insert_agreement(agreement)?;
            }
            Action::AcknowledgeReply { agreement, decision: true, node, policy: Some(policy), usage } => {
                let backoff = self.usage.get(&(node.clone(), policy.clone())).and_then(|row| row.1.clone());
                self.step(agreement, |record| record.finalize(now))?;
                self.put_usage(node, policy, usage.clone(), backoff);
            }
            Action::Cancel { agreement, node, policy, reason, claim, usage, backoff, .. } => {
                if self.agreements.get(agreement).is_some_and(|record| !record.is_live()) {
                    return Ok(Outcome::Done);
                }
                self.check_claim(claim.as_ref())?;
                self.step(agreement, |record| record.end(now, *reason))?;
                self.put_usage(node, policy, usage.clone(), backoff.clone());
            }
            Action::RecordStopped { agreement, .. } => self.step(agreement, Agreement::confirm_stop)?,
            Action::SendPolicyUpdate { agreement, terms_digest, .. } => {
                let update = PendingUpdate { terms_digest: *terms_digest, sent_at: now };
                self.change(agreement, |record| record.pending_update = Some(update))?;
            }
            Action::RecordUpdateAccepted { agreement, terms_digest } => {
                self.change(agreement, |record| {
                    record.terms_digest = *terms_digest;
                    record.pending_update = None;
                })?;
            }
            Action::TakeClaim { request } => return self.take_claim(request, group, now),
            Action::AdvanceClaim { claim, phase, deadline } => {
                self.check_claim(Some(claim))?;
                let key = (claim.group.clone(), claim.scope.clone());
                if let Some(row) = self.claims.get_mut(&key) {
                    (row.phase, row.phase_since, row.deadline) = (*phase, now, *deadline);
                }
                self.log.push(Row::Claim(key));
            }
            Action::ReleaseClaim { claim, .. } => {
                let key = (claim.group.clone(), claim.scope.clone());
                if self.claims.get(&key).is_some_and(|row| row.fencing == claim.fencing) {
                    self.claims.remove(&key);
                    self.log.push(Row::Claim(key));
                }
            }
            Action::RecordRollout { rollout } => {
                let key = (rollout.group.clone(), rollout.policy.clone());
                if !rollout.may_replace(self.rollouts.get(&key)) {
                    return Err("another agbot wrote the rollout meanwhile".to_owned());
                }
                self.put_rollout((**rollout).clone());
            }
            Action::UpdateUsage { node, policy, usage, backoff } => {
                self.put_usage(node, policy, usage.clone(), backoff.clone());
            }
            Action::ApplyPlan { unit_id, plan } => return self.apply_plan(unit_id, plan, now),
            Action::RecordWorkload { workload, adopted, .. } => self.record_workload(workload, adopted)?,
            Action::RemoveWorkload { policy, .. } => self.remove_workload(policy),
            Action::ReportHealth { entity, reports, ttl_secs } => {
                let lease = command.lease.partition;
                self.report_health(entity, |stored| stored_reports(stored, reports, *ttl_secs, lease, now));
            }
            Action::DropHealth { entities, .. } => {
                for entity in entities {
                    self.health.remove(entity);
                }
            }
            Action::ChangeBlocklist { key, change } => self.change_blocklist(key, change),
            Action::RecordRegistration { registration, .. } => self.record_registration(registration)?,
            Action::RemoveRegistration { target } => {
                self.registrations.remove(target);
                self.log.push(Row::Registration(target.clone()));
            }
            // These only send a message.
            Action::AcknowledgeReply { .. }
            | Action::RepeatCancel { .. }
            | Action::RepeatProposal { .. }
            | Action::SendVerification { .. }
            | Action::SendVerificationReply { .. }
            | Action::RefuseUpdate { .. } => {}
        }
        self.enqueue(command);
        Ok(Outcome::Done)
    }

    /// Replaces events of an entity by newer ones. They decide about nothing, and another agbot reads them when it starts: in the log they would
    /// only shift what is drawn for other rows.
    fn report_health(&mut self, entity: &Entity, changed: impl FnOnce(&[StoredReport]) -> Vec<StoredReport>) {
        let stored = self.health.entry(entity.clone()).or_default();
        for next in changed(stored) {
            stored.retain(|one| (&one.source, &one.property) != (&next.source, &next.property));
            stored.push(next);
        }
    }

    /// Writes the message of a command in the command's transaction.
    fn enqueue(&mut self, command: &Command) {
        if let Action::Cancel { agreement, .. } = &command.action {
            // The end makes all earlier messages pointless.
            self.outbox.retain(|row| row.message.agreement() != agreement);
        }
        if let Some((node, message)) = ToAgent::of(&command.action) {
            let row = OutboxRow { partition: command.lease.partition, node, message };
            if matches!(row.message, ToAgent::Proposal { .. }) || !self.outbox.contains(&row) {
                self.outbox.push(row);
            }
        }
    }

    /// Takes the messages that an agbot has to deliver: those of the partitions it leases.
    pub fn take_deliverable(&mut self, owner: usize, now: Timestamp) -> Vec<OutboxRow> {
        let leases = &self.leases;
        let is_own = |row: &OutboxRow| {
            leases.get(&row.partition).is_some_and(|lease| lease.owner == owner && lease.until > now)
        };
        let (own, others) = std::mem::take(&mut self.outbox).into_iter().partition(is_own);
        self.outbox = others;
        own
    }

    fn check_lease(&self, lease: Lease, now: Timestamp) -> Result<(), String> {
        match self.leases.get(&lease.partition) {
            Some(row) if row.fencing == lease.fencing && row.until > now => Ok(()),
            Some(row) if row.fencing == lease.fencing => {
                Err(format!("the lease of partition {} expired", lease.partition))
            }
            _ => Err(format!("the lease of partition {} has another number", lease.partition)),
        }
    }

    fn check_claim(&self, claim: Option<&ClaimRef>) -> Result<(), String> {
        let Some(claim) = claim else { return Ok(()) };
        match self.claims.get(&(claim.group.clone(), claim.scope.clone())) {
            Some(row) if row.fencing == claim.fencing => Ok(()),
            _ => Err("the claim no longer exists or has another number".to_owned()),
        }
    }

    fn insert_agreement(&mut self, agreement: &Agreement) -> Result<(), String> {
        let is_same_pair = |one: &&Agreement| {
            // As the unique index has it: only two that are not side by side exclude each other.
            let is_beside = one.id != agreement.id && (one.is_side_by_side || agreement.is_side_by_side);
            one.node == agreement.node && one.policy == agreement.policy && !is_beside
        };
        match self.agreements.values().filter(is_same_pair).find(|one| one.is_live()) {
            Some(other) if other.id != agreement.id => {
                return Err("another live agreement of the pair exists".to_owned());
            }
            Some(_) => return Ok(()),
            None if self.agreements.contains_key(&agreement.id) => {
                return Err("the agreement has already ended".to_owned());
            }
            None => {}
        }
        self.log.push(Row::Agreement(agreement.id.clone()));
        self.agreements.insert(agreement.id.clone(), agreement.clone());
        Ok(())
    }

    pub(crate) fn take_claim(
        &mut self,
        request: &ClaimRequest,
        group: Option<&HaGroupFacts>,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        let group = group.ok_or("the group is gone")?;
        let rows: Vec<Claim> = self.claims.values().cloned().collect();
        let key = (request.group.clone(), request.scope.clone());
        match change::may_take(&rows, request, group).map_err(|blocked| blocked.to_string())? {
            Grant::Held => {}
            Grant::Insert => {
                let in_work = self.claims.keys().filter(|(_, scope)| *scope == request.scope);
                let in_work = in_work.map(|(group, _)| group.clone());
                change::check_parallelism(&request.group, request.parallelism, in_work)
                    .map_err(|blocked| blocked.to_string())?;
                self.fencing += 1;
                self.claims.insert(key.clone(), request.clone().into_claim(self.fencing, now));
                self.log.push(Row::Claim(key.clone()));
            }
        }
        let claim = self.claims.get(&key).cloned().ok_or("the claim was not inserted")?;
        Ok(Outcome::ClaimTaken { claim: Box::new(claim) })
    }

    fn step(
        &mut self,
        id: &AgreementId,
        step: impl FnOnce(Agreement) -> Result<Agreement, evenkeel_planner_record::agreement::InvalidTransition>,
    ) -> Result<(), String> {
        let record = self.agreements.get(id).cloned().ok_or("no such agreement")?;
        let record = step(record).map_err(|error| error.to_string())?;
        self.agreements.insert(id.clone(), record);
        self.log.push(Row::Agreement(id.clone()));
        Ok(())
    }

    fn change(&mut self, id: &AgreementId, change: impl FnOnce(&mut Agreement)) -> Result<(), String> {
        change(self.agreements.get_mut(id).ok_or("no such agreement")?);
        self.log.push(Row::Agreement(id.clone()));
        Ok(())
    }

    fn put_usage(
        &mut self,
        node: &NodeId,
        policy: &PolicyId,
        usage: Option<WorkloadUsage>,
        backoff: Option<Backoff>,
    ) {
        self.usage.insert((node.clone(), policy.clone()), (usage, backoff));
        self.log.push(Row::Usage(node.clone(), policy.clone()));
    }

    fn put_rollout(&mut self, rollout: Rollout) {
        let key = (rollout.group.clone(), rollout.policy.clone());
        self.log.push(Row::Rollout(key.0.clone(), key.1.clone()));
        self.rollouts.insert(key, rollout);
    }

    /// Carries out the transaction of a user's action on the rollouts of a policy; returns how many changed.
    pub fn act_on_rollouts(
        &mut self,
        policy: &PolicyId,
        action: RolloutAction,
        requester: Requester<'_>,
    ) -> usize {
        let of_policy = self.rollouts.values().filter(|rollout| rollout.policy == *policy);
        let changed: Vec<Rollout> =
            of_policy.filter_map(|rollout| act(rollout, action, requester).ok().flatten()).collect();
        let count = changed.len();
        changed.into_iter().for_each(|rollout| self.put_rollout(rollout));
        count
    }

    /// Carries out the transaction by which an administrator confirms that an instance has stopped.
    #[cfg(test)]
    pub fn confirm_stop(&mut self, id: &AgreementId) {
        let done = self.step(id, Agreement::confirm_stop);
        assert_eq!(done, Ok(()), "the agreement is over");
    }

    /// Carries out the transaction by which an administrator releases the claims of a group.
    pub fn free_claims(&mut self, group: &GroupId) {
        let keys: Vec<ClaimKey> = self.claims.keys().filter(|(one, _)| one == group).cloned().collect();
        for key in keys {
            self.claims.remove(&key);
            self.log.push(Row::Claim(key));
        }
    }

    /// Reads the current row.
    pub fn read(&self, row: &Row) -> Option<Event> {
        match row {
            Row::Agreement(id) => self
                .agreements
                .get(id)
                .map(|agreement| Event::AgreementRecorded { agreement: Box::new(agreement.clone()) }),
            Row::Usage(node, policy) => {
                let (usage, backoff) =
                    self.usage.get(&(node.clone(), policy.clone())).cloned().unwrap_or_default();
                Some(Event::UsageRecorded { node: node.clone(), policy: policy.clone(), usage, backoff })
            }
            Row::Claim(key) => Some(match self.claims.get(key) {
                Some(claim) => Event::ClaimRecorded { claim: Box::new(claim.clone()) },
                None => Event::ClaimRemoved { key: key.clone() },
            }),
            Row::Workload(policy) => Some(match self.workloads.get(policy) {
                Some(workload) => Event::WorkloadRecorded { workload: Box::new(workload.clone()) },
                None => Event::WorkloadRemoved { policy: policy.clone() },
            }),
            Row::Task(id) => Some(match self.tasks.get(id) {
                Some(task) => Event::TaskRecorded { task: Box::new(task.clone()) },
                None => Event::TaskRemoved { task: id.clone() },
            }),
            Row::Instance(policy, node) => {
                let instance = self.instances.get(&(policy.clone(), node.clone())).cloned().map(Box::new);
                Some(Event::InstanceRecorded { policy: policy.clone(), node: node.clone(), instance })
            }
            Row::Health(entity) => {
                let stored = self.health.get(entity).into_iter().flatten();
                let events = stored.map(HealthEvent::of).collect();
                Some(Event::HealthRecorded { entity: entity.clone(), events })
            }
            Row::Blocklist(key) => {
                let entry = self.blocklist.get(key).cloned().map(Box::new);
                Some(Event::BlocklistRecorded { key: key.clone(), entry })
            }
            Row::Registration(target) => {
                let registration = self.registrations.get(target).cloned().map(Box::new);
                Some(Event::RegistrationRecorded { target: target.clone(), registration })
            }
            Row::Rollout(group, policy) => self
                .rollouts
                .get(&(group.clone(), policy.clone()))
                .map(|rollout| Event::RolloutRecorded { rollout: Box::new(rollout.clone()) }),
        }
    }

    /// Returns the keys of a bulk read: all records except agreements that ended long ago.
    pub fn recent_rows(&self, now: Timestamp) -> Vec<Row> {
        let is_recent = |agreement: &&Agreement| match agreement.state {
            AgreementState::Ended { at, .. } => {
                secs_since(at, now) < ENDED_MEMORY_SECS || agreement.awaits_stop
            }
            _ => true,
        };
        let agreements = self.agreements.values().filter(is_recent);
        let agreements = agreements.map(|agreement| Row::Agreement(agreement.id.clone()));
        let usage = self.usage.keys().cloned().map(|(node, policy)| Row::Usage(node, policy));
        let claims = self.claims.keys().cloned().map(Row::Claim);
        let rollouts = self.rollouts.keys().cloned().map(|(group, policy)| Row::Rollout(group, policy));
        let workloads = self.workloads.keys().cloned().map(Row::Workload);
        let tasks = self.tasks.keys().cloned().map(Row::Task);
        let instances = self.instances.keys().cloned().map(|(policy, node)| Row::Instance(policy, node));
        let health = self.health.keys().cloned().map(Row::Health);
        let blocklist = self.blocklist.keys().cloned().map(Row::Blocklist);
        let registrations = self.registrations.keys().cloned().map(Row::Registration);
        let of_workloads = workloads.chain(tasks).chain(instances).chain(health).chain(blocklist);
        let of_workloads = of_workloads.chain(registrations);
        agreements.chain(usage).chain(claims).chain(rollouts).chain(of_workloads).collect()
    }

    /// Reads everything, as a starting agbot does.
    pub fn read_all(&self, now: Timestamp) -> Vec<Event> {
        self.recent_rows(now).iter().filter_map(|row| self.read(row)).collect()
    }
}
