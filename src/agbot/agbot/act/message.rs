//! Protocol messages to nodes that change no record of the agbot.

use evenkeel_planner_record::agreement::CancelReason;
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::retry;
use evenkeel_wire::agreement::Body;

use crate::{
    AgbotError,
    context::Context,
    lease_check::check_lease,
    outbox::{Effect, Subject, enqueue, enqueue_once},
};

/// Enqueues one message, unless the same one is still undelivered.
pub(super) async fn send(
    context: &Context,
    lease: Lease,
    subject: Subject<'_>,
    body: Body,
) -> Result<(), AgbotError> {
    // The node may drop the proposal in flight; that is why it is repeated.
    let is_repeat_wanted = matches!(body, Body::Proposal { .. });
    let effects = [Effect::message(subject.agreement, body)];
    retry("message.send", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        if is_repeat_wanted {
            enqueue(context, &mut tx, lease, subject, &effects).await?;
        } else {
            enqueue_once(context, &mut tx, lease, subject, &effects).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Returns the message that ends an agreement.
pub(super) fn cancel(reason: CancelReason) -> Body {
    Body::Cancel { reason: u64::from(reason.0) }
}
