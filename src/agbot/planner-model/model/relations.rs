//! Workloads that name others, as neighbors, parents or children: which of them a change of an instance concerns, and what runs beside what.
//!
//! A change of one instance costs one row of each workload unit that names its workload (B4). Source: engine 2; orchestration A4, A8.5.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::place::{NodeAffinity, SoftViolations, UnitNode};
use evenkeel_planner_record::{
    agreement::Agreement,
    goal::StartMode,
    report::Blocked,
    workload::{Partner, Slot, SlotTasks, Task, TaskState, UnitId, Workload},
};
use jiff::Timestamp;

use super::{Liveness, Model, Observed, workload_records::UnitRecord};

/// References between workloads, and the pairs to be tested again.
#[derive(Debug, Clone, Default)]
pub struct Relations {
    names: BTreeMap<PolicyId, BTreeSet<Partner>>,
    named_by: BTreeMap<Partner, BTreeSet<PolicyId>>,
    /// Policies that are named and do not exist.
    missing: BTreeSet<PolicyId>,
    /// Workloads, each with a node on which an instance of a partner changed.
    changed: BTreeSet<(PolicyId, NodeId)>,
}

impl Relations {
    /// Records the partners of a workload, and whether each exists.
    pub fn put<'p>(
        &mut self,
        policy: &PolicyId,
        partners: impl Iterator<Item = &'p Partner>,
        exists: impl Fn(&PolicyId) -> bool,
    ) {
        for partner in self.names.remove(policy).into_iter().flatten() {
            if let Some(naming) = self.named_by.get_mut(&partner) {
                naming.remove(policy);
                if naming.is_empty() {
                    self.named_by.remove(&partner);
                }
            }
        }
        let partners: BTreeSet<Partner> = partners.cloned().collect();
        for partner in &partners {
            self.named_by.entry(partner.clone()).or_default().insert(policy.clone());
            if let Partner::Policy(named) = partner
                && !exists(named)
            {
                self.missing.insert(named.clone());
            }
        }
        if !partners.is_empty() {
            self.names.insert(policy.clone(), partners);
        }
    }

    /// Notes that an instance of a policy changed on a node.
    pub fn note_policy(&mut self, policy: &PolicyId, node: &NodeId) {
        if !self.named_by.is_empty() {
            self.note(&Partner::Policy(policy.clone()), node);
        }
    }

    /// Notes that an agreement of a node changed.
    pub fn note_agreement(&mut self, agreement: &Agreement) {
        if !self.named_by.is_empty() {
            self.note(&Partner::Policy(agreement.policy.clone()), &agreement.node);
            self.note(&Partner::Service(agreement.service_key.clone()), &agreement.node);
        }
    }

    fn note(&mut self, partner: &Partner, node: &NodeId) {
        let naming = self.named_by.get(partner).into_iter().flatten();
        self.changed.extend(naming.map(|policy| (policy.clone(), node.clone())));
    }

    /// Returns the workloads that name a policy if whether it exists is news.
    pub fn note_existence(&mut self, policy: &PolicyId, exists: bool) -> BTreeSet<PolicyId> {
        let Some(naming) = self.named_by.get(&Partner::Policy(policy.clone())) else {
            return BTreeSet::new();
        };
        let is_news = if exists { self.missing.remove(policy) } else { self.missing.insert(policy.clone()) };
        if is_news { naming.clone() } else { BTreeSet::new() }
    }

    /// Returns the pairs to be tested again, and forgets them.
    pub fn take_changed(&mut self) -> BTreeSet<(PolicyId, NodeId)> {
        std::mem::take(&mut self.changed)
    }
}

/// A partner on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Presence {
    /// It is seen running, and nothing stops it.
    is_up: bool,
    /// It runs, or is to run, or has not stopped yet.
    is_there: bool,
}

impl Model {
    /// Returns the relation of a node to the affinity of a workload.
    pub(crate) fn affinity_on(&self, workload: &Workload, node: &NodeId, now: Timestamp) -> NodeAffinity {
        let rules = &workload.placement.affinity;
        if rules.is_empty() {
            return NodeAffinity::default();
        }
        let presence = |partner: &Partner| self.presence(&workload.policy, partner, node, now);
        let away = |partner: &&Partner| !presence(partner).is_up;
        let there = |partner: &&Partner| presence(partner).is_there;
        let absent = |partner: &Partner| match partner {
            Partner::Policy(policy) if !self.policies.contains_key(policy) => {
                format!("{partner} is missing")
            }
            _ => format!("{partner} does not run here"),
        };
        let present = |partner: &Partner| format!("{partner} is here");
        let hard: Vec<String> = (rules.hard.iter().filter(away).map(absent))
            .chain(rules.hard_anti.iter().filter(there).map(present))
            .collect();
        let anti: Vec<String> = rules.soft_anti.iter().filter(there).map(present).collect();
        let missing: Vec<String> = rules.soft.iter().filter(away).map(absent).collect();
        let count = |list: &[String]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let soft = SoftViolations { anti: count(&anti), missing: count(&missing) };
        let text = |list: Vec<String>| (!list.is_empty()).then(|| list.join(", ").into());
        NodeAffinity { hard: text(hard), soft, soft_text: text([anti, missing].concat()) }
    }

    /// Tasks speak for their agreements: an agreement ends before the task is known to have stopped.
    fn presence(&self, own: &PolicyId, partner: &Partner, node: &NodeId, now: Timestamp) -> Presence {
        let runs = |agreement: &Agreement| self.observed(agreement, now) == Observed::Running;
        let of_agreements = |found: Vec<&Agreement>| Presence {
            is_up: found.iter().any(|one| runs(one)),
            is_there: !found.is_empty(),
        };
        match partner {
            Partner::Policy(policy) => {
                let mut tasks =
                    self.engine.tasks_on(node, policy).filter(|task| !task.state.is_ended()).peekable();
                if tasks.peek().is_some() {
                    let is_up = |task: &Task| task.is_wanted() && task.state == TaskState::RUNNING;
                    return Presence { is_up: tasks.any(is_up), is_there: true };
                }
                let live = self.live_agreements(node, policy);
                of_agreements(live.filter(|agreement| agreement.task.is_none()).collect())
            }
            Partner::Service(service) => {
                let live = self.live_on(node).filter(|one| one.policy != *own && one.service_key == *service);
                of_agreements(live.collect())
            }
        }
    }

    /// Brings the rows of nodes up to date on which a partner changed, and what that concerns.
    pub(super) fn refresh_related(&mut self, now: Timestamp) {
        let changed = self.engine.relations.take_changed();
        let policies: BTreeSet<&PolicyId> = changed.iter().map(|(policy, _)| policy).collect();
        for policy in policies {
            let waiting =
                self.engine.units_of(policy).filter(|(_, unit)| unit.dependency_waits().next().is_some());
            let waiting: Vec<UnitId> = waiting.map(|(unit_id, _)| unit_id.clone()).collect();
            self.engine.touched.extend(waiting.into_iter().map(|unit_id| (unit_id, None)));
        }
        for (policy, node) in changed {
            let Some(workload) = self.workload_of(&policy) else { continue };
            let affinity = self.affinity_on(workload, &node, now);
            let is_per_node = workload.goal.is_per_node();
            let mut found: Vec<(UnitId, Option<UnitNode>, bool)> = Vec::new();
            for (unit_id, unit) in self.engine.units_of(&policy) {
                let Some(old) = unit.table.find(&node) else { continue };
                let is_other = affinity != *old.affinity;
                let is_due = waits_for_partners(unit) || is_other && (unit.is_open() || is_per_node);
                let row = is_other.then(|| UnitNode { affinity: affinity.clone().into(), ..old.clone() });
                found.push((unit_id.clone(), row, is_due));
            }
            let of_node = self.engine.tasks_on(&node, &policy).filter(|task| task.is_live());
            let slots: Vec<(UnitId, Slot)> =
                of_node.map(|task| (task.unit_id.clone(), task.slot.clone())).collect();
            for (unit_id, row, is_due) in found {
                if is_due {
                    self.engine.touched.insert((unit_id.clone(), None));
                }
                if let Some(row) = row {
                    let of_unit = slots.iter().filter(|(one, _)| *one == unit_id);
                    self.engine.touched.extend(of_unit.map(|(one, slot)| (one.clone(), Some(slot.clone()))));
                    if let Some(unit) = self.engine.workload_units.get_mut(&unit_id) {
                        unit.table.replace(row);
                    }
                }
            }
        }
    }

    /// Returns the policies in `soft` that have an instance which starts or stops, in a workload unit with one of the candidates.
    ///
    /// # Source
    /// Orchestration A4.5.
    pub fn unsettled_partners(
        &self,
        workload: &Workload,
        unit: &UnitRecord,
        now: Timestamp,
    ) -> Vec<PolicyId> {
        let policies = workload.placement.affinity.soft.iter().filter_map(|partner| match partner {
            Partner::Policy(policy) => Some(policy),
            // Agreements without tasks have no such states.
            Partner::Service(_) => None,
        });
        policies.filter(|policy| self.is_unsettled(policy, unit, now)).cloned().collect()
    }

    /// Returns whether a workload that must, or must not, share the nodes of another one is being upgraded.
    ///
    /// # Source
    /// Orchestration D9.5, P-S7.
    pub fn are_partners_in_upgrade(&self, workload: &Workload) -> bool {
        let rules = &workload.placement.affinity;
        let policies = rules.hard.iter().chain(&rules.hard_anti).filter_map(|partner| match partner {
            Partner::Policy(policy) => Some(policy),
            Partner::Service(_) => None,
        });
        let mut policies = policies.filter_map(|policy| Some((policy, self.workload(policy)?)));
        policies.any(|(policy, record)| {
            let is_displaced = |unit: &UnitRecord| unit.displaced > 0 || unit.table.is_in_upgrade();
            record.update.is_rolling() || self.engine.units_of(policy).any(|(_, unit)| is_displaced(unit))
        })
    }

    fn is_unsettled(&self, policy: &PolicyId, naming: &UnitRecord, now: Timestamp) -> bool {
        let Some(partner) = self.workload_of(policy) else {
            // It was written just now.
            return self.is_orchestrated(policy) && self.policies.contains_key(policy);
        };
        let mut wanted = self.engine.units_of(policy).filter(|(_, unit)| unit.is_wanted);
        wanted.any(|(_, unit)| self.has_unsettled_task(partner, unit, now) && shares_candidate(naming, unit))
    }

    fn has_unsettled_task(&self, partner: &Workload, unit: &UnitRecord, now: Timestamp) -> bool {
        let goal = &partner.goal;
        let is_held = goal.is_stopped || partner.is_frozen || goal.start != StartMode::BestAvailable;
        let selected = u32::try_from(unit.table.members().len()).unwrap_or(u32::MAX);
        if unit.slots.is_empty() {
            return !is_held && goal.wanted(selected) > 0 && unit.reconciled_under.is_none();
        }
        // One that waits for its own partners has no instance that starts.
        let is_placed_soon = !unit.is_waiting();
        let is_unsettled = |task: &Task| match &task.node {
            _ if task.state.is_ended() => false,
            None => task.is_wanted() && is_placed_soon,
            Some(node) => {
                (!task.is_wanted() || !task.is_running()) && self.liveness(node, now) == Liveness::Alive
            }
        };
        unit.slots.values().flat_map(SlotTasks::iter).any(is_unsettled)
    }
}

fn waits_for_partners(unit: &UnitRecord) -> bool {
    unit.blocked.iter().any(|(_, blocked)| matches!(blocked, Blocked::AffinityWait { .. }))
}

/// Returns whether a workload unit contains a candidate of another one. The smaller of the two is walked through.
fn shares_candidate(naming: &UnitRecord, other: &UnitRecord) -> bool {
    let candidates = evenkeel_placement::place::Elimination::of(&naming.table).remaining;
    let is_candidate =
        |node: &UnitNode| naming.table.number(&node.id).is_some_and(|one| candidates.contains(one));
    if other.table.members().len() < candidates.len() {
        return other.table.nodes().any(|node| node.is_member && is_candidate(node));
    }
    let is_member =
        |number: u32| other.table.find(&naming.table.node(number).id).is_some_and(|one| one.is_member);
    candidates.iter().any(is_member)
}
