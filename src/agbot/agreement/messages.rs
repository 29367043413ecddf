//! Effects of a node's message on its agreement.
//!
//! Source: agreement-protocol 2.4 (rows 3a to 12b).
use evenkeel_ids::NodeId;
use evenkeel_planner_model::{
    command::{Action, MessageFate},
    event::{AgreementMessage, MessageBody},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, CancelReason},
    lease::Lease,
};

use crate::{acknowledgement, agreement_end};

/// Handles a message.
///
/// A message about an unknown agreement stays in the mailbox: it may belong to another agbot, or its record is not read yet. A
/// message of another node than the agreement's changes nothing.
pub fn handle(pass: &mut Pass<'_>, message: &AgreementMessage) {
    let model = pass.model;
    let Some(agreement) = model.agreement(&message.agreement) else {
        pass.message = Some(MessageFate::Leave);
        return;
    };
    if model.is_unread_pair(&agreement.node, &agreement.policy) {
        pass.message = Some(MessageFate::Leave);
        return;
    }
    if agreement.node != message.from {
        let is_cancel = matches!(message.body, MessageBody::Cancel { .. });
        pass.message = Some(if is_cancel { MessageFate::Leave } else { MessageFate::Delete });
        let text = format!("{} sent a message about an agreement of {}", message.from, agreement.node);
        pass.emit("message.wrong-sender", text);
        return;
    }
    let Some(lease) = pass.lease_for(&agreement.node) else {
        pass.message = Some(MessageFate::Leave);
        return;
    };
    pass.message = Some(MessageFate::Delete);
    let node = &message.from;
    match &message.body {
        MessageBody::Reply { decision: true } => handle_yes(pass, lease, agreement),
        MessageBody::Reply { decision: false } => {
            if agreement.state == AgreementState::Proposed {
                agreement_end::cancel(pass, lease, agreement, CancelReason::NEGATIVE_REPLY, None, false);
            }
        }
        MessageBody::Cancel { reason } => {
            if agreement.is_live() {
                agreement_end::cancel(pass, lease, agreement, CancelReason(*reason), None, false);
            }
        }
        MessageBody::Verification => reply_to_verification(pass, lease, agreement, node),
        MessageBody::VerificationReply { exists } => {
            if !exists && agreement.finalized_at().is_some() {
                agreement_end::cancel(pass, lease, agreement, CancelReason::AGREEMENT_MISSING, None, true);
            }
        }
        MessageBody::Update { update_type } => {
            let action = Action::RefuseUpdate {
                agreement: agreement.id.clone(),
                node: node.clone(),
                update_type: update_type.clone(),
            };
            pass.issue(lease, action, (node, &agreement.policy));
        }
        MessageBody::UpdateReply { update_type, accepted } => {
            handle_update_reply(pass, lease, agreement, update_type, *accepted);
        }
    }
}

/// Rows 3a to 3d.
fn handle_yes(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    match agreement.state {
        // A second positive reply needs no acknowledgement: the first one had it, and the node repeats its reply if that was lost.
        AgreementState::Finalized { .. } => {}
        AgreementState::Ended { .. } => acknowledgement::refuse_reply(pass, lease, agreement),
        AgreementState::Proposed => {
            match acknowledgement::old_instance(pass, &agreement.node, &agreement.policy) {
                Some(blocked) => {
                    pass.wait(agreement, blocked);
                    // The message is read again after a restart of the agbot; until then the model remembers it.
                    pass.message = Some(MessageFate::Leave);
                }
                None => acknowledgement::acknowledge(pass, lease, agreement),
            }
        }
    }
}

fn reply_to_verification(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, node: &NodeId) {
    let exists = agreement.is_live() && !pass.is_stopping(agreement);
    let action =
        Action::SendVerificationReply { agreement: agreement.id.clone(), node: node.clone(), exists };
    pass.issue(lease, action, (node, &agreement.policy));
}

/// Rows 11 to 12b.
fn handle_update_reply(
    pass: &mut Pass<'_>,
    lease: Lease,
    agreement: &Agreement,
    update_type: &str,
    accepted: bool,
) {
    // The doubled letter is on the wire.
    if update_type != "basicagreementtupdatepolicychange" {
        return;
    }
    match agreement.pending_update {
        Some(update) if accepted => {
            let action = Action::RecordUpdateAccepted {
                agreement: agreement.id.clone(),
                terms_digest: update.terms_digest,
            };
            pass.issue(lease, action, (&agreement.node, &agreement.policy));
        }
        Some(_) if agreement.is_live() => {
            agreement_end::cancel(pass, lease, agreement, CancelReason::UPDATE_REJECTED, None, true);
        }
        _ => {}
    }
}
