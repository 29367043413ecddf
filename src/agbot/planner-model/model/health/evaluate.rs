//! Evaluation: the state of an entity, from its own events and from what it holds.
//!
//! Entities without an event cost nothing: only what was reported about is visited. Source: orchestration D1 ("Evaluation").

use std::{collections::BTreeMap, ops::Range};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::{
    health::{
        Entity, EntityKind, HealthEvent, HealthState, ORCHESTRATOR, PLACEMENT, SYSTEM,
        system::{UPGRADE_BLOCKED, is_of_identity, is_of_recovery},
    },
    workload::UnitId,
};
use jiff::Timestamp;

use crate::model::Model;

/// Rules by which the health of an entity is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EvaluationRules {
    /// True if an event with a warning counts as an error.
    pub considers_warning_as_error: bool,
    /// Nodes of an organization that may be in error, in percent.
    pub max_percent_nodes: u8,
    /// Workloads of an organization that may be in error, in percent.
    pub max_percent_workloads: u8,
    /// Units of a workload that may be in error, in percent.
    pub max_percent_units: u8,
    /// Instances of a unit that may be in error, in percent.
    pub max_percent_instances: u8,
}

impl EvaluationRules {
    fn max_percent(self, kind: EntityKind) -> u8 {
        match kind {
            EntityKind::Node => self.max_percent_nodes,
            EntityKind::Workload => self.max_percent_workloads,
            EntityKind::WorkloadUnit => self.max_percent_units,
            EntityKind::Instance => self.max_percent_instances,
            EntityKind::Org | EntityKind::Group => 0,
        }
    }

    /// Returns the state of what holds so many children of a kind. Rounding up lets a small percentage tolerate one error in a small set.
    fn of_children(self, kind: EntityKind, found: Tally, total: impl FnOnce() -> usize) -> HealthState {
        let max_percent = self.max_percent(kind);
        match found {
            Tally { errors: 0, warnings: 0 } => HealthState::Ok,
            Tally { errors: 0, .. } => HealthState::Warning,
            Tally { errors, .. } => {
                // Counting is not cheap.
                let tolerated =
                    if max_percent == 0 { 0 } else { (usize::from(max_percent) * total()).div_ceil(100) };
                if errors > tolerated { HealthState::Error } else { HealthState::Warning }
            }
        }
    }
}

/// Reason why an entity is not [`HealthState::Ok`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// An event of it.
    Event {
        /// Source of the event.
        source: String,
        /// About what.
        property: String,
        /// Its state, before a warning counts as an error.
        state: HealthState,
    },
    /// Contained entities of one kind.
    Children {
        /// The kind.
        kind: EntityKind,
        /// Entities that are not healthy.
        unhealthy: Vec<Entity>,
        /// All of them.
        total: usize,
        /// Share of them that may be in error, in percent.
        max_percent: u8,
    },
}

/// Contained entities that an evaluation lists. Its state depends on all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedChildren {
    /// Those of this kind only.
    pub kind: Option<EntityKind>,
    /// Their positions in the order of the list: the worst first, then by kind and name.
    pub range: Range<usize>,
}

/// The state of an entity and the reasons for it.
///
/// # Shape
/// `children`: what it holds, the worst first, as far as that was asked for; `child_count`: all of the kinds that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// Its state.
    pub state: HealthState,
    /// Every reason that it is not Ok.
    pub reasons: Vec<Reason>,
    /// Contained entities with their states.
    pub children: Vec<(Entity, HealthState)>,
    /// Number of contained entities.
    pub child_count: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    errors: usize,
    warnings: usize,
}

impl Tally {
    fn add(&mut self, state: HealthState) {
        match state {
            HealthState::Ok => {}
            HealthState::Warning => self.warnings += 1,
            HealthState::Error => self.errors += 1,
        }
    }

    fn of(states: impl Iterator<Item = HealthState>) -> Self {
        let mut tally = Self::default();
        states.for_each(|state| tally.add(state));
        tally
    }
}

/// Contained entities of one kind, summarized.
struct Children {
    kind: EntityKind,
    /// Entities that are not Ok, the worst first.
    unhealthy: Vec<(Entity, HealthState)>,
    /// Some of the others.
    healthy: Vec<Entity>,
    total: usize,
}

/// Events that count: all of them; those that the status of a workload does not show by itself; or those of other sources than the engine that became an error after an instant.
#[derive(Debug, Clone, Copy)]
enum Counted {
    All,
    NotInStatus,
    ErrorsSince(Timestamp),
}

struct Evaluator<'m> {
    model: &'m Model,
    rules: EvaluationRules,
    counted: Counted,
    now: Timestamp,
}

impl Model {
    /// Evaluates an entity.
    pub fn evaluate_health(
        &self,
        entity: &Entity,
        rules: EvaluationRules,
        listed: &ListedChildren,
        now: Timestamp,
    ) -> Evaluation {
        Evaluator { model: self, rules, counted: Counted::All, now }.evaluate(entity, listed)
    }

    /// Returns the state of an entity by the rules of its organization.
    pub fn health_of(&self, entity: &Entity, now: Timestamp) -> HealthState {
        let rules = self.evaluation_rules(entity.org());
        Evaluator { model: self, rules, counted: Counted::All, now }.state_of(entity)
    }

    /// Returns the health of a workload, apart from what its status shows by itself.
    ///
    /// # Source
    /// Orchestration A9.3 (`overall`).
    pub fn reported_health(&self, policy: &PolicyId, now: Timestamp) -> HealthState {
        let rules = self.evaluation_rules(policy.org());
        let evaluator = Evaluator { model: self, rules, counted: Counted::NotInStatus, now };
        evaluator.state_of(&Entity::Workload(policy.clone()))
    }

    /// Returns how many workloads, workload units and instances of each policy are reported to be in error.
    pub fn workload_errors(&self, now: Timestamp) -> BTreeMap<PolicyId, usize> {
        let mut counts = BTreeMap::new();
        for entity in self.health.entities() {
            let policy = match entity {
                Entity::Workload(policy) | Entity::Instance(policy, _) => policy,
                Entity::WorkloadUnit(unit_id) => &unit_id.policy,
                Entity::Org(_) | Entity::Node(_) | Entity::Group(_) => continue,
            };
            let rules = self.evaluation_rules(policy.org());
            let evaluator = Evaluator { model: self, rules, counted: Counted::All, now };
            if self.has_health_entity(entity) && evaluator.own_state(entity) == HealthState::Error {
                *counts.entry(policy.clone()).or_default() += 1;
            }
        }
        counts
    }

    /// Returns an event that makes an entity an error, other than that its recovery failed or that two agents report for it: recovering
    /// instances would end neither.
    pub fn error_to_recover(&self, entity: &Entity, now: Timestamp) -> Option<&HealthEvent> {
        let rules = self.evaluation_rules(entity.org());
        let evaluator = Evaluator { model: self, rules, counted: Counted::All, now };
        let mut events =
            self.health.of(entity).iter().filter(|event| !is_of_recovery(event) && !is_of_identity(event));
        events.find(|event| {
            let state = evaluator.state_by(entity, event).map(|state| evaluator.considered(state));
            state == Some(HealthState::Error)
        })
    }

    /// Returns what others than the engine reported as an error of a workload after an instant, if the workload is in error for it.
    ///
    /// Reports of the engine are left out: they follow from its own actions and would count twice.
    /// # Source
    /// Orchestration D1 (last paragraph), D10.
    pub fn new_errors(
        &self,
        policy: &PolicyId,
        since: Timestamp,
        now: Timestamp,
    ) -> Vec<(Entity, &HealthEvent, Timestamp)> {
        let rules =
            EvaluationRules { considers_warning_as_error: false, ..self.evaluation_rules(policy.org()) };
        let evaluator = Evaluator { model: self, rules, counted: Counted::ErrorsSince(since), now };
        let workload = Entity::Workload(policy.clone());
        let mut found = evaluator.errors_of(&workload);
        for entity in evaluator.reported_units(policy).chain(evaluator.reported_instances(policy)) {
            found.extend(evaluator.errors_of(entity));
        }
        if !found.is_empty() && evaluator.state_of(&workload) != HealthState::Error {
            found.clear();
        }
        found
    }
}

impl<'m> Evaluator<'m> {
    /// Returns the state that an event gives its entity; none when it does not count.
    fn state_by(&self, entity: &Entity, event: &HealthEvent) -> Option<HealthState> {
        let kept_up = |partition| self.model.reports_kept_up_until(entity, partition);
        let (state, since) = event.state_at(self.now, kept_up)?;
        match self.counted {
            Counted::All => Some(state),
            // The status shows by itself what the placement finds, without the delay of a report.
            Counted::NotInStatus => {
                let is_shown =
                    matches!(&*event.source, PLACEMENT | ORCHESTRATOR) && *event.property != *UPGRADE_BLOCKED;
                (!is_shown).then_some(state)
            }
            Counted::ErrorsSince(at) => {
                let is_counted =
                    state == HealthState::Error && since > at && !event.source.starts_with(SYSTEM);
                is_counted.then_some(state)
            }
        }
    }

    fn considered(&self, state: HealthState) -> HealthState {
        match state {
            HealthState::Warning if self.rules.considers_warning_as_error => HealthState::Error,
            state => state,
        }
    }

    /// Returns the state by its own events.
    fn own_state(&self, entity: &Entity) -> HealthState {
        let events = self.model.health.of(entity).iter();
        let states = events.filter_map(|event| self.state_by(entity, event));
        states.map(|state| self.considered(state)).max().unwrap_or_default()
    }

    /// Returns the events with an error, each with since when it is so.
    fn errors_of(&self, entity: &Entity) -> Vec<(Entity, &'m HealthEvent, Timestamp)> {
        let events = self.model.health.of(entity).iter();
        let errors = events.filter(|event| self.state_by(entity, event) == Some(HealthState::Error));
        let since = |event: &HealthEvent| {
            let kept_up = |partition| self.model.reports_kept_up_until(entity, partition);
            event.state_at(self.now, kept_up).map_or(event.since, |(_, since)| since)
        };
        errors.map(|event| (entity.clone(), event, since(event))).collect()
    }

    fn state_of(&self, entity: &Entity) -> HealthState {
        let own = self.own_state(entity);
        if own == HealthState::Error {
            return own;
        }
        let held = match entity {
            Entity::Org(org) => {
                let kinds = [EntityKind::Node, EntityKind::Group, EntityKind::Workload];
                let states = kinds.into_iter().map(|kind| {
                    let found = self.unhealthy_in(org.as_str(), kind);
                    let tally = Tally::of(found.into_iter().map(|(_, state)| state));
                    self.rules.of_children(kind, tally, || self.model.health_total(entity, kind))
                });
                states.max().unwrap_or_default()
            }
            Entity::Workload(policy) => {
                let states = self.unhealthy_units(policy).into_iter().map(|(_, state)| state);
                let kind = EntityKind::WorkloadUnit;
                self.rules.of_children(kind, Tally::of(states), || self.model.health_total(entity, kind))
            }
            Entity::WorkloadUnit(unit_id) => {
                let tally = self.tallies(&unit_id.policy).remove(unit_id).unwrap_or_default();
                let kind = EntityKind::Instance;
                self.rules.of_children(kind, tally, || self.model.health_total(entity, kind))
            }
            Entity::Node(_) | Entity::Group(_) | Entity::Instance(..) => HealthState::Ok,
        };
        own.max(held)
    }

    /// Returns what is wrong in the units of a workload, by unit.
    fn tallies(&self, policy: &PolicyId) -> BTreeMap<UnitId, Tally> {
        let mut tallies: BTreeMap<UnitId, Tally> = BTreeMap::new();
        for entity in self.reported_instances(policy) {
            let state = self.own_state(entity);
            if state != HealthState::Ok
                && let Some(unit_id) = entity.node().and_then(|node| self.model.health_unit_of(policy, node))
            {
                tallies.entry(unit_id).or_default().add(state);
            }
        }
        tallies
    }

    /// Returns the units of a workload that are not Ok.
    fn unhealthy_units(&self, policy: &PolicyId) -> Vec<(Entity, HealthState)> {
        let mut tallies = self.tallies(policy);
        for entity in self.reported_units(policy) {
            if let Entity::WorkloadUnit(unit_id) = entity
                && self.model.has_health_entity(entity)
            {
                tallies.entry(unit_id.clone()).or_default();
            }
        }
        let kind = EntityKind::Instance;
        let states = tallies.into_iter().map(|(unit_id, tally)| {
            let entity = Entity::WorkloadUnit(unit_id);
            let held = self.rules.of_children(kind, tally, || self.model.health_total(&entity, kind));
            let state = held.max(self.own_state(&entity));
            (entity, state)
        });
        worst_first(states)
    }

    /// Returns the children of an organization of one kind that are not Ok.
    fn unhealthy_in(&self, org: &str, kind: EntityKind) -> Vec<(Entity, HealthState)> {
        let reported = |first: Entity| {
            let entities = self.model.health.from(first).map(|(entity, _)| entity);
            entities.take_while(move |entity| entity.kind() == kind && entity.org() == org)
        };
        let is_there = |entity: &&Entity| self.model.has_health_entity(entity);
        match kind {
            EntityKind::Node => {
                let found = reported(Entity::Node(NodeId::new(org, ""))).filter(is_there);
                worst_first(found.map(|entity| (entity.clone(), self.own_state(entity))))
            }
            EntityKind::Group => {
                let found = reported(Entity::Group(evenkeel_ids::GroupId::new(org, ""))).filter(is_there);
                worst_first(found.map(|entity| (entity.clone(), self.own_state(entity))))
            }
            _ => {
                let policies = self.reported_policies(org).into_iter().map(Entity::Workload);
                let found = policies.filter(|entity| self.model.has_health_entity(entity));
                worst_first(found.map(|entity| {
                    let state = self.state_of(&entity);
                    (entity, state)
                }))
            }
        }
    }

    /// Returns the policies of an organization of which something was reported.
    fn reported_policies(&self, org: &str) -> std::collections::BTreeSet<PolicyId> {
        let none = PolicyId::new(org, "");
        let firsts = [
            Entity::Workload(none.clone()),
            Entity::WorkloadUnit(UnitId::all(none.clone())),
            Entity::Instance(none, NodeId::new("", "")),
        ];
        let mut policies = std::collections::BTreeSet::new();
        for first in firsts {
            let kind = first.kind();
            let found = self.model.health.from(first).map(|(entity, _)| entity);
            let found = found.take_while(|entity| entity.kind() == kind && entity.org() == org);
            for policy in found.filter_map(Entity::policy) {
                if policies.last() != Some(policy) {
                    policies.insert(policy.clone());
                }
            }
        }
        policies
    }

    fn reported_units(&self, policy: &PolicyId) -> impl Iterator<Item = &'m Entity> + use<'m> {
        self.reported_of(policy, Entity::WorkloadUnit(UnitId::all(policy.clone())))
    }

    fn reported_instances(&self, policy: &PolicyId) -> impl Iterator<Item = &'m Entity> + use<'m> {
        self.reported_of(policy, Entity::Instance(policy.clone(), NodeId::new("", "")))
    }

    fn reported_of(&self, policy: &PolicyId, first: Entity) -> impl Iterator<Item = &'m Entity> + use<'m> {
        let (kind, policy) = (first.kind(), policy.clone());
        let found = self.model.health.from(first).map(|(entity, _)| entity);
        found.take_while(move |entity| entity.kind() == kind && entity.policy() == Some(&policy))
    }

    fn evaluate(&self, entity: &Entity, listed: &ListedChildren) -> Evaluation {
        let Range { start, end } = listed.range.clone();
        let limit = end.saturating_sub(start);
        let mut reasons = Vec::new();
        for event in self.model.health.of(entity) {
            if let Some(state) = self.state_by(entity, event).filter(|state| *state != HealthState::Ok) {
                let (source, property) = (event.source.to_string(), event.property.to_string());
                reasons.push(Reason::Event { source, property, state });
            }
        }
        let mut evaluation =
            Evaluation { state: self.own_state(entity), reasons, children: Vec::new(), child_count: 0 };
        let mut healthy = Vec::new();
        for children in self.children_of(entity, end) {
            let Children { kind, unhealthy, healthy: others, total } = children;
            let tally = Tally::of(unhealthy.iter().map(|(_, state)| *state));
            let held = self.rules.of_children(kind, tally, || total);
            evaluation.state = evaluation.state.max(held);
            if !unhealthy.is_empty() {
                evaluation.reasons.push(Reason::Children {
                    kind,
                    unhealthy: unhealthy.iter().take(limit).map(|(entity, _)| entity.clone()).collect(),
                    total,
                    max_percent: self.rules.max_percent(kind),
                });
            }
            if listed.kind.is_none_or(|wanted| wanted == kind) {
                evaluation.child_count += total;
                evaluation.children.extend(unhealthy);
                healthy.extend(others);
            }
        }
        evaluation.children.sort_by(|(_, one), (_, other)| other.cmp(one));
        evaluation.children.extend(healthy.into_iter().map(|entity| (entity, HealthState::Ok)));
        evaluation.children.truncate(end);
        evaluation.children.drain(..start.min(evaluation.children.len()));
        evaluation
    }

    fn children_of(&self, entity: &Entity, limit: usize) -> Vec<Children> {
        let of_kind = |kind: EntityKind, unhealthy: Vec<(Entity, HealthState)>| {
            let total = self.model.health_total(entity, kind).max(unhealthy.len());
            let bad: std::collections::BTreeSet<&Entity> = unhealthy.iter().map(|(one, _)| one).collect();
            let all = self.model.health_children(entity, kind);
            let healthy = all.filter(|one| !bad.contains(one)).take(limit).collect();
            Children { kind, unhealthy, healthy, total }
        };
        match entity {
            Entity::Org(org) => [EntityKind::Node, EntityKind::Group, EntityKind::Workload]
                .into_iter()
                .map(|kind| of_kind(kind, self.unhealthy_in(org.as_str(), kind)))
                .collect(),
            Entity::Workload(policy) => {
                vec![of_kind(EntityKind::WorkloadUnit, self.unhealthy_units(policy))]
            }
            Entity::WorkloadUnit(unit_id) => {
                let is_own = |one: &&Entity| {
                    let unit_of = |node| self.model.health_unit_of(&unit_id.policy, node);
                    one.node().and_then(unit_of).as_ref() == Some(unit_id)
                };
                let found = self.reported_instances(&unit_id.policy).filter(is_own);
                let found = found.map(|one| (one.clone(), self.own_state(one)));
                vec![of_kind(EntityKind::Instance, worst_first(found))]
            }
            Entity::Node(_) | Entity::Group(_) | Entity::Instance(..) => Vec::new(),
        }
    }
}

/// Returns those that are not Ok, the worst first.
fn worst_first(states: impl Iterator<Item = (Entity, HealthState)>) -> Vec<(Entity, HealthState)> {
    let mut unhealthy: Vec<_> = states.filter(|(_, state)| *state != HealthState::Ok).collect();
    unhealthy.sort_by(|(_, one), (_, other)| other.cmp(one));
    unhealthy
}
