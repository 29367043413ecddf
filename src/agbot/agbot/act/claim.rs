//! Takes and moves claims of service upgrades and drains; preconditions must still hold when the claim is inserted.
//!
//! Source: orchestration E5.

use std::collections::BTreeSet;

use evenkeel_agbot_store::claim as table;
use evenkeel_agbot_store::event::{EventRow, insert_event};
use evenkeel_agbot_store::rollout as rollouts;
use evenkeel_change::{self as change, Grant, may_take};
use evenkeel_planner_model::event::{Event, Outcome};
use evenkeel_planner_record::claims::{Claim, ClaimRef, ClaimRequest, Phase, Scope};
use evenkeel_planner_record::facts::HaGroupFacts;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::rollout::{Rollout, history};
use evenkeel_store::{PgConnection, retry};
use jiff::Timestamp;

use crate::{
    AgbotError,
    claim_batch::read_groups,
    context::Context,
    lease_check::check_lease,
    observe::read,
    records::{new_claim, phase_text},
};

/// Number of attempts when another claim of the group is taken or released meanwhile.
const ATTEMPTS: u32 = 5;

/// Takes a claim for a change of a service, after reading the members that the decision counted on again.
pub(super) async fn take(
    context: &Context,
    lease: Lease,
    request: &ClaimRequest,
) -> Result<Outcome, AgbotError> {
    let group = context
        .model()
        .group(&request.group)
        .cloned()
        .ok_or_else(|| AgbotError::Refused(format!("the group {} no longer exists", request.group)))?;
    confirm_running(context, request).await?;
    for _ in 0..ATTEMPTS {
        if let Some(claim) = retry("claim.take", || try_to_take(context, lease, request, &group)).await? {
            return Ok(Outcome::ClaimTaken { claim: Box::new(claim) });
        }
    }
    Err(AgbotError::Refused(format!("other claims of {} come and go all the time", request.group)))
}

/// Takes the claim if it may be taken; `None` when another claim of its group was taken or released meanwhile.
async fn try_to_take(
    context: &Context,
    lease: Lease,
    request: &ClaimRequest,
    group: &HaGroupFacts,
) -> Result<Option<Claim>, AgbotError> {
    let mut tx = context.database.begin().await?;
    check_lease(context, &mut tx, lease).await?;
    let stored = read_groups(&mut tx, &BTreeSet::from([&request.group])).await?;
    let Some(stored) = stored.into_values().next() else { return Ok(None) };
    let grant = may_take(&stored.claims, request, group)
        .map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
    let now = context.now();
    let claim = match grant {
        Grant::Held => stored.claims.into_iter().find(|held| held.scope == request.scope),
        Grant::Insert => {
            check_parallelism(&mut tx, request).await?;
            let wanted = new_claim(request, stored.revision, now, None)?;
            let number = table::insert_claims(&mut tx, &[wanted]).await?.pop().flatten();
            number.map(|number| request.clone().into_claim(number.unsigned_abs(), now))
        }
    };
    tx.commit().await?;
    Ok(claim)
}

/// Refuses a claim beyond the update parallelism of its policy, which counts the claims of all agbots.
///
/// Without a limit nothing is locked.
async fn check_parallelism(tx: &mut PgConnection, request: &ClaimRequest) -> Result<(), AgbotError> {
    let Scope::Policy(policy) = &request.scope else { return Ok(()) };
    if request.parallelism == 0 {
        return Ok(());
    }
    let in_work = table::lock_policy(tx, policy).await?;
    change::check_parallelism(&request.group, request.parallelism, in_work)
        .map_err(|blocked| AgbotError::Refused(blocked.to_string()))
}

/// Checks that no instance on which the minimum available relies has stopped since the decision.
async fn confirm_running(context: &Context, request: &ClaimRequest) -> Result<(), AgbotError> {
    for node in &request.seen_running {
        let fresh = read::status(context, node).await?;
        let is_same = {
            let model = context.model();
            fresh.iter().all(|event| match event {
                Event::NodeStatusChanged { node, status } => {
                    let services = |status: Option<&evenkeel_planner_record::facts::NodeStatusFacts>| {
                        status.map(|status| status.services.clone()).unwrap_or_default()
                    };
                    let known = model.node(node).and_then(|record| record.status.as_ref());
                    services(known) == services(status.as_deref())
                }
                _ => true,
            })
        };
        if !is_same {
            context.send_events(fresh).await;
            return Err(AgbotError::Refused(format!("{node} reports another state by now")));
        }
    }
    Ok(())
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
        let (group, scope) = (&claim.group, claim.scope.text());
        let fencing = claim.fencing.cast_signed();
        let is_moved =
            table::advance_claim(&mut tx, group, scope, fencing, &phase, context.now(), deadline).await?;
        tx.commit().await?;
        if is_moved { Ok(()) } else { Err(AgbotError::Refused("the claim no longer exists".to_owned())) }
    })
    .await
}

/// Stores the state of a rollout, unless another writer changed it since it was read.
pub(super) async fn record_rollout(
    context: &Context,
    lease: Lease,
    rollout: &Rollout,
) -> Result<(), AgbotError> {
    let record = serde_json::to_value(rollout)?;
    retry("rollout.record", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = rollouts::lock_rollout(&mut tx, &rollout.group, &rollout.policy).await?;
        let stored: Option<Rollout> = stored.map(serde_json::from_value).transpose()?;
        if !rollout.may_replace(stored.as_ref()) {
            return Err(AgbotError::Refused("the rollout was changed meanwhile".to_owned()));
        }
        rollouts::upsert_rollout(&mut tx, &rollout.group, &rollout.policy, &record).await?;
        for event in history::events(stored.as_ref(), rollout) {
            let row = EventRow {
                happened_at: context.now(),
                kind: event.kind.to_owned(),
                ha_group: Some(rollout.group.clone()),
                node: event.node,
                policy: Some(rollout.policy.clone()),
                detail: event.detail,
            };
            insert_event(&mut tx, &row).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}
