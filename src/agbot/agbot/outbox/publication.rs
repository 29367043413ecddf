//! The publication of tasks: what nodes whose agents read tasks find in the exchange.
//!
//! Tasks of other nodes are published as well: the exchange must know of all of them to refuse another mode while there are some. A
//! task is published as it is stored when the effect is delivered, so that effects that are delivered late or twice do no harm.
//! Source: orchestration 1.8, 2.9; engine 5.

use evenkeel_agbot_store::{outbox as table, task as tasks};
use evenkeel_client::ClientError;
use evenkeel_domain::orchestration::DesiredState as Word;
use evenkeel_ids::{AgreementId, NodeId, TaskId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::workload::{DesiredState, Peer, PeerWatch, Probe, Slot, Task};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::agbot_approval::UNKNOWN_FENCING;
use evenkeel_wire::exchange::node_task::PutNodeTask;
use evenkeel_wire::exchange::task_health::{
    PeerMember, PeerWatch as WirePeerWatch, REBOOT_HOST, TaskCommand, TaskProbe, TaskRestart, TaskSupervision,
};

use super::Effect;
use crate::AgbotError;
use crate::context::Context;

/// A task to be published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Publication {
    /// Its node.
    pub node: NodeId,
    /// The task.
    pub task: TaskId,
    /// Partition of its workload unit.
    pub partition: u32,
    /// The agreement that is made for it now. The record of the task names it later, and it may have ended by then.
    pub agreement: Option<AgreementId>,
}

/// Returns the publication of a task, if it has a node.
pub(crate) fn publication(model: &Model, task: &Task) -> Option<Publication> {
    let node = task.node.as_ref()?;
    let partition = model.partition_of_unit(&task.unit_id);
    Some(Publication { node: node.clone(), task: task.id.clone(), partition, agreement: None })
}

/// Publishes tasks once the transaction has committed; the agbot that holds the partition does it.
pub(crate) async fn publish_later(
    context: &Context,
    tx: &mut PgConnection,
    partition: u32,
    publications: &[Publication],
) -> Result<(), AgbotError> {
    if publications.is_empty() {
        return Ok(());
    }
    let effect = |one: &Publication| {
        let (task, agreement) = (one.task.clone(), one.agreement.clone());
        let effect = Effect::PublishTask { task, partition: one.partition, agreement };
        Ok((one.node.clone(), one.task.as_str().to_owned(), serde_json::to_value(effect)?))
    };
    let effects = publications.iter().map(effect).collect::<Result<Vec<_>, AgbotError>>()?;
    let partition = i32::try_from(partition).unwrap_or(i32::MAX);
    table::insert_of_nodes(tx, partition, &effects, context.now()).await?;
    context.outbox.note_enqueued();
    Ok(())
}

/// Publishes a task as it is stored now.
///
/// # Errors
/// An error that may not occur later.
pub(super) async fn publish(context: &Context, one: &Publication) -> Result<(), AgbotError> {
    let Publication { node, task, partition, agreement } = one;
    let number = i32::try_from(*partition).unwrap_or(i32::MAX);
    let stored = context
        .database
        .read(async |connection| tasks::read_published(connection, task, node, number).await)
        .await?;
    let Some(stored) = stored else { return Ok(()) };
    let record: Option<Task> = stored.record.map(serde_json::from_value).transpose()?;
    let outcome = match record {
        None => context.client.delete_node_task(node, task.as_str(), stored.fencing).await.map(drop),
        Some(record) => match record.agreement.clone().or(stored.agreement).or(agreement.clone()) {
            // The node can do nothing before there is an agreement.
            None => Ok(()),
            Some(agreement) => {
                let body = body(&record, agreement.as_str(), stored.fencing);
                context.client.put_node_task(node, task.as_str(), &body).await.map(drop)
            }
        },
    };
    match outcome {
        Err(error) if is_unknown_fencing(&error) => {
            // The exchange lost the number, or it was restored: the partitions are taken under new ones, and the task is published again.
            context.outbox.refuse_leases();
            Err(error.into())
        }
        Err(error) if is_refusal(&error) => {
            tracing::debug!(
                node.id = node.as_str(),
                task.id = task.as_str(),
                error = &error as &dyn std::error::Error,
                "task not published"
            );
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}

fn is_unknown_fencing(error: &ClientError) -> bool {
    matches!(error, ClientError::Status { status: 403, code, .. } if code == UNKNOWN_FENCING)
}

/// Returns whether a repetition would be refused as well: a later state is published, the policy is no longer
/// served, or the node has too many tasks.
fn is_refusal(error: &ClientError) -> bool {
    matches!(error.status(), Some(403 | 409))
}

fn body(task: &Task, agreement: &str, fencing: i64) -> PutNodeTask {
    PutNodeTask {
        policy: task.unit_id.policy.as_str().to_owned(),
        workload_unit: task.unit_id.name().to_owned(),
        slot: match &task.slot {
            Slot::Number(number) => Some(i64::from(*number)),
            Slot::Node(_) => None,
        },
        spec_version: task.spec.number.cast_signed(),
        desired_state: word(task.desired),
        agreement_id: Some(agreement.to_owned()),
        fencing,
        supervision: supervision(task),
    }
}

/// Returns what the node does to supervise a task.
pub(crate) fn supervision(task: &Task) -> TaskSupervision {
    let wanted = &task.health.supervision;
    let probe = wanted.probe.as_deref().map(task_probe);
    let command = task.health.command().filter(|command| command.call.is_none());
    let command = command.map(|command| TaskCommand {
        id: command.id.clone(),
        op: if command.is_of_host { REBOOT_HOST.to_owned() } else { command.kind.word().to_owned() },
        hard: command.hard,
    });
    TaskSupervision {
        probe,
        lifecycle: wanted.lifecycle,
        lease_seconds: wanted.lease_secs,
        command,
        peers: wanted.peers.as_deref().map(peer_watch),
        restart: wanted.restart.map(|rule| TaskRestart {
            condition: rule.condition,
            delay_seconds: rule.delay_secs,
            max_attempts: rule.max_attempts,
            window_seconds: rule.window_secs,
            attempts: rule.attempts,
        }),
    }
}

fn peer_watch(watch: &PeerWatch) -> WirePeerWatch {
    let member = |peer: &Peer| PeerMember {
        task_id: peer.task.as_str().to_owned(),
        node: peer.node.name().to_owned(),
        address: peer.address.as_deref().map(str::to_owned),
    };
    WirePeerWatch {
        members: watch.members.iter().map(member).collect(),
        port: watch.port,
        probe: watch.probe.as_ref().map(task_probe),
        interval_seconds: watch.interval_secs,
    }
}

/// Returns a check in the form in which agents read it.
pub(crate) fn task_probe(probe: &Probe) -> TaskProbe {
    TaskProbe {
        url: probe.url.clone(),
        healthy_response: probe.healthy_response.clone(),
        ssl_verify: probe.ssl_verify,
        connection_error_is_unhealthy: probe.connection_error_is_unhealthy,
        retry_limit: probe.retry_limit,
        retry_interval_seconds: probe.retry_interval_secs,
        interval_seconds: probe.interval_secs,
        timeout_seconds: probe.timeout_secs,
    }
}

pub(crate) fn word(desired: DesiredState) -> Word {
    match desired {
        DesiredState::Ready => Word::Ready,
        DesiredState::Running => Word::Running,
        DesiredState::Shutdown => Word::Shutdown,
        DesiredState::Remove => Word::Remove,
    }
}
