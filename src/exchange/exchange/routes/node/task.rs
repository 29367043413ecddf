//! Tasks of a node: agbots publish what is wanted of them, the node reads that and reports their states.
//!
//! Source: orchestration 1.8, 2.9, B3; engine 5.

use axum::Json;
use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_api::{MAX_ID, NoContent};
use evenkeel_domain::orchestration::{DesiredState, TaskState};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node_limit::lock_node_parts;
use evenkeel_exchange_store::node_task::{self, NodeTaskRow, ReportedTask, WantedTask};
use evenkeel_exchange_store::{agbot_approval, agreement, fencing};
use evenkeel_ids::{AgbotId, NodeId, PolicyId};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::node_task::{
    FencingQuery, NodeTask, NodeTasksResponse, PutNodeTask, PutNodeTaskStatus, TaskConflict,
};
use evenkeel_wire::exchange::task_health::{NodeCommand, TaskSupervision};
use evenkeel_wire::exchange::time::millisecond_time;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::missing_node;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::feed::visibility::{TASK_STATUS, TASKS};
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};

const TAG: &str = "node task";
const ALL: &str = "/orgs/{organization}/nodes/{node}/tasks";
const ONE: &str = "/orgs/{organization}/nodes/{node}/tasks/{task}";
const STATUS: &str = "/orgs/{organization}/nodes/{node}/tasks/{task}/status";

/// Longest supervision of a task, in bytes.
const LONGEST_SUPERVISION: usize = 16 * 1024;

/// Maximum number of tasks of a node, ended ones included.
const MOST_TASKS: i64 = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_node_tasks", list_tasks)
            .doc(TAG, "Lists the tasks of a node with their desired and reported states")
            .success("the tasks"),
        put(ONE, "replace_node_task", replace_task)
            .doc(TAG, "Publishes the desired state of a task; a repeated request changes nothing")
            .audit(Subject::NodeTask)
            .success("published")
            .response::<TaskConflict>(409, "the stored task does not allow it"),
        delete(ONE, "delete_node_task", delete_task)
            .doc(TAG, "Removes a task")
            .audit(Subject::NodeTask)
            .success("removed")
            .response::<TaskConflict>(409, "the stored task was written under a later lease"),
        put(STATUS, "report_node_task", report_task)
            .doc(TAG, "Reports the state of a task; states and sequence numbers only grow")
            .audit(Subject::NodeTask)
            .success("recorded")
            .response::<TaskConflict>(409, "the report is old, or would revert the state"),
    ]
}

async fn list_tasks(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeTasksResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let rows = exchange
        .database()
        .read(async |connection| node_task::list_of_node(connection, &org, &id, MOST_TASKS).await)
        .await?;
    let tasks: Vec<NodeTask> = rows.into_iter().map(shown_task).collect::<Result<_, _>>()?;
    let commands = tasks.iter().filter_map(open_command).collect();
    Ok(Json(NodeTasksResponse { tasks, commands }))
}

/// Returns the command of a task that has not ended.
fn open_command(task: &NodeTask) -> Option<NodeCommand> {
    let command = task.supervision.command.as_ref()?;
    let ended = task.health.as_ref().and_then(|health| health.command.as_ref());
    ended.is_none_or(|ended| ended.id != command.id).then(|| NodeCommand {
        id: command.id.clone(),
        op: command.op.clone(),
        task_id: task.task_id.clone(),
        params: json!({"type": if command.hard { "HARD" } else { "SOFT" }}),
    })
}

fn shown_task(row: NodeTaskRow) -> Result<NodeTask, ApiError> {
    let NodeTaskRow { task, wanted, reported, health, agbot, updated_at } = row;
    let unreadable = |error| ApiError::internal(format!("the supervision of task {task}: {error}"));
    let supervision = wanted.supervision.map(serde_json::from_value).transpose().map_err(unreadable)?;
    let health = health.map(serde_json::from_value).transpose().map_err(unreadable)?;
    Ok(NodeTask {
        task_id: task,
        policy: wanted.policy,
        workload_unit: wanted.workload_unit,
        slot: wanted.slot,
        spec_version: wanted.spec_version,
        desired_state: DesiredState::of_word(&wanted.desired).unwrap_or_default(),
        agreement_id: wanted.agreement,
        fencing: wanted.fencing,
        agbot,
        supervision: supervision.unwrap_or_default(),
        health,
        state: TaskState::of_word(&reported.state).unwrap_or_default(),
        seq: reported.seq,
        at: reported.reported_at.map(millisecond_time),
        message: reported.message,
        err: reported.error,
        exit_code: reported.exit_code,
        last_updated: millisecond_time(updated_at),
    })
}

async fn replace_task(
    op: Op<PartPath>,
    permission: Permission<right::NodeTaskPublish>,
    Body(request): Body<PutNodeTask>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: PartPath { org, id, part: task }, ..
    } = &op;
    let wanted = wanted_task(request)?;
    op.write(&permission, "node_task.replace", async |mut tx| {
        if !lock_node_parts(&mut tx, org, id).await? {
            return Err(missing_node(org, id));
        }
        check_server(&mut tx, caller, &wanted.policy, org).await?;
        let stored = node_task::lock(&mut tx, org, id, task).await?;
        if let Some(stored) = &stored {
            check_publisher(&mut tx, caller, stored).await?;
        }
        check_publication(&mut tx, caller, (org, id), &wanted, stored.as_ref()).await?;
        match &stored {
            Some(stored) if stored.wanted == wanted => return tx.finish([]),
            Some(stored) => check_replacement(stored, &wanted)?,
            None if node_task::count_of_node(&mut tx, org, id).await? >= MOST_TASKS => {
                return Err(ApiError::access_denied(format!("a node may have {MOST_TASKS} tasks, no more")));
            }
            None => {}
        }
        let agbot = (caller.role == Role::Agbot).then(|| caller.to_string());
        node_task::upsert(&mut tx, (org, id), task, &wanted, agbot.as_deref(), exchange.now()).await?;
        tx.finish([node_change(org, id, TASKS, "created/modified")])
    })
    .await?;
    Ok(created(format!("task '{task}' of node '{org}/{id}' added or updated")))
}

fn wanted_task(request: PutNodeTask) -> Result<WantedTask, ApiError> {
    let texts = [
        ("policy", Some(&request.policy)),
        ("unit", Some(&request.workload_unit)),
        ("agreementId", request.agreement_id.as_ref()),
    ];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        if text.is_empty() || text.len() > MAX_ID {
            return Err(ApiError::invalid_input(format!("{name} must have 1 to {MAX_ID} bytes")));
        }
    }
    if request.policy.parse::<PolicyId>().is_err() {
        return Err(ApiError::invalid_input("policy must have the form org/policy"));
    }
    let numbers = [
        ("slot", request.slot.unwrap_or_default()),
        ("specVersion", request.spec_version),
        ("fencing", request.fencing),
    ];
    if let Some((name, _)) = numbers.into_iter().find(|(_, number)| *number < 0) {
        return Err(ApiError::invalid_input(format!("{name} must not be negative")));
    }
    Ok(WantedTask {
        policy: request.policy,
        workload_unit: request.workload_unit,
        slot: request.slot,
        spec_version: request.spec_version,
        desired: request.desired_state.word().to_owned(),
        agreement: request.agreement_id,
        fencing: request.fencing,
        supervision: supervision(&request.supervision)?,
    })
}

fn supervision(given: &TaskSupervision) -> Result<Option<Value>, ApiError> {
    let document = json!(given);
    if document.to_string().len() > LONGEST_SUPERVISION {
        let rule = format!("supervision must not be longer than {LONGEST_SUPERVISION} bytes");
        return Err(ApiError::invalid_input(rule));
    }
    Ok((!given.is_empty()).then_some(document))
}

/// Only an agbot that serves the policy to the nodes of the organization decides about its tasks.
async fn check_server(
    connection: &mut PgConnection,
    caller: &Caller,
    policy: &str,
    node_org: &str,
) -> Result<(), ApiError> {
    let id = PolicyId::from_text(policy);
    let agbot = (caller.org.as_str(), caller.id.as_str());
    if caller.role == Role::Agbot
        && !node_task::is_served(connection, agbot, (id.org(), id.name()), node_org).await?
    {
        return Err(ApiError::access_denied(format!(
            "'{caller}' does not serve deployment policy '{policy}'"
        )));
    }
    Ok(())
}

/// A task belongs to the agbot that published it for as long as that agbot exists.
async fn check_publisher(
    connection: &mut PgConnection,
    caller: &Caller,
    stored: &NodeTaskRow,
) -> Result<(), ApiError> {
    let Some(publisher) = stored.agbot.as_deref().filter(|_| caller.role == Role::Agbot) else {
        return Ok(());
    };
    let id = AgbotId::from_text(publisher);
    if publisher == caller.to_string()
        || agbot_approval::find(connection, id.org(), id.name()).await?.is_none()
    {
        return Ok(());
    }
    Err(ApiError::access_denied(format!("task '{}' was published by agbot '{publisher}'", stored.task)))
}

/// An agbot publishes under a number that its leases were given, and names only agreements that it recorded with the node: the node ends
/// those that its tasks name.
async fn check_publication(
    connection: &mut PgConnection,
    caller: &Caller,
    (org, node): (&str, &str),
    wanted: &WantedTask,
    stored: Option<&NodeTaskRow>,
) -> Result<(), ApiError> {
    if caller.role != Role::Agbot {
        return Ok(());
    }
    let agbot = (caller.org.as_str(), caller.id.as_str());
    check_fencing(connection, caller, wanted.fencing).await?;
    let is_stored = stored.is_some_and(|stored| stored.wanted.agreement == wanted.agreement);
    let Some(agreement) = wanted.agreement.as_deref().filter(|_| !is_stored) else { return Ok(()) };
    let node = NodeId::new(org, node);
    if agreement::is_of_agbot(connection, agbot, agreement, &node).await? {
        return Ok(());
    }
    Err(ApiError::access_denied(format!(
        "agreementId: '{caller}' has recorded no agreement '{agreement}' with node '{node}'"
    )))
}

async fn check_fencing(connection: &mut PgConnection, caller: &Caller, number: i64) -> Result<(), ApiError> {
    let agbot = (caller.org.as_str(), caller.id.as_str());
    if caller.role != Role::Agbot || fencing::is_given(connection, agbot, number).await? {
        return Ok(());
    }
    Err(ApiError::unknown_fencing(format!(
        "fencing: number {number} was not given to '{caller}': agbots ask for one with POST \
         /orgs/{}/agbots/{}/fencing",
        caller.org, caller.id
    )))
}

/// Rejects changes to the identity of a task, a lower desired generation, and a lease older than the last
/// one.
fn check_replacement(stored: &NodeTaskRow, wanted: &WantedTask) -> Result<(), ApiError> {
    let identity =
        |task: &WantedTask| (task.policy.clone(), task.workload_unit.clone(), task.slot, task.spec_version);
    let desired = |task: &WantedTask| DesiredState::of_word(&task.desired).unwrap_or_default();
    let refusal = if wanted.fencing < stored.wanted.fencing {
        "was written under a later lease"
    } else if identity(wanted) != identity(&stored.wanted) {
        "belongs to another policy, unit, slot or version"
    } else if desired(wanted) < desired(&stored.wanted) {
        "cannot go back to an earlier desired state"
    } else {
        return Ok(());
    };
    Err(conflict(stored, refusal))
}

async fn delete_task(
    op: Op<PartPath, Query<FencingQuery>>,
    permission: Permission<right::NodeTaskPublish>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { caller, .. },
        path: PartPath { org, id, part: task },
        parameters: Query(query),
    } = &op;
    op.write(&permission, "node_task.delete", async |mut tx| {
        let Some(stored) = node_task::lock(&mut tx, org, id, task).await? else {
            return Err(missing_task(org, id, task));
        };
        check_server(&mut tx, caller, &stored.wanted.policy, org).await?;
        check_publisher(&mut tx, caller, &stored).await?;
        check_fencing(&mut tx, caller, query.fencing).await?;
        if query.fencing < stored.wanted.fencing {
            return Err(conflict(&stored, "was written under a later lease"));
        }
        node_task::delete(&mut tx, org, id, task).await?;
        tx.finish([node_change(org, id, TASKS, "deleted")])
    })
    .await?;
    Ok(NoContent)
}

async fn report_task(
    op: Op<PartPath>,
    permission: Permission<right::NodeTaskReport>,
    Body(request): Body<PutNodeTaskStatus>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: task }, .. } = &op;
    exchange.limiter().count_task_report(org, id)?;
    let report = reported_task(request)?;
    op.write(&permission, "node_task.report", async |mut tx| {
        let Some(stored) = node_task::lock(&mut tx, org, id, task).await? else {
            return Err(missing_task(org, id, task));
        };
        check_report(&stored, &report)?;
        node_task::update_report(&mut tx, org, id, task, &report, exchange.now()).await?;
        tx.finish([node_change(org, id, TASK_STATUS, "modified")])
    })
    .await?;
    Ok(created("task status updated"))
}

/// The containers of a report are not stored: the status of the node has those that run.
fn reported_task(request: PutNodeTaskStatus) -> Result<ReportedTask, ApiError> {
    let PutNodeTaskStatus { state, seq, at, message, err, exit_code, containers: _ } = request;
    let at: Timestamp = at
        .parse()
        .map_err(|_| ApiError::invalid_input("at must be an ISO 8601 date and time with its zone"))?;
    Ok(ReportedTask {
        state: state.word().to_owned(),
        seq,
        reported_at: Some(at),
        message,
        error: err,
        exit_code,
    })
}

fn check_report(stored: &NodeTaskRow, report: &ReportedTask) -> Result<(), ApiError> {
    let state = |word: &str| TaskState::of_word(word).unwrap_or_default();
    if report.seq <= stored.reported.seq {
        return Err(conflict(stored, "has a newer report"));
    }
    if !state(&stored.reported.state).may_become(state(&report.state)) {
        return Err(conflict(stored, "cannot go back to an earlier state"));
    }
    Ok(())
}

pub(super) fn missing_task(org: &str, node: &str, task: &str) -> ApiError {
    ApiError::not_found(format!("task '{task}' of node '{org}/{node}' not found"))
}

/// 409 with the stored state, from which the caller learns what it has missed.
fn conflict(stored: &NodeTaskRow, refusal: &str) -> ApiError {
    let NodeTaskRow { task, wanted, reported, .. } = stored;
    let body = TaskConflict {
        code: "conflict".to_owned(),
        msg: format!("task '{task}' {refusal}"),
        state: TaskState::of_word(&reported.state).unwrap_or_default(),
        seq: reported.seq,
        desired_state: DesiredState::of_word(&wanted.desired).unwrap_or_default(),
        fencing: wanted.fencing,
    };
    ApiError::Body(StatusCode::CONFLICT, json!(body))
}
