//! Reports of the node to the exchange.

use std::collections::BTreeMap;

use evenkeel_client::TaskReported;
use evenkeel_wire::exchange::node::{PatchNode, RegisteredService};
use evenkeel_wire::exchange::node_part::{PutNodeErrors, PutNodeStatus};
use evenkeel_wire::exchange::task_health::{
    EndedCommand, NodeRestarts, PostLifecycle, PutNodeCommand, PutTaskHealth, TaskCheck,
};

use super::{Context, hub, text};
use crate::step::{Event, SurfaceError, TaskReport};

type Reported = Result<Option<Event>, String>;

pub(super) async fn task(context: Context, task: String, report: TaskReport) -> Reported {
    let (hub, seq) = (hub(&context)?, report.seq);
    match hub.exchange.put_node_task_status(&hub.node, &task, &report.body()).await {
        Ok(TaskReported::Refused(stored)) => Ok(Some(Event::TaskRefused { task, seq, stored })),
        Ok(TaskReported::Recorded | TaskReported::Missing) => Ok(Some(Event::TaskReported { task, seq })),
        Err(error) if error.status() == Some(400) => {
            tracing::warn!(task.id = task, %error, "the hub refuses a report about a task");
            Ok(Some(Event::TaskReported { task, seq }))
        }
        Err(error) => Err(text(error)),
    }
}

pub(super) async fn command(context: Context, task: String, ended: EndedCommand) -> Reported {
    let hub = hub(&context)?;
    let outcome = PutNodeCommand { result: ended.result, message: ended.message };
    hub.exchange.put_node_command(&hub.node, &ended.id, &outcome).await.map_err(text)?;
    Ok(Some(Event::CommandReported { task, id: ended.id }))
}

pub(super) async fn health(context: Context, task: String, health: TaskCheck) -> Reported {
    let (hub, TaskCheck { healthy, is_broken, .. }) = (hub(&context)?, health.clone());
    hub.exchange.put_node_task_health(&hub.node, &task, &health.into()).await.map_err(text)?;
    Ok(Some(Event::HealthReported { task, healthy, is_broken }))
}

pub(super) async fn peers(context: Context, task: String, peers: BTreeMap<String, bool>) -> Reported {
    let hub = hub(&context)?;
    let report = PutTaskHealth { peers: Some(peers.clone()), ..PutTaskHealth::default() };
    hub.exchange.put_node_task_health(&hub.node, &task, &report).await.map_err(text)?;
    Ok(Some(Event::PeersReported { task, peers }))
}

pub(super) async fn lease(context: Context, task: String, lease_secs: u32) -> Reported {
    let report = PutTaskHealth { lease_seconds: Some(lease_secs), ..PutTaskHealth::default() };
    extension(&context, &task, &report).await?;
    Ok(Some(Event::LeaseReported { task, lease_secs }))
}

pub(super) async fn restarts(context: Context, task: String, restarts: NodeRestarts) -> Reported {
    let count = restarts.count;
    let report = PutTaskHealth { restarts: Some(restarts), ..PutTaskHealth::default() };
    extension(&context, &task, &report).await?;
    Ok(Some(Event::RestartsReported { task, count }))
}

/// Sends a report that older hubs do not know; their refusal is ignored.
async fn extension(context: &Context, task: &str, report: &PutTaskHealth) -> Result<(), String> {
    let hub = hub(context)?;
    match hub.exchange.put_node_task_health(&hub.node, task, report).await {
        Err(error) if error.status() == Some(400) => Ok(()),
        outcome => outcome.map(drop).map_err(text),
    }
}

pub(super) async fn lifecycle(context: Context, task: String, event: Box<PostLifecycle>) -> Reported {
    let hub = hub(&context)?;
    hub.exchange.post_node_lifecycle(&hub.node, &event).await.map_err(text)?;
    Ok(Some(Event::LifecycleReported { task, event }))
}

pub(super) async fn status(context: Context, status: Box<PutNodeStatus>) -> Reported {
    hub(&context)?.put_status(&status).await.map_err(text)?;
    Ok(Some(Event::StatusReported(status)))
}

pub(super) async fn services(context: Context, services: Vec<RegisteredService>) -> Reported {
    let hub = hub(&context)?;
    let registered_services = Some(services.clone());
    let change = PatchNode { registered_services, ..PatchNode::default() };
    hub.exchange.patch_node(&hub.node, &change).await.map_err(text)?;
    Ok(Some(Event::ServicesReported(services)))
}

pub(super) async fn errors(context: Context, errors: Vec<SurfaceError>) -> Reported {
    let hub = hub(&context)?;
    let list = errors.iter().map(|error| serde_json::json!(error.record())).collect();
    hub.exchange.put_node_errors(&hub.node, &PutNodeErrors { errors: list }).await.map_err(text)?;
    Ok(Some(Event::ErrorsReported(errors)))
}
