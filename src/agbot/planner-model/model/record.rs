//! Records of the agbots in the model: applies rows that were read, and lists the keys that the model holds.
//!
//! A record is read before its event is applied, and a command may have changed it in between. A record that is provably older than the
//! model's is ignored; any other mistake of this kind ends with the next read, because the newer change is in the log too.

use std::collections::BTreeSet;

use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, PendingUpdate},
    blocklist::BlocklistKey,
    claims::{Claim, ClaimKey, Scope},
    health::Entity,
    rollout::Rollout,
};

use super::Model;
use crate::event::Event;

/// Keys of the records that the model holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordKeys {
    /// Agreements that have not ended.
    pub agreements: BTreeSet<AgreementId>,
    /// Pairs with usage or back-off.
    pub usage: BTreeSet<(NodeId, PolicyId)>,
    /// Claims.
    pub claims: BTreeSet<ClaimKey>,
    /// Rollouts.
    pub rollouts: BTreeSet<(GroupId, PolicyId)>,
    /// Workloads.
    pub workloads: BTreeSet<PolicyId>,
    /// Tasks.
    pub tasks: BTreeSet<TaskId>,
    /// Rows of workloads on nodes.
    pub instances: BTreeSet<(PolicyId, NodeId)>,
    /// Entities with health events.
    pub health: BTreeSet<Entity>,
    /// Rows of the node blocklist.
    pub blocklist: BTreeSet<BlocklistKey>,
    /// Targets in the health registry.
    pub registrations: BTreeSet<Entity>,
}

impl Model {
    /// Returns the keys of all records that the model holds.
    pub fn record_keys(&self) -> RecordKeys {
        RecordKeys {
            agreements: self.live.iter().map(|(.., id)| id.clone()).collect(),
            usage: self.usage.keys().chain(self.backoff.keys()).cloned().collect(),
            claims: self.claims.keys().cloned().collect(),
            rollouts: self.rollouts.keys().cloned().collect(),
            workloads: self.engine.workloads.keys().cloned().collect(),
            tasks: self.engine.task_ids().cloned().collect(),
            instances: self.engine.instance_keys().collect(),
            health: self.health.entities().cloned().collect(),
            blocklist: self.engine.blocklist.keys().cloned().collect(),
            registrations: self.registrations().map(|row| row.target.clone()).collect(),
        }
    }

    /// Returns whether applying an event about a record would change nothing; false for other events.
    pub fn is_recorded(&self, event: &Event) -> bool {
        match event {
            Event::AgreementRecorded { agreement } => match self.agreements.get(&agreement.id) {
                Some(known) => progress(known) > progress(agreement) || is_same(known, agreement),
                None => false,
            },
            Event::AgreementRemoved { agreement } => {
                self.agreements.get(agreement).is_none_or(|known| !known.is_live())
            }
            Event::UsageRecorded { node, policy, usage, backoff } => {
                let pair = (node.clone(), policy.clone());
                self.usage.get(&pair) == usage.as_ref() && self.backoff.get(&pair) == backoff.as_ref()
            }
            Event::ClaimRecorded { claim } => self
                .claims
                .get(&claim.key())
                .is_some_and(|known| known.fencing > claim.fencing || is_same_claim(known, claim)),
            Event::ClaimRemoved { key } => !self.claims.contains_key(key),
            Event::RolloutRecorded { rollout } => {
                let known = self.rollouts.get(&(rollout.group.clone(), rollout.policy.clone()));
                known.is_some_and(|known| known.revision > rollout.revision || known == &**rollout)
            }
            Event::RolloutRemoved { group, policy } => {
                !self.rollouts.contains_key(&(group.clone(), policy.clone()))
            }
            _ => self.is_recorded_task(event),
        }
    }

    fn is_recorded_task(&self, event: &Event) -> bool {
        let engine = &self.engine;
        match event {
            Event::WorkloadRecorded { workload } => {
                self.workload(&workload.policy).is_some_and(|known| known.revision >= workload.revision)
            }
            Event::WorkloadRemoved { policy } => self.workload(policy).is_none(),
            Event::TaskRecorded { task } => {
                engine.task(&task.id).is_some_and(|known| known.is_newer_than(task) || *known == **task)
            }
            Event::TaskRemoved { task } => engine.task(task).is_none(),
            Event::InstanceRecorded { policy, node, instance } => {
                self.instance(policy, node) == instance.as_deref()
            }
            Event::HealthRecorded { entity, events } => self.has_health_events(entity, events),
            Event::RegistrationRecorded { target, registration: Some(read) } => {
                self.registration(target).is_some_and(|known| known.revision >= read.revision)
            }
            Event::RegistrationRecorded { target, registration: None } => self.registration(target).is_none(),
            Event::BlocklistRecorded { key, entry } => engine.blocklist.get(key) == entry.as_deref(),
            _ => false,
        }
    }

    /// Applies an agreement that was read, unless the model's is newer.
    pub(super) fn record_agreement(&mut self, agreement: &Agreement) {
        match self.agreements.get(&agreement.id) {
            Some(known) if progress(known) > progress(agreement) => {}
            Some(known) => {
                let agreement = newest(known, agreement.clone());
                self.put_agreement(agreement);
            }
            None => self.put_agreement(agreement.clone()),
        }
    }

    /// Drops an agreement whose row is gone.
    pub(super) fn remove_agreement(&mut self, id: &AgreementId) {
        let Some(agreement) = self.agreements.get(id).filter(|known| known.is_live()) else { return };
        self.engine.relations.note_agreement(agreement);
        let pair = (agreement.node.clone(), agreement.policy.clone());
        let services = self.agreed_services(&pair.0);
        self.agreements.remove(id);
        self.not_running_since.remove(id);
        self.forget_live(&pair, id);
        self.follow_services(&pair.0, &services);
        self.touched.insert(pair.0);
    }

    /// Applies a claim that was read, unless the model's was taken later.
    pub(super) fn record_claim(&mut self, claim: &Claim) {
        if self.claims.get(&claim.key()).is_none_or(|known| known.fencing <= claim.fencing) {
            self.put_claim(claim.clone());
        }
    }

    pub(super) fn put_claim(&mut self, claim: Claim) {
        self.note_agent_claim(&claim.key());
        self.claims.insert(claim.key(), claim);
    }

    pub(super) fn remove_claim(&mut self, key: &ClaimKey) {
        self.note_agent_claim(key);
        self.claims.remove(key);
    }

    fn note_agent_claim(&mut self, (group, scope): &ClaimKey) {
        if *scope == Scope::Agent {
            self.engine.claimed_by_agents.insert(group.clone());
        }
    }

    /// Drops a rollout whose row is gone.
    pub(super) fn remove_rollout(&mut self, group: &GroupId, policy: &PolicyId) {
        let removed = self.rollouts.remove(&(group.clone(), policy.clone()));
        if removed.is_some_and(|rollout: Rollout| rollout.rollback.is_some()) {
            self.forget_rollback(group, policy);
        }
    }
}

/// The order of an agreement's states: no step leads back.
fn progress(agreement: &Agreement) -> u8 {
    match agreement.state {
        AgreementState::Proposed => 0,
        AgreementState::Finalized { .. } => 1,
        AgreementState::Ended { .. } => 2,
    }
}

/// Returns whether two records of an agreement are equal. The outcome of an own command dates a transition a moment later than its row does.
fn is_same(known: &Agreement, read: &Agreement) -> bool {
    let state = match (&known.state, &read.state) {
        (AgreementState::Finalized { .. }, AgreementState::Finalized { at }) => {
            AgreementState::Finalized { at: *at }
        }
        (AgreementState::Ended { reason, was_final, .. }, AgreementState::Ended { at, .. }) => {
            AgreementState::Ended { at: *at, reason: *reason, was_final: *was_final }
        }
        (state, _) => state.clone(),
    };
    let pending_update = known.pending_update.map(|known| PendingUpdate {
        sent_at: read.pending_update.map_or(known.sent_at, |read| read.sent_at),
        ..known
    });
    let verified_at = known.verified_at.max(read.verified_at);
    Agreement { pending_update, state, ..known.clone() } == Agreement { verified_at, ..read.clone() }
}

/// Returns whether two records of a claim are equal.
fn is_same_claim(known: &Claim, read: &Claim) -> bool {
    Claim { since: read.since, phase_since: read.phase_since, ..known.clone() } == *read
}

/// Returns the agreement as it was read; replies to verifications are kept in the model only.
fn newest(known: &Agreement, read: Agreement) -> Agreement {
    Agreement { verified_at: known.verified_at.max(read.verified_at), ..read }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
