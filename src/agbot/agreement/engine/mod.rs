//! The engine at work: which workload units are reconciled after an event, and what is written of it.
//!
//! The rows are the only memory. A plan is one command; a workload unit has one in flight at most, so that nothing is decided on rows that
//! are about to change. Agreements follow the tasks ([`crate::pair`]). Source: engine 4, 5; orchestration 1.1-6, 1.10, B3 to B5.

mod blocklist;
mod claim_end;
mod dependencies;
mod facts;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::{
    command::{Action, CommandKey},
    focus::Focus,
    model::{Model, Observed, UnitRecord, selection},
    pass::Pass,
    plan::{INITIAL_PASS, UnitEvent, UnitPlan},
};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::DeploymentPolicyFacts,
    lease::Lease,
    report::Blocked,
    time::later,
    usage::best_version,
    workload::{
        LiveAgreement, NodeScope, Part, Slot, SlotTasks, SpecVersion, Step, Task, UnitId, Workload,
        WorkloadRecord, adopt,
    },
};
use evenkeel_reconcile::{reconcile, unit_pass::stored_plan, user_action};
use jiff::Timestamp;
use serde_json::json;

pub(crate) use claim_end::reason_to_release;
pub use facts::UnitInputs;

/// Something that waits in a workload unit is reconciled again after this interval, even if no event came.
pub const RECHECK_SECS: u64 = 10;

/// Plans the workloads, workload units and slots in focus.
pub fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    for policy in &focus.workloads {
        follow_policy(pass, policy);
    }
    let model = pass.model;
    let mut in_order: Vec<&UnitId> = focus.workload_units.iter().collect();
    // The workload unit that is served first chooses first.
    in_order.sort_by_key(|unit_id| priority_of(model, &unit_id.policy));
    for unit_id in in_order {
        plan(pass, unit_id, None);
    }
    let mut slots: BTreeMap<&UnitId, BTreeSet<Slot>> = BTreeMap::new();
    for (unit_id, slot) in focus.slots.iter().filter(|(unit_id, _)| !focus.workload_units.contains(unit_id)) {
        slots.entry(unit_id).or_default().insert(slot.clone());
    }
    for (unit_id, slots) in slots {
        plan(pass, unit_id, Some(slots));
    }
    blocklist::expire(pass);
}

/// Brings the row of a workload in line with its policy.
fn follow_policy(pass: &mut Pass<'_>, policy: &PolicyId) {
    let model = pass.model;
    let Some(lease) = pass.lease_for_workload(policy) else { return };
    // The row follows what was written; after a rollback something else is in force.
    let (facts, in_force) = (model.written_policy(policy), model.policy(policy));
    let action = match (model.workload(policy), facts.filter(|facts| facts.orchestration.document.is_some()))
    {
        (None, None) => return,
        (None, Some(facts)) => {
            let workload = Box::new(first_record(model, facts));
            let adopted = adopted_tasks(pass, &workload);
            Action::RecordWorkload { workload, adopted, ended: None }
        }
        // The instances are adopted again by the next row, in slots of the other form.
        (Some(known), Some(_)) if in_force.is_some_and(|facts| has_other_form(model, known, facts)) => {
            Action::RemoveWorkload { policy: policy.clone(), is_detached: false }
        }
        (Some(known), Some(facts)) => match known.written(facts, pass.now) {
            Some(next) => {
                Action::RecordWorkload { workload: Box::new(next), adopted: Vec::new(), ended: None }
            }
            None => match user_action::end(pass, known) {
                Some(end) => {
                    let next = WorkloadRecord { action: None, revision: known.revision + 1, ..known.clone() };
                    let ended = Some(Box::new(end));
                    Action::RecordWorkload { workload: Box::new(next), adopted: Vec::new(), ended }
                }
                None => return,
            },
        },
        (Some(known), None) if model.is_removal_forced(policy) && !known.children.is_empty() => {
            let workload = Box::new(known.without_children());
            Action::RecordWorkload { workload, adopted: Vec::new(), ended: None }
        }
        // The tasks of a deleted policy stop first; those of one that no longer has tasks are given up, and
        // its agreements stay.
        (Some(_), None) => {
            let busy = model.workload_units_of(policy).find(|(_, unit)| !unit.slots.is_empty());
            if let Some((unit_id, _)) = busy.filter(|_| facts.is_none()) {
                // Another agbot may be the one that removes the last task.
                return pass.watch_unit(unit_id, None, later(pass.now, RECHECK_SECS));
            }
            Action::RemoveWorkload { policy: policy.clone(), is_detached: facts.is_some() }
        }
    };
    pass.issue_for_group(lease, action);
}

/// Returns whether a workload's slots are nodes and are to be numbers, or the other way round, or whether groups now count by themselves.
///
/// A workload that a user stopped stays stopped: its slots, in which nothing runs, are removed one by one.
pub fn has_other_form(model: &Model, known: &WorkloadRecord, facts: &DeploymentPolicyFacts) -> bool {
    let Some(wanted) = known.workload(facts, &model.hub_defaults(facts.id.org())) else { return false };
    let has_groups = matches!(wanted.scope, NodeScope::EveryGroup | NodeScope::Groups(_));
    let is_other = |slot: &Slot| !slot.is_of(&wanted.goal);
    let is_stopped = |unit: &UnitRecord| unit.slots.values().flat_map(SlotTasks::iter).all(Task::is_stopped);
    if known.is_stopped && model.workload_units_of(&known.policy).all(|(_, unit)| is_stopped(unit)) {
        return false;
    }
    model.workload_units_of(&known.policy).any(|(unit_id, unit)| {
        let is_of_group = unit_id.part != Part::All;
        !unit.slots.is_empty() && (is_of_group != has_groups || unit.slots.keys().any(is_other))
    })
}

/// Returns the row of a policy that had none. A version that was rolled back in an HA group, and runs nowhere, is not tried again by that.
pub fn first_record(model: &Model, facts: &DeploymentPolicyFacts) -> WorkloadRecord {
    let record = WorkloadRecord::new(facts);
    let best = best_version(&facts.versions).map(|best| best.version.as_str());
    let runs_best = |one: &Agreement| one.service_key == facts.service && Some(one.version.as_str()) == best;
    let back = selection::rollback_of(model, facts);
    match back.filter(|_| !model.agreements_of(&facts.id).any(runs_best)) {
        Some(back) => record.rolled_back(back.choice(), &back.why, back.since),
        None => record,
    }
}

/// Returns tasks for the agreements that a policy has already.
pub fn adopted_tasks(pass: &Pass<'_>, record: &WorkloadRecord) -> Vec<Task> {
    let (model, policy) = (pass.model, &record.policy);
    let facts = model.policy(policy);
    let Some(workload) = facts.and_then(|facts| record.workload(facts, &model.hub_defaults(policy.org())))
    else {
        return Vec::new();
    };
    let wanted = |node: &NodeId| {
        let versions = match (record.versions.rolled_back_from, facts) {
            (None, Some(facts)) => selection::wanted_versions(model, facts, model.group_of.get(node)),
            _ => Cow::Borrowed(
                record.spec(record.versions.current.number).map_or(&[][..], |spec| &spec.versions),
            ),
        };
        best_version(&versions).map(|best| best.version.clone())
    };
    let mut open: Vec<_> =
        model.agreements_of(policy).filter(|agreement| !pass.is_stopping(agreement)).collect();
    let mut tasks = Vec::new();
    for workload_unit in model.shape(&workload) {
        let holds_all = workload_unit.id == UnitId::all(policy.clone());
        let is_of_it = |node: &NodeId| holds_all || workload_unit.nodes.contains(node);
        let (own, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|one| is_of_it(&one.node));
        open = others;
        let live: Vec<LiveAgreement> = own
            .iter()
            .map(|one| LiveAgreement {
                id: one.id.clone(),
                node: one.node.clone(),
                running_since: one
                    .finalized_at()
                    .filter(|_| model.observed(one, pass.now) == Observed::Running),
            })
            .collect();
        let current = record.versions.current;
        let adopted = adopt(&workload_unit, &workload.goal, current, &live, pass.now);
        tasks.extend(adopted.into_iter().map(|task| {
            let agreement = own.iter().find(|one| Some(&one.id) == task.agreement.as_ref());
            let is_best = agreement.is_some_and(|one| Some(&one.version) == wanted(&one.node).as_ref());
            // An older version is replaced like any other.
            let spec = if is_best { current } else { SpecVersion { number: 0, digest: 0 } };
            Task { spec, ..task }
        }));
    }
    tasks
}

/// Reconciles a workload unit, or some of its slots, and issues what is to be written.
fn plan(pass: &mut Pass<'_>, unit_id: &UnitId, slots: Option<BTreeSet<Slot>>) {
    let model = pass.model;
    let Some(lease) = pass.lease_for_unit(unit_id) else { return };
    if model.is_pending(&CommandKey::plan(unit_id), pass.now) {
        return pass.defer(unit_id, slots.as_ref());
    }
    let (Some(record), Some(unit)) = (model.workload(&unit_id.policy), model.workload_unit(unit_id)) else {
        return;
    };
    let facts = model.policy(&unit_id.policy);
    // The row is written first, and then all of the workload is planned.
    let is_behind = facts.is_some_and(|facts| {
        facts.orchestration.document.is_none() || record.written_at != facts.last_updated
    });
    if is_behind {
        return;
    }
    let is_removed = !unit.is_wanted;
    let has_action = record.action.as_ref().is_some_and(|action| action.goal_of(&unit_id.part).is_some());
    let slots = slots.filter(|_| !is_removed && !has_action);
    // The children that the policy named last still have to be down before its instances stop.
    let children = record.children.clone();
    let gone = Workload { children, ..Workload::new(unit_id.policy.clone(), 0) };
    let workload = model.workload_of(&unit_id.policy).unwrap_or(&gone);
    let inputs = UnitInputs::new(pass, workload, unit_id, unit, slots.as_ref());
    let facts = inputs.facts(record);
    let mut plan = match &slots {
        _ if is_removed => reconcile::plan_removal(&facts, pass.now),
        Some(slots) => reconcile::plan_slots(&facts, slots, pass.now, pass.seed()),
        None => reconcile::plan_unit(&facts, pass.now, pass.seed()),
    };
    for permit in &mut plan.permits {
        if let (Some(counted), Some(node)) = (&mut permit.counted_tasks, permit.step.node()) {
            let using = model.tasks_of(node).filter(|task| !task.state.is_ended());
            counted.extend(using.map(|task| task.id.clone()));
        }
    }
    let mut stored = stored_plan(&plan, &facts, record, pass.now);
    stored.events.extend(news(unit, lease, slots.is_none(), &plan));
    stored.events.extend(news_of_versions(unit, facts.incompatible));
    note(pass, unit_id, slots.as_ref(), &plan, &inputs);
    if !stored.is_empty() {
        pass.issue_for_group(lease, Action::ApplyPlan { unit_id: unit_id.clone(), plan: Box::new(stored) });
    }
    if is_removed {
        follow_policy(pass, &unit_id.policy);
    }
}

/// Returns what waits in a workload unit by the decision that its owner would take.
pub fn waiting_steps(model: &Model, unit_id: &UnitId, now: Timestamp) -> Vec<(Step, Blocked)> {
    let mut pass = Pass::to_explain(model, now);
    plan(&mut pass, unit_id, None);
    pass.unit_reports.remove(unit_id).map(|report| report.blocked).unwrap_or_default()
}

/// Returns the events about what differs from the last reconciliation of the workload unit.
///
/// # Source
/// Orchestration B5, D3.
fn news(unit: &UnitRecord, lease: Lease, is_whole: bool, plan: &UnitPlan) -> Vec<UnitEvent> {
    let event = |kind: &'static str, text: String| UnitEvent {
        kind: kind.into(),
        slot: None,
        node: None,
        text,
        data: None,
    };
    let is_first = is_whole && unit.is_wanted && unit.reconciled_under != Some(lease);
    let initial = is_first.then(|| {
        let tasks: usize = unit.slots.values().map(|tasks| tasks.iter().count()).sum();
        let (slots, changes) = (unit.slots.len(), plan.changes.len());
        let text = format!("examined: tasks {tasks}, slots {slots}; changed: {changes}");
        let data = Some(json!({"tasks": tasks, "slots": slots, "changed": changes}));
        UnitEvent { data, ..event(INITIAL_PASS, text) }
    });
    let unplaced = plan.unplaced.as_ref().filter(|_| unit.unplaced.is_none());
    let unplaced = unplaced.map(|report| event("placement.unplaced", report.summary.clone()));
    initial.into_iter().chain(unplaced).collect()
}

/// Returns the event about compatibility versions that differ since the last reconciliation, or no longer do.
///
/// # Source
/// Orchestration A7.
fn news_of_versions(unit: &UnitRecord, incompatible: &[i64]) -> Option<UnitEvent> {
    let (kind, state, decisions) = match (unit.incompatible.is_empty(), incompatible.is_empty()) {
        (true, false) => ("compat.incompatible", "incompatible", "disabled"),
        (false, true) => ("compat.restored", "compatible", "enabled"),
        _ => return None,
    };
    let text = format!("members run {state} versions, ha orchestration {decisions}");
    Some(UnitEvent { kind: kind.into(), slot: None, node: None, text, data: None })
}

/// Records what waits and when time alone changes that.
fn note(
    pass: &mut Pass<'_>,
    unit_id: &UnitId,
    slots: Option<&BTreeSet<Slot>>,
    plan: &UnitPlan,
    inputs: &UnitInputs<'_>,
) {
    for at in plan.wake_at.into_iter().chain(inputs.wake_at) {
        pass.watch_unit(unit_id, slots, at);
    }
    if plan.blocked.iter().any(|(_, blocked)| !blocked.ends_by_time()) {
        let at = later(pass.now, RECHECK_SECS);
        pass.watch_unit(unit_id, None, at);
    }
    pass.report_unit(unit_id, slots, plan, &inputs.incompatible);
}

/// Returns the priority of a workload; smaller is served first.
fn priority_of(model: &Model, policy: &PolicyId) -> u8 {
    let document = model.policy(policy).and_then(|facts| facts.orchestration.document.as_ref());
    document.map_or(0, |document| document.priority)
}
