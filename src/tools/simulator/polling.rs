//! Ends of instances that only a health policy of `NODE_STATUS_POLLING` recovers, reported before, after and in the same step as the poll.
//!
//! Asked of the settled world: each of them must be recovered. Source: orchestration C3, C6; engine 8.

use evenkeel_domain::orchestration::{HealthPolicy, RestartCondition, health_policy::DetectionType};
use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use evenkeel_planner_model::event::Event;

use super::{
    agbot,
    agent::{self, Container},
    agent_tasks,
    chaos::pick,
    invariants, task_health, workload,
    workload_chaos::choose,
    world::World,
};

/// Ends per schedule.
const ROUNDS: u32 = 3;
/// Time within which an ended instance runs again: the intervals and timeouts that are drawn, a start and the gates.
const RECOVERY_SECS: u64 = 240;

/// The arrival of the report of an end.
#[derive(Debug, Clone, Copy)]
enum Arrival {
    /// Before the poll.
    Before,
    /// In the same step: the poll and the report have one time, and the poll comes first.
    SameStepPollFirst,
    /// In the same step, and the report comes first.
    SameStepReportFirst,
    /// After the poll.
    After,
}

const ARRIVALS: [Arrival; 4] =
    [Arrival::Before, Arrival::SameStepPollFirst, Arrival::SameStepReportFirst, Arrival::After];

/// Ends instances and waits until each runs again.
pub(crate) fn check(world: &mut World) {
    if !task_health::is_drawn(world) || world.checker.violation.is_some() {
        return;
    }
    for _ in 0..ROUNDS {
        let running: Vec<(PolicyId, NodeId, AgreementId)> = polled(world);
        let Some((policy, node, agreement)) = pick(world, &running) else { return };
        let arrival = choose(world, &ARRIVALS);
        world.trace_line(format!(
            "an instance of {policy} on {node} ends; its report and the poll: {arrival:?}"
        ));
        end(world, &node, &agreement, arrival);
        world.run_until(5, |_| false);
        let is_back = world.run_until(RECOVERY_SECS, |world| {
            world.steps.is_multiple_of(16) && invariants::waiting(world).is_empty()
        });
        if !is_back && world.checker.violation.is_none() {
            let mut waiting = invariants::waiting(world);
            waiting.extend(workload::records(world));
            let waiting = waiting.join("; ");
            let what =
                format!("an ended instance of {policy} on {node} was not recovered ({arrival:?}): {waiting}");
            world.trace_line(format!("VIOLATION {what}"));
            world.checker.broke(what);
        }
        if world.checker.violation.is_some() {
            return;
        }
    }
}

/// Returns the running instances that nothing but such a policy recovers.
fn polled(world: &World) -> Vec<(PolicyId, NodeId, AgreementId)> {
    let is_polled = |policy: &PolicyId| {
        workload::workload_of(world, policy).is_some_and(|(_, workload)| {
            let health = workload.health.as_ref().filter(|health| health.enabled);
            let is_polled = |health: &&HealthPolicy| health.has_mode(DetectionType::NodeStatusPolling);
            // The others may fail for good on an instance that has ended.
            let recreates =
                |health: &HealthPolicy| health.recovery.actions.iter().any(|one| one.name == "RECREATE");
            health.filter(is_polled).is_some_and(recreates)
                && workload.restart.condition == RestartCondition::None
        })
    };
    let mut found = Vec::new();
    for (node, agent) in &world.agents {
        let running = agent.held.iter().filter(|(_, held)| held.container == Container::Running);
        let polled = running
            .filter(|(id, held)| agent_tasks::task_of(&agent.tasks, id).is_some() && is_polled(&held.policy));
        found.extend(polled.map(|(id, held)| (held.policy.clone(), node.clone(), id.clone())));
    }
    found
}

/// Ends an instance so that its report and a poll come in the drawn order.
fn end(world: &mut World, node: &NodeId, agreement: &AgreementId, arrival: Arrival) {
    let code = choose(world, &[1, 137]);
    if matches!(arrival, Arrival::SameStepPollFirst | Arrival::After) {
        poll(world);
    }
    agent_tasks::note_exit(world, node, agreement, code);
    agent::end(world, node, agreement, Some(103), &format!("it exited with {code}"));
    // One that comes after the poll is sent with the next status.
    if !matches!(arrival, Arrival::After) {
        agent_tasks::report_states(world, node);
    }
    if matches!(arrival, Arrival::SameStepReportFirst | Arrival::SameStepPollFirst) {
        read(world);
    }
    if matches!(arrival, Arrival::SameStepReportFirst) {
        poll(world);
    }
}

/// Lets every agbot reconcile what is due, without reading anything.
fn poll(world: &mut World) {
    for index in 0..world.agbots.len() {
        agbot::handle(world, index, &Event::Tick, None);
    }
}

/// Lets every agbot read what is new, in this very step.
fn read(world: &mut World) {
    for index in 0..world.agbots.len() {
        agbot::read(world, index);
    }
}
