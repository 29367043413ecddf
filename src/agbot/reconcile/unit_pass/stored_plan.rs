//! The stored form of a plan: the rows that one transaction writes.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::Permit;
use evenkeel_ids::{GroupId, NodeId, TaskId};
use evenkeel_planner_model::plan::{StoredPlan, TaskChange, UnitPlan};
use evenkeel_planner_record::{
    claims::{ClaimRequest, Purpose},
    report::FrozenLevel,
    time::later,
    workload::{Failure, Instance, NodeOrder, Task, TaskState, WorkloadRecord},
};
use jiff::Timestamp;

use super::UnitFacts;

/// Returns the stored form of a plan.
pub fn stored_plan(
    plan: &UnitPlan,
    facts: &UnitFacts<'_>,
    record: &WorkloadRecord,
    now: Timestamp,
) -> StoredPlan {
    let deleted = plan.changes.iter().filter_map(|change| match change {
        TaskChange::Delete { task } => Some(task.clone()),
        _ => None,
    });
    let deleted: Vec<TaskId> = deleted.collect();
    let gone: BTreeSet<&TaskId> = deleted.iter().collect();
    let is_kept = |task: &&Task| !gone.contains(&task.id);
    let tasks: Vec<Task> = plan.records.iter().filter(is_kept).cloned().collect();
    let is_changed = plan.update.is_some() || plan.versions.is_some();
    let workload = is_changed.then(|| {
        Box::new(WorkloadRecord {
            update: plan.update.clone().unwrap_or_else(|| record.update.clone()),
            versions: plan.versions.unwrap_or(record.versions),
            revision: record.revision + 1,
            written_by: Some(facts.unit_id.part.clone()),
            ..record.clone()
        })
    });
    let mut claims: BTreeMap<GroupId, ClaimRequest> = BTreeMap::new();
    for claim in plan.permits.iter().filter_map(|permit| request(permit, facts, now)) {
        // All steps of a plan in a group are on one member: one claim serves them.
        claims.entry(claim.group.clone()).or_insert(claim);
    }
    StoredPlan {
        at: now,
        instances: instances(plan, facts, &tasks, now),
        tasks,
        deleted,
        workload,
        claims: claims.into_values().collect(),
        permits: plan.permits.clone(),
        blocklist: plan.blocklist.clone(),
        events: plan.events.clone(),
    }
}

/// Returns the rows of nodes that failed, and of those on which something started, where that decides about the next placement.
fn instances(
    plan: &UnitPlan,
    facts: &UnitFacts<'_>,
    tasks: &[Task],
    now: Timestamp,
) -> Vec<(NodeId, Instance)> {
    let mut rows: BTreeMap<NodeId, Instance> = BTreeMap::new();
    // The table shows failures of the current version only.
    let version = facts.workload.versions.current.number;
    let known = |node: &NodeId| {
        let row = facts.table.find(node);
        row.map(|row| Instance {
            is_frozen: row.frozen == Some(FrozenLevel::Instance),
            pinned: row.is_pinned.then_some(version),
            failed: match (&row.marks.stop_failed, &row.marks.start_failed) {
                (Some(message), _) => Some(Failure { message: message.clone(), version, is_of_stop: true }),
                (None, Some(message)) => {
                    Some(Failure { message: message.clone(), version, is_of_stop: false })
                }
                (None, None) => None,
            },
            cleared_at: row.marks.cleared_at,
            last_start_at: row.marks.last_start_at,
            fenced_at: row.marks.fenced_at,
        })
        .unwrap_or_default()
    };
    for one in &plan.failures {
        let row = rows.entry(one.node.clone()).or_insert_with(|| known(&one.node));
        let (message, version) = (one.message.as_str().into(), one.version);
        row.failed = Some(Failure { message, version, is_of_stop: one.is_of_stop });
    }
    for (node, is_pinned) in &plan.pins {
        let row = rows.entry(node.clone()).or_insert_with(|| known(node));
        row.pinned = is_pinned.then_some(version);
    }
    if facts.workload.placement.order == NodeOrder::LastStart {
        let started = tasks.iter().filter(|task| task.state == TaskState::RUNNING && task.state_at == now);
        for node in started.filter_map(|task| task.node.as_ref()) {
            rows.entry(node.clone()).or_insert_with(|| known(node)).last_start_at = Some(now);
        }
    }
    rows.into_iter().collect()
}

/// Returns the claim that a permit needs.
fn request(permit: &Permit, facts: &UnitFacts<'_>, now: Timestamp) -> Option<ClaimRequest> {
    let deadline = later(now, facts.workload.update.start_timeout_secs);
    // Without a version: a rollback continues under the claim of its update.
    permit.claim_request((Purpose::ServiceUpgrade, ""), deadline, 0)
}
