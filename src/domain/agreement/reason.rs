//! Why agreements end: the codes on the wire and the words for people.
//!
//! Source: agreement protocol, "Cancel reason codes".

/// Why an agreement ended.
///
/// # Shape
/// [`EndReason::from_code`] and [`EndReason::code`] are inverse to each other; codes that nobody defined are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndReason {
    /// The node's policy changed and no longer suits.
    NodePolicyChanged,
    /// A container or process of the service ended.
    ServiceTerminated,
    /// The service did not start in time.
    StartTimeout,
    /// A user of the node asked for it.
    NodeUserRequested,
    /// The agbot asked for it, or says that there is no such agreement.
    AgbotRequested,
    /// The reply was never acknowledged.
    NoReplyAck,
    /// A dependency failed.
    DependencyFailed,
    /// The service's image could not be loaded.
    ImageLoadFailed,
    /// A dependency's image could not be loaded.
    DependencyImageLoadFailed,
    /// The upgrade of a dependency requires it.
    DependencyUpgrade,
    /// The image data is wrong.
    ImageDataError,
    /// The image could not be fetched.
    ImageFetchFailed,
    /// Fetching the image was not authorised.
    ImageFetchUnauthorized,
    /// The image's signature does not verify.
    ImageSignatureInvalid,
    /// The node was unregistered or shut down.
    NodeUnregistered,
    /// A dependency's image could not be fetched.
    DependencyImageFetchFailed,
    /// A dependency failed and a lower version is needed.
    DependencyDowngrade,
    /// The service was suspended on the node.
    ServiceSuspended,
    /// The node's user input changed.
    NodeUserInputChanged,
    /// The node's pattern changed.
    NodePatternChanged,
    /// Verifications stayed unanswered.
    VerificationFailed,
    /// The node did not answer the proposal.
    NoReply,
    /// The node refused the proposal.
    NegativeReply,
    /// No data was received (no longer used).
    NoData,
    /// A deployment, service or node policy, or the pattern, changed.
    PolicyChanged,
    /// The cancellation was found out later (no longer used).
    CancellationDiscovered,
    /// A user of the agbot asked for it.
    AgbotUserRequested,
    /// An upgrade was requested by force.
    ForcedUpgrade,
    /// The node's heartbeat is missing.
    HeartbeatMissing,
    /// The node does not have the agreement.
    MissingOnNode,
    /// The node refused an update of the agreement.
    UpdateRejected,
    /// No reason is defined for what happened.
    Undefined,
    /// A code that this version does not know.
    Unknown(u64),
}

/// Code, reason, words.
const TABLE: [(u64, EndReason, &str); 32] = [
    (101, EndReason::NodePolicyChanged, "the node's policy changed"),
    (103, EndReason::ServiceTerminated, "the service terminated"),
    (104, EndReason::StartTimeout, "the service did not start in time"),
    (105, EndReason::NodeUserRequested, "a user of the node cancelled it"),
    (106, EndReason::AgbotRequested, "the agbot cancelled it"),
    (107, EndReason::NoReplyAck, "the agbot did not acknowledge the reply"),
    (108, EndReason::DependencyFailed, "a dependency failed"),
    (109, EndReason::ImageLoadFailed, "the service's image could not be loaded"),
    (110, EndReason::DependencyImageLoadFailed, "a dependency's image could not be loaded"),
    (111, EndReason::DependencyUpgrade, "the upgrade of a dependency requires it"),
    (112, EndReason::ImageDataError, "the image data is wrong"),
    (113, EndReason::ImageFetchFailed, "the image could not be fetched"),
    (114, EndReason::ImageFetchUnauthorized, "fetching the image was not authorised"),
    (115, EndReason::ImageSignatureInvalid, "the image's signature could not be verified"),
    (116, EndReason::NodeUnregistered, "the node was unregistered or shut down"),
    (117, EndReason::DependencyImageFetchFailed, "a dependency's image could not be fetched"),
    (118, EndReason::DependencyDowngrade, "a dependency failed and must be downgraded"),
    (119, EndReason::ServiceSuspended, "the service is suspended on the node"),
    (120, EndReason::NodeUserInputChanged, "the node's user input changed"),
    (121, EndReason::NodePatternChanged, "the node's pattern changed"),
    (122, EndReason::VerificationFailed, "the agbot did not answer repeated verifications"),
    (201, EndReason::NoReply, "the node did not answer the proposal"),
    (202, EndReason::NegativeReply, "the node refused the proposal"),
    (203, EndReason::NoData, "no data was received"),
    (204, EndReason::PolicyChanged, "a policy or pattern changed"),
    (205, EndReason::CancellationDiscovered, "the cancellation was discovered"),
    (206, EndReason::AgbotUserRequested, "a user of the agbot cancelled it"),
    (207, EndReason::ForcedUpgrade, "an upgrade was forced"),
    (208, EndReason::HeartbeatMissing, "the node's heartbeat is missing"),
    (209, EndReason::MissingOnNode, "the agreement is missing on the node"),
    (210, EndReason::UpdateRejected, "the node refused an update of the agreement"),
    (999, EndReason::Undefined, "no reason was given"),
];

impl EndReason {
    /// Returns the reason that a code stands for.
    pub fn from_code(code: u64) -> Self {
        TABLE.iter().find(|(known, ..)| *known == code).map_or(Self::Unknown(code), |(_, reason, _)| *reason)
    }

    /// Returns the code on the wire.
    pub fn code(self) -> u64 {
        match self {
            Self::Unknown(code) => code,
            // Every other reason stands in the table, which a test shows.
            known => TABLE.iter().find(|(_, reason, _)| *reason == known).map_or(999, |(code, ..)| *code),
        }
    }

    /// Returns the reason in words.
    pub fn text(self) -> &'static str {
        let known = TABLE.iter().find(|(_, reason, _)| *reason == self);
        known.map_or("unknown reason code, the other side may be of a newer version", |(.., text)| text)
    }

    /// Answers whether the record of tries is forgotten with the agreement, so that the next one begins with the best version.
    pub fn forgets_retries(self) -> bool {
        matches!(self, Self::NodeUnregistered | Self::PolicyChanged | Self::ForcedUpgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_reasons_stand_for_each_other_and_unknown_codes_are_kept() {
        for (code, reason, text) in TABLE {
            assert_eq!((EndReason::from_code(code), reason.code(), reason.text()), (reason, code, text));
        }
        assert_eq!(EndReason::from_code(100).code(), 100);
        assert!(EndReason::from_code(12_345).text().starts_with("unknown reason code"));
        let forgetting: Vec<_> = TABLE.iter().filter(|(_, reason, _)| reason.forgets_retries()).collect();
        assert!(forgetting.iter().map(|(code, ..)| *code).eq([116, 204, 207]));
    }
}
