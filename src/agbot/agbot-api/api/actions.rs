//! Actions of users on deployment policies.
//!
//! Each is one transaction on the rows that every agbot follows. Its events are its record: the newest one
//! that names its id states its progress. Actions that take time are in [`super::lasting`]. Source:
//! orchestration 1.8, A6, A11, A12, B12.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use evenkeel_agbot::{AgbotError, Context, EngineHandle};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::workload as workloads;
use evenkeel_api::{Accepted, Refusal};
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_record::workload::{
    Instance, InstanceSummary, LastingAction, SlotTasks, UserAction, WorkloadAction, WorkloadRecord,
};
use evenkeel_planner_record::workload::{Requester, RolloutAction};
use evenkeel_store::{PgConnection, StoreError, retry};
use evenkeel_wire::agbot::action::{AcceptedAction, ActionRequest, ActionState};
use evenkeel_wire::agbot::rollout::ChangedRollouts;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use http::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::action_request::recovery_member;
use super::administer::{self, RolloutRequest};
use super::blocklist;
use super::freshness;
use super::lasting;
use super::orchestration::{node_of, unknown_part};
use super::path::PolicyActionPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use crate::shown::workload_shape::{Shape, time};
use crate::shown::{SeenNodes, hidden};

pub(super) const ACCEPTED: &str = "orchestration.accepted";
pub(super) const ENDED: &str = "orchestration.ended";
const REFUSED: &str = "orchestration.refused";
const ABORTED: &str = "orchestration.aborted";

/// Carries an action out.
pub(super) async fn act_on_policy(
    op: Op<PolicyActionPath>,
    permission: Permission<right::PolicyOperate>,
    request: ActionRequest,
) -> Result<Accepted<AcceptedAction>, Refusal> {
    let PolicyActionPath { org, policy, action } = &op.path;
    let (actor, stored) = permission.into_proof();
    let target = (PolicyId::new(org, policy), action.as_str());
    act(&op.context, (actor, &stored), target, &request).await.map(Accepted)
}

/// Carries out an action of a caller who may act on the policy, which the exchange stores as given.
///
/// # Errors
/// As the operation.
pub(super) async fn act(
    context: &Context,
    (actor, stored): (String, &DeploymentPolicyResponse),
    (policy, name): (PolicyId, &str),
    request: &ActionRequest,
) -> Result<AcceptedAction, Refusal> {
    let wanted = Wanted {
        policy,
        action: Kind::from_name(name)?,
        id: Uuid::new_v4().to_string(),
        actor,
        part: request.workload_unit.clone(),
    };
    let has_destination = request.destination.as_ref().is_some_and(|nodes| !nodes.is_empty());
    if has_destination && wanted.action != Kind::Lasting(LastingAction::Switch) {
        let text = format!("destination cannot be given with the action {name}");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    if wanted.action != Kind::Lasting(LastingAction::Recover)
        && let Some(member) = recovery_member(request)
    {
        let text = format!("{member} cannot be given with the action {name}");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    freshness::follow_policy(context, &wanted.policy, stored).await;
    match wanted.action {
        Kind::Lasting(kind) => lasting::begin(context, &wanted, kind, request).await?,
        Kind::Immediate(action) => {
            let forced = action.forced().filter(|_| request.force == Some(true));
            act_at_once(context, &wanted, forced.unwrap_or(action), request).await?;
        }
    }
    let msg = format!("{name} of {} accepted", wanted.policy);
    Ok(AcceptedAction { code: "ok".to_owned(), msg, action_id: wanted.id })
}

/// Records that a caller of the organization was refused an action on a deployment policy, the same refusal once a minute. Callers of other
/// organizations could fill the event log of this one, so their refusals are not recorded.
///
/// # Errors
/// 503 when that cannot be written.
pub(super) async fn note_denied(
    AgbotRequest { context, notes, .. }: &AgbotRequest,
    actor: String,
    (org, policy): (&str, &str),
    (action, why): (&str, &str),
) -> Result<(), Refusal> {
    let policy = PolicyId::new(org, policy);
    let Ok(action) = Kind::from_name(action) else { return Ok(()) };
    let is_member = actor.split_once('/').is_some_and(|(of, _)| of == org);
    if !is_member || context.model().policy(&policy).is_none() {
        return Ok(());
    }
    if !notes.is_news((actor.clone(), policy.clone(), action.name().to_owned())) {
        return Ok(());
    }
    let wanted = Wanted { policy, action, id: Uuid::new_v4().to_string(), actor, part: None };
    wanted.record_refusal(why, context).await
}

async fn act_at_once(
    context: &Context,
    wanted: &Wanted,
    action: WorkloadAction,
    request: &ActionRequest,
) -> Result<(), Refusal> {
    let nodes = meant_nodes(context, wanted, action, request.node.as_deref())?;
    match carry_out(context, wanted, action, nodes.as_ref()).await.map_err(|error| failed(&error))? {
        Some(Ok(_)) => Ok(()),
        Some(Err(reason)) => Err(Refusal::new(StatusCode::CONFLICT, reason)),
        None => act_on_rollouts(context, wanted, action).await,
    }
}

pub(super) fn failed(error: &AgbotError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// The kind of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is over as soon as it is accepted.
    Immediate(WorkloadAction),
    /// It is over when its goal is reached.
    Lasting(LastingAction),
}

impl Kind {
    pub(super) fn from_name(name: &str) -> Result<Self, Refusal> {
        let lasting = LastingAction::from_name(name).map(Self::Lasting);
        lasting.or_else(|| WorkloadAction::from_name(name).map(Self::Immediate)).ok_or_else(|| {
            let names = LastingAction::ALL.map(LastingAction::name);
            let names = [names.as_slice(), WorkloadAction::NAMES.as_slice()].concat();
            Refusal::new(StatusCode::BAD_REQUEST, format!("the action must be one of {}", names.join(", ")))
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Immediate(action) => action.name(),
            Self::Lasting(action) => action.name(),
        }
    }
}

/// An action with its id.
pub(super) struct Wanted {
    pub(super) policy: PolicyId,
    pub(super) action: Kind,
    pub(super) id: String,
    pub(super) actor: String,
    pub(super) part: Option<String>,
}

impl Wanted {
    fn requester(&self, engine: &EngineHandle) -> Requester<'_> {
        Requester { actor: &self.actor, now: engine.now() }
    }

    pub(super) fn event(
        &self,
        kind: &str,
        node: Option<&NodeId>,
        text: &str,
        engine: &EngineHandle,
    ) -> EventRow {
        EventRow {
            happened_at: engine.now(),
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

    /// Returns the event of an action that is refused.
    pub(super) fn refused(&self, reason: &str, context: &Context) -> EventRow {
        self.event(REFUSED, None, reason, context)
    }

    /// Records by itself that an action is refused.
    ///
    /// # Errors
    /// 503 when that cannot be written.
    pub(super) async fn record_refusal(&self, reason: &str, context: &Context) -> Result<(), Refusal> {
        let written = retry("workload.refuse", || async {
            let mut tx = context.database.begin().await?;
            events::insert_event(&mut tx, &self.refused(reason, context)).await?;
            tx.commit().await?;
            Ok::<_, AgbotError>(())
        });
        written.await.map_err(|error| failed(&error))
    }

    /// Returns the event of an action that is accepted.
    pub(super) fn accepted(&self, context: &Context) -> EventRow {
        self.event(ACCEPTED, None, &self.text(), context)
    }

    pub(super) fn text(&self) -> String {
        format!("{} by {}", self.action.name(), self.actor)
    }
}

/// Returns the nodes that an action names; none when it is about the whole policy.
fn meant_nodes(
    engine: &EngineHandle,
    wanted: &Wanted,
    action: WorkloadAction,
    node: Option<&str>,
) -> Result<Option<BTreeSet<NodeId>>, Refusal> {
    let Wanted { policy, part, .. } = wanted;
    let model = engine.model();
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
pub(super) struct Changed {
    pub(super) record: Option<WorkloadRecord>,
    pub(super) rows: Vec<(NodeId, Instance)>,
}

/// Acts on the rows of a workload in one transaction; none when the policy has no tasks.
async fn carry_out(
    context: &Context,
    wanted: &Wanted,
    action: WorkloadAction,
    nodes: Option<&BTreeSet<NodeId>>,
) -> Result<Option<Result<WorkloadRecord, String>>, AgbotError> {
    let failing =
        if forgets_failures(action) { failing_nodes(context, &wanted.policy) } else { BTreeSet::new() };
    let instances = context.model().instance_summary(&wanted.policy);
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
        let requester = wanted.requester(context);
        let changed = match nodes {
            None => of_all(&record, &rows, action, &failing, instances, requester),
            Some(nodes) => of_nodes(&record, &rows, action, nodes, requester),
        };
        let outcome = match changed {
            Ok(changed) => {
                let aborted = record.action.as_ref().filter(|_| action == WorkloadAction::Abort);
                write(&mut tx, &wanted.policy, &changed).await?;
                let events = events_of(context, wanted, action, &changed, aborted);
                events::insert_events(&mut tx, context.now(), &events).await?;
                if forgets_failures(action) {
                    blocklist::clear_of_workload(context, &mut tx, (&wanted.policy, &wanted.actor), nodes)
                        .await?;
                }
                Ok(changed.record.unwrap_or(record))
            }
            Err(reason) => {
                events::insert_event(&mut tx, &wanted.refused(&reason, context)).await?;
                Err(reason)
            }
        };
        tx.commit().await?;
        Ok(Some(outcome))
    })
    .await?;
    if matches!(outcome, Some(Ok(_))) {
        context.follow_records().await;
    }
    Ok(outcome)
}

/// A version that is tried again is tried on every node.
fn forgets_failures(action: WorkloadAction) -> bool {
    matches!(action, WorkloadAction::Clear | WorkloadAction::Update(RolloutAction::Retry))
}

/// Returns the nodes on which the newest task of a slot ended by itself.
fn failing_nodes(engine: &EngineHandle, policy: &PolicyId) -> BTreeSet<NodeId> {
    let model = engine.model();
    let newest = model.workload_units_of(policy).flat_map(|(_, unit)| unit.slots.values());
    let ended = newest.filter_map(SlotTasks::newest).filter(|task| task.ended_by_itself());
    ended.filter_map(|task| task.node.clone()).collect()
}

fn of_all(
    record: &WorkloadRecord,
    rows: &BTreeMap<NodeId, Instance>,
    action: WorkloadAction,
    failing: &BTreeSet<NodeId>,
    instances: InstanceSummary,
    requester: Requester<'_>,
) -> Result<Changed, String> {
    let is_any_frozen = rows.values().any(|row| row.is_frozen);
    let next = record.act(action, InstanceSummary { is_any_frozen, ..instances }, requester)?;
    let mut changed: BTreeMap<NodeId, Instance> = BTreeMap::new();
    if action == WorkloadAction::Thaw {
        for (node, row) in rows.iter().filter(|(_, row)| row.is_frozen) {
            changed.insert(node.clone(), Instance { is_frozen: false, ..row.clone() });
        }
    }
    if forgets_failures(action) {
        let failed = rows.iter().filter(|(_, row)| row.failed.is_some()).map(|(node, _)| node);
        for node in failed.chain(failing) {
            let row = rows.get(node).cloned().unwrap_or_default();
            changed.insert(node.clone(), row.act(WorkloadAction::Clear, requester.now)?);
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
    requester: Requester<'_>,
) -> Result<Changed, String> {
    record.check_free(action)?;
    if action == WorkloadAction::Thaw && (record.is_frozen || record.is_stopped) {
        return Err(format!("{} is frozen as a whole: thaw it without naming nodes", record.policy));
    }
    let mut changed = Vec::new();
    let mut refused = None;
    for node in nodes {
        match rows.get(node).cloned().unwrap_or_default().act(action, requester.now) {
            Ok(row) => changed.push((node.clone(), row)),
            Err(reason) => refused = Some(format!("{} on {node} {reason}", record.policy)),
        }
    }
    match refused {
        Some(reason) if changed.is_empty() => Err(reason),
        _ => Ok(Changed { record: None, rows: changed }),
    }
}

/// Writes the rows after an action.
pub(super) async fn write(
    tx: &mut PgConnection,
    policy: &PolicyId,
    changed: &Changed,
) -> Result<(), AgbotError> {
    if let Some(record) = &changed.record {
        let value = serde_json::to_value(record.without_specs())?;
        workloads::upsert_workload(tx, policy, &value).await?;
    }
    let rows = changed.rows.iter().map(|(node, row)| Ok((node.clone(), serde_json::to_value(row)?)));
    let rows = rows.collect::<Result<Vec<_>, AgbotError>>()?;
    if !rows.is_empty() {
        workloads::replace_instances(tx, policy, &rows).await?;
    }
    Ok(())
}

/// Returns the events of an action that is over with its transaction; `aborted`: the action that it ended.
fn events_of(
    context: &Context,
    wanted: &Wanted,
    action: WorkloadAction,
    changed: &Changed,
    aborted: Option<&UserAction>,
) -> Vec<EventRow> {
    let text = wanted.text();
    let mut all = vec![wanted.accepted(context)];
    if let Some(aborted) = aborted {
        let row =
            wanted.event(ABORTED, None, &format!("{} aborted by {}", aborted.name, wanted.actor), context);
        let (id, name, at) = (&aborted.id, &aborted.name, time(aborted.accepted_at));
        let detail = json!({
            "actor": wanted.actor, "action": name, "actionId": id, "workloadUnit": aborted.unit_name,
            "startedAt": at, "text": row.detail["text"],
        });
        all.push(EventRow { detail, ..row });
    } else if let Some(record) = &changed.record {
        all.extend(transition(action).map(|kind| wanted.event(kind, None, &text, context)));
        all.push(wanted.event(action.event_kind_after(record), None, &text, context));
    } else {
        for (node, _) in &changed.rows {
            let kinds = transition(action).into_iter().chain([action.event_kind()]);
            all.extend(kinds.map(|kind| wanted.event(kind, Some(node), &text, context)));
        }
    }
    all.push(wanted.event(ENDED, None, &text, context));
    all
}

/// Returns the kind of the event of what an instance passes through before it is frozen or thawed.
///
/// # Source
/// Orchestration A9.2, A12. Both take no time, because nothing on the node has to happen.
fn transition(action: WorkloadAction) -> Option<&'static str> {
    match action {
        WorkloadAction::Freeze => Some("instance.freezing"),
        WorkloadAction::Thaw => Some("instance.thawing"),
        _ => None,
    }
}

/// Acts on the rollouts of a policy without `orchestration`.
async fn act_on_rollouts(context: &Context, wanted: &Wanted, action: WorkloadAction) -> Result<(), Refusal> {
    let policy = &wanted.policy;
    let WorkloadAction::Update(action) = action else { return Err(without_tasks(policy)) };
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
    let text = wanted.text();
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

pub(super) fn without_tasks(policy: &PolicyId) -> Refusal {
    let text = format!(
        "{policy} has no tasks: give it the member orchestration, such as {{\"mode\": \"global\"}}, first"
    );
    Refusal::new(StatusCode::CONFLICT, text)
}

/// Acts on the update of a workload as on one of the hub's rollouts; none when the policy has no tasks.
pub(super) async fn act_on_update(
    context: &Context,
    actor: &str,
    request: &RolloutRequest,
) -> Result<Option<ChangedRollouts>, Refusal> {
    let wanted = Wanted {
        policy: request.policy.clone(),
        action: Kind::Immediate(WorkloadAction::Update(request.action)),
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
    let action = WorkloadAction::Update(request.action);
    match carry_out(context, &wanted, action, None).await.map_err(|error| failed(&error))? {
        None => Ok(None),
        Some(Err(reason)) => Err(Refusal::new(StatusCode::CONFLICT, reason)),
        Some(Ok(record)) => {
            let specs = context.model().workload(&request.policy).map(|known| known.specs.clone());
            let record = WorkloadRecord { specs: specs.unwrap_or_default(), ..record };
            let seen = SeenNodes::All;
            let shape = Shape { policy: &request.policy, seen: &seen, now: context.now() };
            let workloads = vec![shape.workload_update(&record)];
            Ok(Some(ChangedRollouts { rollouts: Vec::new(), workloads, refused: Vec::new() }))
        }
    }
}

/// Returns how far an action is.
pub(super) async fn get_action(
    op: Op<PolicyActionPath>,
    permission: Permission<right::PolicyRead>,
) -> Result<Json<ActionState>, Refusal> {
    let Op {
        request: AgbotRequest { context, .. }, path: PolicyActionPath { org, policy, action: id }, ..
    } = op;
    let policy = PolicyId::new(&org, &policy);
    let missing = || {
        let text = format!("the deployment policy {policy} has no action {id}");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    // The database has no such character in its texts.
    if id.contains('\0') {
        return Err(missing());
    }
    // The row is read first: an action that is no longer in it has left an event before.
    let names = [policy.as_str()];
    let read = context.database.read(async |connection| {
        let rows = workloads::read_workloads(connection, &names).await?;
        Ok::<_, StoreError>((rows, events::find_of_action(connection, &policy, &id).await?))
    });
    let (rows, found) = read.await.map_err(|error| unreadable(&error))?;
    let found = found.ok_or_else(missing)?.event;
    let row = rows.into_iter().next().map(|row| serde_json::from_value::<WorkloadRecord>(row.record));
    let is_in_row = row.and_then(Result::ok).and_then(|record| record.action).is_some_and(|one| one.id == id);
    let is_known = context
        .model()
        .workload(&policy)
        .and_then(|record| record.action.as_ref())
        .is_some_and(|one| one.id == id);
    let text = |member: &str| found.detail[member].as_str().map(str::to_owned);
    let state = match found.kind.as_str() {
        ENDED => text("state").unwrap_or_else(|| "done".to_owned()),
        REFUSED => "refused".to_owned(),
        ABORTED => "aborted".to_owned(),
        _ if is_known => "running".to_owned(),
        _ if is_in_row => "pending".to_owned(),
        // The policy was deleted, or lost its tasks.
        _ => "aborted".to_owned(),
    };
    let is_over = !matches!(state.as_str(), "running" | "pending");
    Ok(Json(ActionState {
        action_id: id,
        action: text("action").unwrap_or_default(),
        state,
        workload_units: match text("workloadUnit") {
            Some(named) => vec![named],
            None => context.model().workload_units_of(&policy).map(|(id, _)| id.name().to_owned()).collect(),
        },
        members: found.detail["members"]
            .as_array()
            .map(|members| members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()),
        actor: text("actor"),
        started_at: text("startedAt")
            .and_then(|at| at.parse().ok())
            .map_or_else(|| time(found.happened_at), time),
        ended_at: is_over.then(|| time(found.happened_at)),
        message: match context.model().waits_for(&policy).filter(|_| !is_over) {
            // The right to read the policy does not include its nodes.
            Some(blocked) => hidden::reason(blocked.clone(), &permission.into_proof().seen).to_string(),
            None => text("text").unwrap_or_default(),
        },
    }))
}
