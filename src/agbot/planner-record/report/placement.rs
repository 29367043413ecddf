//! Result of a decision for one (node, policy) pair.

use evenkeel_ids::AgreementId;
use serde::{Deserialize, Serialize};

use super::Blocked;

/// The placement of one (node, policy) after a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "placement")]
pub enum Placement {
    /// The node has an agreement and nothing needs to be done.
    Placed {
        /// The agreement.
        agreement: AgreementId,
        /// The version.
        version: String,
        /// True when the service was seen running.
        is_running: bool,
        /// Reason why it does not run, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has an agreement that is to be replaced or ended, and waits.
    Waiting {
        /// The agreement.
        agreement: AgreementId,
        /// The reason.
        blocked: Blocked,
    },
    /// A command was issued for the pair.
    Acting {
        /// The action, human-readable.
        action: String,
    },
    /// The policy is not placed on the node.
    NotPlaced {
        /// The reason.
        blocked: Blocked,
    },
}
