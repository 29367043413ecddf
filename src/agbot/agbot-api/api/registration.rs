//! The health registry, and the recovery of members of an HA group by a user.
//!
//! Source: orchestration C7, C9.

use axum::Json;
use evenkeel_agbot::records::{entity_key, event_about};
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::event as events;
use evenkeel_agbot_store::registration::{self as store, RegistrationRow};
use evenkeel_api::{Accepted, OrgPath, Refusal};
use evenkeel_domain::orchestration::health_policy::Target;
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::health::{Entity, GroupAction, GroupCheck, Registration};
use evenkeel_planner_record::workload::PreparedAction;
use evenkeel_reconcile::user_action::ActionRefusal;
use evenkeel_reconcile::user_action::{checked_by, members_to_recover};
use evenkeel_store::retry;
use evenkeel_wire::agbot::action::{AcceptedAction, ActionRequest, ActionState};
use evenkeel_wire::agbot::registration::{HealthRegistration, HealthRegistryResponse, MemberRecovery};
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::actions::{ACCEPTED, ENDED, failed};
use super::health::group_entity;
use super::lasting::recovery_of;
use super::orchestration::node_of;
use super::path::{GroupActionPath, GroupPath};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use crate::shown::workload_shape::time;

const RECOVER: &str = "recover";

/// Lists the registrations of an organization.
pub(super) async fn list_health_registry(
    op: Op<OrgPath>,
    _permission: Permission<right::OrgInspect>,
) -> Result<Json<HealthRegistryResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let read = context.database.read(async |connection| store::list_of_org(connection, &org).await);
    let rows = read.await.map_err(|error| unreadable(&error))?;
    let shapes = rows.into_iter().map(|row| shape(&context, row));
    let registrations = shapes.collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    Ok(Json(HealthRegistryResponse { registrations }))
}

fn shape(context: &Context, row: RegistrationRow) -> Result<HealthRegistration, AgbotError> {
    let known: Registration = serde_json::from_value(row.record)?;
    let model = context.model();
    let checked_at = model.checked_at(&known.target).filter(|_| row.engine == context.engine_name());
    let recoveries = known.recoveries.iter().map(|(node, one)| MemberRecovery {
        node: node.name().to_owned(),
        state: match (&one.ended_at, &one.failure) {
            (None, _) => "running",
            (Some(_), None) => "recovered",
            (Some(_), Some(_)) => "failed",
        }
        .to_owned(),
        reason: one.reason.clone(),
        since: time(one.since),
        ended_at: one.ended_at.map(time),
        message: one.failure.clone(),
    });
    Ok(HealthRegistration {
        kind: if matches!(known.target, Entity::Group(_)) { "group" } else { "workload" }.to_owned(),
        target: known.target.to_string(),
        detection_modes: known.modes.iter().map(|mode| mode.word().to_owned()).collect(),
        interval: known.interval_secs,
        enabled: known.is_enabled,
        suspended_by: known.suspended_by.clone(),
        engine: row.engine,
        lease_until: row.leased_until.map(time),
        adopted_at: time(known.adopted_at),
        last_check_at: checked_at.map(time),
        recoveries: recoveries.collect(),
    })
}

/// Recovers members of an HA group.
pub(super) async fn recover_ha_group(
    op: Op<GroupPath>,
    permission: Permission<right::OrgAdminister>,
    request: ActionRequest,
) -> Result<Accepted<AcceptedAction>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path, .. } = op;
    let bad = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
    if let Some(member) = member_of_policies(&request) {
        return Err(bad(format!("{member} cannot be given: it needs a deployment policy")));
    }
    group_entity(&context, &path).await?;
    let GroupPath { org, hagroup } = path;
    let group = GroupId::new(&org, &hagroup);
    let recovery = recovery_of(&request, Target::Group).map_err(|error| bad(error.to_string()))?;
    let node = request.node.as_deref().map(|name| node_of(&org, name));
    if recovery.examines {
        context.check_members_now(&group).await;
    }
    let (members, until) = {
        let (model, now) = (context.model(), context.now());
        let members = members_to_recover(&model, &group, node.as_ref(), recovery.examines, now);
        (members, recovery.examines.then(|| checked_by(&model, &group, now)).flatten())
    };
    let members = members.map_err(|refusal| refused(&group, refusal))?;
    let check = until.map(|until| GroupCheck { node, operation: recovery.operation.clone(), until });
    let wanted = Order {
        target: Entity::Group(group.clone()),
        action: GroupAction {
            id: Uuid::new_v4().to_string(),
            actor: permission.actor().to_owned(),
            accepted_at: context.now(),
            // With a check they are chosen when it is over.
            members: if check.is_some() { Vec::new() } else { members },
            check,
        },
        operation: recovery.operation,
    };
    match store_order(&context, &wanted).await.map_err(|error| failed(&error))? {
        Ok(()) => context.follow_records().await,
        Err(reason) => return Err(Refusal::new(StatusCode::CONFLICT, reason)),
    }
    let msg = format!("{RECOVER} of {group} accepted");
    Ok(Accepted(AcceptedAction { code: "ok".to_owned(), msg, action_id: wanted.action.id }))
}

/// Returns a member of a request that only actions on deployment policies have.
fn member_of_policies(request: &ActionRequest) -> Option<&'static str> {
    let given = [
        ("unit", request.workload_unit.is_some()),
        ("destination", request.destination.is_some()),
        ("force", request.force.is_some()),
        ("check_capacity", request.check_capacity.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(member, _)| member)
}

fn refused(group: &GroupId, refusal: ActionRefusal) -> Refusal {
    match refusal {
        ActionRefusal::NoNode { node, .. } => {
            let text = format!("node: {node} is not a member of the HA group {group}");
            Refusal::new(StatusCode::NOT_FOUND, text)
        }
        ActionRefusal::Malformed(text) => Refusal::new(StatusCode::BAD_REQUEST, text),
        ActionRefusal::NoPart(text) | ActionRefusal::Conflict(text) => {
            Refusal::new(StatusCode::CONFLICT, text)
        }
    }
}

/// The order of a user to recover members of an HA group.
struct Order {
    target: Entity,
    action: GroupAction,
    operation: Option<PreparedAction>,
}

/// Stores an order in the registration of its group, or returns why that is not possible.
async fn store_order(context: &Context, wanted: &Order) -> Result<Result<(), String>, AgbotError> {
    let key = entity_key(&wanted.target);
    retry("registration.order", || async {
        let mut tx = context.database.begin().await?;
        let stored = store::lock_registration(&mut tx, &key).await?;
        let stored: Option<Registration> = stored.map(serde_json::from_value).transpose()?;
        let policy = context.model().health_policy_of(&wanted.target).cloned();
        let (Some(stored), Some(policy)) = (stored, policy) else {
            return Ok(Err(format!("{} is not registered yet; ask again", wanted.target)));
        };
        let next = match stored.ordered(&wanted.action, wanted.operation.as_ref(), &policy) {
            Ok(next) => next,
            Err(reason) => return Ok(Err(reason)),
        };
        store::update_record(&mut tx, &key, &serde_json::to_value(&next)?).await?;
        let GroupAction { id, actor, accepted_at, members, check: _ } = &wanted.action;
        let text = format!("{RECOVER} by {actor}");
        let detail = json!({
            "actor": actor, "action": RECOVER, "actionId": id, "members": members, "text": text,
        });
        events::insert_event(&mut tx, &event_about(*accepted_at, ACCEPTED, &wanted.target, detail)).await?;
        for node in members {
            let detail = json!({"actor": actor, "text": format!("ordered by {actor}")});
            let row = event_about(*accepted_at, "health.recover", &wanted.target, detail);
            let row = events::EventRow { node: Some(node.clone()), ..row };
            events::insert_event(&mut tx, &row).await?;
        }
        tx.commit().await?;
        Ok(Ok(()))
    })
    .await
}

/// Returns how far the recovery of an HA group is.
pub(super) async fn get_group_action(
    op: Op<GroupActionPath>,
    _permission: Permission<right::OrgInspect>,
) -> Result<Json<ActionState>, Refusal> {
    let Op {
        request: AgbotRequest { context, .. }, path: GroupActionPath { org, hagroup, action: id }, ..
    } = op;
    let group = GroupId::new(&org, &hagroup);
    let missing = || Refusal::new(StatusCode::NOT_FOUND, format!("the HA group {group} has no action {id}"));
    // The database has no such character in its texts.
    if id.contains('\0') || hagroup.contains('\0') {
        return Err(missing());
    }
    let read = context
        .database
        .read(async |connection| events::find_of_group_action(connection, &group, &id).await)
        .await;
    let found = read.map_err(|error| unreadable(&error))?.ok_or_else(missing)?.event;
    let text = |member: &str| found.detail[member].as_str().map(str::to_owned);
    let is_over = found.kind == ENDED;
    let members = found.detail["members"].as_array().map(|members| {
        members.iter().filter_map(Value::as_str).map(|name| NodeId::from_text(name).to_string()).collect()
    });
    let started_at = text("startedAt").and_then(|at| at.parse().ok());
    Ok(Json(ActionState {
        action_id: id,
        action: RECOVER.to_owned(),
        state: if is_over { text("state").unwrap_or_default() } else { "running".to_owned() },
        workload_units: Vec::new(),
        members,
        actor: text("actor"),
        started_at: started_at.map_or_else(|| time(found.happened_at), time),
        ended_at: is_over.then(|| time(found.happened_at)),
        message: text("text").unwrap_or_default(),
    }))
}
