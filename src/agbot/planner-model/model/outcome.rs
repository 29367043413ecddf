//! Applies the outcome of a command: the model's records follow the database's.

use evenkeel_planner_record::{
    agreement::{Agreement, PendingUpdate},
    health::Entity,
    time::later,
    workload::UnitId,
};
use jiff::Timestamp;

use super::Model;
use crate::{
    command::{Action, Command},
    event::Outcome,
};

/// A refused command is retried after this time: the executor's view and the model differ for a moment.
const REFUSED_SECS: u64 = 2;

impl Model {
    pub(super) fn apply_outcome(&mut self, command: &Command, outcome: &Outcome, now: Timestamp) {
        self.pending.remove(&command.action.key());
        if let Action::TakeClaim { request } = &command.action {
            self.claim_requests.remove(&(request.group.clone(), request.scope.clone()));
        }
        if !matches!(outcome, Outcome::Failed { .. }) {
            self.failures.remove(&command.action.key());
        }
        if let Action::ApplyPlan { unit_id, .. } = &command.action {
            self.engine.resume(unit_id);
        }
        if let Action::RecordRegistration { found_unhealthy, .. } = &command.action {
            self.registry.note_unhealthy(*found_unhealthy, matches!(outcome, Outcome::Done));
        }
        match outcome {
            Outcome::Done => self.apply_done(&command.action, now),
            Outcome::PlanApplied { claims } => {
                claims.iter().for_each(|claim| self.record_claim(claim));
                self.apply_done(&command.action, now);
            }
            Outcome::ClaimTaken { claim } => {
                self.put_claim((**claim).clone());
            }
            // The event that the executor saw and this model does not know yet will arrive.
            Outcome::Refused { .. } => self.retry_at(&command.action, later(now, REFUSED_SECS)),
            Outcome::Failed { .. } => {
                let count = self.failures.entry(command.action.key()).or_default();
                let pause = (1_u64 << (*count).min(20)).min(self.settings.command_timeout_secs);
                *count = count.saturating_add(1);
                self.retry_at(&command.action, later(now, pause));
            }
        }
    }

    /// Lets a command wait until it may be issued again.
    fn retry_at(&mut self, action: &Action, at: Timestamp) {
        self.pending.insert(action.key(), at);
        match action {
            Action::ReportHealth { entity: Entity::Instance(policy, node), .. } => {
                if let Some(unit_id) = self.health_unit_of(policy, node) {
                    self.health.check_at(&Entity::WorkloadUnit(unit_id), at);
                }
            }
            Action::ReportHealth { entity, .. } => self.health.check_at(entity, at),
            Action::DropHealth { checked, .. } => self.health.check_at(checked, at),
            Action::RecordRegistration { registration, .. } => {
                self.health.check_at(&registration.target, at);
            }
            Action::RemoveRegistration { target } => self.health.check_at(target, at),
            _ => {}
        }
        let unit_id = match action {
            Action::ApplyPlan { unit_id, .. } => unit_id.clone(),
            Action::RecordWorkload { workload, .. } => UnitId::all(workload.policy.clone()),
            Action::RemoveWorkload { policy, .. } => UnitId::all(policy.clone()),
            _ => return,
        };
        self.engine.watches.insert((at, unit_id, None));
    }

    fn apply_done(&mut self, action: &Action, now: Timestamp) {
        match action {
            Action::Propose { agreement, .. } => {
                if !self.agreements.contains_key(&agreement.id) {
                    self.put_agreement((**agreement).clone());
                }
                self.note_proposal_sent(agreement, now);
            }
            Action::RepeatProposal { agreement } => self.note_proposal_sent(agreement, now),
            Action::AcknowledgeReply { agreement, node, policy: Some(policy), decision: true, usage } => {
                self.change_agreement(agreement, |record| record.finalize(now));
                let backoff = self.backoff.get(&(node.clone(), policy.clone())).cloned();
                self.put_usage(node, policy, usage.as_ref(), backoff.as_ref());
            }
            Action::Cancel { agreement, node, policy, reason, usage, backoff, .. } => {
                self.change_agreement(agreement, |record| record.end(now, *reason));
                self.put_usage(node, policy, usage.as_ref(), backoff.as_ref());
            }
            Action::SendVerification { agreement, .. } => {
                if let Some(record) = self.agreements.get_mut(agreement) {
                    record.verified_at = record.verified_at.max(Some(now));
                }
            }
            Action::SendPolicyUpdate { agreement, terms_digest, .. } => {
                if let Some(record) = self.agreements.get_mut(agreement) {
                    record.pending_update = Some(PendingUpdate { terms_digest: *terms_digest, sent_at: now });
                }
            }
            Action::RecordUpdateAccepted { agreement, terms_digest } => {
                if let Some(record) = self.agreements.get_mut(agreement) {
                    record.terms_digest = *terms_digest;
                    record.pending_update = None;
                }
            }
            Action::RecordStopped { agreement, .. } => {
                self.change_agreement(agreement, Agreement::confirm_stop);
            }
            Action::UpdateUsage { node, policy, usage, backoff } => {
                self.put_usage(node, policy, usage.as_ref(), backoff.as_ref());
            }
            _ => self.apply_group_action(action, now),
        }
    }

    fn apply_group_action(&mut self, action: &Action, now: Timestamp) {
        match action {
            Action::AdvanceClaim { claim, phase, deadline } => {
                let key = (claim.group.clone(), claim.scope.clone());
                if let Some(row) = self.claims.get_mut(&key).filter(|row| row.fencing == claim.fencing) {
                    row.phase = *phase;
                    row.phase_since = now;
                    row.deadline = *deadline;
                }
            }
            Action::ReleaseClaim { claim, .. } => {
                let key = (claim.group.clone(), claim.scope.clone());
                if self.claims.get(&key).is_some_and(|row| row.fencing == claim.fencing) {
                    self.remove_claim(&key);
                }
            }
            Action::RecordRollout { rollout } => self.put_rollout(rollout),
            Action::ApplyPlan { unit_id, plan } => {
                self.apply_plan(unit_id, plan);
                self.registry.note_actions(&plan.events);
            }
            Action::RecordRegistration { registration, .. } => {
                self.registry.put(&registration.target, Some(registration));
            }
            Action::RemoveRegistration { target } => self.registry.put(target, None),
            Action::RecordWorkload { workload, adopted, .. } => {
                self.put_workload(workload);
                adopted.iter().for_each(|task| self.put_task(task));
            }
            Action::RemoveWorkload { policy, .. } => {
                self.engine.remove_workload(policy);
                self.follow_rollback(policy);
            }
            Action::ChangeBlocklist { key, change } => self.engine.blocklist.change(key, change),
            _ => {}
        }
    }
}
