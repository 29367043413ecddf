//! The explanation of one (node, policy), as data and as text.

use evenkeel_ids::{NodeId, PolicyId};
use serde::{Deserialize, Serialize};

use super::{Blocked, Placement};

/// The explanation of one pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The node.
    pub node: NodeId,
    /// The policy.
    pub policy: PolicyId,
    /// Its placement.
    pub placement: Placement,
    /// True when the group's claim for the policy is held for this node.
    pub holds_claim: bool,
}

impl Explanation {
    /// Returns the explanation as text; never empty.
    pub fn text(&self) -> String {
        match &self.placement {
            Placement::Placed { version, is_running: true, .. } => format!("{version} runs"),
            Placement::Placed { version, is_running: false, why, .. } => {
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("the agreement for {version} is final; the service was not seen running yet{why}")
            }
            Placement::Waiting { blocked, .. } => format!("waiting: {blocked}"),
            Placement::Acting { action } => action.clone(),
            Placement::NotPlaced { blocked } => format!("not here: {blocked}"),
        }
    }

    /// Returns the blocking reason, if there is one.
    pub fn blocked(&self) -> Option<&Blocked> {
        match &self.placement {
            Placement::Waiting { blocked, .. } | Placement::NotPlaced { blocked } => Some(blocked),
            Placement::Placed { .. } | Placement::Acting { .. } => None,
        }
    }
}
