//! Members of an HA group whose update, drain or agent upgrade is blocked.
//!
//! Source: orchestration D11.

use std::collections::BTreeSet;

use evenkeel_agbot_store::claim::WaitRow;
use evenkeel_agreement::agent_upgrade::Refusal;
use evenkeel_agreement::agent_wait::agent_upgrade_wait;
use evenkeel_explain::explain::Waits;
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::claims::{Claim, Scope};
use evenkeel_planner_record::report::{Blocked, Placement};
use evenkeel_planner_record::workload::{Slot, SlotTasks, WorkloadRecord};
use jiff::{SignedDuration, Timestamp};

use crate::context::EngineHandle;

/// Time after which a waiting operation is reported.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// The rules that keep an upgrade from continuing until something changes.
const RULES: [&str; 7] =
    ["HAMinimum", "HALock", "NoCandidate", "Capacity", "NodePaused", "NodeDown", "Frozen"];

/// An HA group with what is known of its claims: the input of [`EngineHandle::blocked_members`].
pub struct GroupUpgrades<'a> {
    /// The group.
    pub group: &'a GroupId,
    /// The members to examine.
    pub members: &'a BTreeSet<NodeId>,
    /// The claims that are held.
    pub claims: &'a [Claim],
    /// Members whose agent upgrade was refused.
    pub waits: Vec<WaitRow>,
}

/// A member of an HA group whose update, drain or agent upgrade is blocked.
#[derive(Debug, Clone)]
pub struct BlockedMember {
    /// The member.
    pub node: NodeId,
    /// Since when it has waited.
    pub since: Timestamp,
    /// The obstacle.
    pub blocked: Blocked,
    /// True if its agent upgrade waits.
    pub is_agent_upgrade: bool,
}

impl BlockedMember {
    /// Returns the obstacle in words; `name` stands for the member.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let Self { blocked, .. } = self;
        if self.is_agent_upgrade {
            format!("the agent upgrade of {name} waits: {blocked}")
        } else {
            blocked.to_string()
        }
    }
}

impl EngineHandle {
    /// Returns the members of a group that have been blocked for long enough to be reported.
    ///
    /// # Shape
    /// Agent upgrades, then agreements, instances of workloads, and drains; one entry for each operation of a member that waits.
    #[must_use]
    pub fn blocked_members(&self, upgrades: &GroupUpgrades<'_>) -> Vec<BlockedMember> {
        let now = self.now();
        let mut found = of_agents(self, upgrades, now);
        found.extend(of_pairs(self, upgrades));
        found.extend(of_workloads(self, upgrades));
        found.extend(of_drains(self, upgrades));
        found.retain(|one| now.duration_since(one.since) >= REPORTED_AFTER);
        found
    }
}

fn waiting(node: NodeId, since: Timestamp, blocked: Blocked) -> BlockedMember {
    BlockedMember { node, since, blocked, is_agent_upgrade: false }
}

/// Members whose agent upgrades were refused and would be refused now.
fn of_agents(engine: &EngineHandle, upgrades: &GroupUpgrades<'_>, now: Timestamp) -> Vec<BlockedMember> {
    let refusal = |wait: &WaitRow| Refusal {
        node: wait.node.clone(),
        first_at: wait.since,
        last_at: wait.refreshed_at,
    };
    let refusals: Vec<Refusal> = upgrades.waits.iter().map(refusal).collect();
    let model = engine.model();
    let found = refusals.iter().filter_map(|one| {
        let blocked = agent_upgrade_wait(&model, upgrades.group, &refusals, &one.node, now)?;
        Some(BlockedMember { is_agent_upgrade: true, ..waiting(one.node.clone(), one.first_at, blocked) })
    });
    found.collect()
}

/// Members that wait with an agreement: for the update of a policy without tasks, or to be drained.
fn of_pairs(engine: &EngineHandle, upgrades: &GroupUpgrades<'_>) -> Vec<BlockedMember> {
    let mut found = Vec::new();
    for node in upgrades.members {
        for (policy, placement) in engine.placements_of(node) {
            let is_going_on =
                upgrades.claims.iter().any(|claim| claim.scope == Scope::Policy(policy.clone()));
            let Placement::Waiting { blocked, .. } = placement else { continue };
            if !is_going_on
                && RULES.contains(&blocked.upgrade_rule())
                && let Some(since) = engine.waiting_since(node, &policy)
            {
                found.push(waiting(node.clone(), since, blocked));
            }
        }
    }
    found
}

/// Members on which the update of a workload is blocked.
fn of_workloads(engine: &EngineHandle, upgrades: &GroupUpgrades<'_>) -> Vec<BlockedMember> {
    let model = engine.model();
    let mut found = Vec::new();
    for record in model.workloads() {
        let Some(update) = record.update.blocked.as_ref() else { continue };
        for (at, blocked) in &update.slots {
            let node = node_of(&model, record, at);
            if let Some(node) = node.filter(|node| upgrades.members.contains(node)) {
                found.push(waiting(node, update.since, blocked.clone()));
            }
        }
    }
    found
}

/// Members whose drain waits with the instance of a workload.
fn of_drains(engine: &EngineHandle, upgrades: &GroupUpgrades<'_>) -> Vec<BlockedMember> {
    let model = engine.model();
    let drains = Waits::new(&model, engine.now()).on_nodes(upgrades.members).into_iter();
    drains.filter_map(|one| Some(waiting(one.node, one.drained_since?, one.blocked))).collect()
}

fn node_of(model: &Model, record: &WorkloadRecord, slot: &Slot) -> Option<NodeId> {
    if let Slot::Node(node) = slot {
        return Some(node.clone());
    }
    let mut slots = model.workload_units_of(&record.policy).filter_map(|(_, found)| found.slots.get(slot));
    slots.find_map(|tasks| {
        SlotTasks::iter(tasks).find(|task| task.is_live()).and_then(|task| task.node.clone())
    })
}
