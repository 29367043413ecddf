//! The engine's own reports.
//!
//! A report is stored once, and holds as long as an agbot holds the partition under which it was made. So
//! nothing is written while a condition lasts, and the report disappears when no agbot holds the partition.
//! Source: orchestration D2; engine 6.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Entity, HealthEvent, HealthRecords, HealthReport, HealthState, StoredReport, event::digest};

/// Source of what the placement finds.
pub const PLACEMENT: &str = "System.Placement";
/// Source of what the engine finds about workloads.
pub const ORCHESTRATOR: &str = "System.Orchestrator";
/// Source of what the health policies come to.
pub const HEALTH: &str = "System.Health";
/// Source of what the engine finds about HA groups.
pub const HA_GROUP: &str = "System.HAGroup";
/// Source of reports of nodes about starts.
pub const HOSTING: &str = "System.Hosting";
/// Source of what the hub sees of nodes.
pub const NODE_MONITOR: &str = "System.NodeMonitor";

/// Beginning of the property of a violated constraint.
pub const VIOLATION: &str = "InstanceConstraintViolation_";
/// Property of an entity whose upgrade waits.
pub const UPGRADE_BLOCKED: &str = "UpgradeBlocked";
/// Property of a member that no action recovered.
pub const RECOVERY: &str = "Recovery";
/// Property about two agents with the identity of a node.
pub const IDENTITY: &str = "Identity";
/// Beginning of the property about a capacity.
pub const CAPACITY: &str = "NodeCapacity_";
/// Beginning of the property about a service.
pub const BLOCKLIST: &str = "Blocklist_";

/// A report of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemReport {
    /// Source of the event.
    pub source: String,
    /// About what.
    pub property: String,
    /// State.
    pub state: HealthState,
    /// Human-readable details.
    pub description: String,
}

impl SystemReport {
    /// Returns a report.
    pub fn new(source: &str, property: impl Into<String>, state: HealthState, description: String) -> Self {
        Self { source: source.to_owned(), property: property.into(), state, description }
    }

    fn key(&self) -> (&str, &str) {
        (&self.source, &self.property)
    }

    /// Returns true if an event has the same contents.
    fn is_known(&self, event: &HealthEvent, partition: u32) -> bool {
        event.state == self.state
            && event.partition == Some(partition)
            && event.digest == digest(&self.description)
    }
}

/// Returns the reports to make about an entity, so that its events match the findings.
///
/// # Shape
/// `is_meant`: true if an event of the engine concerns what was examined. Conditions that have ended are
/// reported as Ok.
pub fn changes(
    records: &HealthRecords,
    entity: &Entity,
    found: &[SystemReport],
    partition: u32,
    is_meant: impl Fn(&HealthEvent) -> bool,
) -> Vec<SystemReport> {
    let of_key: BTreeMap<(&str, &str), &SystemReport> =
        found.iter().map(|report| (report.key(), report)).collect();
    let is_new = |report: &&SystemReport| {
        let known = records.find(entity, &report.source, &report.property);
        known.is_none_or(|event| !report.is_known(event, partition))
    };
    let over = records.of(entity).iter().filter(|event| {
        let key: (&str, &str) = (&event.source, &event.property);
        event.partition.is_some() && is_meant(event) && !of_key.contains_key(&key)
    });
    let over = over.map(|event| {
        SystemReport::new(&event.source, &*event.property, HealthState::Ok, "no longer so".to_owned())
    });
    found.iter().filter(is_new).cloned().chain(over).collect()
}

/// Returns the kind of the event of a report of the engine that begins or ends to hold: a rule of placement is broken, or kept again.
///
/// # Source
/// Orchestration D2.
pub fn kind_of_news(entity: &Entity, property: &str, is_broken: bool) -> Option<&'static str> {
    match entity {
        Entity::Instance(..) if property.starts_with(VIOLATION) => {
            Some(if is_broken { "placement.violation" } else { "placement.resolved" })
        }
        Entity::Node(_) if is_broken && property.starts_with(CAPACITY) => Some("capacity.violation"),
        _ => None,
    }
}

/// Returns the stored form of reports of the engine that contain news.
///
/// # Shape
/// `stored`: the events of the entity. Events that are not Ok last as long as an agbot owns `partition`; Ok
/// disappears after `ttl_secs`.
pub fn stored_reports(
    stored: &[StoredReport],
    reports: &[SystemReport],
    ttl_secs: u64,
    partition: u32,
    now: Timestamp,
) -> Vec<StoredReport> {
    let mut changed = Vec::new();
    for report in reports {
        let known = stored.iter().find(|one| (one.source.as_str(), one.property.as_str()) == report.key());
        let partition = (report.state != HealthState::Ok).then_some(partition);
        let is_same = known.is_some_and(|known| {
            known.state == report.state
                && known.description == report.description
                && known.partition == partition
                && !known.is_gone(now)
        });
        if is_same {
            continue;
        }
        let report = HealthReport {
            source: report.source.clone(),
            property: report.property.clone(),
            state: report.state,
            sequence: known.map(|known| known.sequence.saturating_add(1)),
            ttl_secs: Some(ttl_secs),
            is_removed_when_expired: true,
            description: report.description.clone(),
            sent_at: Some(now),
        };
        // The number is greater than the known one, apart from the last there is.
        if let Ok(Some(next)) = StoredReport::next(known, report, now) {
            changed.push(StoredReport { partition, ..next });
        }
    }
    changed
}

/// Returns whether an event is about a recovery that failed.
pub fn is_of_recovery(event: &HealthEvent) -> bool {
    *event.source == *HEALTH && *event.property == *RECOVERY
}

/// Returns whether an event is about two agents with the identity of a node.
pub fn is_of_identity(event: &HealthEvent) -> bool {
    *event.source == *NODE_MONITOR && *event.property == *IDENTITY
}
