//! The effects that the outbox holds.

use evenkeel_ids::{AgreementId, TaskId};
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_wire::agreement::{Body, Message};
use evenkeel_wire::exchange::node_part::AgreementWorkload;
use serde::{Deserialize, Serialize};

/// Kind of the effect that sends a message.
pub(super) const MESSAGE: &str = "send-message";

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
        /// The agreement that was made for it, also after its end; `None` if it is the one in the record of the task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agreement: Option<AgreementId>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kind_by_which_they_are_dropped() {
        let message = Effect::SendMessage { text: String::new() };
        assert_eq!(serde_json::to_value(message).unwrap()["kind"], MESSAGE);
    }

    #[test]
    fn publication_of_an_earlier_release_names_no_agreement() {
        let queued = serde_json::json!({"kind": "publish-task", "task": "t", "partition": 3});
        let read: Effect = serde_json::from_value(queued.clone()).unwrap();
        assert_eq!(read, Effect::PublishTask { task: TaskId::from_text("t"), partition: 3, agreement: None });
        assert_eq!(serde_json::to_value(read).unwrap(), queued);
    }
}
