//! The entities of the model: which exist, and what each holds.
//!
//! Source: orchestration D1 ("Entities and parents"), 1.3.

use std::collections::BTreeSet;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_record::{
    facts::PolicyScope,
    health::{Entity, EntityKind, HealthEvent, HealthRecords, HealthState},
    workload::{Part, SlotTasks, UnitId},
};
use jiff::Timestamp;

use super::EvaluationRules;
use crate::model::Model;

impl Model {
    /// Returns the events of all entities.
    pub fn health(&self) -> &HealthRecords {
        &self.health
    }

    /// Returns until when the owner of a partition keeps the engine's reports about an entity up.
    pub fn reports_kept_up_until(&self, entity: &Entity, partition: u32) -> Option<Timestamp> {
        self.health.kept_up_until(partition, self.system_report_ttl_secs(entity.org()))
    }

    /// Returns entities that were reported about and that were deleted: nodes, HA groups and policies.
    pub(crate) fn orphaned_health(&self) -> BTreeSet<Entity> {
        let mut found = BTreeSet::new();
        for entity in self.health.entities().filter(|entity| self.read_orgs.contains(entity.org())) {
            let owner = match entity {
                Entity::Org(_) => continue,
                Entity::Node(_) | Entity::Group(_) => entity.clone(),
                Entity::Workload(policy) | Entity::Instance(policy, _) => Entity::Workload(policy.clone()),
                Entity::WorkloadUnit(unit_id) => Entity::Workload(unit_id.policy.clone()),
            };
            if !self.has_health_entity(&owner) {
                found.insert(owner);
            }
        }
        found
    }

    /// Returns whether the events of an entity are the given ones.
    pub(crate) fn has_health_events(&self, entity: &Entity, events: &[HealthEvent]) -> bool {
        let known = self.health.of(entity);
        known.len() == events.len() && events.iter().all(|event| known.contains(event))
    }

    /// Returns whether the instance of a policy on a node was reported to be in error: it then does not count as running.
    ///
    /// # Source
    /// Orchestration A9.1, E3.
    pub fn is_unhealthy(&self, policy: &PolicyId, node: &NodeId, now: Timestamp) -> bool {
        if self.health.is_empty() {
            return false;
        }
        let entity = Entity::Instance(policy.clone(), node.clone());
        self.health_of(&entity, now) == HealthState::Error
    }

    /// Returns the rules by which an organization is evaluated.
    pub fn evaluation_rules(&self, org: &str) -> EvaluationRules {
        let given = self.org_settings(org).health_evaluation();
        EvaluationRules {
            considers_warning_as_error: given.considers_warning_as_error.unwrap_or(false),
            max_percent_nodes: given.max_percent_unhealthy_nodes.unwrap_or(0),
            max_percent_workloads: given.max_percent_unhealthy_workloads.unwrap_or(0),
            max_percent_units: given.max_percent_unhealthy_units.unwrap_or(0),
            max_percent_instances: given.max_percent_unhealthy_instances.unwrap_or(0),
        }
    }

    /// Returns whether an entity exists, as far as the model knows.
    pub fn has_health_entity(&self, entity: &Entity) -> bool {
        match entity {
            Entity::Org(_) => true,
            Entity::Node(node) => self.node(node).is_some(),
            Entity::Group(group) => self.group(group).is_some(),
            Entity::Workload(policy) => self.policy(policy).is_some(),
            Entity::WorkloadUnit(unit_id) => self.has_unit(unit_id),
            Entity::Instance(policy, node) => {
                let unit_id = self.health_unit_of(policy, node);
                unit_id.is_some_and(|unit_id| self.has_unit(&unit_id)) && self.belongs(policy, node)
            }
        }
    }

    /// Returns the workload unit of an instance; none when the node belongs to none.
    pub fn health_unit_of(&self, policy: &PolicyId, node: &NodeId) -> Option<UnitId> {
        let unit_of_group = || {
            let group = self.group_of.get(node)?;
            Some(UnitId { policy: policy.clone(), part: Part::Group(group.clone()) })
        };
        match &self.policy(policy)?.orchestration.scope {
            PolicyScope::Eligible | PolicyScope::Nodes(_) => Some(UnitId::all(policy.clone())),
            PolicyScope::EveryHaGroup => unit_of_group(),
            PolicyScope::HaGroups(groups) => unit_of_group()
                .filter(|unit_id| matches!(&unit_id.part, Part::Group(one) if groups.contains(one))),
        }
    }

    /// Returns the workload unit of a policy with this name.
    pub fn health_unit_named(&self, policy: &PolicyId, name: &str) -> Option<UnitId> {
        let part = match &self.policy(policy)?.orchestration.scope {
            PolicyScope::Eligible | PolicyScope::Nodes(_) if name == "all" => Part::All,
            PolicyScope::Eligible | PolicyScope::Nodes(_) => return None,
            PolicyScope::EveryHaGroup | PolicyScope::HaGroups(_) => {
                Part::Group(GroupId::new(policy.org(), name))
            }
        };
        let unit_id = UnitId { policy: policy.clone(), part };
        self.has_unit(&unit_id).then_some(unit_id)
    }

    fn has_unit(&self, unit_id: &UnitId) -> bool {
        let Some(facts) = self.policy(&unit_id.policy) else { return false };
        match (&facts.orchestration.scope, &unit_id.part) {
            (PolicyScope::Eligible | PolicyScope::Nodes(_), Part::All) => true,
            (PolicyScope::HaGroups(groups), Part::Group(group)) => groups.contains(group),
            (PolicyScope::EveryHaGroup, Part::Group(group)) => {
                group.org() == unit_id.policy.org() && self.group(group).is_some()
            }
            _ => false,
        }
    }

    /// Returns whether a node is one of those on which a policy may run, or does.
    fn belongs(&self, policy: &PolicyId, node: &NodeId) -> bool {
        let Some(facts) = self.policy(policy).filter(|_| self.node(node).is_some()) else { return false };
        if self.live_agreement(node, policy).is_some() || self.engine.tasks_on(node, policy).next().is_some()
        {
            return true;
        }
        match &facts.orchestration.scope {
            PolicyScope::Nodes(nodes) => nodes.contains(node),
            PolicyScope::EveryHaGroup | PolicyScope::HaGroups(_) => true,
            PolicyScope::Eligible => self.policies_for(node).contains(policy),
        }
    }

    /// Returns the number of entities of a kind that an entity holds.
    pub(super) fn health_total(&self, entity: &Entity, kind: EntityKind) -> usize {
        self.health_children(entity, kind).count()
    }

    /// Returns the entities of a kind that an entity holds, in their order.
    pub(super) fn health_children(
        &self,
        entity: &Entity,
        kind: EntityKind,
    ) -> Box<dyn Iterator<Item = Entity> + '_> {
        match (entity, kind) {
            (Entity::Org(org), EntityKind::Node) => {
                let org = org.clone();
                let nodes = self.nodes.range(NodeId::new(org.as_str(), "")..).map(|(node, _)| node);
                let own = nodes.take_while(move |node| node.org() == org.as_str());
                Box::new(own.map(|node| Entity::Node(node.clone())))
            }
            (Entity::Org(org), EntityKind::Group) => {
                let org = org.clone();
                let groups = self.groups.range(GroupId::new(org.as_str(), "")..).map(|(group, _)| group);
                let own = groups.take_while(move |group| group.org() == org.as_str());
                Box::new(own.map(|group| Entity::Group(group.clone())))
            }
            (Entity::Org(org), EntityKind::Workload) => {
                let org = org.clone();
                let policies = self.policies.range(PolicyId::new(org.as_str(), "")..);
                // The services of a pattern are not workloads of the organization.
                let own = policies.take_while(move |(policy, _)| policy.org() == org.as_str());
                let own = own.filter(|(_, facts)| facts.pattern.is_none());
                Box::new(own.map(|(policy, _)| Entity::Workload(policy.clone())))
            }
            (Entity::Workload(policy), EntityKind::WorkloadUnit) => {
                Box::new(self.health_units(policy).into_iter().map(Entity::WorkloadUnit))
            }
            (Entity::WorkloadUnit(unit_id), EntityKind::Instance) => {
                let nodes = self.health_instances(unit_id).into_iter();
                let policy = unit_id.policy.clone();
                Box::new(nodes.map(move |node| Entity::Instance(policy.clone(), node)))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    fn health_units(&self, policy: &PolicyId) -> Vec<UnitId> {
        let Some(facts) = self.policy(policy) else { return Vec::new() };
        let of_group = |group: &GroupId| UnitId { policy: policy.clone(), part: Part::Group(group.clone()) };
        match &facts.orchestration.scope {
            PolicyScope::Eligible | PolicyScope::Nodes(_) => vec![UnitId::all(policy.clone())],
            PolicyScope::HaGroups(groups) => {
                groups.iter().map(of_group).collect::<BTreeSet<_>>().into_iter().collect()
            }
            PolicyScope::EveryHaGroup => {
                let groups = self.groups.range(GroupId::new(policy.org(), "")..).map(|(group, _)| group);
                groups.take_while(|group| group.org() == policy.org()).map(of_group).collect()
            }
        }
    }

    /// Returns the nodes that have an instance of a workload unit, or of which one was reported.
    fn health_instances(&self, unit_id: &UnitId) -> BTreeSet<NodeId> {
        let policy = &unit_id.policy;
        let is_own = |node: &&NodeId| self.health_unit_of(policy, node).as_ref() == Some(unit_id);
        let agreed = self.live_nodes.get(policy).into_iter().flatten().filter(is_own);
        let unit = self.workload_unit(unit_id);
        let tasks = unit.into_iter().flat_map(|unit| unit.slots.values().flat_map(SlotTasks::iter));
        let tasks = tasks.filter(|task| task.is_live()).filter_map(|task| task.node.as_ref());
        let reported = self.health.from(Entity::Instance(policy.clone(), NodeId::new("", "")));
        let reported = reported
            .map(|(entity, _)| entity)
            .take_while(|entity| entity.kind() == EntityKind::Instance && entity.policy() == Some(policy));
        let reported =
            reported.filter_map(Entity::node).filter(is_own).filter(|node| self.belongs(policy, node));
        agreed.chain(tasks).chain(reported).cloned().collect()
    }
}
