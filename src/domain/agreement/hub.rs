//! An agreement on the side that proposes it.
//!
//! Source: agreement protocol, "Agbot state machine".

use jiff::{SignedDuration, Timestamp};

use super::{EndReason, InvalidTransition};

/// How long the hub waits, fixed when the proposal is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubTimeouts {
    /// For the node's answer.
    pub protocol: SignedDuration,
    /// For the agreement to become final.
    pub agreement: SignedDuration,
}

/// Where an agreement stands on the side that proposes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubAgreement {
    /// Recorded; the proposal is not sent yet.
    Intended {
        /// Since when.
        since: Timestamp,
    },
    /// The proposal is on its way.
    Proposed {
        /// When it was sent.
        proposed_at: Timestamp,
        /// How long to wait.
        timeouts: HubTimeouts,
    },
    /// The node has agreed; its reply is not acknowledged yet.
    Answered {
        /// When the proposal was sent.
        proposed_at: Timestamp,
        /// How long to wait.
        timeouts: HubTimeouts,
        /// The node that answered, `org/node`.
        node: String,
    },
    /// Both sides know that they agree.
    Finalized {
        /// The node, `org/node`.
        node: String,
        /// Since when.
        finalized_at: Timestamp,
    },
    /// Given up; the exchange's record and the node may not know yet.
    Ending {
        /// Why.
        reason: EndReason,
        /// Since when.
        since: Timestamp,
    },
    /// Over.
    Archived {
        /// Why it ended.
        reason: EndReason,
        /// Since when.
        at: Timestamp,
    },
}

impl HubAgreement {
    /// Records the intention to propose.
    pub fn intend(now: Timestamp) -> Self {
        Self::Intended { since: now }
    }

    /// Notes that the proposal is sent.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless it is intended only.
    pub fn propose(self, timeouts: HubTimeouts, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Intended { .. } => Ok(Self::Proposed { proposed_at: now, timeouts }),
            other => Err(other.refuse("proposed")),
        }
    }

    /// Notes the node's positive reply.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless the reply is the first one to a proposal: a later one is dropped without an answer.
    pub fn answer(self, node: impl Into<String>) -> Result<Self, InvalidTransition> {
        match self {
            Self::Proposed { proposed_at, timeouts } => {
                Ok(Self::Answered { proposed_at, timeouts, node: node.into() })
            }
            other => Err(other.refuse("answered")),
        }
    }

    /// Notes that the reply is acknowledged.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless it is answered.
    pub fn finalize(self, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Answered { node, .. } => Ok(Self::Finalized { node, finalized_at: now }),
            other => Err(other.refuse("finalized")),
        }
    }

    /// Gives the agreement up.
    ///
    /// # Errors
    /// [`InvalidTransition`] when it is given up or over already; the first reason stays.
    pub fn end(self, reason: EndReason, now: Timestamp) -> Result<Self, InvalidTransition> {
        match self {
            Self::Ending { .. } | Self::Archived { .. } => Err(self.refuse("ending")),
            _ => Ok(Self::Ending { reason, since: now }),
        }
    }

    /// Notes that exchange and node have been told.
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
    pub fn overdue(&self, now: Timestamp) -> Option<EndReason> {
        match self {
            Self::Proposed { proposed_at, timeouts } => {
                (now.duration_since(*proposed_at) > timeouts.protocol).then_some(EndReason::NoReply)
            }
            Self::Answered { proposed_at, timeouts, .. } => {
                (now.duration_since(*proposed_at) > timeouts.agreement).then_some(EndReason::Undefined)
            }
            _ => None,
        }
    }

    /// Answers the node's question whether the agreement exists: yes until it is given up.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Ending { .. } | Self::Archived { .. })
    }

    /// Returns the words that the exchange's record of the agbot holds; `None` when there is to be no record.
    pub fn exchange_words(&self) -> Option<&'static str> {
        match self {
            Self::Proposed { .. } => Some("Formed Proposal"),
            Self::Answered { .. } => Some("Producer agreed"),
            Self::Finalized { .. } => Some("Finalized Agreement"),
            Self::Intended { .. } | Self::Ending { .. } | Self::Archived { .. } => None,
        }
    }

    /// Returns the state in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Intended { .. } => "intended",
            Self::Proposed { .. } => "proposed",
            Self::Answered { .. } => "answered",
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const TIMEOUTS: HubTimeouts =
        HubTimeouts { protocol: SignedDuration::from_secs(10), agreement: SignedDuration::from_secs(20) };

    fn proposed() -> HubAgreement {
        HubAgreement::intend(at(0)).propose(TIMEOUTS, at(1)).unwrap()
    }

    #[test]
    fn agreement_goes_from_intention_to_archive() {
        let agreement = proposed();
        assert_eq!(agreement.exchange_words(), Some("Formed Proposal"));
        let agreement = agreement.answer("o/n").unwrap();
        assert_eq!(agreement.exchange_words(), Some("Producer agreed"));
        let agreement = agreement.finalize(at(3)).unwrap();
        assert_eq!(agreement, HubAgreement::Finalized { node: "o/n".into(), finalized_at: at(3) });
        assert!(agreement.is_live() && agreement.overdue(at(1_000_000)).is_none());
        let agreement = agreement.end(EndReason::PolicyChanged, at(4)).unwrap();
        assert!(!agreement.is_live() && agreement.exchange_words().is_none());
        let archived = agreement.archive(at(5)).unwrap();
        assert_eq!(archived, HubAgreement::Archived { reason: EndReason::PolicyChanged, at: at(5) });
    }

    #[test]
    fn second_reply_and_second_end_are_refused() {
        let answered = proposed().answer("o/n").unwrap();
        let refused = answered.answer("o/n").unwrap_err();
        assert_eq!(refused.to_string(), "an agreement that is answered cannot become answered");
        let ending = proposed().end(EndReason::NoReply, at(2)).unwrap();
        assert!(ending.clone().end(EndReason::PolicyChanged, at(3)).is_err());
        assert!(ending.answer("o/n").is_err());
        assert!(HubAgreement::intend(at(0)).finalize(at(1)).is_err());
        assert!(proposed().archive(at(2)).is_err());
        assert!(proposed().propose(TIMEOUTS, at(2)).is_err());
    }

    #[test]
    fn silence_ends_the_agreement_after_the_time_of_its_state() {
        assert_eq!(proposed().overdue(at(11)), None);
        assert_eq!(proposed().overdue(at(12)), Some(EndReason::NoReply));
        let answered = proposed().answer("o/n").unwrap();
        assert_eq!(answered.overdue(at(21)), None);
        assert_eq!(answered.overdue(at(22)), Some(EndReason::Undefined));
    }
}
