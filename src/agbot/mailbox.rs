//! Reads the mailbox: opens envelopes, tells the engine, deletes what is done.
//!
//! Source: agreement protocol 1.2 and 1.3. An envelope that does not open, was seen before, or speaks in another's name is dropped and
//! counted; it changes nothing.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::model::AgbotMessage;
use evenkeel_planner::command::MessageFate;
use evenkeel_planner::event::{AgreementMessage, Event, MessageBody};
use evenkeel_planner::ids::{AgreementId, NodeId};
use evenkeel_wire::agreement::{Body, Message, PROTOCOL, PublicKey, ReplayGuard, open};
use tokio_util::sync::CancellationToken;

use crate::AgbotError;
use crate::context::Context;

const PAGE: u32 = 500;
/// How often the mailbox is looked at when nothing says that there is something.
const PERIOD: Duration = Duration::from_secs(10);
/// Envelopes remembered to tell copies from new messages.
const REMEMBERED: usize = 20_000;

/// Runs until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let mut guard = ReplayGuard::new(REMEMBERED);
    loop {
        tokio::select! {
            () = context.mail.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
        if !context.is_loaded() {
            continue;
        }
        if let Err(error) = read(&context, &mut guard).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the mailbox could not be read");
        }
    }
}

async fn read(context: &Arc<Context>, guard: &mut ReplayGuard) -> Result<(), AgbotError> {
    let (org, id) = (&context.settings.org, &context.settings.id);
    let messages = context.client.list_agbot_messages(org, id, PAGE).await?;
    for message in messages {
        let fate = match guard.check(&message.message) {
            Ok(()) => handle(context, &message).await,
            Err(_) => {
                context.count_dropped_message();
                MessageFate::Delete
            }
        };
        if fate == MessageFate::Delete {
            context.client.delete_agbot_message(org, id, message.msg_id).await?;
            guard.record(&message.message);
        }
    }
    Ok(())
}

async fn handle(context: &Arc<Context>, message: &AgbotMessage) -> MessageFate {
    let opener = context.clone();
    let (text, sender_key) = (message.message.clone(), message.node_pub_key.clone());
    // Private key operations take milliseconds: not on the threads that serve everybody.
    let opened = tokio::task::spawn_blocking(move || {
        let sender = PublicKey::from_base64(&sender_key).ok()?;
        open(&text, &opener.key, sender.spki_der(), &mut rand::rng()).ok()
    })
    .await;
    let Some(event) = opened.ok().flatten().and_then(|bytes| event_of(&message.node_id, &bytes)) else {
        context.count_dropped_message();
        tracing::warn!(node.id = message.node_id, "dropped a message that cannot be used");
        return MessageFate::Delete;
    };
    context.tell_message(event).await
}

/// The event a message means; `None` when it is not one for an agbot, or names another sender than the exchange does.
fn event_of(sender: &str, bytes: &[u8]) -> Option<Event> {
    let message = Message::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    if message.protocol != PROTOCOL {
        return None;
    }
    let body = match message.body {
        Body::Reply { decision, device_id } if device_id == sender => MessageBody::Reply { decision },
        Body::Cancel { reason } => MessageBody::Cancel { reason: u32::try_from(reason).unwrap_or(u32::MAX) },
        Body::Verification => MessageBody::Verification,
        Body::VerificationReply { exists } => MessageBody::VerificationReply { exists },
        Body::Update { update_type, .. } => MessageBody::Update { update_type },
        Body::UpdateReply { update_type, accepted } => MessageBody::UpdateReply { update_type, accepted },
        _ => return None,
    };
    let message = AgreementMessage {
        from: NodeId::from_text(sender),
        agreement: AgreementId::from_text(&message.agreement_id),
        body,
    };
    Some(Event::Message { message: Box::new(message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: Body) -> String {
        Message::new("a1", body).to_json()
    }

    #[test]
    fn a_reply_in_another_nodes_name_is_no_event() {
        let reply = text(Body::Reply { decision: true, device_id: "o/other".into() });
        assert!(event_of("o/n", reply.as_bytes()).is_none());
        let reply = text(Body::Reply { decision: true, device_id: "o/n".into() });
        assert!(event_of("o/n", reply.as_bytes()).is_some());
    }

    #[test]
    fn messages_for_nodes_and_garbage_are_no_events() {
        assert!(event_of("o/n", text(Body::ReplyAck { decision: true }).as_bytes()).is_none());
        assert!(event_of("o/n", b"{").is_none());
        assert!(event_of("o/n", &[0xff, 0xfe]).is_none());
    }
}
