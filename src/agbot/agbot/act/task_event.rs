//! The events of a plan: its own events and its changes of tasks; the events of a policy that loses its
//! tasks, and of an action that is over.
//!
//! Source: orchestration 1.1-6, 2.6, B3, B10, B13.

use std::collections::BTreeMap;

use evenkeel_agbot_store::event::EventRow;
use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_planner_model::plan::StoredPlan;
use evenkeel_planner_record::workload::Cause;
use evenkeel_planner_record::workload::{
    ActionEnd, DesiredState, Ending, Part, Slot, Task, TaskState, UnitId, WorkloadRecord,
};
use evenkeel_wire::exchange::time::millisecond_time;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Returns the events of a plan of `actor`; `stored`: the tasks of its slots as they were; `deleted`: those that it
/// deletes, as they were.
pub(super) fn events(
    actor: &str,
    unit_id: &UnitId,
    plan: &StoredPlan,
    stored: &[Task],
    deleted: &[Task],
) -> Vec<EventRow> {
    let log = Log { actor, unit_id, plan };
    let stored: BTreeMap<&TaskId, &Task> = stored.iter().map(|task| (&task.id, task)).collect();
    // Observations come before decisions about them, and decisions before actions.
    let (mut rows, mut done) = (Vec::new(), Vec::new());
    for task in &plan.tasks {
        let known = stored.get(&task.id).copied();
        match known {
            None => done.extend(log.created(task)),
            Some(known) if known.state.name() != task.state.name() => rows.push(log.changed(known, task)),
            Some(_) => {}
        }
        rows.extend(log.seen(known, task));
        let before = stored.values().filter(|one| one.slot == task.slot && one.generation < task.generation);
        done.extend(log.of_instance(known, task, before.max_by_key(|one| one.generation).copied()));
    }
    // A task that is no longer wanted is deleted as soon as it has stopped.
    let is_gone = |task: &&Task| task.desired == DesiredState::Remove && !task.is_stopped();
    for known in deleted.iter().filter(is_gone) {
        let stopped = Task { state: TaskState::Ended(Ending::Shutdown), ..known.clone() };
        rows.push(log.changed(known, &stopped));
        rows.extend(log.seen(Some(known), &stopped));
        done.extend(log.of_instance(Some(known), &stopped, None));
    }
    rows.extend(plan.events.iter().map(|event| {
        let mut detail = event.data.clone().unwrap_or_else(|| json!({}));
        detail["text"] = json!(event.text);
        log.row(&event.kind, event.slot.as_ref(), event.node.as_ref(), detail)
    }));
    rows.append(&mut done);
    if !plan.deleted.is_empty() {
        rows.push(log.row("task.reaped", None, None, json!({"count": plan.deleted.len()})));
    }
    rows
}

/// Returns the event of a policy that was written and that its workload follows from now on, as a whole.
pub(super) fn followed(actor: &str, at: Timestamp, workload: &WorkloadRecord) -> EventRow {
    let number = workload.versions.current.number;
    EventRow {
        happened_at: at,
        kind: "reconcile.full".to_owned(),
        ha_group: None,
        node: None,
        policy: Some(workload.policy.clone()),
        detail: json!({
            "actor": actor,
            "specVersion": number,
            "text": format!("the policy was written; all of its workload is examined, version {number} of the task spec"),
        }),
    }
}

/// Returns the event of a policy that lost its tasks and keeps its agreements.
pub(super) fn detached(actor: &str, at: Timestamp, policy: &PolicyId, tasks: &[Task]) -> EventRow {
    let kept = tasks.iter().filter(|task| task.is_live()).count();
    EventRow {
        happened_at: at,
        kind: "orchestration.removed".to_owned(),
        ha_group: None,
        node: None,
        policy: Some(policy.clone()),
        detail: json!({
            "actor": actor,
            "kept": kept,
            "text": "the policy no longer has an orchestration; its instances continue",
        }),
    }
}

/// Returns the event of an action of a user that is over.
pub(super) fn ended(at: Timestamp, policy: &PolicyId, end: &ActionEnd) -> EventRow {
    let ActionEnd { action, failure } = end;
    let text = match failure {
        Some(why) => format!("{} failed: {why}", action.name),
        None => format!("{} is done", action.name),
    };
    let mut detail = json!({
        "actor": action.actor, "action": action.name, "actionId": action.id, "workloadUnit": action.unit_name,
        "state": if failure.is_some() { "failed" } else { "done" }, "startedAt": millisecond_time(action.accepted_at), "text": text,
    });
    if let Some(members) = action.members() {
        detail["members"] = json!(members);
    }
    let kind = "orchestration.ended".to_owned();
    EventRow { happened_at: at, kind, ha_group: None, node: None, policy: Some(policy.clone()), detail }
}

struct Log<'a> {
    actor: &'a str,
    unit_id: &'a UnitId,
    plan: &'a StoredPlan,
}

impl Log<'_> {
    fn row(&self, kind: &str, slot: Option<&Slot>, node: Option<&NodeId>, detail: Value) -> EventRow {
        let mut members = Map::new();
        members.insert("actor".to_owned(), json!(self.actor));
        members.insert("workloadUnit".to_owned(), json!(self.unit_id.name()));
        members.insert("slot".to_owned(), json!(slot.map(ToString::to_string)));
        if let Value::Object(more) = detail {
            members.extend(more);
        }
        let ha_group = match &self.unit_id.part {
            Part::All => None,
            Part::Group(group) => Some(group.clone()),
        };
        EventRow {
            happened_at: self.plan.at,
            kind: kind.to_owned(),
            ha_group,
            node: node.cloned(),
            policy: Some(self.unit_id.policy.clone()),
            detail: Value::Object(members),
        }
    }

    fn of_task(&self, kind: &str, task: &Task, text: &str, more: Value) -> EventRow {
        let mut detail = Map::new();
        detail.insert("taskId".to_owned(), json!(task.id));
        detail.insert("text".to_owned(), json!(text));
        if let Value::Object(more) = more {
            detail.extend(more);
        }
        self.row(kind, Some(&task.slot), task.bound_node(), Value::Object(detail))
    }

    fn created(&self, task: &Task) -> Vec<EventRow> {
        let cause = json!(task.cause)["cause"].clone();
        let is_restart = task.cause == Cause::TaskFailed;
        let text = if is_restart { "restart" } else { cause.as_str().unwrap_or_default() };
        let more = json!({"cause": cause, "specVersion": task.spec.number});
        let created = self.of_task("task.created", task, text, more);
        let restarted =
            is_restart.then(|| self.of_task("instance.restart", task, "the task before it ended", json!({})));
        [created].into_iter().chain(restarted).collect()
    }

    /// Returns the facts about the instance on its node that a report about a task states.
    fn seen(&self, known: Option<&Task>, task: &Task) -> Vec<EventRow> {
        let had = |is_it: fn(&Task) -> bool| known.is_some_and(is_it);
        let is_up = |task: &Task| task.is_running();
        let is_down = |task: &Task| task.state == TaskState::Ended(Ending::Shutdown);
        let kinds = [
            ("instance.started", is_up(task) && !had(is_up)),
            ("instance.stopped", is_down(task) && !had(is_down)),
        ];
        let kinds = kinds.into_iter().filter(|(_, is_new)| *is_new && task.node.is_some());
        let kinds = kinds.map(|(kind, _)| self.of_task(kind, task, "", json!({})));
        let before = known.map_or(0, |known| known.restarts.count);
        let more = task.restarts.count.saturating_sub(before);
        let restarted = (more > 0).then(|| {
            let why = task.restarts.error.as_deref().unwrap_or("it completed");
            let text = format!("its node started it {more} times while it had no contact to the hub: {why}");
            let more = json!({"restarts": task.restarts.count, "latest": task.restarts.latest});
            self.of_task("instance.restart", task, &text, more)
        });
        restarted.into_iter().chain(kinds).collect()
    }

    /// Returns why an instance is to stop: the cause of the step that stops it, else that of what replaces it.
    fn cause_of_stop(&self, task: &Task) -> Option<Cause> {
        let of_slot = |one: &&Task| one.slot == task.slot && one.generation > task.generation;
        let replacement = self.plan.tasks.iter().filter(of_slot).max_by_key(|one| one.generation);
        let step = self.plan.permits.iter().map(|permit| &permit.step).find(|step| step.slot == task.slot);
        step.map(|step| step.cause).or(replacement.map(|one| one.cause))
    }

    /// Returns what is wanted now of the instance on a task's node; `before`: the task before it in the slot.
    fn of_instance(&self, known: Option<&Task>, task: &Task, before: Option<&Task>) -> Vec<EventRow> {
        let Some(node) = &task.node else { return Vec::new() };
        let is_assigned = known.is_none_or(|known| known.node.is_none());
        let left = before.and_then(|before| before.node.as_ref()).filter(|one| is_assigned && *one != node);
        let moved = left.map(|left| {
            let text = format!("from {left} to {node}");
            self.of_task("placement.move", task, &text, json!({"from": left, "to": node}))
        });
        let had = |is_it: fn(&Task) -> bool| known.is_some_and(is_it);
        let starts = |task: &Task| task.desired == DesiredState::Running && task.node.is_some();
        let stops = |task: &Task| !task.is_wanted();
        let is_over = task.state.is_ended() && !had(Task::is_running);
        let kinds = [
            ("instance.ready", task.desired == DesiredState::Ready && is_assigned),
            ("instance.start", starts(task) && !had(starts)),
        ];
        let kinds = kinds.into_iter().filter(|(_, is_new)| *is_new);
        let starting = kinds.map(|(kind, _)| self.of_task(kind, task, "", json!({})));
        let stopping = (stops(task) && !had(stops) && !is_over).then(|| {
            let cause = self.cause_of_stop(task).map(|cause| json!(cause)["cause"].clone());
            let text = cause.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            self.of_task("instance.stop", task, &text, json!({"cause": cause}))
        });
        moved.into_iter().chain(starting).chain(stopping).collect()
    }

    fn changed(&self, known: &Task, task: &Task) -> EventRow {
        let (from, to) = (known.state.name(), task.state.name());
        let more = json!({"from": from, "to": to});
        match &task.state {
            TaskState::Ended(Ending::Failed { exit_code, error }) => self.of_task(
                "task.failed",
                task,
                error,
                json!({"from": from, "to": to, "exitCode": exit_code}),
            ),
            TaskState::Ended(Ending::Rejected { error }) => self.of_task("task.failed", task, error, more),
            TaskState::Ended(Ending::Shutdown) => self.of_task("task.shutdown", task, to, more),
            TaskState::Ended(Ending::Orphaned) => self.of_task("task.orphaned", task, to, more),
            _ => self.of_task("task.state", task, to, more),
        }
    }
}
