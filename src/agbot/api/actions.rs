//! Actions of users on deployment policies: start, stop, freeze, thaw, clear, pause, resume, rollback.
//!
//! Each is one transaction on the rows that every agbot follows. Its events are its record: the newest one that names its id says how far
//! it is. Source: orchestration 1.8, A6, A11, A12, B12.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::Request;
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::workload as workloads;
use evenkeel_api::{Accepted, Content};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_domain::orchestration::object::Object;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::rolling::action::{Asker, RolloutAction};
use evenkeel_planner::status::{Window, status_of};
use evenkeel_planner::workload::{Instance, SlotTasks, Task, Workload, WorkloadAction, WorkloadRecord};
use evenkeel_store::{PgConnection, retry};
use evenkeel_wire::agbot::action::{AcceptedAction, ActionRequest, ActionState};
use evenkeel_wire::agbot::rollout::ChangedRollouts;
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::administer::{self, RolloutRequest};
use super::orchestration::{node_of, unknown_part};
use super::parameters::known;
use super::permission::{Permission, right};
use super::pipeline::{Input, Op, PolicyActionPath, Refusal, read_body, unreadable};
use super::workload_shape::{Shape, time};
use crate::AgbotError;
use crate::context::Context;

/// Actions that no workload carries out, and what to do instead.
const NOT_CARRIED_OUT: [(&str, &str); 6] = [
    ("restart", "write the policy with another version, or stop and start it"),
    (
        "takeover",
        "drain the node that runs the instance, or list the wanted node first in placement.nodesOrder",
    ),
    ("giveback", "instances return by themselves when placement.onViolation is move"),
    ("switch", "drain the node that runs the instance"),
    ("abort", "no action lasts: pause the update, or stop the policy"),
    ("recover", "clear the failures with the action clear"),
];

const ACCEPTED: &str = "orchestration.accepted";
const ENDED: &str = "orchestration.ended";
const REFUSED: &str = "orchestration.refused";

impl Input for ActionRequest {
    async fn read(request: Request) -> Result<ActionRequest, Refusal> {
        let bad = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
        let body = read_body(request).await?;
        if body.is_empty() {
            return Ok(ActionRequest::default());
        }
        let value =
            serde_json::from_slice(&body).map_err(|error| bad(format!("the body is not JSON: {error}")))?;
        of_body(value).map_err(|error| bad(error.to_string()))
    }

    fn body() -> Content {
        Content::read::<ActionRequest>()
    }
}

fn of_body(value: Value) -> Result<ActionRequest, MembersError> {
    let mut object = Object::open(String::new(), value, &known(&["unit", "node", "destination", "force"]))?;
    let mut name = |member: &str| match object.text(member, evenkeel_api::MAX_ID)? {
        Some(text) if text.is_empty() || text.contains('\0') => Err(object.broken(member, "must be a name")),
        found => Ok(found),
    };
    let (workload_unit, node) = (name("unit")?, name("node")?);
    let destination = object.names("destination", 0..=1000, "nodes")?;
    Ok(ActionRequest { workload_unit, node, destination, force: object.boolean("force")? })
}

/// Carries an action out.
pub(super) async fn act_on_policy(
    op: Op<PolicyActionPath>,
    permission: Permission<right::PolicyOperate>,
    request: ActionRequest,
) -> Result<Accepted<AcceptedAction>, Refusal> {
    let Op { context, path: PolicyActionPath { organization: org, policy, action: name } } = op;
    let actor = permission.into_proof();
    let action = WorkloadAction::from_name(&name).ok_or_else(|| not_carried_out(&name))?;
    if request.destination.as_ref().is_some_and(|nodes| !nodes.is_empty()) {
        let text = format!("destination cannot be given with the action {name}");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    let wanted = Wanted {
        policy: PolicyId::new(&org, &policy),
        action,
        id: Uuid::new_v4().to_string(),
        actor,
        part: request.workload_unit.clone(),
    };
    let is_per_node = |workload: &Workload| workload.goal.is_per_node();
    if action == WorkloadAction::Stop && context.model().workload_of(&wanted.policy).is_some_and(is_per_node)
    {
        let text = "a policy with the mode global cannot be stopped: freeze it, or change its constraints";
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    let nodes = meant_nodes(&context, &wanted, request.node.as_deref())?;
    match carry_out(&context, &wanted, nodes.as_ref()).await.map_err(|error| failed(&error))? {
        Some(Ok(_)) => {}
        Some(Err(reason)) => return Err(Refusal::new(StatusCode::CONFLICT, reason)),
        None => act_on_rollouts(&context, &wanted).await?,
    }
    let msg = format!("{name} of {} accepted", wanted.policy);
    Ok(Accepted(AcceptedAction { code: "ok".to_owned(), msg, action_id: wanted.id }))
}

fn not_carried_out(name: &str) -> Refusal {
    match NOT_CARRIED_OUT.iter().find(|(one, _)| *one == name) {
        Some((_, advice)) => {
            let text = format!("the action {name} is not carried out by this hub: {advice}");
            Refusal::new(StatusCode::CONFLICT, text)
        }
        None => {
            let text = format!("the action must be one of {}", WorkloadAction::NAMES.join(", "));
            Refusal::new(StatusCode::BAD_REQUEST, text)
        }
    }
}

fn failed(error: &AgbotError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// An action with its id.
struct Wanted {
    policy: PolicyId,
    action: WorkloadAction,
    id: String,
    actor: String,
    part: Option<String>,
}

impl Wanted {
    fn asker(&self, context: &Context) -> Asker<'_> {
        Asker { actor: &self.actor, now: context.now() }
    }

    fn event(&self, kind: &str, node: Option<&NodeId>, text: &str, context: &Context) -> EventRow {
        EventRow {
            happened_at: context.now(),
            kind: kind.to_owned(),
            ha_group: None,
            node: node.cloned(),
            policy: Some(self.policy.clone()),
            detail: json!({
                "actor": self.actor, "action": self.action.name(), "actionId": self.id,
                "workloadUnit": self.part, "text": text,
            }),
        }
    }

    /// Returns whether it is over as soon as it is accepted.
    fn is_immediate(&self) -> bool {
        !matches!(self.action, WorkloadAction::Start | WorkloadAction::Stop)
    }
}

/// Returns the nodes that an action names; none when it is about the whole policy.
fn meant_nodes(
    context: &Context,
    wanted: &Wanted,
    node: Option<&str>,
) -> Result<Option<BTreeSet<NodeId>>, Refusal> {
    let Wanted { policy, action, part, .. } = wanted;
    let model = context.model();
    if model.workload(policy).is_none() {
        return Ok(None);
    }
    let member = if node.is_some() { "node" } else { "unit" };
    let is_all = node.is_none() && part.as_deref().is_none_or(|name| name == "all");
    if is_all {
        let parts: Vec<&str> = model.workload_units_of(policy).map(|(id, _)| id.name()).collect();
        return match part {
            Some(name) if !parts.contains(&name.as_str()) => Err(unknown_part(policy, name)),
            _ => Ok(None),
        };
    }
    if !action.has_nodes() {
        let text =
            format!("{member} cannot be given: the action {} is about the whole policy", action.name());
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    let is_meant = |name: &str| part.as_deref().is_none_or(|part| part == name);
    let parts: Vec<_> = model.workload_units_of(policy).filter(|(id, _)| is_meant(id.name())).collect();
    if let (true, Some(part)) = (parts.is_empty(), part) {
        return Err(unknown_part(policy, part));
    }
    let nodes = parts.iter().flat_map(|(_, unit)| unit.table.nodes().map(|row| row.id.clone()));
    let mut nodes: BTreeSet<NodeId> = nodes.collect();
    if let Some(name) = node {
        let node = node_of(policy.org(), name);
        if !nodes.contains(&node) {
            let text = format!("node: {node} does not belong to the deployment policy {policy}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, text));
        }
        nodes = BTreeSet::from([node]);
    }
    Ok(Some(nodes))
}

/// The rows after an action.
struct Changed {
    record: Option<WorkloadRecord>,
    rows: Vec<(NodeId, Instance)>,
}

/// Acts on the rows of a workload in one transaction; none when the policy is not carried out by tasks.
async fn carry_out(
    context: &Context,
    wanted: &Wanted,
    nodes: Option<&BTreeSet<NodeId>>,
) -> Result<Option<Result<WorkloadRecord, String>>, AgbotError> {
    let failing = if forgets_failures(wanted.action) {
        failing_nodes(context, &wanted.policy)
    } else {
        BTreeSet::new()
    };
    let outcome = retry("workload.act", || async {
        let mut tx = context.database.begin().await?;
        let Some(stored) = workloads::lock_workload(&mut tx, &wanted.policy).await? else {
            return Ok::<_, AgbotError>(None);
        };
        let record: WorkloadRecord = serde_json::from_value(stored)?;
        let mut rows = BTreeMap::new();
        for row in workloads::list_instances_of(&mut tx, &wanted.policy).await? {
            rows.insert(row.node, serde_json::from_value::<Instance>(row.record)?);
        }
        let asker = wanted.asker(context);
        let changed = match nodes {
            None => of_all(&record, &rows, wanted.action, &failing, asker),
            Some(nodes) => of_nodes(&record, &rows, wanted.action, nodes, asker),
        };
        let outcome = match changed {
            Ok(changed) => {
                write(context, &mut tx, wanted, &changed).await?;
                Ok(changed.record.unwrap_or(record))
            }
            Err(reason) => {
                events::insert_event(&mut tx, &wanted.event(REFUSED, None, &reason, context)).await?;
                Err(reason)
            }
        };
        tx.commit().await?;
        Ok(Some(outcome))
    })
    .await?;
    if matches!(outcome, Some(Ok(_))) {
        // The engine acts at once, and a status that is read next shows the action; otherwise both would wait for the next read of the log.
        if let Err(error) = context.records.catch_up(context).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "the log of records was not read");
        }
        context.events_applied().await;
    }
    Ok(outcome)
}

/// A version that is tried again is tried on every node.
fn forgets_failures(action: WorkloadAction) -> bool {
    matches!(action, WorkloadAction::Clear | WorkloadAction::Update(RolloutAction::Retry))
}

/// Returns the nodes on which the newest task of a slot ended by itself.
fn failing_nodes(context: &Context, policy: &PolicyId) -> BTreeSet<NodeId> {
    let model = context.model();
    let newest = model.workload_units_of(policy).flat_map(|(_, unit)| unit.slots.values());
    let ended = newest.filter_map(SlotTasks::newest).filter(|task| task.ended_by_itself());
    ended.filter_map(|task| task.node.clone()).collect()
}

fn of_all(
    record: &WorkloadRecord,
    rows: &BTreeMap<NodeId, Instance>,
    action: WorkloadAction,
    failing: &BTreeSet<NodeId>,
    asker: Asker<'_>,
) -> Result<Changed, String> {
    let next = record.act(action, rows.values().any(|row| row.is_frozen), asker)?;
    let mut changed: BTreeMap<NodeId, Instance> = BTreeMap::new();
    if matches!(action, WorkloadAction::Thaw | WorkloadAction::Start) {
        for (node, row) in rows.iter().filter(|(_, row)| row.is_frozen) {
            changed.insert(node.clone(), Instance { is_frozen: false, ..row.clone() });
        }
    }
    if forgets_failures(action) {
        let failed = rows.iter().filter(|(_, row)| row.failed.is_some()).map(|(node, _)| node);
        for node in failed.chain(failing) {
            let row = rows.get(node).cloned().unwrap_or_default();
            changed.insert(node.clone(), row.act(WorkloadAction::Clear, asker.now)?);
        }
    }
    let record = (action != WorkloadAction::Clear).then_some(next);
    Ok(Changed { record, rows: changed.into_iter().collect() })
}

/// One node must change; of several, those that can.
fn of_nodes(
    record: &WorkloadRecord,
    rows: &BTreeMap<NodeId, Instance>,
    action: WorkloadAction,
    nodes: &BTreeSet<NodeId>,
    asker: Asker<'_>,
) -> Result<Changed, String> {
    if action == WorkloadAction::Thaw && (record.is_frozen || record.is_stopped) {
        return Err(format!("{} is frozen as a whole: thaw it without naming nodes", record.policy));
    }
    let mut changed = Vec::new();
    let mut refused = None;
    for node in nodes {
        match rows.get(node).cloned().unwrap_or_default().act(action, asker.now) {
            Ok(row) => changed.push((node.clone(), row)),
            Err(reason) => refused = Some(format!("{} on {node} {reason}", record.policy)),
        }
    }
    match refused {
        Some(reason) if changed.is_empty() => Err(reason),
        _ => Ok(Changed { record: None, rows: changed }),
    }
}

async fn write(
    context: &Context,
    tx: &mut PgConnection,
    wanted: &Wanted,
    changed: &Changed,
) -> Result<(), AgbotError> {
    if let Some(record) = &changed.record {
        let value = serde_json::to_value(record.without_specs())?;
        workloads::upsert_workload(tx, &wanted.policy, &value).await?;
    }
    let rows = changed.rows.iter().map(|(node, row)| Ok((node.clone(), serde_json::to_value(row)?)));
    let rows = rows.collect::<Result<Vec<_>, AgbotError>>()?;
    if !rows.is_empty() {
        workloads::replace_instances(tx, &wanted.policy, &rows).await?;
    }
    let kind = wanted.action.event_kind();
    let text = format!("{} by {}", wanted.action.name(), wanted.actor);
    let mut all = vec![wanted.event(ACCEPTED, None, &text, context)];
    if changed.record.is_some() {
        all.push(wanted.event(kind, None, &text, context));
    } else {
        all.extend(changed.rows.iter().map(|(node, _)| wanted.event(kind, Some(node), &text, context)));
    }
    if wanted.is_immediate() {
        all.push(wanted.event(ENDED, None, &text, context));
    }
    events::insert_events(tx, context.now(), &all).await?;
    Ok(())
}

/// Acts on the rollouts of a policy that is not carried out by tasks.
async fn act_on_rollouts(context: &Context, wanted: &Wanted) -> Result<(), Refusal> {
    let policy = &wanted.policy;
    let WorkloadAction::Update(action) = wanted.action else {
        let text = format!(
            "{policy} is not carried out by tasks: give it an orchestration mode such as replicated, failover or flex first"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    };
    let group = wanted.part.as_ref().filter(|name| *name != "all");
    let group = group.map(|name| GroupId::new(policy.org(), name));
    let request = RolloutRequest { policy: policy.clone(), group, action };
    let done =
        administer::carry_out(context, &wanted.actor, &request).await.map_err(|error| failed(&error))?;
    if done.changed.is_empty() && done.unchanged.is_empty() {
        let text = match done.refused.is_empty() {
            true => format!("{policy} has no update to {}", wanted.action.name()),
            false => done.refused.join("; "),
        };
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    let text = format!("{} by {}", wanted.action.name(), wanted.actor);
    let recorded = retry("workload.act", || async {
        let mut tx = context.database.begin().await?;
        for kind in [ACCEPTED, ENDED] {
            events::insert_event(&mut tx, &wanted.event(kind, None, &text, context)).await?;
        }
        tx.commit().await?;
        Ok::<_, AgbotError>(())
    });
    recorded.await.map_err(|error| failed(&error))
}

/// Acts on the update of a workload as on one of the hub's rollouts; none when the policy is not carried out by tasks.
pub(super) async fn act_on_update(
    context: &Context,
    actor: &str,
    request: &RolloutRequest,
) -> Result<Option<ChangedRollouts>, Refusal> {
    let wanted = Wanted {
        policy: request.policy.clone(),
        action: WorkloadAction::Update(request.action),
        id: Uuid::new_v4().to_string(),
        actor: actor.to_owned(),
        part: None,
    };
    if context.model().workload(&request.policy).is_none() {
        return Ok(None);
    }
    if request.group.is_some() {
        let text =
            format!("the update of {} concerns all of its groups: leave the group out", request.policy);
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    match carry_out(context, &wanted, None).await.map_err(|error| failed(&error))? {
        None => Ok(None),
        Some(Err(reason)) => Err(Refusal::new(StatusCode::CONFLICT, reason)),
        Some(Ok(record)) => {
            let specs = context.model().workload(&request.policy).map(|known| known.specs.clone());
            let record = WorkloadRecord { specs: specs.unwrap_or_default(), ..record };
            let seen = super::caller::SeenNodes::All;
            let shape = Shape { policy: &request.policy, seen: &seen, now: context.now() };
            let workloads = vec![shape.workload_update(&record)];
            Ok(Some(ChangedRollouts { rollouts: Vec::new(), workloads, refused: Vec::new() }))
        }
    }
}

/// Returns how far an action is.
pub(super) async fn get_action(
    op: Op<PolicyActionPath>,
    _permission: Permission<right::PolicyRead>,
) -> Result<Json<ActionState>, Refusal> {
    let Op { context, path: PolicyActionPath { organization: org, policy, action: id } } = op;
    let policy = PolicyId::new(&org, &policy);
    let missing = || {
        let text = format!("the deployment policy {policy} has no action {id}");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    // The database has no such character in its texts.
    if id.contains('\0') {
        return Err(missing());
    }
    let found = context
        .database
        .read(async |connection| events::find_of_action(connection, &policy, &id).await)
        .await
        .map_err(|error| unreadable(&error))?
        .ok_or_else(missing)?
        .event;
    let text = |member: &str| found.detail[member].as_str().map(str::to_owned);
    let action = text("action").unwrap_or_default();
    let state = match found.kind.as_str() {
        ENDED => "done",
        REFUSED => "refused",
        _ if is_reached(&context, &policy, &action).await? => "done",
        _ => "running",
    };
    Ok(Json(ActionState {
        action_id: id,
        action,
        state: state.to_owned(),
        workload_units: text("workloadUnit").into_iter().collect(),
        actor: text("actor"),
        started_at: time(found.happened_at),
        ended_at: (state != "running").then(|| time(found.happened_at)),
        message: text("text").unwrap_or_default(),
    }))
}

/// Returns whether a start or stop has taken effect, or was replaced by the other one.
async fn is_reached(context: &Context, policy: &PolicyId, action: &str) -> Result<bool, Refusal> {
    let names = [policy.as_str()];
    let rows = context
        .database
        .read(async |connection| workloads::read_workloads(connection, &names).await)
        .await
        .map_err(|error| unreadable(&error))?;
    let row =
        rows.into_iter().next().and_then(|row| serde_json::from_value::<WorkloadRecord>(row.record).ok());
    let Some(is_stopped) = row.map(|record| record.is_stopped) else { return Ok(true) };
    if is_stopped != (action == "stop") {
        return Ok(true);
    }
    let model = context.model();
    if model.workload(policy).is_none_or(|record| record.is_stopped != is_stopped) {
        return Ok(false);
    }
    if is_stopped {
        let mut tasks = model.workload_units_of(policy).flat_map(|(_, unit)| unit.slots.values());
        return Ok(tasks.all(|of_slot| SlotTasks::iter(of_slot).all(Task::is_stopped)));
    }
    let window = Window { limit: 0, ..Window::default() };
    let status = status_of(&model, policy, &window, context.now());
    Ok(status.is_some_and(|status| status.parts.iter().all(|part| part.up >= part.target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_names_the_member_that_breaks_a_rule() {
        let refused = |value| of_body(value).unwrap_err().to_string();
        assert_eq!(refused(json!({"nodes": "n1"})), "nodes is not known; node was probably meant");
        assert_eq!(refused(json!({"node": 1})), "node must be a text");
        assert_eq!(refused(json!({"force": "yes"})), "force must be true or false");
        assert_eq!(refused(json!([])), "the body must be an object");
        let given = of_body(json!({"unit": null, "node": "n1", "destination": [], "force": false})).unwrap();
        assert_eq!((given.node.as_deref(), given.force), (Some("n1"), Some(false)));
    }
}
