//! Reports of the engine about nodes: their presence, capacities that are too small for their instances, and
//! services that keep failing there.
//!
//! Source: orchestration D2.

use evenkeel_planner_model::model::{Model, NodeCondition};
use evenkeel_planner_record::{
    blocklist::BlocklistKey,
    health::{
        Entity, HealthEvent, HealthState,
        system::{self, BLOCKLIST, CAPACITY, IDENTITY, NODE_MONITOR, PLACEMENT, SystemReport},
    },
    lease::Lease,
};

const HEARTBEAT: &str = "Heartbeat";

/// Returns what is to be reported about a node, with the lease for it; none when another agbot owns the node, or nothing changed.
pub fn node_reports(model: &Model, condition: &NodeCondition) -> Option<(Lease, Vec<SystemReport>)> {
    let lease = model.lease_for(&condition.node)?;
    let entity = Entity::Node(condition.node.clone());
    let conflict = condition.conflict.as_ref().map(|conflict| {
        let text = format!("node {}: {conflict}", condition.node);
        SystemReport::new(NODE_MONITOR, IDENTITY, HealthState::Error, text)
    });
    let found: Vec<SystemReport> = heartbeat(condition)
        .into_iter()
        .chain(conflict)
        .chain(overloads(model, condition))
        .chain(failing_services(model, condition))
        .collect();
    let changes = system::changes(&model.health, &entity, &found, lease.partition, is_of_nodes);
    (!changes.is_empty()).then_some((lease, changes))
}

fn overloads(model: &Model, condition: &NodeCondition) -> Vec<SystemReport> {
    let node = &condition.node;
    let over = model.used_capacities(node).into_iter().filter(|used| used.amount > used.usable);
    over.map(|used| {
        let text = format!("node {node} has too little {}: {} > {}", used.name, used.amount, used.usable);
        SystemReport::new(PLACEMENT, format!("{CAPACITY}{}", used.name), HealthState::Warning, text)
    })
    .collect()
}

fn failing_services(model: &Model, condition: &NodeCondition) -> Vec<SystemReport> {
    if model.blocklist().next().is_none() {
        return Vec::new();
    }
    let blocked = model.blocklist_of(&condition.node).filter(|(key, _)| is_wanted(model, key));
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
fn is_wanted(model: &Model, key: &BlocklistKey) -> bool {
    let policies = model.policies_of(&key.service).filter_map(|policy| model.policy(policy));
    policies.flat_map(|facts| &facts.versions).any(|choice| choice.version == key.version)
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
