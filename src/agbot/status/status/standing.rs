//! State of a workload as seen by its dependents: its availability, and whether one of its instances starts
//! or stops.
//!
//! Source: orchestration A8.1, A8.2, A9.3.

use std::fmt;

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_placement::place::NodeState;
use evenkeel_planner_model::model::{Liveness, Model, Observed, UnitRecord};
use evenkeel_planner_record::{
    agreement::Agreement,
    goal::Avail,
    report::Blocked,
    workload::{DesiredState, SlotTasks, Task},
};
use jiff::Timestamp;

use super::{Window, agreements, observed_status_of, part::Source};

/// State by which a dependency is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its availability.
    pub avail: Avail,
    /// True if an instance starts or stops, or waits for its own parents or children.
    pub is_changing: bool,
}

/// Returns the state of a workload, or of its instance on one node; none when it does not exist.
pub fn standing_of(
    model: &Model,
    policy: &PolicyId,
    node: Option<&NodeId>,
    now: Timestamp,
) -> Option<Standing> {
    let Some(facts) = model.policy(policy) else {
        // Instances that ran when it was deleted stop.
        let mut left = model.workload_units_of(policy).flat_map(|(_, unit)| unfinished(unit));
        return left.next().map(|_| Standing { avail: Avail::Up, is_changing: true });
    };
    let wanted: Vec<&UnitRecord> =
        model.workload_units_of(policy).map(|(_, unit)| unit).filter(|unit| unit.is_wanted).collect();
    let is_there = |task: &&Task| node.is_none() || task.node.as_ref() == node;
    let is_orchestrated = facts.orchestration.document.is_some();
    let is_changing = if is_orchestrated {
        wanted.iter().any(|unit| {
            unit.dependency_waits().next().is_some()
                || unfinished(unit).filter(is_there).any(|task| is_transition(unit, task, now))
        })
    } else {
        let mut live = model.agreements_of(policy).filter(|one| node.is_none_or(|node| one.node == *node));
        live.any(|agreement| is_starting(model, agreement, now))
    };
    let avail = match node {
        None => observed_status_of(model, policy, &Window::default(), now)?.avail,
        Some(node) if is_orchestrated => {
            let source = Source::new(model, policy, now)?;
            let holding = wanted.iter().find(|unit| unit.table.number(node).is_some());
            holding.map_or(Avail::Down, |unit| source.avail_on(unit, node))
        }
        Some(node) => agreements::avail(model, node, model.live_agreement(node, policy), now),
    };
    Some(Standing { avail, is_changing })
}

/// Returns the states of the agreements of a service on a node, those of one policy apart.
pub fn standing_of_service(
    model: &Model,
    service: &ServiceKey,
    node: &NodeId,
    but: &PolicyId,
    now: Timestamp,
) -> Standing {
    let is_meant = |one: &&Agreement| one.service_key == *service && one.policy != *but;
    let live: Vec<&Agreement> = model.live_on(node).filter(is_meant).collect();
    let is_up = live.iter().any(|one| model.observed(one, now) == Observed::Running);
    let is_changing = live.iter().any(|one| is_starting(model, one, now));
    Standing { avail: if is_up { Avail::Up } else { Avail::Down }, is_changing }
}

fn is_starting(model: &Model, agreement: &Agreement, now: Timestamp) -> bool {
    model.liveness(&agreement.node, now) == Liveness::Alive
        && model.observed(agreement, now) != Observed::Running
}

/// Remainder of a workload whose policy was deleted.
#[derive(Debug, Clone, Copy)]
pub struct Removal<'a> {
    /// Instances that are still to stop.
    pub unfinished: usize,
    /// The reason for which the first of them waits.
    pub waits_for: Option<&'a Blocked>,
}

/// Returns what is left of a workload whose policy was deleted; none of other policies.
///
/// # Source
/// Orchestration A6.10, A8.4.
pub fn removal_of<'a>(model: &'a Model, policy: &'a PolicyId) -> Option<Removal<'a>> {
    model.workload(policy).filter(|_| model.policy(policy).is_none())?;
    let unfinished = model.workload_units_of(policy).flat_map(|(_, unit)| unfinished(unit)).count();
    Some(Removal { unfinished, waits_for: model.waits_for(policy) })
}

impl fmt::Display for Removal<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unfinished, waits_for } = self;
        write!(formatter, "the policy was deleted, and {unfinished} of its instances are still to stop")?;
        waits_for.map_or(Ok(()), |blocked| write!(formatter, ": {blocked}"))
    }
}

fn unfinished(unit: &UnitRecord) -> impl Iterator<Item = &Task> {
    unit.slots.values().flat_map(SlotTasks::iter).filter(|task| !task.is_stopped())
}

/// Returns true if a task starts or stops on a node that would report it.
fn is_transition(unit: &UnitRecord, task: &Task, now: Timestamp) -> bool {
    let row = task.node.as_ref().and_then(|node| unit.table.find(node));
    if row.is_none_or(|row| row.state != NodeState::Ready) {
        return false;
    }
    let is_ready = task.desired == DesiredState::Ready && now < task.start_at;
    !task.is_wanted() || !task.is_running() && !is_ready
}
