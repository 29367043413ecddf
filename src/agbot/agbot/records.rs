//! Converts records (claims, workloads, tasks, the blocklist, reports about health) from and to rows of the database.

use evenkeel_agbot_store::blocklist::BlocklistRow;
use evenkeel_agbot_store::claim::{ClaimRow, EndedClaim, NewClaim};
use evenkeel_agbot_store::event::EventRow;
use evenkeel_agbot_store::health::{EntityKey, NewHealthRow};
use evenkeel_agbot_store::partition::LeaseRow;
use evenkeel_agbot_store::task::TaskRow;
use evenkeel_agbot_store::workload::WorkloadRow;
use evenkeel_planner_record::blocklist::{BlocklistEntry, BlocklistKey};
use evenkeel_planner_record::claims::{Claim, ClaimRef, ClaimRequest, Scope};
use evenkeel_planner_record::health::{Entity, StoredReport};
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::workload::{Part, Task, TaskSpec, WorkloadRecord};
use evenkeel_store::StoreError;
use jiff::Timestamp;
use serde_json::Value;

use crate::AgbotError;

/// Converts a stored row into a claim.
///
/// # Errors
/// When purpose or phase cannot be read.
pub fn claim_of(row: ClaimRow) -> Result<Claim, AgbotError> {
    let unreadable = |source| AgbotError::UnreadableRecord {
        record: format!("the claim of {} ({})", row.ha_group, row.scope),
        source,
    };
    let purpose = serde_json::from_value(row.purpose).map_err(unreadable)?;
    let phase = serde_json::from_value(serde_json::Value::String(row.phase)).map_err(unreadable)?;
    Ok(Claim {
        group: row.ha_group,
        scope: Scope::from_text(&row.scope),
        node: row.node,
        purpose,
        version: row.version,
        fencing: row.fencing.unsigned_abs(),
        phase,
        since: row.since,
        phase_since: row.phase_at,
        deadline: row.deadline,
    })
}

/// Returns the key of the rows of an entity: its registration, and the reports about its health.
pub fn entity_key(entity: &Entity) -> EntityKey {
    let (kind, name, part) = entity.key();
    EntityKey { kind: kind.to_owned(), name: name.to_owned(), part: part.to_owned() }
}

/// Returns the entity of a key.
///
/// # Errors
/// When there is no such kind of entity.
pub(crate) fn entity_of(key: &EntityKey) -> Result<Entity, StoreError> {
    let corrupt = StoreError::Corrupt { table: "health_event", column: "entity_kind" };
    Entity::from_key(&key.kind, &key.name, &key.part).ok_or(corrupt)
}

/// Converts a stored row into a workload.
///
/// # Errors
/// When the row, or what one of its versions runs, cannot be read.
pub(crate) fn workload_of(row: WorkloadRow) -> Result<WorkloadRecord, AgbotError> {
    let unreadable =
        |source| AgbotError::UnreadableRecord { record: format!("workload {}", row.policy), source };
    let record: WorkloadRecord = serde_json::from_value(row.record).map_err(unreadable)?;
    let specs = row.specs.into_iter().map(|(number, document)| {
        serde_json::from_value::<TaskSpec>(document).map(|spec| (number.unsigned_abs(), spec))
    });
    let specs = specs.collect::<Result<_, _>>().map_err(unreadable)?;
    Ok(WorkloadRecord { specs, ..record })
}

/// Converts a task into its row.
///
/// # Errors
/// Never in practice: a task is plain data.
pub(crate) fn task_row(task: &Task) -> Result<TaskRow, AgbotError> {
    Ok(TaskRow {
        task: task.id.clone(),
        policy: task.unit_id.policy.clone(),
        part: part_text(&task.unit_id.part).to_owned(),
        slot: task.slot.to_string(),
        spec_number: task.spec.number.cast_signed(),
        changed_at: task.changed_at(),
        record: serde_json::to_value(task)?,
    })
}

/// Returns the stored form of a part of a workload.
pub(crate) fn part_text(part: &Part) -> &str {
    match part {
        Part::All => "all",
        Part::Group(group) => group.as_str(),
    }
}

/// Converts a claim request into a row to insert if its group still has this revision. `waits_end_before`: for agent claims.
///
/// # Errors
/// Never in practice: purpose and phase are plain data.
pub(crate) fn new_claim(
    request: &ClaimRequest,
    revision: i64,
    now: Timestamp,
    waits_end_before: Option<Timestamp>,
) -> Result<NewClaim, AgbotError> {
    let claim = request.clone().into_claim(0, now);
    let row = ClaimRow {
        ha_group: claim.group.clone(),
        scope: claim.scope.text().to_owned(),
        node: claim.node,
        purpose: serde_json::to_value(&claim.purpose)?,
        version: claim.version,
        fencing: 0,
        phase: phase_text(claim.phase)?,
        since: claim.since,
        phase_at: claim.phase_since,
        deadline: claim.deadline,
    };
    Ok(NewClaim {
        row,
        revision,
        seen_running: serde_json::to_value(&request.seen_running)?,
        waits_end_before,
    })
}

/// Returns the row to delete for a claim.
///
/// # Shape
/// `lease`: that of the partition under which it ends; `None` when a user ends it.
pub fn ended(claim: &ClaimRef, why: &str, lease: Option<LeaseRow>) -> EndedClaim {
    EndedClaim {
        ha_group: claim.group.clone(),
        scope: claim.scope.text().to_owned(),
        fencing: claim.fencing.cast_signed(),
        why: why.to_owned(),
        lease,
    }
}

/// Returns the stored form of a phase.
pub(crate) fn phase_text(phase: evenkeel_planner_record::claims::Phase) -> Result<String, AgbotError> {
    let value = serde_json::to_value(phase)?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

/// Converts a stored row.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn entry_of(row: BlocklistRow) -> Result<(BlocklistKey, BlocklistEntry), AgbotError> {
    let BlocklistRow { node, service, version, record } = row;
    let entry = serde_json::from_value::<BlocklistEntry>(record);
    let key = BlocklistKey { node, service, version };
    let unreadable = |source| AgbotError::UnreadableRecord {
        record: format!("the blocklist's {} {} on {}", key.service, key.version, key.node),
        source,
    };
    let entry = entry.map_err(unreadable)?;
    Ok((key, entry))
}

/// Returns an event about an entity: that of its HA group or of its deployment policy.
#[must_use]
pub fn event_about(at: Timestamp, kind: &str, entity: &Entity, detail: Value) -> EventRow {
    let ha_group = match entity {
        Entity::Group(group) => Some(group.clone()),
        _ => None,
    };
    let policy = entity.policy().cloned();
    EventRow { happened_at: at, kind: kind.to_owned(), ha_group, node: None, policy, detail }
}

/// Returns the row of a report about health.
///
/// # Errors
/// Never in practice: a report is plain data.
pub fn health_row_of(report: &StoredReport) -> Result<NewHealthRow, AgbotError> {
    Ok(NewHealthRow {
        source: report.source.clone(),
        property: report.property.clone(),
        sequence: report.sequence,
        record: serde_json::to_value(report)?,
        expires_at: report.expires_at().filter(|_| report.is_removed_when_expired),
    })
}

/// Returns the row of a lease.
pub(crate) fn lease_row(lease: Lease) -> LeaseRow {
    LeaseRow {
        partition: i32::try_from(lease.partition).unwrap_or(i32::MAX),
        fencing: lease.fencing.cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::{NodeId, ServiceKey};

    use super::*;

    #[test]
    fn unreadable_row_is_named() {
        let row = BlocklistRow {
            node: NodeId::new("o", "n"),
            service: ServiceKey::new("o", "s"),
            version: "1.0.0".to_owned(),
            record: serde_json::Value::Null,
        };
        let error = entry_of(row).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("the blocklist's o/s 1.0.0 on o/n"), "{error}");
    }
}
