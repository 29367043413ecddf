//! Actions of administrators of an organization, and of deployers on the policies of their role: pause, resume, abort, roll back and retry rollouts; free the
//! claims of a group.
//!
//! Each is one transaction on the rows that every agbot reads, so it applies to whichever agbot works on the
//! group, and survives a crash of that agbot. Source: orchestration B12, 2.8, E5.5.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot::records::{claim_of, ended};
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::claim::{self as claims, ClaimEnding, EndedClaim};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::rollout as rollouts;
use evenkeel_api::Refusal;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::claims::{Claim, Scope};
use evenkeel_planner_record::rollout::Rollout;
use evenkeel_planner_record::{
    rollout::act as act_on,
    workload::{Requester, RolloutAction},
};
use evenkeel_store::{PgConnection, retry};
use evenkeel_wire::agbot::claim::FreedClaims;
use evenkeel_wire::agbot::rollout::ChangedRollouts;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::actions;
use super::path::{GroupPath, MemberPath, RolloutPath};
use super::permission::{Permission, right};
use super::pipeline::{KnownQuery, Op, Query};
use crate::shown::shape;

/// Selection of rollouts of a policy.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OfGroup {
    /// The HA group; without it every group.
    group: Option<String>,
}

impl KnownQuery for OfGroup {
    const REFUSAL: &'static str = "the query may hold group, the name of an HA group, only";
}

/// Returns the rollouts as they are now; 409 when none of them can do that.
pub(super) async fn act_on_rollouts(
    op: Op<RolloutPath>,
    permission: Permission<right::RolloutOperate>,
    Query(OfGroup { group }): Query<OfGroup>,
) -> Result<Json<ChangedRollouts>, Refusal> {
    let RolloutPath { org, policy, action } = &op.path;
    let action = RolloutAction::from_name(action).ok_or_else(|| {
        let message = "the action must be one of pause, resume, abort, rollback and retry";
        Refusal::new(StatusCode::BAD_REQUEST, message)
    })?;
    act(&op.context, permission.actor(), (org, policy), (action, group.as_deref())).await.map(Json)
}

/// Acts on the rollouts of a policy, for a caller who may, and returns them as they are then.
///
/// # Errors
/// As the operation.
pub(super) async fn act(
    context: &Context,
    actor: &str,
    (org, policy): (&str, &str),
    (action, group): (RolloutAction, Option<&str>),
) -> Result<ChangedRollouts, Refusal> {
    let request = RolloutRequest {
        policy: PolicyId::new(org, policy),
        group: group.map(|group| GroupId::new(org, group)),
        action,
    };
    if let Some(changed) = actions::act_on_update(context, actor, &request).await? {
        return Ok(changed);
    }
    match carry_out(context, actor, &request).await {
        Ok(Done { changed, unchanged, refused }) if !changed.is_empty() || !unchanged.is_empty() => {
            let rollouts = changed.iter().chain(&unchanged).map(shape::rollout).collect();
            Ok(ChangedRollouts { rollouts, workloads: Vec::new(), refused })
        }
        Ok(Done { refused, .. }) if refused.is_empty() => {
            let message = format!("the policy {org}/{policy} has no rollout there");
            Err(Refusal::new(StatusCode::NOT_FOUND, message))
        }
        Ok(Done { refused, .. }) => Err(Refusal::new(StatusCode::CONFLICT, refused.join("; "))),
        Err(error) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// An action on the rollouts of a policy.
pub(super) struct RolloutRequest {
    pub(super) policy: PolicyId,
    /// Only this group.
    pub(super) group: Option<GroupId>,
    pub(super) action: RolloutAction,
}

/// Effect of an action.
#[derive(Default)]
pub(super) struct Done {
    pub(super) changed: Vec<Rollout>,
    /// Rollouts that were so already.
    pub(super) unchanged: Vec<Rollout>,
    /// Reason why others were left as they are.
    pub(super) refused: Vec<String>,
}

/// Acts on the rollouts of a policy; the model knows their new states then.
pub(super) async fn carry_out(
    context: &Context,
    actor: &str,
    request: &RolloutRequest,
) -> Result<Done, AgbotError> {
    let requester = Requester { actor, now: context.now() };
    let done = retry("rollout.act", || async {
        let mut done = Done::default();
        let mut tx = context.database.begin().await?;
        for record in rollouts::lock_of_policy(&mut tx, &request.policy, request.group.as_ref()).await? {
            let rollout: Rollout = serde_json::from_value(record)?;
            match act_on(&rollout, request.action, requester) {
                Ok(Some(next)) => {
                    store(&mut tx, &next, request.action, requester).await?;
                    done.changed.push(next);
                }
                Ok(None) => done.unchanged.push(rollout),
                Err(why) => done.refused.push(why),
            }
        }
        tx.commit().await?;
        Ok::<Done, AgbotError>(done)
    })
    .await?;
    let changed = done.changed.iter().map(|one| Event::RolloutRecorded { rollout: Box::new(one.clone()) });
    context.apply_events(changed.collect()).await;
    Ok(done)
}

async fn store(
    tx: &mut PgConnection,
    rollout: &Rollout,
    action: RolloutAction,
    requester: Requester<'_>,
) -> Result<(), AgbotError> {
    rollouts::upsert_rollout(tx, &rollout.group, &rollout.policy, &serde_json::to_value(rollout)?).await?;
    let row = EventRow {
        happened_at: requester.now,
        kind: action.event_kind().to_owned(),
        ha_group: Some(rollout.group.clone()),
        node: None,
        policy: Some(rollout.policy.clone()),
        detail: json!({"actor": requester.actor, "target": rollout.effective_target(), "total": rollout.total}),
    };
    events::insert_event(tx, &row).await?;
    Ok(())
}

/// Filter of the claims of a group.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimFilter {
    /// Only claims that this member holds.
    node: Option<String>,
    /// Only claims of this deployment policy.
    policy: Option<String>,
}

impl KnownQuery for ClaimFilter {
    const REFUSAL: &'static str = "the query may hold node and policy only, each once";
}

/// Frees the claims of the group, or those that the query names.
pub(super) async fn free_claims(
    op: Op<GroupPath>,
    permission: Permission<right::OrgAdminister>,
    Query(of): Query<ClaimFilter>,
) -> Result<Json<FreedClaims>, Refusal> {
    let GroupPath { org, hagroup } = &op.path;
    free(&op.context, &permission, (org, hagroup), of).await
}

/// Frees the claims that a member holds.
pub(super) async fn free_claims_of_member(
    op: Op<MemberPath>,
    permission: Permission<right::OrgAdminister>,
    Query(of): Query<ClaimFilter>,
) -> Result<Json<FreedClaims>, Refusal> {
    let MemberPath { org, hagroup, node } = &op.path;
    let of = ClaimFilter { node: Some(node.clone()), ..of };
    free(&op.context, &permission, (org, hagroup), of).await
}

async fn free(
    context: &Arc<Context>,
    permission: &Permission<right::OrgAdminister>,
    (org, group): (&str, &str),
    of: ClaimFilter,
) -> Result<Json<FreedClaims>, Refusal> {
    let node = of.node.map(|node| NodeId::new(org, node.strip_prefix(&format!("{org}/")).unwrap_or(&node)));
    let policy = of.policy.map(|policy| {
        let name = policy.strip_prefix(&format!("{org}/")).unwrap_or(&policy);
        Scope::Policy(PolicyId::new(org, name))
    });
    let is_meant = |claim: &Claim| {
        node.as_ref().is_none_or(|node| *node == claim.node)
            && policy.as_ref().is_none_or(|scope| *scope == claim.scope)
    };
    match release(context, permission, &GroupId::new(org, group), is_meant).await {
        Ok(freed) if freed.is_empty() => {
            let message = format!("no such claim of HA group {org}/{group} is held");
            Err(Refusal::new(StatusCode::NOT_FOUND, message))
        }
        Ok(freed) => {
            let keys: BTreeSet<_> = freed.iter().map(Claim::key).collect();
            context.apply_events(keys.into_iter().map(|key| Event::ClaimRemoved { key }).collect()).await;
            Ok(Json(FreedClaims { freed: freed.iter().map(shape::claim).collect() }))
        }
        Err(error) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// Deletes claims. A former holder still acts under its fencing number, which no row has any longer.
async fn release(
    context: &Context,
    permission: &Permission<right::OrgAdminister>,
    group: &GroupId,
    is_meant: impl Fn(&Claim) -> bool,
) -> Result<Vec<Claim>, AgbotError> {
    let why = format!("freed by {}", permission.actor());
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
