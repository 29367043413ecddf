//! Carries out commands: one executor each, safe to repeat, each checking its lease and claim in its own transaction.
//!
//! No transaction is open across a network call: effects on the exchange are enqueued in the transaction ([`crate::outbox`]). Source: design 4.1.

mod agreement;
mod blocklist;
mod claim;
mod message;
mod plan;
mod registration;
mod task_event;
mod terms;

pub use blocklist::{BlocklistAuthor, clear_blocklist};

use evenkeel_planner_model::command::{Action, Command};
use evenkeel_planner_model::event::Outcome;
use evenkeel_wire::agreement::Body;

use crate::AgbotError;
use crate::claim_batch::ClaimEnd;
use crate::context::Context;
use crate::health;
use crate::outbox::Subject;

/// Carries out one command and returns its outcome.
pub(crate) async fn carry_out(context: &Context, command: &Command) -> Outcome {
    match act(context, command).await {
        Ok(outcome) => outcome,
        Err(AgbotError::Refused(why)) => {
            tracing::debug!(why, "command refused");
            Outcome::Refused { why }
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "command failed");
            Outcome::Failed { why: error.to_string() }
        }
    }
}

async fn act(context: &Context, command: &Command) -> Result<Outcome, AgbotError> {
    let lease = command.lease;
    match &command.action {
        Action::Propose { agreement, claim } => {
            agreement::propose(context, lease, agreement, claim.as_ref()).await?;
        }
        Action::RepeatProposal { agreement } => {
            let subject = Subject { node: &agreement.node, agreement: &agreement.id };
            let offer = terms::offer(context, agreement)?;
            message::send(context, lease, subject, offer).await?;
        }
        Action::AcknowledgeReply { agreement, node, policy, decision, usage } => {
            let reply =
                agreement::Reply { id: agreement, node, policy: policy.as_ref(), usage: usage.as_ref() };
            agreement::acknowledge(context, lease, &reply, *decision).await?;
        }
        Action::Cancel { agreement, node, policy, reason, cause, claim, usage, backoff, notifies_node } => {
            let end = agreement::End {
                id: agreement,
                node,
                policy,
                reason: *reason,
                cause,
                claim: claim.as_ref(),
                usage: usage.as_ref(),
                backoff: backoff.as_ref(),
                notifies_node: *notifies_node,
            };
            agreement::cancel(context, lease, &end).await?;
        }
        Action::RepeatCancel { agreement, node, reason } => {
            message::send(context, lease, Subject { node, agreement }, message::cancel(*reason)).await?;
        }
        Action::SendVerification { agreement, node } => {
            message::send(context, lease, Subject { node, agreement }, Body::Verification).await?;
        }
        Action::SendVerificationReply { agreement, node, exists } => {
            let body = Body::VerificationReply { exists: *exists };
            message::send(context, lease, Subject { node, agreement }, body).await?;
        }
        Action::SendPolicyUpdate { agreement, terms_digest, .. } => {
            agreement::send_update(context, lease, agreement, *terms_digest).await?;
        }
        Action::RecordUpdateAccepted { agreement, terms_digest } => {
            agreement::record_update(context, lease, agreement, *terms_digest).await?;
        }
        Action::RecordStopped { agreement, .. } => {
            agreement::record_stopped(context, lease, agreement).await?;
        }
        Action::RefuseUpdate { agreement, node, update_type } => {
            let body = Body::UpdateReply { update_type: update_type.clone(), accepted: false };
            message::send(context, lease, Subject { node, agreement }, body).await?;
        }
        Action::TakeClaim { request } => return claim::take(context, lease, request).await,
        Action::AdvanceClaim { claim, phase, deadline } => {
            claim::advance(context, lease, claim, *phase, *deadline).await?;
        }
        Action::ReleaseClaim { claim, why, .. } => {
            let end = ClaimEnd { lease, claim: claim.clone(), why: why.clone(), at: context.now() };
            context.claims.release(end).await?;
        }
        Action::RecordRollout { rollout } => claim::record_rollout(context, lease, rollout).await?,
        Action::ApplyPlan { unit_id, plan } => return plan::apply(context, lease, unit_id, plan).await,
        Action::RecordWorkload { workload, adopted, ended } => {
            plan::record_workload(context, lease, workload, adopted, ended.as_deref()).await?;
        }
        Action::RemoveWorkload { policy, is_detached } => {
            plan::remove_workload(context, lease, policy, *is_detached).await?;
        }
        Action::ReportHealth { entity, reports, ttl_secs } => {
            health::report(context, lease, entity, reports, *ttl_secs).await?;
        }
        Action::DropHealth { entities, .. } => health::drop_entities(context, lease, entities).await?,
        Action::RecordRegistration { registration, events, .. } => {
            registration::record(context, lease, registration, events).await?;
        }
        Action::RemoveRegistration { target } => registration::remove(context, lease, target).await?,
        Action::ChangeBlocklist { key, change } => blocklist::change(context, lease, key, change).await?,
        Action::UpdateUsage { node, policy, usage, backoff } => {
            agreement::update_usage(context, lease, node, policy, usage.as_ref(), backoff.as_ref()).await?;
        }
    }
    Ok(Outcome::Done)
}
