//! Health of the tasks of a node: the node reports checks, life-cycle events and the outcomes of commands.
//!
//! Source: orchestration 1.8, C4 to C6.

use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node_task;
use evenkeel_wire::exchange::node_task::LONGEST_TEXT;
use evenkeel_wire::exchange::task_health::{
    EndedCommand, MOST_PEERS, MOST_RESTART_TIMES, NodeRestarts, PostLifecycle, PutNodeCommand, PutTaskHealth,
    TaskHealth,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::task::missing_task;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::feed::visibility::TASK_STATUS;
use crate::operation::row::{post, put};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::transaction::WriteTx;

const TAG: &str = "node task";
const HEALTH: &str = "/orgs/{organization}/nodes/{node}/tasks/{task}/health";
const LIFECYCLE: &str = "/orgs/{organization}/nodes/{node}/lifecycle";
const COMMAND: &str = "/orgs/{organization}/nodes/{node}/commands/{command}";

/// Longest name or id of an event, in bytes.
const LONGEST_NAME: usize = 256;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        put(HEALTH, "report_node_task_health", report_health)
            .doc(TAG, "Reports the outcome of a check of a task, when it has changed")
            .audit(Subject::NodeTask)
            .success("recorded"),
        post(LIFECYCLE, "report_node_lifecycle", report_lifecycle)
            .doc(TAG, "Reports a life-cycle event of a container of a task")
            .audit(Subject::NodeTask)
            .success("recorded"),
        put(COMMAND, "report_node_command", report_command)
            .doc(TAG, "Reports the outcome of a command")
            .audit(Subject::NodeTask)
            .success("recorded"),
    ]
}

type Report = Permission<right::NodeTaskReport>;
type Tx = WriteTx<right::NodeTaskReport>;

async fn report_health(
    op: Op<PartPath>,
    permission: Report,
    Body(request): Body<PutTaskHealth>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: task }, .. } = &op;
    exchange.limiter().count_task_report(org, id)?;
    require_short("message", request.message.as_deref().unwrap_or_default(), LONGEST_TEXT)?;
    require_short("checkError", request.check_error.as_deref().unwrap_or_default(), LONGEST_TEXT)?;
    if request.healthy.is_some() && request.check_error.is_some() {
        return Err(ApiError::invalid_input("checkError must not be combined with healthy"));
    }
    check_peers(&request)?;
    request.restarts.as_ref().map_or(Ok(()), check_restarts)?;
    op.write(&permission, "node_task.report_health", async |mut tx| {
        if node_task::lock(&mut tx, org, id, task).await?.is_none() {
            return Err(missing_task(org, id, task));
        }
        let health = reported(&request);
        node_task::merge_health(&mut tx, org, id, task, &health, exchange.now()).await?;
        tx.finish([node_change(org, id, TASK_STATUS, "modified")])
    })
    .await?;
    Ok(created("task health updated"))
}

fn check_peers(request: &PutTaskHealth) -> Result<(), ApiError> {
    let Some(peers) = &request.peers else {
        let is_empty =
            *request == PutTaskHealth { message: request.message.clone(), ..PutTaskHealth::default() };
        return match is_empty {
            false => Ok(()),
            true => Err(ApiError::invalid_input(
                "healthy, checkError, peers, leaseSeconds or restarts must be given",
            )),
        };
    };
    if peers.len() > MOST_PEERS {
        return Err(ApiError::invalid_input(format!("peers must not hold more than {MOST_PEERS} tasks")));
    }
    peers.keys().try_for_each(|task| require_short("peers", task, LONGEST_NAME))
}

fn check_restarts(restarts: &NodeRestarts) -> Result<(), ApiError> {
    require_short("restarts.err", restarts.err.as_deref().unwrap_or_default(), LONGEST_TEXT)?;
    if restarts.latest.len() > MOST_RESTART_TIMES {
        let rule = format!("restarts.latest must not hold more than {MOST_RESTART_TIMES} times");
        return Err(ApiError::invalid_input(rule));
    }
    match restarts.latest.iter().all(|at| at.parse::<Timestamp>().is_ok()) {
        true => Ok(()),
        false => Err(ApiError::invalid_input(
            "restarts.latest must hold ISO 8601 dates and times with their zones",
        )),
    }
}

/// Returns the members that a report replaces.
fn reported(request: &PutTaskHealth) -> Value {
    let mut health = Map::new();
    if let Some(healthy) = request.healthy {
        health.insert("healthy".to_owned(), json!(healthy));
        health.insert("message".to_owned(), json!(request.message));
        health.insert("checkError".to_owned(), Value::Null);
    }
    if let Some(error) = &request.check_error {
        // Earlier findings are no longer valid.
        health.insert("healthy".to_owned(), Value::Null);
        health.insert("message".to_owned(), Value::Null);
        health.insert("checkError".to_owned(), json!(error));
    }
    if let Some(peers) = &request.peers {
        health.insert("peers".to_owned(), json!(peers));
    }
    if let Some(seconds) = request.lease_seconds {
        health.insert("leaseSeconds".to_owned(), json!(seconds));
    }
    if let Some(restarts) = &request.restarts {
        health.insert("restarts".to_owned(), json!(restarts));
    }
    Value::Object(health)
}

async fn report_lifecycle(
    op: Op<ResourcePath>,
    permission: Report,
    Body(request): Body<PostLifecycle>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    exchange.limiter().count_task_report(org, id)?;
    check_lifecycle(&request)?;
    op.write(&permission, "node_task.report_lifecycle", async |mut tx| {
        let task = task_of(&mut tx, (org, id), &request).await?;
        let stored = node_task::lock(&mut tx, org, id, &task).await?;
        let stored = stored.ok_or_else(|| missing_task(org, id, &task))?;
        let health = read_health(&task, stored.health)?;
        let health = json!({"events": health.events + 1, "lifecycle": request});
        node_task::merge_health(&mut tx, org, id, &task, &health, exchange.now()).await?;
        tx.finish([node_change(org, id, TASK_STATUS, "modified")])
    })
    .await?;
    Ok(created("life-cycle event recorded"))
}

async fn task_of(tx: &mut Tx, (org, id): (&str, &str), event: &PostLifecycle) -> Result<String, ApiError> {
    if let Some(task) = &event.task_id {
        return Ok(task.clone());
    }
    let found = node_task::find_by(tx, (org, id), event.agreement_id.as_deref(), None).await?;
    found.ok_or_else(|| {
        let agreement = event.agreement_id.as_deref().unwrap_or_default();
        ApiError::not_found(format!("no task of node '{org}/{id}' has agreement '{agreement}'"))
    })
}

fn check_lifecycle(event: &PostLifecycle) -> Result<(), ApiError> {
    let texts = [
        ("event", Some(&event.event)),
        ("state", Some(&event.state)),
        ("instance_id", Some(&event.instance_id)),
        ("publisher", Some(&event.publisher)),
        ("agreementId", event.agreement_id.as_ref()),
        ("taskId", event.task_id.as_ref()),
    ];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        if text.is_empty() {
            return Err(ApiError::invalid_input(format!("{name} must not be empty")));
        }
        require_short(name, text, LONGEST_NAME)?;
    }
    if event.task_id.is_none() && event.agreement_id.is_none() {
        return Err(ApiError::invalid_input("taskId or agreementId is required"));
    }
    let time: Result<Timestamp, _> = event.timestamp.parse();
    time.map(drop)
        .map_err(|_| ApiError::invalid_input("timestamp must be an ISO 8601 date and time with its zone"))
}

async fn report_command(
    op: Op<PartPath>,
    permission: Report,
    Body(request): Body<PutNodeCommand>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: command }, .. } = &op;
    exchange.limiter().count_task_report(org, id)?;
    require_short("message", request.message.as_deref().unwrap_or_default(), LONGEST_TEXT)?;
    op.write(&permission, "node_task.report_command", async |mut tx| {
        let task = node_task::find_by(&mut tx, (org, id), None, Some(command)).await?;
        let task = task.ok_or_else(|| {
            ApiError::not_found(format!("command '{command}' of node '{org}/{id}' not found"))
        })?;
        let ended =
            EndedCommand { id: command.clone(), result: request.result, message: request.message.clone() };
        let health = json!({"command": ended});
        node_task::merge_health(&mut tx, org, id, &task, &health, exchange.now()).await?;
        tx.finish([node_change(org, id, TASK_STATUS, "modified")])
    })
    .await?;
    Ok(created("command updated"))
}

fn read_health(task: &str, stored: Option<Value>) -> Result<TaskHealth, ApiError> {
    let read = stored.map(serde_json::from_value).transpose();
    let read = read.map_err(|error| ApiError::internal(format!("the health of task {task}: {error}")))?;
    Ok(read.unwrap_or_default())
}

fn require_short(name: &str, text: &str, longest: usize) -> Result<(), ApiError> {
    match text.len() > longest {
        true => Err(ApiError::invalid_input(format!("{name} must not be longer than {longest} bytes"))),
        false => Ok(()),
    }
}
