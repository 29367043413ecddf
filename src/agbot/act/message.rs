//! Sends protocol messages to nodes in sealed envelopes.

use evenkeel_planner::agreement::CancelReason;
use evenkeel_planner::ids::{AgreementId, NodeId};
use evenkeel_wire::agreement::{Body, Message, PublicKey, seal};

use crate::AgbotError;
use crate::context::Context;

/// Seals and sends one message; a node that is gone or has no key gets none.
pub(super) async fn send(
    context: &Context,
    node: &NodeId,
    agreement: &AgreementId,
    body: Body,
) -> Result<(), AgbotError> {
    let known = context.model().node(node).map(|record| record.facts.public_key.clone()).unwrap_or_default();
    let key = if known.is_empty() {
        match context.client.node(node.org(), node.name()).await? {
            Some(node) if !node.public_key.is_empty() => node.public_key,
            _ => return Ok(()),
        }
    } else {
        known
    };
    let text = Message::new(agreement.as_str(), body).to_json();
    let sender = context.key.clone();
    let sealed = tokio::task::spawn_blocking(move || {
        let receiver = PublicKey::from_base64(&key)?;
        Ok::<String, AgbotError>(seal(text.as_bytes(), &sender, &receiver, &mut rand::rng())?)
    })
    .await
    .map_err(|_| AgbotError::Refused("the agbot is stopping".to_owned()))??;
    let seconds = context.settings.message_time.as_secs();
    match context.client.send_to_node(node.org(), node.name(), &sealed, seconds).await {
        Err(evenkeel_client::ClientError::Status { status: 404, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn cancel(
    context: &Context,
    agreement: &AgreementId,
    node: &NodeId,
    reason: CancelReason,
) -> Result<(), AgbotError> {
    send(context, node, agreement, Body::Cancel { reason: u64::from(reason.0) }).await
}

pub(super) async fn verify(
    context: &Context,
    agreement: &AgreementId,
    node: &NodeId,
) -> Result<(), AgbotError> {
    send(context, node, agreement, Body::Verification).await
}

pub(super) async fn answer_verification(
    context: &Context,
    agreement: &AgreementId,
    node: &NodeId,
    exists: bool,
) -> Result<(), AgbotError> {
    send(context, node, agreement, Body::VerificationReply { exists }).await
}

pub(super) async fn refuse_update(
    context: &Context,
    agreement: &AgreementId,
    node: &NodeId,
    update_type: &str,
) -> Result<(), AgbotError> {
    send(context, node, agreement, Body::UpdateReply { update_type: update_type.to_owned(), accepted: false })
        .await
}
