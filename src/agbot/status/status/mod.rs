//! The runtime status of workloads as it is observed: what runs, where, and whether that is as wanted.
//!
//! Read from the model; nothing here decides. What is waited for is explained by `explain`. Source: orchestration 1.5, A9; engine 6 (availability comes from observation alone).

mod agreements;
mod instance;
mod part;
mod placement;
mod standing;
mod texts;
pub mod unit_view;

pub use agreements::nodes as nodes_of_part;
pub use instance::{InstanceStatus, MonitorState, Violation};
pub use placement::{ExplainedConstraint, PartExplanation, Question};
pub use placement::{NODE_COUNT, explain_unit, given_up, numbers_of, why_given_up, with_tasks};
pub use standing::{Removal, removal_of};
pub use standing::{Standing, standing_of, standing_of_service};
pub use texts::lost_instance_wait;
pub use unit_view::{UnitView, unit_view};

use evenkeel_domain::orchestration::{Mode, Orchestrate, Orchestration};
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    facts::DeploymentPolicyFacts,
    goal::{Avail, PlacementState, workload_avail},
    health::HealthState,
    workload::{Dependency, Partner, UnitId, UpdateStatus, WorkloadRecord},
};
use jiff::Timestamp;

/// The warning about a workload that a user stopped.
pub const STOPPED: &str = "stopped by a user: start it with the action start";

/// Begins the warning that names the node on which the update failed.
pub const UPDATE_PAUSED: &str = "the update is paused";

/// Part of the warning about instances that exit again and again; the exit of the first one follows.
pub const KEEP_EXITING: &str = "keep exiting";

/// The warning about agents whose compatibility versions differ.
const INCOMPATIBLE: &str = "incompatible versions";

/// Selection of the listed instances of each workload unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Only this workload unit.
    pub part: Option<String>,
    /// Skips that many.
    pub offset: usize,
    /// At most so many.
    pub limit: usize,
}

/// Frozen state of the instances of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrozenState {
    /// All of them.
    Frozen,
    /// None of them.
    Thawed,
    /// Some of them.
    Mixed,
    /// There is no node.
    NotApplicable,
}

impl FrozenState {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Thawed => "thawed",
            Self::Mixed => "mixed",
            Self::NotApplicable => "n/a",
        }
    }

    fn of(frozen: usize, all: usize) -> Self {
        match frozen {
            _ if all == 0 => Self::NotApplicable,
            0 => Self::Thawed,
            count if count == all => Self::Frozen,
            _ => Self::Mixed,
        }
    }
}

/// The status of a workload.
///
/// # Shape
/// `parts`: by name. `tasks`: the row of a workload with tasks; none for other policies.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadStatus {
    /// Its mode.
    pub mode: Mode,
    /// Degree to which instances are started and moved automatically.
    pub orchestrate: Orchestrate,
    /// Its row.
    pub record: Option<WorkloadRecord>,
    /// The `orchestration` that is in force after a rollback, while that of the document is not.
    pub restored: Option<Box<Orchestration>>,
    /// Its update; of a policy without tasks the sum of its rollouts.
    pub update: UpdateStatus,
    /// The common availability of its workload units.
    pub avail: Avail,
    /// Placement of the running instances relative to the leaders.
    pub placement: PlacementState,
    /// Frozen state of the instances.
    pub frozen: FrozenState,
    /// True if the agents of each workload unit have one compatibility version, as far as a difference
    /// suspends automatic decisions.
    pub is_compatible: bool,
    /// Human-readable warnings.
    pub warnings: Vec<String>,
    /// Its health, as others than the engine report it.
    pub health: HealthState,
    /// Its workload units.
    pub parts: Vec<PartStatus>,
}

/// The status of a workload unit.
#[derive(Debug, Clone, PartialEq)]
pub struct PartStatus {
    /// Its id.
    pub id: UnitId,
    /// Its availability.
    pub avail: Avail,
    /// Wanted instances.
    pub target: u32,
    /// Running instances.
    pub up: u32,
    /// Placement of the running instances relative to the leaders.
    pub placement: PlacementState,
    /// The nodes on which instances belong, the best first, at most 100.
    pub natural_leaders: Vec<NodeId>,
    /// Nodes of the workload unit, listed or not.
    pub instance_count: usize,
    /// Instances: those with tasks first, then the other nodes, both in scope order.
    pub instances: Vec<InstanceStatus>,
    /// Position at which the list continues; none at its end.
    pub next: Option<usize>,
    /// Frozen instances, listed or not.
    frozen_count: usize,
    warnings: Vec<String>,
}

impl WorkloadStatus {
    /// Returns the availability, worsened to a warning by what is not as it should be.
    pub fn overall(&self) -> Avail {
        let is_violated = |part: &PartStatus| part.instances.iter().any(InstanceStatus::is_violated);
        match self.avail {
            Avail::Up | Avail::NotApplicable
                if self.warnings.iter().any(|warning| warning != STOPPED)
                    || self.health != HealthState::Ok
                    || self.parts.iter().any(is_violated) =>
            {
                Avail::Warn
            }
            avail => avail,
        }
    }
}

/// Returns the workload units of a policy, without their status.
pub fn parts_of(model: &Model, policy: &PolicyId) -> Vec<UnitId> {
    let Some(facts) = model.policy(policy) else { return Vec::new() };
    if facts.orchestration.document.is_none() || model.workload(policy).is_none() {
        return agreements::parts(model, facts);
    }
    let wanted = model.workload_units_of(policy).filter(|(_, unit)| unit.is_wanted);
    wanted.map(|(id, _)| id.clone()).collect()
}

/// Returns the status of a deployment policy apart from what its instances wait for, which decisions must not ask for.
pub fn observed_status_of(
    model: &Model,
    policy: &PolicyId,
    window: &Window,
    now: Timestamp,
) -> Option<WorkloadStatus> {
    let facts = model.policy(policy)?;
    let is_listed = |id: &UnitId| window.part.as_deref().is_none_or(|name| name == id.name());
    let document = facts.orchestration.document.as_deref();
    let Some(source) = document.and_then(|_| part::Source::new(model, policy, now)) else {
        let status = agreements::status(model, facts, window, now);
        return Some(WorkloadStatus { health: model.reported_health(policy, now), ..status });
    };
    let part::Source { record, workload, .. } = source;
    let wanted = model.workload_units_of(policy).filter(|(_, unit)| unit.is_wanted);
    let all: Vec<PartStatus> = wanted.map(|(id, unit)| source.status(id, unit, window)).collect();
    let frozen: usize = all.iter().map(|part| part.frozen_count).sum();
    let count: usize = all.iter().map(|part| part.instance_count).sum();
    let mut status = summed(all, record.update.clone());
    status.mode = document.map_or(Mode::Global, |document| document.mode);
    status.orchestrate = document.map_or(Orchestrate::Ha, |document| document.orchestrate);
    let mut workload_units = model.workload_units_of(policy).filter(|(_, unit)| unit.is_wanted);
    status.is_compatible =
        workload_units.all(|(_, unit)| workload.suspending_versions(unit.table.compat_versions()).is_empty());
    if !status.is_compatible {
        status.warnings.push(INCOMPATIBLE.to_owned());
    }
    if record.is_stopped {
        status.warnings.push(STOPPED.to_owned());
    }
    let is_frozen = record.is_frozen || record.is_stopped;
    status.frozen = if is_frozen { FrozenState::Frozen } else { FrozenState::of(frozen, count) };
    if record.update.is_paused() {
        status.warnings.push(format!("{UPDATE_PAUSED}: {}", record.update.message));
    }
    let is_missing = |parent: &&Dependency| match &parent.partner {
        Partner::Policy(policy) => model.policy(policy).is_none(),
        Partner::Service(_) => false,
    };
    let missing = workload.parents.iter().filter(is_missing);
    status.warnings.extend(missing.map(|parent| format!("parent missing: {parent}")));
    let named = model.missing_policies(facts).into_iter();
    // Parents are named above, and a missing child is down.
    let is_partner = |member: &str| member.ends_with(".parents") || member.ends_with(".children");
    let named = named.filter(|finding| !is_partner(&finding.member));
    status.warnings.extend(named.map(|finding| finding.to_string()));
    if let Some(written) = model.written_policy(policy).filter(|written| is_restored(written, facts)) {
        let (version, given_up) = (record.versions.current.number, record.versions.rolled_back_from);
        let given_up =
            given_up.map_or(written.id.to_string(), |version| format!("version {}", version.number));
        status
            .warnings
            .push(format!("{given_up} was rolled back: the document of version {version} is in force"));
        status.restored.clone_from(&facts.orchestration.document);
    }
    status.record = Some(record.clone());
    status.health = model.reported_health(policy, now);
    status.parts.retain(|part| is_listed(&part.id));
    Some(status)
}

/// Returns whether more is in force than another version of what was written.
fn is_restored(written: &DeploymentPolicyFacts, in_force: &DeploymentPolicyFacts) -> bool {
    written.orchestration != in_force.orchestration || written.policy != in_force.policy
}

/// Sums the workload units up.
fn summed(mut parts: Vec<PartStatus>, update: UpdateStatus) -> WorkloadStatus {
    let avails: Vec<Avail> = parts.iter().map(|part| part.avail).collect();
    let warnings = parts.iter_mut().flat_map(|part| std::mem::take(&mut part.warnings)).collect();
    WorkloadStatus {
        mode: Mode::Global,
        orchestrate: Orchestrate::Ha,
        record: None,
        restored: None,
        update,
        avail: workload_avail(&avails),
        placement: common_placement(&parts),
        frozen: FrozenState::NotApplicable,
        is_compatible: true,
        health: HealthState::Ok,
        warnings,
        parts,
    }
}

fn common_placement(parts: &[PartStatus]) -> PlacementState {
    let is = |state| parts.iter().any(|part| part.placement == state);
    match () {
        () if is(PlacementState::NonOptimal) => PlacementState::NonOptimal,
        () if is(PlacementState::Optimal) => PlacementState::Optimal,
        () => PlacementState::NotApplicable,
    }
}

/// Returns the part of a list that a window shows, and where the list continues.
fn listed<T>(all: impl Iterator<Item = T>, count: usize, window: &Window) -> (Vec<T>, Option<usize>) {
    let end = window.offset.saturating_add(window.limit);
    (all.skip(window.offset).take(window.limit).collect(), (end < count).then_some(end))
}

#[cfg(test)]
mod tests;
