//! Reads what nodes report about their tasks, and compares what is published of them with what is stored.
//!
//! Source: orchestration 1.8, 2.9, B3; engine 5.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_domain::orchestration::TaskState as Word;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::workload::{
    EndedCommand, Ending, LifecycleEvent, NodeRestarts, Part, ReportedHealth, Task, TaskReport, TaskState,
    UnitId,
};
use evenkeel_wire::exchange::node_task::NodeTask;
use evenkeel_wire::exchange::task_health::{CommandResult, NodeRestarts as WireRestarts, TaskHealth};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::facts::instant;
use super::full;
use crate::AgbotError;
use crate::context::{Context, EngineHandle};
use crate::outbox::{Publication, publication, publish_later, supervision, word};

/// Concurrent requests of a comparison.
const PARALLEL: usize = 16;

/// Reads what a node reports about its tasks.
///
/// # Errors
/// When the exchange does not respond.
pub async fn reported(context: &Context, node: &NodeId) -> Result<Vec<Event>, ClientError> {
    let found = context.client.list_node_tasks(node).await?.unwrap_or_default();
    Ok(vec![reports(node, found)])
}

/// Reads the tasks of these of the capable nodes that have some, and publishes those that are not published as they are stored.
///
/// # Errors
/// When the exchange or the database does not respond.
pub async fn compare(context: &Context, is_wanted: impl Fn(&NodeId) -> bool) -> Result<(), AgbotError> {
    context.events_applied().await;
    let mut nodes: BTreeSet<NodeId> = context.model().nodes_that_report_tasks();
    nodes.retain(is_wanted);
    stream::iter(nodes)
        .map(|node| async move { compare_one(context, &node).await })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await
}

/// See [`compare`]; of one node.
pub async fn compare_one(context: &Context, node: &NodeId) -> Result<(), AgbotError> {
    match compare_node(context, node).await {
        Err(AgbotError::Exchange(error)) => Ok(full::note_failed(context, node.org(), error).await?),
        outcome => outcome,
    }
}

async fn compare_node(context: &Context, node: &NodeId) -> Result<(), AgbotError> {
    let found = context.client.list_node_tasks(node).await?.unwrap_or_default();
    let wrong = wrong_publications(&context.model(), node, &found);
    context.send_events(vec![reports(node, found)]).await;
    publish(context, wrong).await
}

/// Returns the node of an event that its agent reads tasks from now on.
pub fn newly_capable(engine: &EngineHandle, events: &[Event]) -> Option<NodeId> {
    let model = engine.model();
    events.iter().find_map(|event| match event {
        Event::NodeChanged { node } if node.is_capable && !model.is_capable(&node.id) => {
            Some(node.id.clone())
        }
        _ => None,
    })
}

async fn publish(context: &Context, publications: Vec<Publication>) -> Result<(), AgbotError> {
    if publications.is_empty() {
        return Ok(());
    }
    let _command = context.outbox.begin_command();
    let mut tx = context.database.begin().await?;
    for one in publications {
        publish_later(context, &mut tx, one.partition, &[one]).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Returns the tasks of a node whose records in the exchange differ from the stored ones, and those that are
/// no longer stored.
fn wrong_publications(model: &Model, node: &NodeId, found: &[NodeTask]) -> Vec<Publication> {
    let is_shown = |task: &Task| {
        found.iter().any(|one| {
            one.task_id == task.id.as_str()
                && one.desired_state == word(task.desired)
                && one.supervision == supervision(task)
                && one.agreement_id.as_deref() == task.agreement.as_ref().map(AgreementId::as_str)
        })
    };
    let open = model.tasks_of(node).filter(|task| !task.state.is_ended() && task.agreement.is_some());
    let changed = open.filter(|task| !is_shown(task)).filter_map(|task| publication(model, task));
    let gone = found.iter().filter_map(|one| {
        let (task, policy) = (TaskId::from_text(&one.task_id), PolicyId::from_text(&one.policy));
        if model.task(&task).is_some() || model.policy(&policy).is_none() {
            return None;
        }
        let part = match one.workload_unit.as_str() {
            "all" => Part::All,
            group => Part::Group(GroupId::new(node.org(), group)),
        };
        let partition = model.partition_of_unit(&UnitId { policy, part });
        Some(Publication { node: node.clone(), task, partition, agreement: None })
    });
    changed.chain(gone).collect()
}

fn reports(node: &NodeId, found: Vec<NodeTask>) -> Event {
    let known =
        |task: &NodeTask| Some((TaskId::from_text(&task.task_id), reported_health(task.health.clone()?)));
    let health: BTreeMap<TaskId, ReportedHealth> = found.iter().filter_map(known).collect();
    let report = |task: NodeTask| {
        let id = TaskId::from_text(&task.task_id);
        let at = task.at.as_deref().or(Some(task.last_updated.as_str())).and_then(instant)?;
        let seq = task.seq.unsigned_abs();
        Some((id, TaskReport { node: node.clone(), state: state(task)?, seq, at }))
    };
    let tasks: BTreeMap<TaskId, TaskReport> = found.into_iter().filter_map(report).collect();
    Event::NodeTasksChanged { node: node.clone(), tasks, health }
}

fn reported_health(found: TaskHealth) -> ReportedHealth {
    let TaskHealth {
        healthy,
        message,
        check_error,
        peers,
        lease_seconds: lease_secs,
        restarts,
        events,
        lifecycle,
        command,
    } = found;
    let lifecycle = lifecycle.map(|event| LifecycleEvent {
        event: event.event,
        state: event.state,
        instance_id: event.instance_id,
        timestamp: event.timestamp,
        publisher: event.publisher,
    });
    let command = command.map(|command| EndedCommand {
        id: command.id,
        is_ok: command.result == CommandResult::Ok,
        message: command.message,
    });
    let peers = peers.into_iter().map(|(task, is_online)| (TaskId::from_text(&task), is_online)).collect();
    ReportedHealth {
        healthy,
        message,
        check_error,
        events,
        lifecycle,
        command,
        peers,
        lease_secs,
        restarts: restarts.map(node_restarts).unwrap_or_default(),
        ..ReportedHealth::default()
    }
}

fn node_restarts(found: WireRestarts) -> NodeRestarts {
    let latest = found.latest.iter().filter_map(|at| instant(at)).collect();
    NodeRestarts { count: found.count, latest, error: found.err }
}

/// Returns the reported state; none before the first report.
fn state(task: NodeTask) -> Option<TaskState> {
    let error = task.err.unwrap_or_default();
    Some(match task.state {
        Word::Assigned => return None,
        Word::Accepted => TaskState::Accepted,
        Word::Preparing => TaskState::Preparing,
        Word::Ready => TaskState::Ready,
        Word::Starting => TaskState::Starting,
        Word::Running => TaskState::RUNNING,
        Word::Complete => TaskState::Ended(Ending::Complete),
        Word::Shutdown => TaskState::Ended(Ending::Shutdown),
        Word::Failed => TaskState::Ended(Ending::Failed { exit_code: task.exit_code, error }),
        Word::Rejected => TaskState::Ended(Ending::Rejected { error }),
    })
}
