//! The events of all entities in the model.

use std::collections::BTreeMap;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use jiff::Timestamp;

use super::{Entity, HealthEvent, event, scheduled_checks::Checks};
use crate::workload::UnitId;

/// The events of all entities.
#[derive(Debug, Clone, Default)]
pub struct HealthRecords {
    events: BTreeMap<Entity, Vec<HealthEvent>>,
    /// When each partition was last known to have an owner.
    confirmed: BTreeMap<u32, Timestamp>,
    checks: Checks,
    count: usize,
}

impl HealthRecords {
    /// Replaces the events of an entity.
    pub fn put(&mut self, entity: &Entity, mut events: Vec<HealthEvent>) {
        let before = self.events.get(entity).map_or(0, Vec::len);
        self.count = self.count - before + events.len();
        if events.is_empty() {
            self.events.remove(entity);
            return;
        }
        events.sort_by(|one, other| one.order().cmp(&other.order()));
        events.shrink_to_fit();
        self.events.insert(entity.clone(), events);
    }

    /// Records that partitions have an owner, each at the given time at least.
    pub fn confirm(&mut self, partitions: impl IntoIterator<Item = (u32, Timestamp)>) {
        for (partition, at) in partitions {
            let known = self.confirmed.entry(partition).or_insert(at);
            *known = at.max(*known);
        }
    }

    /// Returns the events of an entity, expired or not, by source and property.
    pub fn of(&self, entity: &Entity) -> &[HealthEvent] {
        self.events.get(entity).map_or(&[], Vec::as_slice)
    }

    /// Returns the event of a source about a property.
    pub fn find(&self, entity: &Entity, source: &str, property: &str) -> Option<&HealthEvent> {
        let events = self.of(entity);
        let found = events.binary_search_by(|one| one.order().cmp(&(source, property)));
        found.ok().map(|position| &events[position])
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the entities with events.
    pub fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.events.keys()
    }

    /// Returns the HA groups with events, each with its entity.
    pub fn groups(&self) -> impl Iterator<Item = (&Entity, &GroupId)> {
        let entities = self.from(Entity::Group(GroupId::new("", ""))).map(|(entity, _)| entity);
        entities
            .map_while(|entity| if let Entity::Group(group) = entity { Some((entity, group)) } else { None })
    }

    /// Returns the entities with events that belong to a policy.
    pub fn of_policy(&self, policy: &PolicyId) -> Vec<Entity> {
        let firsts = [
            Entity::Workload(policy.clone()),
            Entity::WorkloadUnit(UnitId::all(policy.clone())),
            Entity::Instance(policy.clone(), NodeId::new("", "")),
        ];
        let mut found = Vec::new();
        for first in firsts {
            let kind = first.kind();
            let entities = self.from(first).map(|(entity, _)| entity);
            let own = entities.take_while(|one| one.kind() == kind && one.policy() == Some(policy));
            found.extend(own.cloned());
        }
        found
    }

    /// Returns the entities to be checked now.
    pub fn due_checks(&self, now: Timestamp) -> impl Iterator<Item = &Entity> {
        self.checks.due(now)
    }

    /// Returns when the next check is due.
    pub fn next_check_at(&self) -> Option<Timestamp> {
        self.checks.next_at()
    }

    /// Follows a clock that was set back: every check is due.
    pub fn set_back(&mut self, now: Timestamp) {
        self.checks.set_back(now);
    }

    /// Changes every event.
    pub fn change_events(&mut self, change: impl FnMut(&mut HealthEvent)) {
        self.events.values_mut().flatten().for_each(change);
    }

    /// Schedules a check of an entity, unless there is an earlier one.
    pub fn check_at(&mut self, entity: &Entity, at: Timestamp) {
        self.checks.add(entity, at);
    }

    /// Records that a decision made the checks that were due, and which ones it wants.
    pub fn note_checks(&mut self, wanted: &[(Entity, Timestamp)], now: Timestamp) {
        self.checks.remove_due(now);
        wanted.iter().for_each(|(entity, at)| self.checks.add(entity, *at));
    }

    /// Returns the entities with events from one on, in their order.
    pub fn from(&self, first: Entity) -> impl Iterator<Item = (&Entity, &Vec<HealthEvent>)> {
        self.events.range(first..)
    }

    /// Returns until when the owner of a partition keeps its reports up.
    pub fn kept_up_until(&self, partition: u32, ttl_secs: u64) -> Option<Timestamp> {
        self.confirmed.get(&partition).map(|at| event::kept_up_until(*at, ttl_secs))
    }
}
