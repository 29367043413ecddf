//! Follows the health registry: targets are registered, adopted by the owner of their partition, suspended while a user changes them,
//! and checked once in each interval.
//!
//! Checks of a deployment policy are made when something is reported about an instance ([`evenkeel_reconcile::recovery::follow`]); its rounds count what they
//! find. The rounds of an HA group also begin recoveries ([`super::member_recovery`]). Source: orchestration C1, C3, C9, C10.

use std::{borrow::Cow, collections::BTreeSet};

use evenkeel_domain::orchestration::{HealthPolicy, health_policy::DetectionType};
use evenkeel_ids::NodeId;
use evenkeel_planner_model::{
    command::{Action, CommandKey},
    focus::Focus,
    model::Model,
    pass::Pass,
    plan::UnitEvent,
};
use evenkeel_planner_record::{
    health::{Entity, HealthRound, Registration, detect, system::is_of_recovery},
    lease::Lease,
    time::later,
    workload::{Part, Task},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{conditions::Found, member_recovery};

/// Time from an event to the reconciliation of the registrations that it may have changed.
const DELAY_SECS: u64 = 1;
/// Time between reconciliations of a registration while something about it is in progress.
const RECHECK_SECS: u64 = 2;

/// Schedules the reconciliation of the registrations in focus.
pub(super) fn schedule(pass: &mut Pass<'_>, focus: &Focus) {
    let soon = later(pass.now, DELAY_SECS);
    for target in &focus.registrations {
        pass.check_health(target.clone(), soon);
    }
}

/// Reconciles the registration of a target, and makes the round of checks that is due.
pub(super) fn follow(pass: &mut Pass<'_>, target: &Entity) {
    let (model, now) = (pass.model, pass.now);
    let Some(lease) = model.lease_for_target(target) else { return };
    if model.is_pending(&CommandKey::registration(target), now) {
        return pass.check_health(target.clone(), later(now, RECHECK_SECS));
    }
    let known = model.registration(target);
    let Some(policy) = model.health_policy_of(target) else {
        if known.is_some() {
            pass.issue_for_group(lease, Action::RemoveRegistration { target: target.clone() });
        }
        return;
    };
    let mut draft = Draft::new(model, target, policy, lease, now);
    draft.follow_operation();
    member_recovery::follow(&mut draft);
    let round = draft.round(pass);
    let Draft { mut row, events, found, wake_at, .. } = draft;
    let is_changed = known != Some(&row) || !events.is_empty();
    // Failed members count when what follows from them is written.
    let found_unhealthy = found.filter(|_| is_changed).map_or(0, |(_, unhealthy)| unhealthy);
    if let Some(number) = round {
        let found = found.map(|(healthy, unhealthy)| (healthy, unhealthy - found_unhealthy));
        pass.note_round(HealthRound { target: target.clone(), lease, number, at: now, found });
    }
    let failed = row.recoveries.iter().filter_map(|(node, one)| Some((node, one.failure.as_ref()?)));
    let failed = failed.map(|(node, why)| (Entity::Node(node.clone()), format!("recovery failed: {why}")));
    let withheld = row.withheld.iter().map(|why| (target.clone(), why.clone()));
    let found = Found::of_recoveries((model, target), row.members.keys(), failed.chain(withheld).collect());
    let next = [Some(row.next_round_at(now)), wake_at].into_iter().flatten().min();
    next.into_iter().for_each(|at| pass.check_health(target.clone(), at));
    if is_changed {
        row.revision += 1;
        let registration = Box::new(row);
        pass.issue_for_group(lease, Action::RecordRegistration { registration, events, found_unhealthy });
        pass.check_health(target.clone(), later(now, RECHECK_SECS));
    }
    super::report(pass, lease, target, found, is_of_recovery);
}

/// A registration as it will be.
pub(super) struct Draft<'a> {
    pub model: &'a Model,
    pub policy: &'a HealthPolicy,
    pub now: Timestamp,
    pub row: Registration,
    pub events: Vec<UnitEvent>,
    /// Numbers of members that the round found healthy and failed.
    pub found: Option<(u64, u64)>,
    wake_at: Option<Timestamp>,
    lease: Lease,
    is_new: bool,
}

impl<'a> Draft<'a> {
    fn new(
        model: &'a Model,
        target: &Entity,
        policy: &'a HealthPolicy,
        lease: Lease,
        now: Timestamp,
    ) -> Self {
        let longest = model.unit_settings(target.org()).health_interval_max_secs;
        let known = model.registration(target);
        let row = match known {
            Some(known) => known.clone().following(policy, longest),
            None => Registration::new(target.clone(), policy, longest, lease, now),
        };
        let is_new = known.is_none();
        let (events, found, wake_at) = (Vec::new(), None, None);
        let mut draft = Self { model, policy, now, row, events, found, wake_at, lease, is_new };
        if is_new {
            draft.emit("health.registered", None, "the health policy is followed from now on".to_owned());
        } else if draft.row.lease != lease {
            let text = format!("partition {} was taken over", lease.partition);
            draft.emit("health.adopted", None, text);
            (draft.row.lease, draft.row.adopted_at) = (lease, now);
        }
        draft
    }

    pub fn emit(&mut self, kind: &'static str, node: Option<&NodeId>, text: String) {
        self.emit_with(kind, node, text, None);
    }

    pub fn emit_with(
        &mut self,
        kind: &'static str,
        node: Option<&NodeId>,
        text: String,
        data: Option<Value>,
    ) {
        let kind = Cow::Borrowed(kind);
        self.events.push(UnitEvent { kind, slot: None, node: node.cloned(), text, data });
    }

    /// Schedules the next reconciliation of the registration.
    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub fn recheck(&mut self) {
        self.wake(later(self.now, RECHECK_SECS));
    }

    /// Follows the operation of a user that suspends the checks.
    fn follow_operation(&mut self) {
        let operation = match &self.row.target {
            Entity::Workload(policy) => self.model.suspending_operation(policy, self.now),
            _ => self.operation_on_group(),
        };
        if operation.is_some() {
            self.recheck();
        }
        let suspended_by = self.row.suspended_by.take();
        match (suspended_by, &operation) {
            (None, Some(name)) => self.emit_operation("health.disabled", name.clone(), "begins"),
            (Some(name), None) => self.emit_operation("health.enabled", name, "is over"),
            _ => {}
        }
        self.row.suspended_by = operation;
    }

    fn emit_operation(&mut self, kind: &'static str, operation: String, verb: &str) {
        let text = format!("the operation {operation} of a user {verb}");
        self.emit_with(kind, None, text, Some(json!({"operation": operation})));
    }

    /// Returns the operation of a user on the HA group: members that leave, until their instances of the group have stopped.
    fn operation_on_group(&mut self) -> Option<String> {
        let Entity::Group(id) = &self.row.target else { return None };
        let group = self.model.group(id)?;
        let now: BTreeSet<&NodeId> = group.members.iter().collect();
        let removed: Vec<NodeId> =
            self.row.members.keys().filter(|node| !now.contains(node)).cloned().collect();
        let added: Vec<NodeId> = now
            .iter()
            .filter(|node| !self.row.members.contains_key(**node))
            .map(|node| (*node).clone())
            .collect();
        let has_added = !added.is_empty();
        let joined_at = (!self.is_new).then_some(self.now);
        self.row.members.retain(|node, _| now.contains(node));
        self.row.members.extend(added.into_iter().map(|node| (node, joined_at)));
        let part = Part::Group(id.clone());
        let (model, at) = (self.model, self.now);
        let is_stopping = |node: &NodeId| {
            let of_group = |task: &&Task| task.unit_id.part == part;
            model.are_stopping(model.tasks_of(node).filter(of_group), at)
        };
        if removed.is_empty() {
            self.row.leaving.retain(is_stopping);
        } else {
            self.row.leaving.extend(removed.iter().cloned());
        }
        if self.row.action.is_some() {
            return Some("recover".to_owned());
        }
        if self.row.leaving.is_empty() {
            return None;
        }
        let are_deleted = removed.iter().all(|node| model.node(node).is_none());
        let begun = self.row.suspended_by.clone().filter(|name| removed.is_empty() && name != "recover");
        let name = match (has_added, are_deleted) {
            (true, _) => "replace-nodes",
            (false, true) => "node-delete",
            (false, false) => "delete-nodes",
        };
        Some(begun.unwrap_or_else(|| name.to_owned()))
    }

    /// Starts the round of checks that is due; returns its number, also when nothing is checked.
    fn round(&mut self, pass: &mut Pass<'_>) -> Option<i64> {
        let number = self.row.round_at(self.now);
        let last = self.model.last_round(&self.row.target, self.lease);
        // A target that was taken over is checked in the next round: its former owner may have made this one.
        let last = last.filter(|_| !self.is_new);
        if last == Some(number) {
            if self.follows_events() && self.row.is_checking() && self.model.is_sure_of(self.lease, self.now)
            {
                member_recovery::check_members(self);
            }
            return None;
        }
        let missed = last.map_or(0, |last| number - last - 1);
        if missed > 0 {
            let text = format!("{missed} rounds of health checks of {} were missed", self.row.target);
            pass.emit("health.rounds-missed", text);
        }
        let is_made = last.is_some_and(|last| last < number)
            && self.row.is_checking()
            && self.model.is_sure_of(self.lease, self.now);
        if is_made {
            self.found = Some(match &self.row.target {
                Entity::Workload(_) => self.count_instances(),
                _ => member_recovery::check_members(self),
            });
        }
        Some(number)
    }

    /// Returns whether the members of an HA group are checked when something is reported about them, and not only once in each round.
    fn follows_events(&self) -> bool {
        matches!(self.row.target, Entity::Group(_)) && self.policy.has_mode(DetectionType::LifecycleEvents)
    }

    /// Counts the instances of a deployment policy that are healthy, and those that are not.
    fn count_instances(&self) -> (u64, u64) {
        let Entity::Workload(policy) = &self.row.target else { return (0, 0) };
        let slots = self.model.workload_units_of(policy).flat_map(|(_, unit)| unit.slots.values());
        let mut counts = (0, 0);
        for task in slots.filter_map(|tasks| tasks.wanted().next()) {
            let node = task.node.as_ref().and_then(|node| self.model.node(node));
            let reported = node.and_then(|node| node.health.get(&task.id));
            match detect::is_unhealthy_member(self.policy, task, reported, self.now) {
                true => counts.1 += 1,
                false => counts.0 += 1,
            }
        }
        counts
    }
}
