//! What the agbot has agreed to, who holds claims, what it waits for.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use evenkeel_planner::claims::Scope;
use evenkeel_planner::ids::GroupId;
use evenkeel_planner::report::Placement;
use evenkeel_planner::rolling::Rollout;
use evenkeel_store::agbot::{agreement, event};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::answer;
use super::caller::may_read_org;
use crate::context::Context;

const NEWEST: i64 = 500;

type Asked = (State<Arc<Context>>, Path<String>, HeaderMap);

/// Health of the agbot; needs no credentials and tells no names.
pub(super) async fn status(State(context): State<Arc<Context>>) -> Json<Value> {
    let (nodes, policies, agreements) = context.model().counts();
    Json(json!({
        "agbot": context.name(),
        "loaded": context.is_loaded(),
        "nodes": nodes,
        "policies": policies,
        "agreements": agreements,
        "droppedMessages": context.dropped_messages(),
    }))
}

/// Claims of a group and what waits for them.
pub(super) async fn list_upgrades(
    State(context): State<Arc<Context>>,
    Path((org, group)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    if let Err((status, why)) = may_read_org(&context, &headers, &org).await {
        return answer(status, why);
    }
    let group = GroupId::new(&org, &group);
    let (agent, workloads, members) = {
        let model = context.model();
        let claims: Vec<_> = model.claims().filter(|claim| claim.group == group).cloned().collect();
        let (agent, workloads): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.scope == Scope::Agent);
        (agent, workloads, model.group(&group).map(|group| group.members.clone()).unwrap_or_default())
    };
    let waiting: Vec<Value> = context
        .placements()
        .into_iter()
        .filter(|((node, _), _)| members.contains(node))
        .filter_map(|((node, policy), placement)| match placement {
            Placement::Waiting { blocked, .. } => {
                Some(json!({"policy": policy, "node": node, "reason": blocked.to_string()}))
            }
            _ => None,
        })
        .collect();
    Json(json!({"agent": agent.first(), "workloads": workloads, "waiting": waiting})).into_response()
}

/// Agreements of an organization's nodes, live and ended.
pub(super) async fn list_agreements((State(context), Path(org), headers): Asked) -> Response {
    if let Err((status, why)) = may_read_org(&context, &headers, &org).await {
        return answer(status, why);
    }
    let rows = async {
        let mut connection = context.database.acquire().await?;
        let active = agreement::list_live(&mut connection).await?;
        let archived = agreement::list_ended(&mut connection, NEWEST).await?;
        Ok::<_, evenkeel_store::StoreError>((active, archived))
    };
    let prefix = format!("{org}/");
    let of_org = |rows: Vec<Value>| -> Vec<Value> {
        rows.into_iter()
            .filter(|row| {
                row.get("node").and_then(Value::as_str).is_some_and(|node| node.starts_with(&prefix))
            })
            .collect()
    };
    match rows.await {
        Ok((active, archived)) => {
            Json(json!({"agreements": {"active": of_org(active), "archived": of_org(archived)}}))
                .into_response()
        }
        Err(error) => answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// How each pair of node and policy stands, in words.
pub(super) async fn list_reasons((State(context), Path(org), headers): Asked) -> Response {
    if let Err((status, why)) = may_read_org(&context, &headers, &org).await {
        return answer(status, why);
    }
    let reasons: Vec<Value> = context
        .placements()
        .into_iter()
        .filter(|((node, _), _)| node.org() == org)
        .map(|((node, policy), placement)| {
            let text = match &placement {
                Placement::Placed { version, is_running: true, .. } => format!("runs version {version}"),
                Placement::Placed { version, .. } => {
                    format!("agreed to version {version}, not seen running yet")
                }
                Placement::Waiting { blocked, .. } | Placement::NotPlaced { blocked } => blocked.to_string(),
                Placement::Acting { action } => action.clone(),
            };
            json!({"node": node, "policy": policy, "state": placement, "text": text})
        })
        .collect();
    Json(json!({"reasons": reasons})).into_response()
}

/// A rollout with a sentence about how it stands.
pub(super) fn shown(rollout: &Rollout) -> Value {
    let mut shown = json!(rollout);
    if let Some(members) = shown.as_object_mut() {
        members.insert("text".to_owned(), Value::String(rollout.text()));
    }
    shown
}

/// Rollouts through the organization's groups.
pub(super) async fn list_rollouts((State(context), Path(org), headers): Asked) -> Response {
    if let Err((status, why)) = may_read_org(&context, &headers, &org).await {
        return answer(status, why);
    }
    let rollouts: Vec<Value> =
        context.model().rollouts().filter(|one| one.group.org() == org).map(shown).collect();
    Json(json!({"rollouts": rollouts})).into_response()
}

/// What the agbot did lately, newest first.
pub(super) async fn list_events((State(context), Path(org), headers): Asked) -> Response {
    if let Err((status, why)) = may_read_org(&context, &headers, &org).await {
        return answer(status, why);
    }
    let rows = async { event::list_newest(&mut *context.database.acquire().await?, NEWEST).await };
    let prefix = format!("{org}/");
    let concerns = |name: &Option<String>| name.as_deref().is_some_and(|name| name.starts_with(&prefix));
    match rows.await {
        Ok(rows) => {
            let events: Vec<Value> = rows
                .into_iter()
                .filter(|row| concerns(&row.ha_group) || concerns(&row.node) || concerns(&row.policy))
                .map(|row| {
                    json!({"at": row.happened_at, "kind": row.kind, "haGroup": row.ha_group, "node": row.node,
                           "policy": row.policy, "detail": row.detail})
                })
                .collect();
            Json(json!({"events": events})).into_response()
        }
        Err(error) => answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}
