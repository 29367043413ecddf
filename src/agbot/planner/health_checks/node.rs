//! Reports of the engine about nodes: their presence, capacities that are too small for their instances, and
//! services that keep failing there.
//!
//! Source: orchestration D2.

use crate::{
    blocklist::BlocklistKey,
    health::{
        Entity, HealthEvent, HealthState,
        system::{self, BLOCKLIST, CAPACITY, IDENTITY, NODE_MONITOR, PLACEMENT, SystemReport},
    },
    lease::Lease,
    model::{Model, NodeCondition},
};

const HEARTBEAT: &str = "Heartbeat";

impl Model {
    /// Returns what is to be reported about a node, with the lease for it; none when another agbot owns the node, or nothing changed.
    pub fn node_reports(&self, condition: &NodeCondition) -> Option<(Lease, Vec<SystemReport>)> {
        let lease = self.lease_for(&condition.node)?;
        let entity = Entity::Node(condition.node.clone());
        let conflict = condition.conflict.as_ref().map(|conflict| {
            let text = format!("node {}: {conflict}", condition.node);
            SystemReport::new(NODE_MONITOR, IDENTITY, HealthState::Error, text)
        });
        let found: Vec<SystemReport> = heartbeat(condition)
            .into_iter()
            .chain(conflict)
            .chain(self.overloads(condition))
            .chain(self.failing_services(condition))
            .collect();
        let changes = system::changes(&self.health, &entity, &found, lease.partition, is_of_nodes);
        (!changes.is_empty()).then_some((lease, changes))
    }

    fn overloads(&self, condition: &NodeCondition) -> Vec<SystemReport> {
        let node = &condition.node;
        let over = self.used_capacities(node).into_iter().filter(|used| used.amount > used.usable);
        over.map(|used| {
            let text = format!("node {node} has too little {}: {} > {}", used.name, used.amount, used.usable);
            SystemReport::new(PLACEMENT, format!("{CAPACITY}{}", used.name), HealthState::Warning, text)
        })
        .collect()
    }

    fn failing_services(&self, condition: &NodeCondition) -> Vec<SystemReport> {
        if self.blocklist().next().is_none() {
            return Vec::new();
        }
        let blocked = self.blocklist_of(&condition.node).filter(|(key, _)| self.is_wanted(key));
        let reports = blocked.filter_map(|(key, entry)| {
            let property = format!("{BLOCKLIST}{}", key.service);
            let text = format!("node {}: {}", condition.node, entry.blocked(key)?);
            Some(SystemReport::new(PLACEMENT, property, HealthState::Warning, text))
        });
        let mut reports: Vec<SystemReport> = reports.collect();
        // Of several versions of a service the last one is shown.
        reports.dedup_by(|later, one| {
            let is_same = later.property == one.property;
            if is_same {
                one.description = std::mem::take(&mut later.description);
            }
            is_same
        });
        reports
    }

    /// Returns whether a policy wants the version that keeps failing on a node: otherwise what failed is over.
    fn is_wanted(&self, key: &BlocklistKey) -> bool {
        let policies = self.policies_of(&key.service).filter_map(|policy| self.policy(policy));
        policies.flat_map(|facts| &facts.versions).any(|choice| choice.version == key.version)
    }
}

fn heartbeat(condition: &NodeCondition) -> Option<SystemReport> {
    let node = &condition.node;
    let (state, text) = match (condition.down_since, condition.absence) {
        (Some(at), _) => {
            (HealthState::Error, format!("node {node} is down: its last heartbeat was at {at:.3}"))
        }
        (None, Some(absence)) => {
            let (state, since) = (absence.monitor_state.word(), absence.since);
            (HealthState::Warning, format!("node {node} is away since {since:.3}: {state}"))
        }
        (None, None) => return None,
    };
    Some(SystemReport::new(NODE_MONITOR, HEARTBEAT, state, text))
}

fn is_of_nodes(event: &HealthEvent) -> bool {
    let is_of_placement = event.property.starts_with(CAPACITY) || event.property.starts_with(BLOCKLIST);
    *event.source == *NODE_MONITOR || *event.source == *PLACEMENT && is_of_placement
}
