//! One message in the mailbox.

use std::sync::Arc;

use evenkeel_client::RetryDelay;
use evenkeel_planner_model::command::MessageFate;
use evenkeel_planner_model::event::Event;
use evenkeel_wire::exchange::message::AgbotMessage;
use jiff::Timestamp;
use tokio::time::Instant;

use super::message;
use crate::context::Context;

/// A message that is still in the exchange's mailbox.
pub(super) struct Entry {
    pub sender: String,
    pub sent_at: Option<Timestamp>,
    pub delay: RetryDelay,
    /// Its stage; none while it is being handled.
    pub stage: Option<Stage>,
    /// When it was read first.
    pub since: Instant,
    /// Bytes of the message.
    pub size: usize,
    /// True if the bytes are in memory.
    pub is_held: bool,
}

/// The stage of a message.
pub(super) enum Stage {
    /// As received.
    Sealed(Box<AgbotMessage>),
    /// Opened, to be handled by the engine.
    Opened(Box<Event>),
    /// Handled and left; it is read again before it is handled again, if it is still there.
    Left,
    /// To be deleted.
    Done,
}

/// Processes a message as far as possible; `None` when it is deleted, else the stage to continue with after a pause.
pub(super) async fn process(context: Arc<Context>, id: i64, mut stage: Stage) -> Option<Stage> {
    let (org, agbot) = (&context.settings.org, &context.settings.id);
    if let Stage::Left = stage {
        stage = match context.client.agbot_message(org, agbot, id).await {
            Ok(Some(sealed)) => Stage::Sealed(Box::new(sealed)),
            // Another instance has handled it, or it has expired.
            Ok(None) => return None,
            Err(_) => return Some(Stage::Left),
        };
    }
    if let Stage::Sealed(sealed) = stage {
        stage = match message::event(&context, &sealed).await {
            Ok(Some(event)) => Stage::Opened(Box::new(event)),
            Ok(None) => {
                context.mailbox.count_dropped();
                tracing::warn!(node.id = sealed.node_id, "unusable message dropped");
                Stage::Done
            }
            Err(_) => return Some(Stage::Sealed(sealed)),
        };
    }
    if let Stage::Opened(event) = stage
        && context.send_message((*event).clone()).await == MessageFate::Leave
    {
        return Some(Stage::Opened(event));
    }
    match context.client.delete_agbot_message(org, agbot, id).await {
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(message.id = id, error = &error as &dyn std::error::Error, "message not deleted");
            Some(Stage::Done)
        }
    }
}
