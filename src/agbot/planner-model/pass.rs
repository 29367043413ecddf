//! One decision under construction: collects commands, watches and the report.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::Scope,
    health::{Entity, HealthRound},
    lease::Lease,
    report::{Blocked, Placement, PlannerEvent, Report},
    stable_hash::stable_hash,
    time::later,
    workload::{Slot, UnitId},
};
use jiff::Timestamp;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::{
    command::{Action, Command, CommandKey, Decision, MessageFate, UnitReport, UnitWatch, Watch},
    model::Model,
    plan::UnitPlan,
};

/// Placeholder lease of a pass whose commands are discarded.
const NO_LEASE: Lease = Lease { partition: 0, fencing: 0 };

/// A decision under construction.
pub struct Pass<'a> {
    /// The model.
    pub model: &'a Model,
    /// The time.
    pub now: Timestamp,
    /// The fate of the event's message.
    pub message: Option<MessageFate>,
    /// Number of commands that the message led to.
    pub message_commands: usize,
    /// True if a command was not issued because the same one is in flight.
    pub is_waiting_for_command: bool,
    /// True when nothing will be carried out, so that partition ownership does not matter.
    explains_only: bool,
    seed: u64,
    commands: Vec<Command>,
    keys: BTreeSet<CommandKey>,
    stopping: BTreeSet<AgreementId>,
    watches: BTreeSet<Watch>,
    unit_watches: BTreeSet<UnitWatch>,
    deferred: BTreeSet<(UnitId, Option<Slot>)>,
    /// Reports about the workload units that were planned.
    pub unit_reports: BTreeMap<UnitId, UnitReport>,
    health_checks: BTreeMap<Entity, Timestamp>,
    health_rounds: Vec<HealthRound>,
    report: Report,
}

/// Returns each of some slots, or none for all of them.
fn due_slots(slots: Option<&BTreeSet<Slot>>) -> Vec<Option<Slot>> {
    slots.map_or_else(|| vec![None], |slots| slots.iter().cloned().map(Some).collect())
}

impl<'a> Pass<'a> {
    /// Begins a decision.
    pub fn new(model: &'a Model, now: Timestamp, seed: u64) -> Self {
        Self {
            model,
            now,
            message: None,
            message_commands: 0,
            is_waiting_for_command: false,
            explains_only: false,
            seed,
            commands: Vec::new(),
            keys: BTreeSet::new(),
            stopping: BTreeSet::new(),
            watches: BTreeSet::new(),
            unit_watches: BTreeSet::new(),
            deferred: BTreeSet::new(),
            unit_reports: BTreeMap::new(),
            health_checks: BTreeMap::new(),
            health_rounds: Vec::new(),
            report: Report::default(),
        }
    }

    /// Creates a pass whose commands are discarded.
    pub fn to_explain(model: &'a Model, now: Timestamp) -> Self {
        Self { explains_only: true, ..Self::new(model, now, 0) }
    }

    /// Returns the lease to act for a node, if this agbot may.
    pub fn lease_for(&self, node: &NodeId) -> Option<Lease> {
        self.model.lease_for(node).or(self.explains_only.then_some(NO_LEASE))
    }

    /// Returns the lease to act for a group, if this agbot may.
    pub fn lease_for_group(&self, group: &GroupId) -> Option<Lease> {
        self.model.lease_for_group(group).or(self.explains_only.then_some(NO_LEASE))
    }

    /// Issues a command about a whole group rollout or group unless the same one is in flight; those are planned at every tick,
    /// so no watch is needed. Returns whether it was issued now.
    pub fn issue_for_group(&mut self, lease: Lease, action: Action) -> bool {
        let key = action.key();
        if self.model.is_pending(&key, self.now) || !self.keys.insert(key) {
            return false;
        }
        self.commands.push(Command { lease, action });
        true
    }

    /// Issues a command unless the same one is in flight; in both cases the pair is planned again when the outcome is due.
    /// Returns whether it was issued now.
    pub fn issue(&mut self, lease: Lease, action: Action, pair: (&NodeId, &PolicyId)) -> bool {
        let key = action.key();
        let timeout = self.model.settings.command_timeout_secs;
        if let Some(until) = self.model.pending_until(&key, self.now) {
            self.watch(pair, until);
            self.is_waiting_for_command = true;
            return false;
        }
        if let Action::Cancel { agreement, .. } = &action {
            self.stopping.insert(agreement.clone());
        }
        let is_new = self.keys.insert(key);
        if is_new {
            self.watch(pair, later(self.now, timeout));
            self.commands.push(Command { lease, action });
        }
        is_new
    }

    /// Returns the groups that hold a claim of this scope, or for which one is being requested.
    pub fn groups_in_work(&self, scope: &Scope) -> BTreeSet<GroupId> {
        let requested = self.commands.iter().filter_map(|command| match &command.action {
            Action::TakeClaim { request } if request.scope == *scope => Some(request.group.clone()),
            _ => None,
        });
        self.model.groups_in_work(scope, self.now).chain(requested).collect()
    }

    /// Returns whether the agreement is being ended, by this decision or an earlier one.
    pub fn is_stopping(&self, agreement: &Agreement) -> bool {
        self.stopping.contains(&agreement.id) || self.model.is_being_canceled(agreement, self.now)
    }

    /// Schedules the pair to be planned again.
    pub fn watch(&mut self, (node, policy): (&NodeId, &PolicyId), at: Timestamp) {
        // The pair is being planned now; the next time is a second later at the earliest.
        let at = at.max(later(self.now, 1));
        self.watches.insert(Watch { at, node: node.clone(), policy: policy.clone() });
    }

    /// Returns the lease to act for a workload unit, if this agbot may.
    pub fn lease_for_unit(&self, unit_id: &UnitId) -> Option<Lease> {
        self.model.lease_for_unit(unit_id).or(self.explains_only.then_some(NO_LEASE))
    }

    /// Returns the lease to act for a workload, if this agbot may.
    pub fn lease_for_workload(&self, policy: &PolicyId) -> Option<Lease> {
        self.model.lease_for_workload(policy).or(self.explains_only.then_some(NO_LEASE))
    }

    /// Returns the seed of new ids.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Schedules a workload unit, or some of its slots, to be planned again.
    pub fn watch_unit(&mut self, unit_id: &UnitId, slots: Option<&BTreeSet<Slot>>, at: Timestamp) {
        let at = at.max(self.now);
        for slot in due_slots(slots) {
            self.unit_watches.insert(UnitWatch { at, unit_id: unit_id.clone(), slot });
        }
    }

    /// Plans a workload unit, or some of its slots, again when the plan in flight is carried out or counts as lost.
    pub fn defer(&mut self, unit_id: &UnitId, slots: Option<&BTreeSet<Slot>>) {
        self.deferred.extend(due_slots(slots).into_iter().map(|slot| (unit_id.clone(), slot)));
    }

    /// Schedules a check of what the engine reports about an entity.
    pub fn check_health(&mut self, entity: Entity, at: Timestamp) {
        let known = self.health_checks.entry(entity).or_insert(at);
        *known = at.min(*known);
    }

    /// Records a round of checks.
    pub fn note_round(&mut self, round: HealthRound) {
        self.health_rounds.push(round);
    }

    /// Records what waits in a workload unit.
    pub fn report_unit(
        &mut self,
        unit_id: &UnitId,
        slots: Option<&BTreeSet<Slot>>,
        plan: &UnitPlan,
        incompatible: &[i64],
    ) {
        let report = UnitReport {
            slots: slots.cloned(),
            blocked: plan.blocked.clone(),
            unplaced: plan.unplaced.clone(),
            incompatible: incompatible.to_vec(),
        };
        self.unit_reports.insert(unit_id.clone(), report);
    }

    /// Records the placement of a pair; the last call wins.
    pub fn set_placement(&mut self, node: &NodeId, policy: &PolicyId, placement: Placement) {
        self.report.pairs.insert((node.clone(), policy.clone()), placement);
    }

    /// Records that a pair's agreement waits.
    pub fn wait(&mut self, agreement: &Agreement, blocked: Blocked) {
        let placement = Placement::Waiting { agreement: agreement.id.clone(), blocked };
        self.set_placement(&agreement.node, &agreement.policy, placement);
    }

    /// Records that a command was issued for a pair.
    pub fn act(&mut self, node: &NodeId, policy: &PolicyId, action: String) {
        self.set_placement(node, policy, Placement::Acting { action });
    }

    /// Adds an event to the report.
    pub fn emit(&mut self, kind: &str, text: String) {
        self.report.events.push(PlannerEvent { kind: kind.to_owned(), text });
    }

    /// Derives the id of a new agreement from the seed: 64 hexadecimal digits.
    pub fn new_agreement_id(&self, node: &NodeId, policy: &PolicyId) -> AgreementId {
        let mut generator =
            ChaCha20Rng::seed_from_u64(self.seed ^ stable_hash(&[node.as_str(), policy.as_str()]));
        let mut bytes = [0_u8; 32];
        generator.fill_bytes(&mut bytes);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        AgreementId::from_text(&text)
    }

    /// Ends the handling of the event's message: commands issued from here on do not affect its fate.
    pub fn close_message(&mut self) {
        self.message_commands = self.commands.len();
        // This decision does not carry out what the message requires, and the command in flight may fail.
        if self.is_waiting_for_command {
            self.message = Some(MessageFate::Leave);
        }
    }

    /// Records how many nodes the index excluded.
    pub fn rule_out(&mut self, counts: BTreeMap<PolicyId, u64>) {
        self.report.ruled_out = counts;
    }

    /// Returns the decision.
    pub fn finish(mut self) -> Decision {
        let mut watches: Vec<Watch> = self.watches.into_iter().collect();
        watches.sort();
        self.report.events.dedup();
        Decision {
            commands: self.commands,
            message: self.message,
            message_commands: self.message_commands,
            watches,
            unit_watches: self.unit_watches.into_iter().collect(),
            deferred: self.deferred.into_iter().collect(),
            unit_reports: self.unit_reports.into_iter().collect(),
            health_checks: self.health_checks.into_iter().collect(),
            health_rounds: self.health_rounds,
            report: self.report,
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::{NodeId, PolicyId};

    use super::*;
    use crate::group_fixture::running_group;

    #[test]
    fn agreement_ids_come_from_the_seed() {
        let (model, now) = running_group(&["a"]);
        let (node, policy) = (NodeId::new("o", "n"), PolicyId::new("o", "p"));
        let id = |seed| Pass::new(&model, now, seed).new_agreement_id(&node, &policy);
        assert_eq!(id(1), id(1));
        assert_ne!(id(1), id(2));
        assert_eq!(id(1).as_str().len(), 64);
        assert!(id(1).as_str().chars().all(|digit| digit.is_ascii_hexdigit() && !digit.is_ascii_uppercase()));
    }
}
