//! A plan in the form in which one transaction writes it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::{CommittedRows, Permit};
use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    agreement::Agreement,
    blocklist::BlocklistChanges,
    claims::{Claim, ClaimRequest},
    report::Blocked,
    workload::{Instance, Part, Partner, Slot, Task, UnitId, WorkloadRecord},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::UnitEvent;

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
