//! Permits: what must still be true when a step is carried out.
//!
//! Source: engine 3, 6.

use std::collections::BTreeSet;

use evenkeel_ids::{NodeId, TaskId};
use evenkeel_planner_record::{
    claims::{Claim, ClaimRequest, Purpose, Scope},
    facts::HaGroupFacts,
    report::Blocked,
    workload::{Partner, Slot, Step},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::claim;

/// The claim that a step needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupClaim {
    /// The group, as it was when the step was permitted.
    pub group: HaGroupFacts,
    /// The member that is disrupted.
    pub node: NodeId,
}

/// The right to take a step, as long as what it rests on is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The step.
    pub step: Step,
    /// The claim to take, if an instance in an HA group is disrupted.
    pub claim: Option<GroupClaim>,
    /// The other members that keep the service up meanwhile.
    pub counted_on: Vec<NodeId>,
    /// The update parallelism to keep, if the step takes a ticket of the update.
    pub ticket_limit: Option<u32>,
    /// Tasks that the step changes; each must still be wanted.
    pub tasks: BTreeSet<TaskId>,
    /// Partners that must have no instance on the node of the step.
    #[serde(default)]
    pub apart_from: BTreeSet<Partner>,
    /// The tasks with which the capacities of the node of the step were counted: no other one may use them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_tasks: Option<BTreeSet<TaskId>>,
}

/// The rows that a transaction reads, with locks, before it carries a step out.
#[derive(Debug, Clone, Default)]
pub struct CommittedRows {
    /// The claims of the step's group.
    pub claims: Vec<Claim>,
    /// The tickets of the workload's update that the same transaction does not free.
    pub tickets: BTreeSet<Slot>,
    /// Wanted tasks of the slot.
    pub tasks: BTreeSet<TaskId>,
    /// Workloads with an instance on the node of the step.
    pub neighbors: BTreeSet<Partner>,
    /// The tasks that use the node of the step, if its capacities were counted.
    pub node_tasks: BTreeSet<TaskId>,
}

impl Permit {
    /// Returns a permit that rests on nothing yet.
    pub fn new(step: &Step) -> Self {
        Self {
            step: step.clone(),
            claim: None,
            counted_on: Vec::new(),
            ticket_limit: None,
            tasks: BTreeSet::new(),
            apart_from: BTreeSet::new(),
            counted_tasks: None,
        }
    }

    pub(super) fn take_claim(&mut self, group: &HaGroupFacts, node: &NodeId) {
        self.claim = Some(GroupClaim { group: group.clone(), node: node.clone() });
    }

    /// Returns the request for the claim that the step needs; none if it disrupts no member of a group.
    ///
    /// # Shape
    /// `parallelism`: see [`ClaimRequest::parallelism`].
    pub fn claim_request(
        &self,
        (purpose, version): (Purpose, &str),
        deadline: Timestamp,
        parallelism: u32,
    ) -> Option<ClaimRequest> {
        let claim = self.claim.as_ref()?;
        Some(ClaimRequest {
            group: claim.group.id.clone(),
            scope: Scope::Policy(self.step.unit_id.policy.clone()),
            node: claim.node.clone(),
            purpose,
            version: version.to_owned(),
            deadline,
            seen_running: self.counted_on.clone(),
            parallelism,
        })
    }

    /// Tests the permit again against committed rows.
    ///
    /// # Errors
    /// The reason why the step may no longer be taken.
    pub fn check(&self, rows: &CommittedRows) -> Result<(), Blocked> {
        if let Some(claim) = &self.claim {
            claim::may_claim(&claim.group, &rows.claims, &claim.node, &self.step.unit_id.policy)?;
        }
        let is_over = |limit: &u32| *limit > 0 && rows.tickets.len() >= *limit as usize;
        // A slot that is in work continues, even if the limit was lowered meanwhile.
        let is_in_work = rows.tickets.contains(&self.step.slot);
        if let Some(limit) = self.ticket_limit.filter(is_over).filter(|_| !is_in_work) {
            return Err(Blocked::UpdateBudget { limit });
        }
        if let (Some(partner), Some(node)) =
            (self.apart_from.intersection(&rows.neighbors).next(), self.step.node())
        {
            return Err(Blocked::UnwantedNeighbor { partner: partner.to_string(), node: node.clone() });
        }
        if let Some(counted) = &self.counted_tasks
            && let Some(task) = rows.node_tasks.difference(counted).next()
        {
            return Err(Blocked::TaskChanged { task: task.clone() });
        }
        match self.tasks.iter().find(|task| !rows.tasks.contains(*task)) {
            Some(task) => Err(Blocked::TaskChanged { task: task.clone() }),
            None => Ok(()),
        }
    }
}
