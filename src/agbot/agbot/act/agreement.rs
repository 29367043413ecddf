//! Creates, confirms, updates and ends agreements.
//!
//! Source: agreement-protocol 2.4.

use evenkeel_agbot_store::agreement::{self as table, UsageRow};
use evenkeel_agbot_store::claim as claims;
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use evenkeel_planner_record::agreement::{Agreement, CancelReason, PendingUpdate};
use evenkeel_planner_record::claims::ClaimRef;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::usage::{Backoff, WorkloadUsage};
use evenkeel_store::{PgConnection, StoreError, retry};
use evenkeel_wire::agreement::Body;
use serde_json::{Value, json};

use super::{message, plan, terms};
use crate::{
    AgbotError,
    context::Context,
    lease_check::check_lease,
    outbox::{Effect, Publication, Subject, enqueue, publication, publish_later, supersede},
};

const LIVE_KEY: &str = "agreement_node_policy_live_key";

/// A positive reply that is acknowledged.
pub(super) struct Reply<'a> {
    pub id: &'a AgreementId,
    pub node: &'a NodeId,
    pub policy: Option<&'a PolicyId>,
    pub usage: Option<&'a WorkloadUsage>,
}

/// The end of an agreement.
pub(super) struct End<'a> {
    pub id: &'a AgreementId,
    pub node: &'a NodeId,
    pub policy: &'a PolicyId,
    pub reason: CancelReason,
    pub cause: &'a str,
    pub claim: Option<&'a ClaimRef>,
    pub usage: Option<&'a WorkloadUsage>,
    pub backoff: Option<&'a Backoff>,
    pub notifies_node: bool,
}

/// Records the agreement with its proposal.
pub(super) async fn propose(
    context: &Context,
    lease: Lease,
    agreement: &Agreement,
    claim: Option<&ClaimRef>,
) -> Result<(), AgbotError> {
    let offer = terms::offer(context, agreement)?;
    let record = serde_json::to_value(agreement)?;
    let subject = Subject { node: &agreement.node, agreement: &agreement.id };
    let record_of_it = [Effect::record(agreement, "Formed Proposal")];
    let offer = [Effect::message(&agreement.id, offer)];
    retry("agreement.propose", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        check_claim(&mut tx, claim).await?;
        let task = plan::check_task(&mut tx, agreement.task.as_ref()).await?;
        let inserted = table::insert_agreement(
            &mut tx,
            &agreement.id,
            &agreement.node,
            &agreement.policy,
            &record,
            agreement.created_at,
        )
        .await;
        let is_new = match inserted {
            Err(StoreError::Conflict { constraint }) if constraint == LIVE_KEY => {
                return Err(AgbotError::Refused(
                    "another agreement of the node and policy is alive".to_owned(),
                ));
            }
            other => other?,
        };
        if is_new {
            // The exchange takes a task only with an agreement that it knows, and the node must know that the agreement is a task's before it
            // sees the proposal.
            enqueue(context, &mut tx, lease, subject, &record_of_it).await?;
            let task = task.and_then(|task| publication(&context.model(), &task));
            let task = task.map(|one| Publication { agreement: Some(agreement.id.clone()), ..one });
            publish_later(context, &mut tx, lease.partition, task.as_slice()).await?;
            enqueue(context, &mut tx, lease, subject, &offer).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Acknowledges a positive reply, and finalizes the agreement when it is still wanted.
pub(super) async fn acknowledge(
    context: &Context,
    lease: Lease,
    reply: &Reply<'_>,
    decision: bool,
) -> Result<(), AgbotError> {
    let subject = Subject { node: reply.node, agreement: reply.id };
    if !decision {
        return message::send(context, lease, subject, Body::ReplyAck { decision: false }).await;
    }
    let usage = reply.usage.map(serde_json::to_value).transpose()?;
    retry("agreement.finalize", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let agreement = locked(&mut tx, reply.id).await?;
        // An earlier execution has delivered this already, or it waits in the outbox.
        if agreement.finalized_at().is_none() {
            let now = context.now();
            let done = agreement.finalize(now).map_err(|error| AgbotError::Refused(error.to_string()))?;
            let detail = json!({"agreement": done.id.as_str(), "service": done.service_key.as_str(), "version": done.version});
            let event = agreement_event("agreement.made", (&done.node, &done.policy), detail, now);
            events::insert_event(&mut tx, &event).await?;
            table::update_agreement(&mut tx, reply.id, &serde_json::to_value(&done)?, None).await?;
            if let Some(policy) = reply.policy {
                table::set_usage(&mut tx, reply.node, policy, usage.as_ref()).await?;
            }
            let effects = [
                Effect::record(&done, "Producer agreed"),
                Effect::message(reply.id, Body::ReplyAck { decision: true }),
                Effect::record(&done, "Finalized Agreement"),
            ];
            enqueue(context, &mut tx, lease, subject, &effects).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Ends an agreement in the records, in the exchange and on the node.
pub(super) async fn cancel(context: &Context, lease: Lease, end: &End<'_>) -> Result<(), AgbotError> {
    let usage = end.usage.map(serde_json::to_value).transpose()?;
    let backoff = end.backoff.map(serde_json::to_value).transpose()?;
    let usage = UsageRow { node: end.node.clone(), policy: end.policy.clone(), usage, backoff };
    let subject = Subject { node: end.node, agreement: end.id };
    let mut effects = vec![Effect::DeleteAgreement];
    if end.notifies_node {
        effects.push(Effect::message(end.id, message::cancel(end.reason)));
    }
    retry("agreement.cancel", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let agreement = locked(&mut tx, end.id).await?;
        if agreement.is_live() {
            check_claim(&mut tx, end.claim).await?;
            let now = context.now();
            let version = agreement.version.clone();
            let ended = agreement.end(now, end.reason).map_err(|error| AgbotError::Refused(error.to_string()))?;
            table::update_agreement(&mut tx, end.id, &serde_json::to_value(&ended)?, Some(now)).await?;
            table::upsert_usage(&mut tx, &usage).await?;
            let detail = json!({"agreement": end.id.as_str(), "version": version, "reason": end.reason.0, "text": end.cause});
            let event = agreement_event("agreement.ended", (end.node, end.policy), detail, now);
            events::insert_event(&mut tx, &event).await?;
            supersede(&mut tx, end.id).await?;
            enqueue(context, &mut tx, lease, subject, &effects).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Sends changed terms of a running agreement.
pub(super) async fn send_update(
    context: &Context,
    lease: Lease,
    id: &AgreementId,
    terms_digest: u64,
) -> Result<(), AgbotError> {
    change(context, lease, id, |agreement, sent_at| {
        agreement.pending_update = Some(PendingUpdate { terms_digest, sent_at });
        Ok(vec![Effect::message(&agreement.id, terms::update(context, agreement)?)])
    })
    .await
}

/// Records that the node accepted the update.
pub(super) async fn record_update(
    context: &Context,
    lease: Lease,
    id: &AgreementId,
    terms_digest: u64,
) -> Result<(), AgbotError> {
    change(context, lease, id, |agreement, _| {
        agreement.terms_digest = terms_digest;
        agreement.pending_update = None;
        Ok(Vec::new())
    })
    .await
}

/// Records that the instance of an ended agreement has stopped.
pub(super) async fn record_stopped(
    context: &Context,
    lease: Lease,
    id: &AgreementId,
) -> Result<(), AgbotError> {
    retry("agreement.stopped", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let agreement = locked(&mut tx, id).await?;
        if agreement.awaits_stop {
            let stopped = agreement.confirm_stop().map_err(|error| AgbotError::Refused(error.to_string()))?;
            table::replace_record(&mut tx, id, &serde_json::to_value(&stopped)?).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Stores usage and back-off of a pair.
pub(super) async fn update_usage(
    context: &Context,
    lease: Lease,
    node: &NodeId,
    policy: &PolicyId,
    usage: Option<&WorkloadUsage>,
    backoff: Option<&Backoff>,
) -> Result<(), AgbotError> {
    let row = UsageRow {
        node: node.clone(),
        policy: policy.clone(),
        usage: usage.map(serde_json::to_value).transpose()?,
        backoff: backoff.map(serde_json::to_value).transpose()?,
    };
    retry("agreement.usage", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        table::upsert_usage(&mut tx, &row).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Changes a live agreement; `edit` returns the effects on the exchange.
async fn change(
    context: &Context,
    lease: Lease,
    id: &AgreementId,
    edit: impl Fn(&mut Agreement, jiff::Timestamp) -> Result<Vec<Effect>, AgbotError>,
) -> Result<(), AgbotError> {
    retry("agreement.change", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let mut agreement = locked(&mut tx, id).await?;
        if !agreement.is_live() {
            return Err(AgbotError::Refused("the agreement has ended".to_owned()));
        }
        let effects = edit(&mut agreement, context.now())?;
        table::update_agreement(&mut tx, id, &serde_json::to_value(&agreement)?, None).await?;
        let subject = Subject { node: &agreement.node, agreement: id };
        enqueue(context, &mut tx, lease, subject, &effects).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

fn agreement_event(
    kind: &str,
    (node, policy): (&NodeId, &PolicyId),
    detail: Value,
    at: jiff::Timestamp,
) -> EventRow {
    EventRow {
        happened_at: at,
        kind: kind.to_owned(),
        ha_group: None,
        node: Some(node.clone()),
        policy: Some(policy.clone()),
        detail,
    }
}

async fn locked(tx: &mut PgConnection, id: &AgreementId) -> Result<Agreement, AgbotError> {
    let record = table::lock_agreement(tx, id).await?;
    let record = record.ok_or_else(|| AgbotError::Refused("the agreement is not recorded".to_owned()))?;
    Ok(serde_json::from_value(record)?)
}

/// Holds the claim until the transaction ends.
async fn check_claim(tx: &mut PgConnection, claim: Option<&ClaimRef>) -> Result<(), AgbotError> {
    let Some(claim) = claim else { return Ok(()) };
    let is_held =
        claims::lock_claim(tx, &claim.group, claim.scope.text(), claim.fencing.cast_signed()).await?;
    if is_held {
        Ok(())
    } else {
        Err(AgbotError::Refused(format!(
            "the claim on {} was released or is held by another agbot",
            claim.group
        )))
    }
}
