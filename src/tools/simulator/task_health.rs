//! Health policies of workloads in schedules with faults: instances that hang, end or are paused, false alarms, checks that are lost, and
//! commands that nodes carry out or that fail.
//!
//! A part of the seeds with workloads have them. The others draw nothing here, so that their schedules stay as they are. Source:
//! orchestration C3 to C6; engine 8.

use evenkeel_ids::{AgreementId, NodeId, TaskId};
use evenkeel_planner_record::workload::{EndedCommand, LifecycleEvent, ReportedHealth, Task};
use serde_json::{Value, json};

use super::{
    agent::{self, AgentTimer, Container},
    agent_tasks::HeldTask,
    chaos::pick,
    workload_chaos::choose,
    world::{Quality, World},
};

/// Faults of instances, at most, that come with another fault.
const MOST_FAULTS: u64 = 3;
/// Share of the checks whose results never arrive.
const LOST_SHARE: f64 = 0.2;
/// Share of the faults that are those of a check and not of an instance.
const BROKEN_SHARE: f64 = 0.2;
/// Share of the policies of `NODE_STATUS_POLLING` without which nothing starts an ended instance again.
const POLLED_SHARE: f64 = 0.7;
/// Share of the commands that fail.
const FAILED_SHARE: f64 = 0.2;

/// Supervision that the hub asks a node for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    /// True if the node polls a URL.
    pub polls: bool,
    /// True if the node reports the end of the container and keeps the agreement.
    pub lifecycle: bool,
    /// The id of the command to carry out.
    pub command: Option<String>,
}

impl Watch {
    pub fn of(task: &Task) -> Self {
        let wanted = &task.health.supervision;
        let command = task.health.command().filter(|command| command.call.is_none());
        Self {
            polls: wanted.probe.is_some(),
            lifecycle: wanted.lifecycle,
            command: command.map(|command| command.id.clone()),
        }
    }
}

/// The condition of an instance on its node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Condition {
    pub watch: Watch,
    /// True if the container runs and does not respond.
    pub is_hung: bool,
    /// True if the container ended or was paused, and the hub was notified.
    pub is_down: bool,
    /// True if the first check is scheduled.
    is_planned: bool,
    /// The last command that the node began.
    command: Option<String>,
    /// The node's report.
    pub report: ReportedHealth,
}

impl Condition {
    /// Returns the condition of a task of which that was reported before.
    pub fn of(report: ReportedHealth) -> Self {
        Self { report, ..Self::default() }
    }

    /// Forgets the command that the process of the agent was carrying out when it ended.
    pub fn forget_command(&mut self) {
        self.command = self.report.command.as_ref().map(|ended| ended.id.clone());
    }

    /// Queues the report of a life-cycle event.
    fn queue_event(&mut self, event: &str) {
        self.report.events += 1;
        self.report.lifecycle = Some(LifecycleEvent {
            event: event.to_owned(),
            state: "stopped".to_owned(),
            instance_id: "c1".to_owned(),
            timestamp: String::new(),
            publisher: "agent".to_owned(),
        });
    }
}

/// Returns whether a seed draws health policies of workloads.
pub(crate) fn is_drawn(world: &World) -> bool {
    world.seed % 24 == 9 || draws_gates(world)
}

/// Returns whether a seed draws what limits recoveries as well: lost contact together with health policies, versions that run and fail their check,
/// fencing, and the pace of updates.
pub(crate) fn draws_gates(world: &World) -> bool {
    world.seed % 24 == 11
}

/// Returns whether the policies of a seed fence.
pub(crate) fn is_fencing(world: &World) -> bool {
    draws_gates(world) && (world.seed / 24).is_multiple_of(2)
}

/// Draws what limits recoveries in a document.
pub(crate) fn draw_gates(world: &mut World, document: &mut Value) {
    if !draws_gates(world) {
        return;
    }
    document["update"]["pace"] = json!(choose(world, &["monitored", "running"]));
    let recovery = &mut document["healthPolicy"]["recovery"];
    recovery["maxUnhealthyRatio"] = json!(choose(world, &[0.3, 0.5, 1.0]));
    if world.chance(0.7) {
        recovery["parallelism"] = json!(world.between(1, 2));
    }
    if is_fencing(world) {
        recovery["fencing"] = json!(["COMPUTE"]);
        recovery["node_force_recreate"] = json!(false);
    }
}

/// Draws the health policy of a workload.
pub(crate) fn draw(world: &mut World, document: &mut Value) {
    if !is_drawn(world) {
        return;
    }
    let mode = choose(world, &["NODE_STATUS_POLLING", "NODE_STATUS_POLL_URL", "LIFECYCLE_EVENTS"]);
    let is_polled = mode == "NODE_STATUS_POLLING" && world.chance(POLLED_SHARE);
    if is_polled {
        document["restart"]["condition"] = json!("none");
    }
    let mut mode = json!({"type": mode});
    if mode["type"] == "NODE_STATUS_POLL_URL" {
        mode["options"] = json!({"poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok"});
    }
    let actions: &[&str] =
        choose(world, &[&["RECREATE"], &["REBOOT", "RECREATE"], &["START"], &["REBUILD", "MIGRATE"]]);
    let actions = if is_polled { &["REBOOT", "RECREATE"][..] } else { actions };
    let actions: Vec<Value> = actions.iter().map(|name| json!({"name": name})).collect();
    document["healthPolicy"] = json!({
        "detection": {
            "interval": world.between(3, 10), "node_update_timeout": world.between(1, 6), "detection_modes": [mode],
        },
        "recovery": {
            "actions": actions, "action_timeout": world.between(3, 15), "node_delete_timeout": world.between(1, 10),
            "node_force_recreate": world.chance(0.3),
        },
    });
}

/// Sometimes instances fail, or seem to.
pub(crate) fn strike(world: &mut World) {
    if is_drawn(world) {
        for _ in 0..world.between(0, MOST_FAULTS) {
            fail_one(world);
        }
    }
}

fn fail_one(world: &mut World) {
    let watched: Vec<(NodeId, TaskId)> =
        world.agents.iter().filter(|(_, agent)| agent.is_up).flat_map(watched).collect();
    let Some((node, task)) = pick(world, &watched) else { return };
    let Some(watch) = condition(world, &node, &task).map(|condition| condition.watch.clone()) else { return };
    if watch.lifecycle {
        let event = choose(world, &["POWER_OFF", "SHUTDOWN", "PAUSE"]);
        return go_down(world, &node, &task, event);
    }
    if world.chance(BROKEN_SHARE) {
        return break_check(world, &node, &task);
    }
    let is_alarm = world.chance(0.4);
    let is_lost = world.chance(LOST_SHARE);
    let Some(condition) = condition(world, &node, &task) else { return };
    condition.is_hung = !is_alarm;
    if !is_lost {
        condition.report.healthy = Some(false);
    }
    world.trace_line(format!(
        "the instance of {} on {node} fails; alarm: {is_alarm}, lost: {is_lost}",
        task.as_str()
    ));
    let delay = world.between(0, 8_000);
    agent::schedule(world, &node, delay, AgentTimer::ReportHealth);
    if is_alarm {
        let delay = world.between(1_000, 15_000);
        agent::schedule(world, &node, delay, AgentTimer::Check { task });
    }
}

/// The check of an instance is broken for a while: nothing is known of the instance meanwhile.
fn break_check(world: &mut World, node: &NodeId, task: &TaskId) {
    let Some(condition) = condition(world, node, task) else { return };
    condition.report.healthy = None;
    condition.report.check_error = Some("the name is not known".to_owned());
    world.trace_line(format!("the check of {} on {node} is broken", task.as_str()));
    report(world, node);
    let delay = world.between(1_000, 30_000);
    agent::schedule(world, node, delay, AgentTimer::Check { task: task.clone() });
}

/// Returns the tasks of an agent that run and are supervised.
fn watched<'a>((node, agent): (&'a NodeId, &'a agent::Agent)) -> impl Iterator<Item = (NodeId, TaskId)> + 'a {
    let is_watched = |task: &HeldTask| {
        let held = agent.held.get(&task.agreement);
        let runs = held.is_some_and(|held| held.container == Container::Running);
        runs && task.end.is_none() && (task.condition.watch.lifecycle || task.condition.watch.polls)
    };
    agent.tasks.iter().filter(move |(_, task)| is_watched(task)).map(|(id, _)| (node.clone(), id.clone()))
}

fn condition<'w>(world: &'w mut World, node: &NodeId, task: &TaskId) -> Option<&'w mut Condition> {
    Some(&mut world.agents.get_mut(node)?.tasks.get_mut(task)?.condition)
}

/// The container of a task ends or is paused, and the node reports that.
fn go_down(world: &mut World, node: &NodeId, task: &TaskId, event: &str) {
    set_container(world, node, task, Container::None);
    let Some(condition) = condition(world, node, task) else { return };
    condition.is_down = true;
    condition.queue_event(event);
    world.trace_line(format!("the instance of {} on {node} goes down: {event}", task.as_str()));
    let delay = world.between(100, 3_000);
    agent::schedule(world, node, delay, AgentTimer::ReportHealth);
}

fn set_container(world: &mut World, node: &NodeId, task: &TaskId, container: Container) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let Some(agreement) = agent.tasks.get(task).map(|task| task.agreement.clone()) else { return };
    let Some(held) = agent.held.get_mut(&agreement) else { return };
    let was_running = std::mem::replace(&mut held.container, container) == Container::Running;
    if was_running && container != Container::Running {
        let service = held.service.clone();
        world.checker.note_unplanned(world.millis, node, &service);
    }
}

/// Returns whether the version of a task runs and fails its check.
fn fails_check(world: &World, node: &NodeId, task: &TaskId) -> bool {
    let held = world.agents.get(node).and_then(|agent| agent.held.get(&agent.tasks.get(task)?.agreement));
    held.is_some_and(|held| {
        let key = (held.service.clone(), held.version.clone());
        world.quality.get(&key) == Some(&Quality::FailsCheck)
    })
}

/// Checks a task: one that does not hang is healthy, whatever was reported.
pub(crate) fn check(world: &mut World, node: &NodeId, task: &TaskId) {
    let is_bad = fails_check(world, node, task);
    let Some(condition) = condition(world, node, task) else { return };
    let is_healthy = !condition.is_hung && !is_bad;
    condition.report.healthy = Some(is_healthy);
    condition.report.check_error = None;
    if !is_healthy && is_updated(world, task) {
        world.trace_line(format!("the check of {} on {node} fails during an update", task.as_str()));
    }
    report(world, node);
}

/// Returns whether the workload of a task is being updated.
fn is_updated(world: &World, task: &TaskId) -> bool {
    let record =
        world.database.tasks.get(task).and_then(|task| world.database.workloads.get(&task.unit_id.policy));
    record.is_some_and(|record| record.update.is_rolling())
}

/// Begins the commands that were read, and ends tasks that are down and left to the restart policy.
pub(crate) fn follow(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let (mut begun, mut left): (Vec<(TaskId, String)>, Vec<AgreementId>) = (Vec::new(), Vec::new());
    let mut new = Vec::new();
    for (id, task) in &mut agent.tasks {
        let condition = &mut task.condition;
        if condition.watch.polls && !std::mem::replace(&mut condition.is_planned, true) {
            new.push(id.clone());
        }
        if let Some(command) = condition.watch.command.clone()
            && condition.command.as_ref() != Some(&command)
        {
            condition.command = Some(command.clone());
            begun.push((id.clone(), command));
        } else if condition.is_down && !condition.watch.lifecycle && task.end.is_none() {
            left.push(task.agreement.clone());
        }
    }
    for task in new {
        let delay = world.between(500, 5_000);
        agent::schedule(world, node, delay, AgentTimer::Check { task });
    }
    for (task, command) in begun {
        let delay = world.between(200, 4_000);
        agent::schedule(world, node, delay, AgentTimer::Command { task, command });
    }
    for agreement in left {
        agent::end(world, node, &agreement, Some(103), "nothing recovers it");
    }
}

/// Carries a command out: the container is restarted and healthy, or the command fails.
pub(crate) fn carry_out(world: &mut World, node: &NodeId, task: &TaskId, id: &str) {
    let is_held = world.agents.get(node).and_then(|agent| {
        let task = agent.tasks.get(task).filter(|task| task.end.is_none())?;
        agent.held.get(&task.agreement)
    });
    let can = is_held.is_some_and(|held| held.container != Container::Starting);
    let is_ok = can && (world.is_repaired || !world.chance(FAILED_SHARE));
    let is_bad = fails_check(world, node, task);
    if is_ok {
        set_container(world, node, task, Container::Running);
    }
    let Some(condition) = condition(world, node, task) else { return };
    let message = (!is_ok).then(|| "it failed".to_owned());
    condition.report.command = Some(EndedCommand { id: id.to_owned(), is_ok, message });
    if is_ok {
        condition.is_hung = false;
        if condition.watch.polls && condition.report.check_error.is_none() {
            condition.report.healthy = Some(!is_bad);
        }
        if std::mem::take(&mut condition.is_down) {
            condition.queue_event("POWER_ON");
        }
    }
    world.trace_line(format!("{node} carries out {id}: {is_ok}"));
    report(world, node);
}

/// Reports the health of the tasks of a node that has changed.
pub(crate) fn report(world: &mut World, node: &NodeId) {
    if !agent::has_contact(world, node) {
        return;
    }
    let Some(agent) = world.agents.get(node).filter(|agent| agent.is_up) else { return };
    let Some(shown) = world.exchange.tasks.get_mut(node) else { return };
    let mut is_changed = false;
    for (id, task) in &agent.tasks {
        if let Some(shown) = shown.get_mut(id).filter(|shown| shown.health != task.condition.report) {
            shown.health.clone_from(&task.condition.report);
            is_changed = true;
        }
    }
    if is_changed {
        world.exchange.note_tasks(node);
    }
}

/// From now on no instance hangs, and all checks are made. Instances that are down stay down until the hub
/// recovers them.
pub(crate) fn repair(world: &mut World) {
    if !is_drawn(world) {
        return;
    }
    let nodes: Vec<NodeId> = world.agents.keys().cloned().collect();
    for node in nodes {
        let tasks: Vec<TaskId> =
            world.agents.get(&node).into_iter().flat_map(|agent| agent.tasks.keys().cloned()).collect();
        for task in tasks {
            let is_bad = fails_check(world, &node, &task);
            let Some(condition) = condition(world, &node, &task) else { continue };
            condition.is_hung = false;
            condition.report.check_error = None;
            if condition.watch.polls {
                condition.report.healthy = Some(!is_bad);
            }
        }
        report(world, &node);
    }
}
