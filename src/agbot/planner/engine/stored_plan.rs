//! A plan in the form in which one transaction writes it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agreement::Agreement,
    blocklist::BlocklistChanges,
    change::{CommittedRows, Permit},
    claims::{Claim, ClaimRequest, Purpose},
    reconcile::{UnitEvent, UnitFacts, UnitPlan},
    report::Blocked,
    time::later,
    workload::{Failure, Instance, NodeOrder, Part, Partner, Slot, Task, TaskState, UnitId, WorkloadRecord},
};

/// The changes of a workload unit, all in one transaction.
///
/// # Shape
/// Rows as they will be. `workload`: only when the row changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// When it was decided.
    pub at: Timestamp,
    /// Tasks that are new or changed.
    pub tasks: Vec<Task>,
    /// Tasks to delete.
    pub deleted: Vec<TaskId>,
    /// Rows of the workload on nodes.
    pub instances: Vec<(NodeId, Instance)>,
    /// Changes of the node blocklist.
    #[serde(default)]
    pub blocklist: BlocklistChanges,
    /// The workload's row.
    pub workload: Option<Box<WorkloadRecord>>,
    /// Conditions that must still hold.
    pub permits: Vec<Permit>,
    /// Claims to take.
    pub claims: Vec<ClaimRequest>,
    /// Events.
    pub events: Vec<UnitEvent>,
}

impl StoredPlan {
    /// Returns the stored form of a plan.
    pub fn new(plan: &UnitPlan, facts: &UnitFacts<'_>, record: &WorkloadRecord, now: Timestamp) -> Self {
        let deleted = plan.changes.iter().filter_map(|change| match change {
            crate::reconcile::TaskChange::Delete { task } => Some(task.clone()),
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
        Self {
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

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.deleted.is_empty()
            && self.instances.is_empty()
            && self.blocklist.is_empty()
            && self.workload.is_none()
            && self.events.is_empty()
    }

    /// Returns the slots that it reads or changes.
    pub fn slots(&self) -> BTreeSet<Slot> {
        let tasks = self.tasks.iter().map(|task| task.slot.clone());
        tasks.chain(self.permits.iter().map(|permit| permit.step.slot.clone())).collect()
    }

    /// Returns the nodes on which the plan places something that must not be beside some partners, and those partners.
    pub fn apart(&self) -> (BTreeSet<NodeId>, BTreeSet<Partner>) {
        let permits = self.permits.iter().filter(|permit| !permit.apart_from.is_empty());
        let nodes = permits.clone().filter_map(|permit| permit.step.node().cloned()).collect();
        (nodes, permits.flat_map(|permit| permit.apart_from.iter().cloned()).collect())
    }

    /// Returns the nodes whose capacities the plan counts on.
    pub fn limited_nodes(&self) -> BTreeSet<NodeId> {
        let permits = self.permits.iter().filter(|permit| permit.counted_tasks.is_some());
        permits.filter_map(|permit| permit.step.node().cloned()).collect()
    }

    /// Tests the plan against the rows that its transaction has locked.
    ///
    /// # Shape
    /// `stored`: all tasks of [`StoredPlan::slots`]. `workload`: the workload's row. `claims`: those of the groups that the permits name.
    /// `neighbors`: what is on the nodes of [`StoredPlan::apart`] and [`StoredPlan::limited_nodes`].
    /// # Errors
    /// The reason why the plan may no longer be carried out.
    pub fn check(
        &self,
        unit_id: &UnitId,
        workload: &WorkloadRecord,
        stored: &[Task],
        claims: &[Claim],
        neighbors: &Neighbors,
    ) -> Result<(), Blocked> {
        let stored_by_id: BTreeMap<&TaskId, &Task> = stored.iter().map(|task| (&task.id, task)).collect();
        let mut newest: BTreeMap<&Slot, u64> = BTreeMap::new();
        let mut wanted: BTreeMap<&Slot, BTreeSet<TaskId>> = BTreeMap::new();
        for task in stored {
            let generation = newest.entry(&task.slot).or_default();
            *generation = task.generation.max(*generation);
        }
        // One that the plan creates and gives up again has not changed meanwhile.
        let new = self.tasks.iter().filter(|task| !stored_by_id.contains_key(&task.id));
        for task in stored.iter().filter(|task| task.is_wanted()).chain(new) {
            wanted.entry(&task.slot).or_default().insert(task.id.clone());
        }
        for task in &self.tasks {
            let is_changed = match stored_by_id.get(&task.id) {
                Some(known) => known.is_newer_than(task),
                None => newest.get(&task.slot).is_some_and(|generation| *generation >= task.generation),
            };
            if is_changed {
                return Err(Blocked::TaskChanged { task: task.id.clone() });
            }
        }
        let tickets = self.kept_tickets(unit_id, workload);
        for permit in &self.permits {
            let group = permit.claim.as_ref().map(|claim| &claim.group.id);
            let is_beside = |node: &NodeId| Some(node) == permit.step.node() && !permit.apart_from.is_empty();
            let beside = neighbors.partners.iter().filter(|(node, _)| is_beside(node));
            let using = neighbors.tasks.iter().filter(|(node, _)| Some(node) == permit.step.node());
            let rows = CommittedRows {
                neighbors: beside.map(|(_, partner)| partner.clone()).collect(),
                node_tasks: using.map(|(_, task)| task.clone()).collect(),
                claims: claims.iter().filter(|claim| Some(&claim.group) == group).cloned().collect(),
                tickets: tickets.clone(),
                tasks: wanted.get(&permit.step.slot).cloned().unwrap_or_default(),
            };
            permit.check(&rows)?;
        }
        Ok(())
    }

    /// Returns the tickets of the workload unit that are stored and stay.
    fn kept_tickets(&self, unit_id: &UnitId, workload: &WorkloadRecord) -> BTreeSet<Slot> {
        let of = |record: &WorkloadRecord, part: &Part| -> BTreeSet<Slot> {
            record.update.part(part).into_iter().flat_map(|part| part.tickets.keys().cloned()).collect()
        };
        let stored = of(workload, &unit_id.part);
        match &self.workload {
            Some(next) => &stored & &of(next, &unit_id.part),
            None => stored,
        }
    }
}

/// Instances and tasks on nodes, read from stored rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// Other workloads with an instance, by node.
    pub partners: BTreeSet<(NodeId, Partner)>,
    /// The tasks that use which node.
    pub tasks: BTreeSet<(NodeId, TaskId)>,
}

/// Returns what is on which node, by rows that are stored.
///
/// # Shape
/// `tasks` and `agreements`: those on the nodes in question; agreements are live. `own` is not a partner of
/// itself.
pub fn neighbors(own: &PolicyId, tasks: &[Task], agreements: &[Agreement]) -> Neighbors {
    let using = tasks.iter().filter(|task| !task.state.is_ended());
    let using = using.filter_map(|task| Some((task.node.clone()?, task.id.clone()))).collect();
    let of_tasks = tasks.iter().filter(|task| !task.state.is_ended() && task.unit_id.policy != *own);
    let of_tasks =
        of_tasks.filter_map(|task| Some((task.node.clone()?, Partner::Policy(task.unit_id.policy.clone()))));
    let others = agreements.iter().filter(|agreement| agreement.is_live() && agreement.policy != *own);
    let services = others.clone().map(|one| (one.node.clone(), Partner::Service(one.service_key.clone())));
    // A task speaks for its agreement.
    let without_task = others.filter(|agreement| agreement.task.is_none());
    let policies = without_task.map(|one| (one.node.clone(), Partner::Policy(one.policy.clone())));
    Neighbors { partners: of_tasks.chain(services).chain(policies).collect(), tasks: using }
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
            is_frozen: row.frozen == Some(crate::report::FrozenLevel::Instance),
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
