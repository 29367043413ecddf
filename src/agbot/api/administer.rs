//! What administrators of an organization may do: pause, resume, abort, roll back and retry rollouts; free the claims of a group.
//!
//! Each is one transaction on the rows that every agbot reads, so it holds whoever works on the group, and survives that
//! agbot's death. Source: orchestration B12, 2.8, E5.5.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Response};
use evenkeel_agbot_store::claim::{self as claims, ClaimEnding, EndedClaim};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::rollout as rollouts;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::claims::{Claim, Scope};
use evenkeel_planner::event::Event;
use evenkeel_planner::rolling::Rollout;
use evenkeel_planner::rolling::action::{Asker, RolloutAction, act};
use evenkeel_store::{PgConnection, retry};
use evenkeel_wire::agbot::claim::FreedClaims;
use evenkeel_wire::agbot::rollout::ChangedRollouts;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::caller::may_administrate;
use super::shape;
use super::{Running, answer};
use crate::AgbotError;
use crate::context::Context;
use crate::observe::records::{claim_of, ended};

/// Which rollouts of a policy are meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OfGroup {
    /// The HA group; without it every group.
    group: Option<String>,
}

/// `POST /orgs/{org}/agbot/rollouts/{policy}/{action}`: 200 with the rollouts as they are now, 409 when none of them can do that.
pub(super) async fn act_on_rollouts(
    Running(context): Running,
    Path((org, policy, word)): Path<(String, String, String)>,
    query: Result<Query<OfGroup>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let actor = match may_administrate(&context, &headers, &org).await {
        Ok(actor) => actor,
        Err((status, why)) => return answer(status, why),
    };
    let Some(action) = RolloutAction::from_name(&word) else {
        return answer(
            StatusCode::BAD_REQUEST,
            "the action must be one of pause, resume, abort, rollback and retry",
        );
    };
    let Ok(Query(OfGroup { group })) = query else {
        return answer(StatusCode::BAD_REQUEST, "the query may hold group, the name of an HA group, only");
    };
    let wish = Wish {
        policy: PolicyId::new(&org, &policy),
        group: group.map(|group| GroupId::new(&org, &group)),
        action,
        actor,
    };
    match carry_out(&context, &wish).await {
        Ok(Done { changed, unchanged, refused }) if !changed.is_empty() || !unchanged.is_empty() => {
            let events = changed.iter().map(|one| Event::RolloutRecorded { rollout: Box::new(one.clone()) });
            context.send_events(events.collect()).await;
            let rollouts = changed.iter().chain(&unchanged).map(shape::rollout).collect();
            Json(ChangedRollouts { rollouts, refused }).into_response()
        }
        Ok(Done { refused, .. }) if refused.is_empty() => {
            answer(StatusCode::NOT_FOUND, format!("the policy {org}/{policy} has no rollout there"))
        }
        Ok(Done { refused, .. }) => answer(StatusCode::CONFLICT, refused.join("; ")),
        Err(error) => answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

struct Wish {
    policy: PolicyId,
    group: Option<GroupId>,
    action: RolloutAction,
    actor: String,
}

#[derive(Default)]
struct Done {
    changed: Vec<Rollout>,
    unchanged: Vec<Rollout>,
    refused: Vec<String>,
}

async fn carry_out(context: &Context, wish: &Wish) -> Result<Done, AgbotError> {
    let asker = Asker { actor: &wish.actor, now: context.now() };
    retry("rollout.act", || async {
        let mut done = Done::default();
        let mut tx = context.database.begin().await?;
        for record in rollouts::lock_of_policy(&mut tx, &wish.policy, wish.group.as_ref()).await? {
            let rollout: Rollout = serde_json::from_value(record)?;
            match act(&rollout, wish.action, asker) {
                Ok(Some(next)) => {
                    store(&mut tx, &next, wish, asker.now).await?;
                    done.changed.push(next);
                }
                Ok(None) => done.unchanged.push(rollout),
                Err(why) => done.refused.push(why),
            }
        }
        tx.commit().await?;
        Ok::<Done, AgbotError>(done)
    })
    .await
}

async fn store(
    tx: &mut PgConnection,
    rollout: &Rollout,
    wish: &Wish,
    now: Timestamp,
) -> Result<(), AgbotError> {
    rollouts::upsert_rollout(tx, &rollout.group, &rollout.policy, &serde_json::to_value(rollout)?).await?;
    let row = EventRow {
        happened_at: now,
        kind: wish.action.event_kind().to_owned(),
        ha_group: Some(rollout.group.clone()),
        node: None,
        policy: Some(rollout.policy.clone()),
        detail: json!({"actor": wish.actor, "target": rollout.effective_target(), "total": rollout.total}),
    };
    events::insert_event(tx, &row).await?;
    Ok(())
}

/// Which claims of a group are meant.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OfClaim {
    /// The member that holds it.
    node: Option<String>,
    /// The deployment policy that it is about.
    policy: Option<String>,
}

/// `DELETE /orgs/{org}/hagroups/{group}/upgrades`: frees the claims of the group, or those that the query names.
pub(super) async fn free_group(
    Running(context): Running,
    Path((org, group)): Path<(String, String)>,
    query: Result<Query<OfClaim>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    free(&context, &headers, (&org, &group), query).await
}

/// `DELETE /orgs/{org}/hagroups/{group}/upgrades/{node}`: frees the claims that a member holds.
pub(super) async fn free_member(
    Running(context): Running,
    Path((org, group, node)): Path<(String, String, String)>,
    query: Result<Query<OfClaim>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let query = query.map(|Query(of)| Query(OfClaim { node: Some(node), ..of }));
    free(&context, &headers, (&org, &group), query).await
}

async fn free(
    context: &Arc<Context>,
    headers: &HeaderMap,
    (org, group): (&str, &str),
    query: Result<Query<OfClaim>, QueryRejection>,
) -> Response {
    let actor = match may_administrate(context, headers, org).await {
        Ok(actor) => actor,
        Err((status, why)) => return answer(status, why),
    };
    let Ok(Query(of)) = query else {
        return answer(StatusCode::BAD_REQUEST, "the query may hold node and policy only, each once");
    };
    let node = of.node.map(|node| NodeId::new(org, node.strip_prefix(&format!("{org}/")).unwrap_or(&node)));
    let policy = of.policy.map(|policy| {
        let name = policy.strip_prefix(&format!("{org}/")).unwrap_or(&policy);
        Scope::Policy(PolicyId::new(org, name))
    });
    let is_meant = |claim: &Claim| {
        node.as_ref().is_none_or(|node| *node == claim.node)
            && policy.as_ref().is_none_or(|scope| *scope == claim.scope)
    };
    match release(context, &GroupId::new(org, group), &actor, is_meant).await {
        Ok(freed) if freed.is_empty() => {
            answer(StatusCode::NOT_FOUND, format!("nobody holds such a claim of HA group {org}/{group}"))
        }
        Ok(freed) => {
            let keys: BTreeSet<_> = freed.iter().map(Claim::key).collect();
            context.send_events(keys.into_iter().map(|key| Event::ClaimRemoved { key }).collect()).await;
            Json(FreedClaims { freed: freed.iter().map(shape::claim).collect() }).into_response()
        }
        Err(error) => answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Deletes claims. Whoever held one acts under its number, which no row has any more.
async fn release(
    context: &Context,
    group: &GroupId,
    actor: &str,
    is_meant: impl Fn(&Claim) -> bool,
) -> Result<Vec<Claim>, AgbotError> {
    let why = format!("freed by {actor}");
    let Context { database, instance, .. } = context;
    retry("claim.free", || async {
        let groups = [group];
        let rows = database.read(async |connection| claims::read_groups(connection, &groups).await).await?;
        let held = rows.into_iter().flat_map(|row| row.claims).map(claim_of);
        let mut freed = held.collect::<Result<Vec<Claim>, _>>()?;
        freed.retain(&is_meant);
        let wanted: Vec<EndedClaim> =
            freed.iter().map(|claim| ended(&claim.reference(), &why, None)).collect();
        let (wanted, now) = (&wanted, context.now());
        let endings = database
            .read(async |connection| claims::delete_claims(connection, *instance, wanted, now).await)
            .await?;
        let ended = freed.into_iter().zip(endings);
        let removed = ended.filter(|(_, ending)| *ending == ClaimEnding::Removed);
        Ok::<Vec<Claim>, AgbotError>(removed.map(|(claim, _)| claim).collect())
    })
    .await
}
