//! The effects that the outbox holds.

use evenkeel_ids::{AgreementId, TaskId};
use evenkeel_planner::agreement::Agreement;
use evenkeel_wire::agreement::{Body, Message};
use evenkeel_wire::exchange::node_part::AgreementWorkload;
use serde::{Deserialize, Serialize};

/// An effect on the exchange. Each may be delivered twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Effect {
    /// Seals a protocol message and puts it into the node's mailbox.
    SendMessage {
        /// The message, not sealed yet: the node's key may change until it is delivered.
        text: String,
    },
    /// Writes the agbot's record of the agreement.
    PutAgreement {
        /// The service.
        service: AgreementWorkload,
        /// The state, as the exchange names it.
        state: String,
    },
    /// Removes the agbot's record of the agreement.
    DeleteAgreement,
    /// Publishes a task as it is stored when this is delivered, or removes it when it is no longer stored.
    PublishTask {
        /// The task.
        task: TaskId,
        /// Partition of its workload unit, under whose lease it is written.
        partition: u32,
    },
}

impl Effect {
    /// Returns the effect that sends a message about an agreement.
    pub(crate) fn message(agreement: &AgreementId, body: Body) -> Self {
        Self::SendMessage { text: Message::new(agreement.as_str(), body).to_json() }
    }

    /// Returns the effect that records a new state of an agreement.
    pub(crate) fn record(agreement: &Agreement, state: &str) -> Self {
        // Without its organization, which is a separate field.
        let pattern = agreement.policy.pattern().unwrap_or_default().to_owned();
        let service = AgreementWorkload {
            orgid: agreement.policy.org().to_owned(),
            pattern,
            url: agreement.service_key.name().to_owned(),
        };
        Self::PutAgreement { service, state: state.to_owned() }
    }
}
