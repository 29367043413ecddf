//! Delivers one effect of the outbox.

use evenkeel_agbot_store::outbox::OutboxRow;
use evenkeel_ids::{AgbotId, NodeId};
use evenkeel_wire::agreement::{PublicKey, seal};
use evenkeel_wire::exchange::agbot::PutAgbotAgreement;
use evenkeel_wire::exchange::message::PostMessage;

use super::{Effect, publication};
use crate::AgbotError;
use crate::context::Context;

/// Delivers an effect, or drops it when it can never be delivered: its node is gone, or the exchange refuses it as malformed.
///
/// # Errors
/// An error that may not occur later.
pub(super) async fn deliver(context: &Context, row: &OutboxRow) -> Result<(), AgbotError> {
    match try_to_deliver(context, row).await {
        Err(AgbotError::Exchange(error)) if error.is_not_found() => {
            tracing::debug!(
                node.id = row.node.as_str(),
                subject = row.subject,
                "effect dropped: the node no longer exists"
            );
            Ok(())
        }
        Err(error) if is_useless(&error) => {
            tracing::warn!(
                node.id = row.node.as_str(),
                subject = row.subject,
                error = &error as &dyn std::error::Error,
                "effect dropped: it can never be delivered"
            );
            Ok(())
        }
        outcome => outcome,
    }
}

async fn try_to_deliver(context: &Context, row: &OutboxRow) -> Result<(), AgbotError> {
    let (org, id) = (&context.settings.org, &context.settings.id);
    match serde_json::from_value(row.effect.clone())? {
        Effect::SendMessage { text } => send(context, &row.node, text).await?,
        Effect::PutAgreement { service, state } => {
            let body = PutAgbotAgreement { service, state };
            let agbot = AgbotId::new(org, id);
            context.client.put_agbot_agreement(&agbot, &row.subject, &row.node, &body).await?;
        }
        Effect::DeleteAgreement => {
            context.client.delete_agbot_agreement(org, id, &row.subject).await?;
        }
        Effect::PublishTask { task, partition, agreement } => {
            let one = publication::Publication { node: row.node.clone(), task, partition, agreement };
            publication::publish(context, &one).await?;
        }
    }
    Ok(())
}

/// Returns whether the same attempt would always fail.
fn is_useless(error: &AgbotError) -> bool {
    match error {
        AgbotError::Exchange(error) => matches!(error.status(), Some(400 | 413 | 422)),
        AgbotError::Key(_) | AgbotError::Envelope(_) | AgbotError::Record(_) => true,
        _ => false,
    }
}

/// Seals a message and puts it into the mailbox of a node. A node that is not registered has no key and gets none.
async fn send(context: &Context, node: &NodeId, text: String) -> Result<(), AgbotError> {
    let known = context.model().node(node).map(|record| record.facts.public_key.clone()).unwrap_or_default();
    let key = if known.is_empty() {
        match context.client.node(node).await? {
            Some(node) if !node.public_key.is_empty() => node.public_key,
            _ => return Ok(()),
        }
    } else {
        known
    };
    let sender = context.keys.private.clone();
    // Private key operations take milliseconds, which would block the shared threads.
    let sealed = tokio::task::spawn_blocking(move || {
        let receiver = PublicKey::from_base64(&key)?;
        Ok::<String, AgbotError>(seal(text.as_bytes(), &sender, &receiver, &mut rand::rng())?)
    })
    .await
    .map_err(|_| AgbotError::Refused("the agbot is stopping".to_owned()))??;
    let ttl = i64::try_from(context.settings.message_time.as_secs()).unwrap_or(i64::MAX);
    let message = PostMessage { message: sealed, ttl };
    context.client.send_to_node(node, &message).await?;
    Ok(())
}
