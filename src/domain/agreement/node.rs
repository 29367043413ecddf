//! An agreement on the side that answers the proposal.
//!
//! Source: agreement protocol, "Agent state machine".

use jiff::{SignedDuration, Timestamp};

use super::{EndReason, InvalidTransition};

/// How long the node waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTimeouts {
    /// From the reply until the agreement is final.
    pub agreement: SignedDuration,
    /// From the acknowledgement until the service runs.
    pub start: SignedDuration,
}

/// Where an agreement stands on the side that answers the proposal.
///
/// # Shape
/// `agbot` is `org/agbot`, the only one that may cancel it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAgreement {
    /// The positive reply is sent.
    Replied {
        /// The other side.
        agbot: String,
        /// When.
        replied_at: Timestamp,
    },
    /// The agbot has acknowledged the reply; the service starts.
    Accepted {
        /// The other side.
        agbot: String,
        /// When the reply was sent.
        replied_at: Timestamp,
        /// When the acknowledgement came.
        accepted_at: Timestamp,
        /// Since when the service runs.
        running_since: Option<Timestamp>,
    },
    /// The agbot was reached for verification: final.
    Finalized {
        /// The other side.
        agbot: String,
        /// When the acknowledgement came.
        accepted_at: Timestamp,
        /// Since when it is final.
        finalized_at: Timestamp,
        /// Since when the service runs.
        running_since: Option<Timestamp>,
    },
    /// Given up; the service may still stop, exchange and agbot may not know yet.
    Ending {
        /// The other side.
        agbot: String,
        /// Why.
        reason: EndReason,
        /// Since when.
        since: Timestamp,
        /// Whether the exchange has a record that must go.
        was_accepted: bool,
    },
    /// Over, with nothing left on the node.
    Archived {
        /// Why it ended.
        reason: EndReason,
        /// Since when.
        at: Timestamp,
    },
}

impl NodeAgreement {
    /// Notes that the positive reply is sent.
    pub fn reply(agbot: impl Into<String>, now: Timestamp) -> Self {
        Self::Replied { agbot: agbot.into(), replied_at: now }
    }

    /// Notes the acknowledgement of the reply.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless the reply waits for it: a second acknowledgement is dropped.
    pub fn accept(self, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Replied { agbot, replied_at } => {
                Ok(Self::Accepted { agbot, replied_at, accepted_at: now, running_since: None })
            }
            other => Err(other.refuse("accepted")),
        }
    }

    /// Notes that a verification reached the agbot's mailbox.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless it is accepted.
    pub fn finalize(self, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Accepted { agbot, accepted_at, running_since, .. } => {
                Ok(Self::Finalized { agbot, accepted_at, finalized_at: now, running_since })
            }
            other => Err(other.refuse("finalized")),
        }
    }

    /// Notes that the service was seen running; the first time counts.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless it is accepted or final.
    pub fn note_running(mut self, now: Timestamp) -> Result<Self, InvalidTransition> {
        match &mut self {
            Self::Accepted { running_since, .. } | Self::Finalized { running_since, .. } => {
                running_since.get_or_insert(now);
                Ok(self)
            }
            other => Err(other.refuse("running")),
        }
    }

    /// Gives the agreement up.
    ///
    /// # Errors
    /// [`InvalidTransition`] when it is given up or over already; the first reason stays.
    pub fn end(self, reason: EndReason, now: Timestamp) -> Result<Self, InvalidTransition> {
        let (agbot, was_accepted) = match self {
            Self::Replied { agbot, .. } => (agbot, false),
            Self::Accepted { agbot, .. } | Self::Finalized { agbot, .. } => (agbot, true),
            other @ (Self::Ending { .. } | Self::Archived { .. }) => return Err(other.refuse("ending")),
        };
        Ok(Self::Ending { agbot, reason, since: now, was_accepted })
    }

    /// Notes that the service is gone and exchange and agbot have been told.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless it is given up.
    pub fn archive(self, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Ending { reason, .. } => Ok(Self::Archived { reason, at: now }),
            other => Err(other.refuse("archived")),
        }
    }

    /// Returns the reason for which an agreement that has waited too long is to be given up.
    pub fn overdue(&self, timeouts: NodeTimeouts, now: Timestamp) -> Option<EndReason> {
        let is_over = |since: &Timestamp, limit| now.duration_since(*since) > limit;
        match self {
            Self::Replied { replied_at, .. } => {
                is_over(replied_at, timeouts.agreement).then_some(EndReason::NoReplyAck)
            }
            Self::Accepted { replied_at, .. } => {
                is_over(replied_at, timeouts.agreement).then_some(EndReason::Undefined)
            }
            Self::Finalized { accepted_at, running_since: None, .. } => {
                is_over(accepted_at, timeouts.start).then_some(EndReason::StartTimeout)
            }
            _ => None,
        }
    }

    /// Answers whether an agbot may cancel the agreement.
    pub fn may_be_cancelled_by(&self, sender: &str) -> bool {
        match self {
            Self::Replied { agbot, .. } | Self::Accepted { agbot, .. } | Self::Finalized { agbot, .. } => {
                agbot == sender
            }
            Self::Ending { .. } | Self::Archived { .. } => false,
        }
    }

    /// Answers the agbot's question whether the agreement exists: yes until it is over.
    pub fn exists(&self) -> bool {
        !matches!(self, Self::Archived { .. })
    }

    /// Returns the words that the exchange's record of the node holds; `None` when there is to be no record.
    pub fn exchange_words(&self) -> Option<&'static str> {
        match self {
            Self::Accepted { .. } => Some("Agree to proposal"),
            Self::Finalized { .. } => Some("Finalized Agreement"),
            Self::Replied { .. } | Self::Ending { .. } | Self::Archived { .. } => None,
        }
    }

    /// Returns the state in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Replied { .. } => "replied",
            Self::Accepted { .. } => "accepted",
            Self::Finalized { .. } => "finalized",
            Self::Ending { .. } => "ending",
            Self::Archived { .. } => "archived",
        }
    }

    fn refuse(&self, to: &'static str) -> InvalidTransition {
        InvalidTransition { from: self.name(), to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: NodeTimeouts =
        NodeTimeouts { agreement: SignedDuration::from_secs(10), start: SignedDuration::from_secs(600) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn replied() -> NodeAgreement {
        NodeAgreement::reply("o/bot", at(0))
    }

    #[test]
    fn agreement_goes_from_reply_to_archive() {
        let agreement = replied().accept(at(1)).unwrap();
        assert_eq!(agreement.exchange_words(), Some("Agree to proposal"));
        let agreement = agreement.note_running(at(2)).unwrap().finalize(at(3)).unwrap();
        let running_since = Some(at(2));
        let expected = NodeAgreement::Finalized {
            agbot: "o/bot".into(),
            accepted_at: at(1),
            finalized_at: at(3),
            running_since,
        };
        assert_eq!(agreement, expected);
        assert!(agreement.may_be_cancelled_by("o/bot") && !agreement.may_be_cancelled_by("o/other"));
        let ending = agreement.end(EndReason::ServiceSuspended, at(4)).unwrap();
        assert!(matches!(ending, NodeAgreement::Ending { was_accepted: true, .. }) && ending.exists());
        assert!(!ending.archive(at(5)).unwrap().exists());
    }

    #[test]
    fn second_acknowledgement_and_second_end_are_refused() {
        assert!(replied().accept(at(1)).unwrap().accept(at(2)).is_err());
        assert!(replied().finalize(at(1)).is_err());
        assert!(replied().note_running(at(1)).is_err());
        assert!(replied().archive(at(1)).is_err());
        let ending = replied().end(EndReason::AgbotRequested, at(1)).unwrap();
        assert!(!ending.may_be_cancelled_by("o/bot"));
        assert!(ending.end(EndReason::ServiceTerminated, at(2)).is_err());
    }

    #[test]
    fn silence_ends_the_agreement_after_the_time_of_its_state() {
        assert_eq!(replied().overdue(TIMEOUTS, at(10)), None);
        assert_eq!(replied().overdue(TIMEOUTS, at(11)), Some(EndReason::NoReplyAck));
        let accepted = replied().accept(at(1)).unwrap();
        assert_eq!(accepted.overdue(TIMEOUTS, at(11)), Some(EndReason::Undefined));
        let finalized = accepted.finalize(at(2)).unwrap();
        assert_eq!(finalized.overdue(TIMEOUTS, at(601)), None);
        assert_eq!(finalized.overdue(TIMEOUTS, at(602)), Some(EndReason::StartTimeout));
        assert_eq!(finalized.note_running(at(9)).unwrap().overdue(TIMEOUTS, at(9_999)), None);
    }
}
