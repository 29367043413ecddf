//! Opens envelopes and parses their content as an event.
//!
//! Source: agreement-protocol 1.2, 1.3. An envelope that does not open, or names another sender, changes nothing.

use std::sync::Arc;

use evenkeel_ids::{AgreementId, NodeId};
use evenkeel_planner_model::event::{AgreementMessage, Event, MessageBody};
use evenkeel_wire::agreement::{Body, Message, PROTOCOL, PublicKey, open};
use evenkeel_wire::exchange::message::AgbotMessage;

use crate::context::Context;

/// Opens a message; `None` when it is unusable.
///
/// # Errors
/// When the process is ending: the message is then left for later.
pub(super) async fn event(
    context: &Arc<Context>,
    message: &AgbotMessage,
) -> Result<Option<Event>, tokio::task::JoinError> {
    let opener = context.clone();
    let (text, sender_key) = (message.message.clone(), message.node_pub_key.clone());
    // Private key operations take milliseconds, which would block the shared threads.
    let opened = tokio::task::spawn_blocking(move || {
        let sender = PublicKey::from_base64(&sender_key).ok()?;
        open(&text, &opener.keys.private, sender.spki_der(), &mut rand::rng()).ok()
    })
    .await?;
    Ok(opened.and_then(|bytes| event_of(&message.node_id, &bytes)))
}

/// Returns the event of a message; `None` when it is not one for an agbot, or names another sender than the exchange does.
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
    fn reply_in_another_nodes_name_is_no_event() {
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
