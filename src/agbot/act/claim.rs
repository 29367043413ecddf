//! Takes and moves claims of service upgrades: check and insert in one transaction under the group's lock.
//!
//! Source: orchestration E5.

use evenkeel_planner::claims::{Claim, ClaimRef, ClaimRequest, Grant, Phase, may_take};
use evenkeel_planner::command::Lease;
use evenkeel_planner::event::{Event, Outcome};
use evenkeel_planner::rolling::Rollout;
use evenkeel_store::agbot::claim::{self as table, NewClaim};
use evenkeel_store::agbot::event::{self as events, EventRow};
use evenkeel_store::agbot::rollout as rollouts;
use evenkeel_store::{PgConnection, StoreError, retry};
use jiff::Timestamp;

use super::check_lease;
use crate::AgbotError;
use crate::context::Context;
use crate::observe::read;
use crate::observe::records::{claim_of, phase_text, row_of};

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
        let ha_group = [request.group.as_str()];
        table::lock_groups(&mut tx, &ha_group).await?;
        let rows: Vec<Claim> = table::list_of_groups(&mut tx, &ha_group)
            .await?
            .into_iter()
            .map(claim_of)
            .collect::<Result<_, _>>()?;
        let grant =
            may_take(&rows, request, &group).map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
        let claim = match grant {
            Grant::Held => rows.into_iter().find(|row| row.scope == request.scope),
            Grant::Insert => insert(&mut tx, vec![request.clone()], context.now()).await?.pop(),
        };
        tx.commit().await?;
        claim.ok_or_else(|| AgbotError::Refused(format!("the claims of {} changed", request.group)))
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

/// Inserts claims; their groups are locked.
pub(super) async fn insert(
    tx: &mut PgConnection,
    requests: Vec<ClaimRequest>,
    now: Timestamp,
) -> Result<Vec<Claim>, AgbotError> {
    let (mut claims, mut rows) = (Vec::new(), Vec::new());
    for request in requests {
        let seen_running = serde_json::to_value(&request.seen_running)?;
        let claim = request.into_claim(0, now);
        rows.push(NewClaim { row: row_of(&claim)?, seen_running });
        claims.push(claim);
    }
    let numbers = table::insert_claims(tx, &rows).await?;
    for (claim, number) in claims.iter_mut().zip(numbers) {
        claim.fencing = number.unsigned_abs();
    }
    Ok(claims)
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
