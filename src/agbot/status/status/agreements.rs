//! The status of a policy without tasks: its agreements.
//!
//! Source: orchestration 0.2 (a policy without tasks is handled as before).

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::{Liveness, Model, Observed};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{DeploymentPolicyFacts, PolicyScope},
    goal::{Avail, InstanceState, PlacementState, avail_of},
    rollout::RolloutState,
    workload::{NodeScope, Part, UnitId, UpdateState, UpdateStatus, Workload, WorkloadUnit},
};
use jiff::Timestamp;

use super::{
    FrozenState, InstanceStatus, KEEP_EXITING, MonitorState, PartStatus, UPDATE_PAUSED, Window,
    WorkloadStatus, listed, summed,
};

pub(super) fn status(
    model: &Model,
    facts: &DeploymentPolicyFacts,
    window: &Window,
    now: Timestamp,
) -> WorkloadStatus {
    let workload = workload(facts);
    let parts = model.shape(&workload).into_iter();
    let all = parts.map(|part| status_of_part(model, &workload, part, window, now)).collect();
    let mut status = summed(all, update(model, &facts.id));
    status.mode = facts.orchestration.mode();
    if status.update.is_paused() {
        status.warnings.push(format!("{UPDATE_PAUSED}: {}", status.update.message));
    }
    status.frozen = FrozenState::of(0, status.parts.iter().map(|part| part.instance_count).sum());
    status.parts.retain(|part| window.part.as_deref().is_none_or(|name| name == part.id.name()));
    status
}

/// Returns the workload units of a policy.
pub(super) fn parts(model: &Model, facts: &DeploymentPolicyFacts) -> Vec<UnitId> {
    model.shape(&workload(facts)).into_iter().map(|part| part.id).collect()
}

/// Returns the nodes of a part of a policy; none when it has no such part.
pub fn nodes(model: &Model, part: &UnitId) -> Option<Vec<NodeId>> {
    let parts = model.shape(&workload(model.policy(&part.policy)?));
    parts.into_iter().find(|one| one.id == *part).map(|one| one.nodes)
}

fn workload(facts: &DeploymentPolicyFacts) -> Workload {
    let scope = match &facts.orchestration.scope {
        PolicyScope::Eligible => NodeScope::Eligible,
        PolicyScope::EveryHaGroup => NodeScope::EveryGroup,
        PolicyScope::HaGroups(groups) => NodeScope::Groups(groups.iter().cloned().collect()),
        PolicyScope::Nodes(nodes) => NodeScope::Nodes(nodes.iter().cloned().collect()),
    };
    Workload { scope, ..Workload::new(facts.id.clone(), 0) }
}

fn status_of_part(
    model: &Model,
    workload: &Workload,
    part: WorkloadUnit,
    window: &Window,
    now: Timestamp,
) -> PartStatus {
    let WorkloadUnit { id, nodes } = part;
    let policy = &workload.policy;
    let holding: Vec<&NodeId> =
        nodes.iter().filter(|node| model.live_agreement(node, policy).is_some()).collect();
    let avail = |node: &NodeId| avail(model, node, model.live_agreement(node, policy), now);
    let states: Vec<InstanceState> = nodes
        .iter()
        .map(|node| InstanceState { avail: avail(node), is_leader: true, is_frozen: false })
        .collect();
    let alive = nodes.iter().filter(|node| model.liveness(node, now) == Liveness::Alive).count() as u32;
    let target = workload.goal.wanted(alive);
    let others = nodes.iter().filter(|node| holding.binary_search(node).is_err());
    let (shown, next) = listed(holding.iter().copied().chain(others), nodes.len(), window);
    let is_empty = nodes.is_empty() && id.part != Part::All;
    PartStatus {
        avail: avail_of(&workload.goal, &states, target, true),
        target,
        up: states.iter().filter(|one| one.avail == Avail::Up).count() as u32,
        placement: PlacementState::NotApplicable,
        natural_leaders: Vec::new(),
        instance_count: nodes.len(),
        instances: shown.into_iter().map(|node| instance(model, policy, node, avail(node))).collect(),
        next,
        frozen_count: 0,
        warnings: model
            .unusable_versions(policy)
            .into_iter()
            .chain(is_empty.then(|| "no node belongs to it".to_owned()))
            .chain(exiting(model, policy, &holding))
            .map(|warning| format!("{}: {warning}", id.name()))
            .collect(),
        id,
    }
}

pub(super) fn avail(model: &Model, node: &NodeId, agreement: Option<&Agreement>, now: Timestamp) -> Avail {
    match agreement.map(|agreement| model.observed(agreement, now)) {
        Some(Observed::Running) if is_unhealthy(model, agreement, now) => Avail::Warn,
        Some(_) if is_exiting(model, agreement) && model.liveness(node, now) == Liveness::Alive => {
            Avail::Warn
        }
        Some(Observed::Running) => Avail::Up,
        Some(Observed::Unknown) if model.liveness(node, now) != Liveness::Alive => Avail::Unknown,
        None if model.liveness(node, now) == Liveness::NeverHeard => Avail::Unknown,
        Some(Observed::Absent | Observed::Unknown) | None => Avail::Down,
    }
}

/// Returns whether an instance keeps exiting: between two starts it may be seen running.
fn is_exiting(model: &Model, agreement: Option<&Agreement>) -> bool {
    agreement.is_some_and(|agreement| model.repeated_exit(agreement).is_some())
}

/// Returns how many of the instances keep exiting, and how the first of them does.
fn exiting(model: &Model, policy: &PolicyId, holding: &[&NodeId]) -> Option<String> {
    let agreements = holding.iter().filter_map(|node| model.live_agreement(node, policy));
    let texts: Vec<&str> = agreements.filter_map(|agreement| model.repeated_exit(agreement)).collect();
    let first = texts.first()?;
    Some(format!("{} of {} instances {KEEP_EXITING}: {first}", texts.len(), holding.len()))
}

fn is_unhealthy(model: &Model, agreement: Option<&Agreement>, now: Timestamp) -> bool {
    agreement.is_some_and(|agreement| model.is_unhealthy(&agreement.policy, &agreement.node, now))
}

fn instance(model: &Model, policy: &PolicyId, node: &NodeId, avail: Avail) -> InstanceStatus {
    let agreement = model.live_agreement(node, policy);
    let is_starting = agreement.is_some() && avail == Avail::Down;
    InstanceStatus {
        node: node.clone(),
        avail,
        monitor: if is_starting { MonitorState::Starting } else { MonitorState::Idle },
        local_expect: if agreement.is_some() { "started" } else { "none" },
        flags: String::new(),
        is_frozen: false,
        is_pinned: false,
        slots: Vec::new(),
        task: None,
        agreement: agreement.map(|agreement| agreement.id.clone()),
        version: agreement.map(|agreement| agreement.version.clone()),
        violations: Vec::new(),
        blocklisted: None,
        since: agreement.map(|agreement| agreement.finalized_at().unwrap_or(agreement.created_at)),
    }
}

/// Returns the sum of the rollouts of a policy through its groups.
fn update(model: &Model, policy: &PolicyId) -> UpdateStatus {
    let mut update = UpdateStatus::default();
    for rollout in model.rollouts().filter(|rollout| rollout.policy == *policy) {
        let Some(state) = rollout.update_state() else { continue };
        if state.weight() > update.state.weight() {
            update.state = state;
            update.message = format!("{}: {}", rollout.group, rollout.text());
        }
        if let RolloutState::Completed { at } = rollout.state {
            update.completed_at = update.completed_at.max(Some(at));
        }
        let part = update.part_mut(&Part::Group(rollout.group.clone()));
        (part.total, part.done) = (rollout.total, rollout.done);
        if rollout.rollback.is_none() {
            part.unhealthy = rollout.failed.iter().map(|node| (node.to_string(), String::new())).collect();
        }
        update.started_at = [update.started_at, Some(rollout.started_at)].into_iter().flatten().min();
    }
    // One that is not over has not completed.
    if update.state == UpdateState::Updating {
        update.completed_at = None;
    }
    update
}
