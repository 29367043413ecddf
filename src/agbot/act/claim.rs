//! Takes, moves and releases claims: check and insert in one transaction under the group's lock.
//!
//! Source: orchestration E5 and E6; seed 004, "Agent Upgrades".

use std::collections::BTreeMap;

use evenkeel_planner::agent_upgrade::{GroupView, MemberView, Refusal, decide_agent_upgrade};
use evenkeel_planner::claims::{Claim, ClaimRef, ClaimRequest, Grant, Phase, ReleaseReason, Scope, may_take};
use evenkeel_planner::command::Lease;
use evenkeel_planner::event::{Event, Outcome};
use evenkeel_planner::facts::HaGroupFacts;
use evenkeel_planner::ids::{NmpId, NodeId};
use evenkeel_planner::report::Blocked;
use evenkeel_planner::rolling::Rollout;
use evenkeel_planner::settings::PlannerSettings;
use evenkeel_store::agbot::event::{self as events, EventRow};
use evenkeel_store::agbot::{claim as table, rollout as rollouts};
use evenkeel_store::{Database, PgConnection, StoreError, retry};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::check_lease;
use crate::AgbotError;
use crate::context::Context;
use crate::observe::read;
use crate::observe::records::{claim_of, phase_text, row_of};

/// Members that asked within this time count as waiting for their turn.
const WAITING: SignedDuration = SignedDuration::from_secs(180);

/// Takes a claim for a service upgrade, after a fresh look at the members that the decision counted on.
pub(super) async fn take(
    context: &Context,
    lease: Lease,
    request: &ClaimRequest,
) -> Result<Outcome, AgbotError> {
    let group = context
        .model()
        .group(&request.group)
        .cloned()
        .ok_or_else(|| AgbotError::Refused(format!("the group {} is gone", request.group)))?;
    confirm_running(context, request).await?;
    let claim = retry("claim.take", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        table::lock_group(&mut tx, request.group.as_str()).await?;
        let rows = rows_of_group(&mut tx, request.group.as_str()).await?;
        let grant =
            may_take(&rows, request, &group).map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
        let claim = match (grant, rows.into_iter().find(|row| row.scope == request.scope)) {
            (Grant::Held, Some(held)) => held,
            _ => insert(&mut tx, request, context.now()).await?,
        };
        tx.commit().await?;
        Ok::<Claim, AgbotError>(claim)
    })
    .await?;
    Ok(Outcome::ClaimTaken { claim: Box::new(claim) })
}

/// The floor rests on copies that were seen running: none of them may have stopped since.
async fn confirm_running(context: &Context, request: &ClaimRequest) -> Result<(), AgbotError> {
    for node in &request.seen_running {
        let fresh = read::status(context, node).await?;
        let is_same = {
            let model = context.model();
            fresh.iter().all(|event| match event {
                Event::NodeStatusChanged { node, status } => {
                    let services = |status: Option<&evenkeel_planner::facts::NodeStatusFacts>| {
                        status.map(|status| status.services.clone()).unwrap_or_default()
                    };
                    let known = model.node(node).and_then(|record| record.status.as_ref());
                    services(known) == services(status.as_deref())
                }
                _ => true,
            })
        };
        if !is_same {
            context.tell(fresh).await;
            return Err(AgbotError::Refused(format!("{node} reports another state by now")));
        }
    }
    Ok(())
}

async fn rows_of_group(tx: &mut PgConnection, group: &str) -> Result<Vec<Claim>, AgbotError> {
    table::list_of_group(tx, group).await?.into_iter().map(claim_of).collect()
}

async fn insert(tx: &mut PgConnection, request: &ClaimRequest, now: Timestamp) -> Result<Claim, AgbotError> {
    let mut claim = request.clone().into_claim(0, now);
    let fencing = table::insert_claim(tx, &row_of(&claim)?).await?.unsigned_abs();
    claim.fencing = fencing;
    let seen: Vec<&str> = request.seen_running.iter().map(NodeId::as_str).collect();
    let detail = json!({"scope": claim.scope.text(), "fencing": fencing, "seenRunning": seen, "version": claim.version});
    record_event(tx, &event("hagroup.lock-granted", &claim, detail, now)).await?;
    Ok(claim)
}

fn event(kind: &str, claim: &Claim, detail: serde_json::Value, now: Timestamp) -> EventRow {
    EventRow {
        happened_at: now,
        kind: kind.to_owned(),
        ha_group: Some(claim.group.as_str().to_owned()),
        node: Some(claim.node.as_str().to_owned()),
        policy: None,
        detail,
    }
}

/// Appends an event to the log of what the agbot did.
pub(crate) async fn record_event(tx: &mut PgConnection, event: &EventRow) -> Result<(), StoreError> {
    events::insert_event(tx, event).await
}

/// Moves a claim to its next phase.
pub(super) async fn advance(
    context: &Context,
    lease: Lease,
    claim: &ClaimRef,
    phase: Phase,
    deadline: Timestamp,
) -> Result<(), AgbotError> {
    let phase = phase_text(phase)?;
    retry("claim.advance", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let (group, scope) = (claim.group.as_str(), claim.scope.text());
        let fencing = claim.fencing.cast_signed();
        let is_moved =
            table::advance_claim(&mut tx, group, scope, fencing, &phase, context.now(), deadline).await?;
        tx.commit().await?;
        if is_moved { Ok(()) } else { Err(AgbotError::Refused("the claim is gone".to_owned())) }
    })
    .await
}

/// Releases exactly this claim.
pub(super) async fn release(
    context: &Context,
    lease: Lease,
    claim: &ClaimRef,
    node: &NodeId,
    why: &ReleaseReason,
) -> Result<(), AgbotError> {
    retry("claim.release", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let (group, scope) = (claim.group.as_str(), claim.scope.text());
        if table::delete_claim(&mut tx, group, scope, claim.fencing.cast_signed()).await? {
            if claim.scope == Scope::Agent {
                table::set_released_at(&mut tx, group, context.now()).await?;
            }
            let row = EventRow {
                happened_at: context.now(),
                kind: "hagroup.lock-released".to_owned(),
                ha_group: Some(group.to_owned()),
                node: Some(node.as_str().to_owned()),
                policy: None,
                detail: json!({"scope": scope, "fencing": claim.fencing, "why": why.to_string()}),
            };
            record_event(&mut tx, &row).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Stores the state of a rollout, unless somebody else wrote it since it was read.
pub(super) async fn record_rollout(
    context: &Context,
    lease: Lease,
    rollout: &Rollout,
) -> Result<(), AgbotError> {
    let record = serde_json::to_value(rollout)?;
    retry("rollout.record", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = rollouts::lock_rollout(&mut tx, rollout.group.as_str(), rollout.policy.as_str()).await?;
        let stored: Option<Rollout> = stored.map(serde_json::from_value).transpose()?;
        if !rollout.may_replace(stored.as_ref()) {
            return Err(AgbotError::Refused("somebody else wrote the rollout meanwhile".to_owned()));
        }
        rollouts::upsert_rollout(&mut tx, rollout.group.as_str(), rollout.policy.as_str(), &record).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Decides in one transaction whether a member may upgrade its agent now, and records the claim if so.
///
/// # Errors
/// When the database does not answer. The inner result is the answer for the node: the claim, or why not.
pub(crate) async fn grant_agent_upgrade(
    context: &Context,
    question: UpgradeQuestion<'_>,
) -> Result<Result<Claim, Blocked>, AgbotError> {
    grant_on(&context.database, &context.settings.planner, question, || context.now()).await
}

/// May this member of a group upgrade its agent now?
#[derive(Debug, Clone, Copy)]
pub struct UpgradeQuestion<'a> {
    /// The group.
    pub group: &'a HaGroupFacts,
    /// What is known of its members.
    pub members: &'a BTreeMap<NodeId, MemberView>,
    /// The member that asks.
    pub node: &'a NodeId,
    /// The management policy that it wants to execute.
    pub nmp: &'a NmpId,
}

/// The same on any database, with any clock.
///
/// # Errors
/// When the database does not answer. The inner result is the answer for the node: the claim, or why not.
pub async fn grant_on(
    database: &Database,
    settings: &PlannerSettings,
    question: UpgradeQuestion<'_>,
    clock: impl Fn() -> Timestamp,
) -> Result<Result<Claim, Blocked>, AgbotError> {
    let UpgradeQuestion { group, members, node, nmp } = question;
    retry("claim.grant_agent", || async {
        let now = clock();
        let stale = now.saturating_sub(WAITING).unwrap_or(now);
        let mut tx = database.begin().await?;
        let released_at = table::lock_group(&mut tx, group.id.as_str()).await?;
        let rows = rows_of_group(&mut tx, group.id.as_str()).await?;
        let waits = table::list_waits(&mut tx, group.id.as_str()).await?;
        let ends_waits = waits.iter().any(|row| row.node == node.as_str() || row.refreshed_at < stale);
        let refusals: Vec<Refusal> = waits
            .into_iter()
            .filter(|row| row.refreshed_at >= stale)
            .map(|row| Refusal {
                node: NodeId::from_text(&row.node),
                first_at: row.since,
                last_at: row.refreshed_at,
            })
            .collect();
        let view = GroupView { group, rows: &rows, members, refusals: &refusals, released_at };
        let answer = match decide_agent_upgrade(view, node, nmp, now, settings) {
            Ok((Grant::Held, request)) => match rows.iter().find(|row| row.scope == request.scope) {
                Some(held) => Ok(held.clone()),
                None => Ok(insert(&mut tx, &request, now).await?),
            },
            Ok((Grant::Insert, request)) => {
                if ends_waits {
                    table::delete_waits(&mut tx, group.id.as_str(), node.as_str(), stale).await?;
                }
                Ok(insert(&mut tx, &request, now).await?)
            }
            Err(blocked) => {
                table::upsert_wait(&mut tx, group.id.as_str(), node.as_str(), now).await?;
                Err(blocked)
            }
        };
        tx.commit().await?;
        Ok::<_, AgbotError>(answer)
    })
    .await
}
