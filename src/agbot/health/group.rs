//! Reports of the engine about HA groups: blocked upgrades, and members that went down during one.
//!
//! Source: orchestration D2, D11, E6.5.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_agreement::agent_upgrade;
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_model::model::{Liveness, Model};
use evenkeel_planner_record::{
    health::{
        Entity, HealthEvent, HealthState,
        system::{self, HA_GROUP, PLACEMENT, SystemReport, UPGRADE_BLOCKED},
    },
    lease::Lease,
    time::{later, secs_since},
};
use jiff::Timestamp;

const STALE: &str = "AgentUpgradeStale";

/// Conditions found for an HA group.
#[derive(Debug, Clone, Default)]
pub struct GroupFindings {
    /// Since when its upgrades are blocked, and by what.
    pub blocked: Option<(Timestamp, String)>,
    /// Members that went down while their agents were upgraded, and did not come back in time.
    pub stale: BTreeSet<NodeId>,
}

/// Returns the HA groups of which something is reported.
pub fn reported_groups(model: &Model) -> impl Iterator<Item = &GroupId> {
    let is_reported = |entity: &Entity| {
        let blocked = model.health.find(entity, PLACEMENT, UPGRADE_BLOCKED);
        blocked.or_else(|| model.health.find(entity, HA_GROUP, STALE)).is_some()
    };
    model.health.groups().filter_map(move |(entity, group)| is_reported(entity).then_some(group))
}

/// Returns the members of HA groups that have been down for so long during the upgrade of their agent that its claim was released.
pub fn stale_upgrades(model: &Model, now: Timestamp) -> BTreeMap<GroupId, BTreeSet<NodeId>> {
    let mut found: BTreeMap<GroupId, BTreeSet<NodeId>> = BTreeMap::new();
    let is_active = |status: &Option<String>| status.as_deref().is_some_and(agent_upgrade::is_active);
    for ((_, node), _) in model.nmp_status.iter().filter(|(_, status)| is_active(status)) {
        let Some(group) = model.group_of(node) else { continue };
        let Liveness::Down { since } = model.liveness(node, now) else { continue };
        if secs_since(since, now) >= model.lock_stale_secs(&group.id) {
            found.entry(group.id.clone()).or_default().insert(node.clone());
        }
    }
    found
}

/// Returns what is to be reported about an HA group, with the lease for it; none when another agbot owns it, or nothing changed.
pub fn group_reports(
    model: &Model,
    group: &GroupId,
    findings: &GroupFindings,
    now: Timestamp,
) -> Option<(Lease, Vec<SystemReport>)> {
    let lease = model.lease_for_group(group)?;
    let error_after = model.upgrade_blocked_error_after_secs(group.org());
    let blocked = findings.blocked.as_ref().map(|(since, text)| {
        let is_long = now >= later(*since, error_after);
        let state = if is_long { HealthState::Error } else { HealthState::Warning };
        let text = format!("upgrades of {group} are blocked since {since:.3}: {text}");
        SystemReport::new(PLACEMENT, UPGRADE_BLOCKED, state, text)
    });
    let names: Vec<&str> = findings.stale.iter().map(NodeId::as_str).collect();
    let stale = (!names.is_empty()).then(|| {
        let text = format!("the agents of {} went down during their upgrade", names.join(", "));
        SystemReport::new(HA_GROUP, STALE, HealthState::Warning, text)
    });
    let found: Vec<SystemReport> = blocked.into_iter().chain(stale).collect();
    let entity = Entity::Group(group.clone());
    let changes = system::changes(&model.health, &entity, &found, lease.partition, is_of_groups);
    (!changes.is_empty()).then_some((lease, changes))
}

fn is_of_groups(event: &HealthEvent) -> bool {
    let key = (&*event.source, &*event.property);
    key == (PLACEMENT, UPGRADE_BLOCKED) || key == (HA_GROUP, STALE)
}
