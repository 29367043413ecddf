//! The relation of agreements to tasks: the agreement that a task needs, and agreements that no task needs.
//!
//! Source: engine 1 (the tasks of a policy are its agreements); orchestration 1.9, E3.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::matching::{Choice, Consumers, Fit};
use evenkeel_planner_record::{
    agreement::{Agreement, CancelReason},
    blocklist::{BlocklistEntry, BlocklistKey},
    facts::{DeploymentPolicyFacts, VersionChoice},
    goal::StartMode,
    report::Blocked,
    settings::FailureAction,
    time::secs_since,
    usage::{WorkloadUsage, has_attempts_left},
    workload::{DesiredState, Ending, NodeOrder, Slot, SlotTasks, Task, TaskState},
};
use jiff::Timestamp;

use crate::model::{Model, observe, selection};

/// The service that a task's node must run, with its task.
pub struct Startable<'a> {
    /// The task.
    pub task: &'a Task,
    /// True if there must never be a second instance.
    pub is_single: bool,
}

/// Returns the task that a node is to get an agreement for; none for policies without tasks.
///
/// # Errors
/// The reason why there is no such task now.
pub fn startable<'a>(
    model: &'a Model,
    node: &NodeId,
    policy: &PolicyId,
) -> Option<Result<Startable<'a>, Blocked>> {
    if !model.is_orchestrated(policy) {
        return None;
    }
    let is_tried = |task: &Task| {
        task.agreement.is_some()
            || model
                .live_agreements(node, policy)
                .chain(model.lately_ended_on(node))
                .any(|one| one.policy == *policy && one.task.as_ref() == Some(&task.id))
    };
    // An agent that reads tasks prepares them before they are to run.
    let is_due =
        |task: &Task| task.desired == DesiredState::Running || task.is_wanted() && model.is_capable(node);
    let wanted = model
        .engine
        .tasks_on(node, policy)
        .find(|task| is_due(task) && !task.state.is_ended() && !is_tried(task));
    let workload = model.workload_of(policy);
    Some(match (wanted, workload) {
        (Some(task), Some(workload)) => Ok(Startable { task, is_single: workload.goal.is_exclusive() }),
        _ if model.policy(policy).is_none() => Err(Blocked::PolicyUnknown),
        _ => Err(Blocked::NoTask),
    })
}

/// A row of the node blocklist.
pub(super) type Row<'r> = &'r dyn Fn(&BlocklistKey) -> Option<BlocklistEntry>;

/// Returns what a version of a workload's task spec runs on a node: the best entry of its version list, or a lower one after the retries of
/// the better ones failed there, or while the node is blocked for them.
///
/// # Errors
/// The reason why the node does not fit.
/// # Source
/// Orchestration B11.10.
pub fn choose(
    model: &Model,
    node: &NodeId,
    policy: &PolicyId,
    number: u64,
    now: Timestamp,
) -> Result<Choice, Blocked> {
    let (facts, consumers) = spec(model, policy, number)?;
    let usage = usage_of(model, node, facts, number);
    let row = |key: &BlocklistKey| model.engine.blocklist.get(key).cloned();
    let is_skipped = |entry: &VersionChoice| {
        let is_list = facts.versions.len() > 1 && may_fall_back(model, policy);
        let tried = || Tried::of(facts, node, entry, &row);
        is_list
            && tried().is_some_and(|tried| tried.is_blocked() || tried.is_spent(model, policy, entry, now))
    };
    selection::select_spec(model, node, facts, consumers, (usage, &is_skipped), now)
}

/// Returns whether a version of a workload's task spec has versions for a node that it has not tried often enough there.
pub fn has_versions_left(
    model: &Model,
    node: &NodeId,
    (policy, number): (&PolicyId, u64),
    now: Timestamp,
    row: Row<'_>,
) -> bool {
    let Ok((facts, consumers)) = spec(model, policy, number) else { return false };
    if facts.versions.len() < 2 || !may_fall_back(model, policy) {
        return false;
    }
    let usage = tried(model, node, policy, number);
    let is_left = |entry: &&VersionChoice| {
        let is_open = usage.is_none_or(|usage| has_attempts_left(std::slice::from_ref(*entry), usage));
        let tried = Tried::of(facts, node, entry, row);
        is_open && tried.is_none_or(|tried| !tried.is_spent(model, policy, entry, now))
    };
    // One that the node cannot run is none.
    let fits = |entry: &VersionChoice| {
        let is_other = |one: &VersionChoice| one.version != entry.version;
        selection::select_spec(model, node, facts, consumers, (None, &is_other), now)
            .is_ok_and(|choice| choice.version == entry.version)
    };
    facts.versions.iter().filter(is_left).any(fits)
}

/// Number of times that a version of the list has failed on a node.
struct Tried(BlocklistEntry);

impl Tried {
    fn of(facts: &DeploymentPolicyFacts, node: &NodeId, entry: &VersionChoice, row: Row<'_>) -> Option<Self> {
        let (service, version) = (facts.service.clone(), entry.version.clone());
        row(&BlocklistKey { node: node.clone(), service, version }).map(Self)
    }

    fn is_blocked(&self) -> bool {
        self.0.until.is_some()
    }

    /// Returns whether the next version of the list follows: the retries of this one have failed within their time, or the attempts of the
    /// restart policy.
    fn is_spent(&self, model: &Model, policy: &PolicyId, entry: &VersionChoice, now: Timestamp) -> bool {
        let restart = model.workload_of(policy).map(|workload| workload.restart);
        let attempts = restart.map(|restart| restart.max_attempts).filter(|attempts| *attempts > 0);
        let is_recent = |at: Timestamp| secs_since(at, now) <= entry.retry_secs;
        let has_retries = entry.retry_secs > 0 && self.0.failed_at.is_some_and(is_recent);
        let retries = has_retries.then_some(entry.retries.max(1));
        let limit =
            [retries, attempts.map(|attempts| attempts.saturating_add(1))].into_iter().flatten().min();
        limit.is_some_and(|limit| self.0.failure_count >= limit)
    }
}

/// Returns what a node has tried of the versions of a task spec, if that counts now.
fn usage_of<'m>(
    model: &'m Model,
    node: &NodeId,
    facts: &DeploymentPolicyFacts,
    number: u64,
) -> Option<&'m WorkloadUsage> {
    if facts.versions.len() < 2 {
        return None;
    }
    tried(model, node, &facts.id, number).filter(|_| may_fall_back(model, &facts.id))
}

/// Returns what a node has tried of the versions of a task spec since a user last cleared its failures.
pub fn tried<'m>(
    model: &'m Model,
    node: &NodeId,
    policy: &PolicyId,
    number: u64,
) -> Option<&'m WorkloadUsage> {
    let usage = model.usage.get(&(node.clone(), policy.clone())).filter(|usage| usage.spec == number)?;
    let cleared_at = model.instances_of(policy).get(node).and_then(|row| row.cleared_at);
    let tried_at = usage.latest_retry_at.unwrap_or(usage.first_try_at);
    cleared_at.is_none_or(|at| at < tried_at).then_some(usage)
}

/// Returns whether a version that fails on a node may be replaced by a lower one there. While an update
/// pauses or rolls back after failures, a failure means that the version is bad, not that the node needs
/// another one.
fn may_fall_back(model: &Model, policy: &PolicyId) -> bool {
    let Some((record, workload)) = model.workload(policy).zip(model.workload_of(policy)) else {
        return false;
    };
    let settings = if record.update.is_rollback() { &workload.rollback } else { &workload.update };
    let is_open = record.update.is_rolling() || record.update.is_paused();
    !is_open || settings.failure_action == FailureAction::Continue
}

fn spec<'m>(
    model: &'m Model,
    policy: &PolicyId,
    number: u64,
) -> Result<(&'m DeploymentPolicyFacts, &'m Consumers), Blocked> {
    let known = model.known_spec(policy, number);
    known.map(|known| (&known.policy, &known.consumers)).ok_or(Blocked::NoTask)
}

/// Returns the relation of an agreement to the task that it carries out; none for policies without tasks.
pub(crate) fn fit(model: &Model, agreement: &Agreement, now: Timestamp) -> Option<Fit> {
    let policy = &agreement.policy;
    if !model.is_orchestrated(policy) {
        return None;
    }
    // Before the workload has its row, nothing is known of its tasks.
    let Some(record) = model.workload(policy) else { return Some(Fit::Unclear(Blocked::NoTask)) };
    let Some(task) = model.task_of(agreement) else { return Some(Fit::Lost(Blocked::NoTask)) };
    if !task.is_wanted() || task.state.is_ended() {
        return Some(Fit::Lost(Blocked::NoTask));
    }
    let is_capable = model.is_capable(&agreement.node);
    let is_failed = !is_capable
        && model
            .workload_of(policy)
            .is_some_and(|workload| observe::failure(model, task, agreement, workload, now).is_some());
    // An agent that does not, or no longer, read tasks cannot delay the start of one.
    let starts_too_early = !is_capable && task.desired == DesiredState::Ready;
    if is_failed || starts_too_early {
        return Some(Fit::Lost(Blocked::NoTask));
    }
    let number = if task.spec.number == 0 { record.versions.current.number } else { task.spec.number };
    let (facts, consumers) = match spec(model, policy, number) {
        Ok(spec) => spec,
        Err(blocked) => return Some(Fit::Unclear(blocked)),
    };
    Some(match selection::fit_spec(model, agreement, facts, consumers, now) {
        // The update replaces it; a node that must not have it is the engine's to leave.
        Fit::Outdated(_) => Fit::Unclear(Blocked::NoTask),
        Fit::Lost(blocked) => Fit::Unclear(blocked),
        fit => fit,
    })
}

/// Returns the number under which the agreement of a task that is no longer wanted ends.
pub fn cancel_reason(model: &Model, agreement: &Agreement, now: Timestamp) -> CancelReason {
    if model.is_down(&agreement.node, now) {
        return CancelReason::HEARTBEAT_MISSING;
    }
    let Some(task) = model.task_of(agreement) else { return CancelReason::POLICY_CHANGED };
    let unit = model.workload_unit(&task.unit_id);
    let newest = unit.and_then(|unit| unit.tasks(&task.slot).newest());
    match newest {
        Some(newest) if newest.id != task.id && newest.cause.is_update() => CancelReason::POLICY_CHANGED,
        _ => CancelReason::USER_REQUESTED,
    }
}

/// Returns whether an instance of a policy with tasks is intended for a node; none for policies without tasks.
///
/// # Source
/// Orchestration E3.
pub(crate) fn is_intended(model: &Model, node: &NodeId, policy: &PolicyId, now: Timestamp) -> Option<bool> {
    let has_task = || model.engine.tasks_on(node, policy).any(Task::is_live);
    model.is_orchestrated(policy).then(|| has_task() || is_selected_by_workload(model, node, policy, now))
}

/// Returns whether a node without an instance is one of those that should have one: a workload selects it, and wants an instance on every
/// node, or has a slot that waits for a node and that this one gets, or would get if it were up.
fn is_selected_by_workload(model: &Model, node: &NodeId, policy: &PolicyId, now: Timestamp) -> bool {
    let Some(workload) = model.workload_of(policy) else { return false };
    if workload.goal.start != StartMode::BestAvailable || workload.goal.is_stopped {
        return false;
    }
    let is_away = !model.may_start_on(node, now);
    model.workload_units_of(policy).any(|(_, unit)| {
        if !unit.table.may_belong_on(node) {
            return false;
        }
        if workload.goal.is_per_node() {
            return !is_done(unit.tasks(&Slot::Node(node.clone())));
        }
        let mut tasks = unit.slots.values().flat_map(SlotTasks::iter);
        let live = unit.slots.values().filter(|tasks| tasks.iter().any(Task::is_live)).count();
        let waits = tasks.any(|task| task.is_live() && task.node.is_none())
            || (live as u32) < workload.goal.wanted(0);
        let is_chosen_by_user = workload.placement.order == NodeOrder::Unranked;
        waits && (is_away || !is_chosen_by_user && unit.table.is_candidate(node))
    })
}

/// Returns whether nothing more is wanted of a slot, because its job is done.
fn is_done(tasks: &SlotTasks) -> bool {
    tasks.newest().is_some_and(|newest| newest.state == TaskState::Ended(Ending::Complete))
}
