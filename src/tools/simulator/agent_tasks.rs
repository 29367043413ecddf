//! Tasks on simulated agents that read them: held until they are to run, reported state by state, never restarted by the agent.
//!
//! Source: orchestration 1.8, B3.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    agent::{self, Container},
    task_health::{self, Condition, Watch},
    world::World,
};
use evenkeel_ids::{AgreementId, NodeId, TaskId};
use evenkeel_planner_record::workload::{DesiredState, Ending, ReportedHealth, Task, TaskReport, TaskState};

/// A task as the exchange has it.
#[derive(Debug, Clone)]
pub(crate) struct NodeTask {
    pub desired: DesiredState,
    pub agreement: AgreementId,
    pub report: Option<TaskReport>,
    pub watch: Watch,
    pub health: ReportedHealth,
}

/// A task as the agent has it; kept on its disk.
#[derive(Debug, Clone)]
pub(crate) struct HeldTask {
    pub agreement: AgreementId,
    pub desired: DesiredState,
    /// End of the task.
    pub end: Option<Ending>,
    /// Its health.
    pub condition: Condition,
    state: TaskState,
    seq: u64,
}

impl HeldTask {
    fn may_run(&self) -> bool {
        self.desired == DesiredState::Running && self.end.is_none() && !self.condition.is_down
    }
}

/// Publishes a task as it is stored, as the agbot's outbox does.
pub(crate) fn publish(world: &mut World, node: &NodeId, id: &TaskId) {
    let live = |task: &Task| {
        let of_task = |(_, one): &(&AgreementId, &evenkeel_planner_record::agreement::Agreement)| {
            one.is_live() && one.task.as_ref() == Some(&task.id)
        };
        let found = world.database.agreements.iter().find(of_task).map(|(id, _)| id.clone());
        task.agreement.clone().or(found)
    };
    let stored = world.database.tasks.get(id).map(|task| (task.desired, live(task), Watch::of(task)));
    let tasks = world.exchange.tasks.entry(node.clone()).or_default();
    match stored {
        None => {
            tasks.remove(id);
        }
        Some((_, None, _)) => return,
        Some((desired, Some(agreement), watch)) => {
            let known = tasks.get(id);
            if known.is_some_and(|known| known.desired > desired) {
                return;
            }
            let report = known.and_then(|known| known.report.clone());
            let health = known.map(|known| known.health.clone()).unwrap_or_default();
            tasks.insert(id.clone(), NodeTask { desired, agreement, report, watch, health });
        }
    }
    agent::read_tasks_soon(world, node);
}

/// Reads the tasks of a node from the exchange and acts on them.
pub(crate) fn read(world: &mut World, node: &NodeId) {
    let is_capable = world.exchange.nodes.get(node).is_some_and(|stored| stored.facts.is_capable);
    let Some(agent) = world.agents.get_mut(node).filter(|agent| agent.is_up && is_capable) else { return };
    let found = world.exchange.tasks.get(node).cloned().unwrap_or_default();
    let ids: BTreeSet<&TaskId> = found.keys().collect();
    agent.tasks.retain(|id, _| ids.contains(id));
    for (id, one) in &found {
        let reported = one.report.as_ref();
        let task = agent.tasks.entry(id.clone()).or_insert_with(|| HeldTask {
            agreement: one.agreement.clone(),
            desired: one.desired,
            end: None,
            condition: Condition::of(one.health.clone()),
            state: reported.map_or(TaskState::Assigned, |report| report.state.clone()),
            seq: reported.map_or(0, |report| report.seq),
        });
        task.desired = task.desired.max(one.desired);
        task.condition.watch = one.watch.clone();
    }
    let stopped: Vec<AgreementId> = agent
        .tasks
        .values()
        .filter(|task| task.desired > DesiredState::Running)
        .map(|task| task.agreement.clone())
        .collect();
    for agreement in stopped {
        agent::end(world, node, &agreement, Some(106), "its task is to stop");
    }
    let held: Vec<AgreementId> = world.agents.get(node).into_iter().flat_map(startable).collect();
    for agreement in held {
        agent::start_container(world, node, &agreement);
    }
    task_health::follow(world, node);
    report_states(world, node);
}

/// Returns the acknowledged agreements that may run and do not.
fn startable(agent: &agent::Agent) -> Vec<AgreementId> {
    let waits = |(id, held): &(&AgreementId, &agent::Held)| {
        held.is_acknowledged && held.container == Container::None && may_run(agent, id)
    };
    agent.held.iter().filter(waits).map(|(id, _)| id.clone()).collect()
}

/// Returns whether an agreement may run: it belongs to no task, or its task is to run.
pub(crate) fn may_run(agent: &agent::Agent, agreement: &AgreementId) -> bool {
    task_of(&agent.tasks, agreement).is_none_or(|id| agent.tasks[&id].may_run())
}

/// Returns the task that owns an agreement.
pub(crate) fn task_of(tasks: &BTreeMap<TaskId, HeldTask>, agreement: &AgreementId) -> Option<TaskId> {
    tasks.iter().find(|(_, task)| task.agreement == *agreement).map(|(id, _)| id.clone())
}

/// Records how the task of an agreement ends; `reason`: the number under which the node ends it, none when the hub does.
pub(crate) fn note_end(world: &mut World, node: &NodeId, agreement: &AgreementId, reason: Option<u32>) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let Some(id) = task_of(&agent.tasks, agreement) else { return };
    let Some(task) = agent.tasks.get_mut(&id) else { return };
    let error = || "it ended".to_owned();
    task.end.get_or_insert_with(|| match reason {
        None | Some(106) => Ending::Shutdown,
        Some(103) => Ending::Failed { exit_code: Some(1), error: error() },
        Some(_) if task.state.rank() >= TaskState::Starting.rank() => {
            Ending::Failed { exit_code: None, error: error() }
        }
        Some(_) => Ending::Rejected { error: error() },
    });
}

/// Records the code with which the instance of an agreement exits.
pub(crate) fn note_exit(world: &mut World, node: &NodeId, agreement: &AgreementId, code: i32) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let found = task_of(&agent.tasks, agreement).and_then(|id| agent.tasks.get_mut(&id));
    if let Some(task) = found {
        let error = format!("it exited with {code}");
        task.end.get_or_insert(Ending::Failed { exit_code: Some(code), error });
    }
}

/// Reports the tasks whose states have changed.
pub(crate) fn report_states(world: &mut World, node: &NodeId) {
    if !agent::has_contact(world, node) {
        return;
    }
    let now = world.now();
    let Some(agent) = world.agents.get_mut(node).filter(|agent| agent.is_up) else { return };
    let held = &agent.held;
    let mut is_changed = false;
    for (id, task) in &mut agent.tasks {
        let reached = match (held.get(&task.agreement), &task.end) {
            (None, Some(end)) => TaskState::Ended(end.clone()),
            (None, None) if task.desired > DesiredState::Running => TaskState::Ended(Ending::Shutdown),
            (None, None) => continue,
            (Some(one), _) => match one.container {
                Container::Running => TaskState::RUNNING,
                Container::Starting => TaskState::Starting,
                Container::None if one.is_acknowledged => TaskState::Ready,
                Container::None => TaskState::Accepted,
            },
        };
        if !task.state.may_become(&reached) {
            continue;
        }
        task.state = reached.clone();
        task.seq += 1;
        let shown = world.exchange.tasks.get_mut(node).and_then(|tasks| tasks.get_mut(id));
        if let Some(shown) = shown {
            shown.report = Some(TaskReport { node: node.clone(), state: reached, seq: task.seq, at: now });
            is_changed = true;
        }
    }
    if is_changed {
        world.exchange.note_tasks(node);
    }
}

/// Fails the tasks whose instances are gone after the machine was down: the agent starts nothing again by itself.
pub(crate) fn fail_gone(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get(node) else { return };
    let is_gone = |task: &&HeldTask| {
        let held = agent.held.get(&task.agreement);
        task.state.rank() >= TaskState::Starting.rank()
            && !task.condition.is_down
            && held.is_some_and(|held| held.container == Container::None)
    };
    let gone: Vec<AgreementId> =
        agent.tasks.values().filter(is_gone).map(|task| task.agreement.clone()).collect();
    for agreement in gone {
        agent::end(world, node, &agreement, Some(103), "it ended while the agent did not run");
    }
}
