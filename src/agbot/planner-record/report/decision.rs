//! The report of a decision: placements, exclusions and events.

use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, PolicyId};
use serde::{Deserialize, Serialize};

use super::Placement;

/// The report of a decision: placements, exclusions and events.
///
/// # Shape
/// `pairs` holds only the pairs that were planned individually; nodes that the index excluded are counted in `ruled_out` and
/// explained on demand by `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Each planned pair.
    #[serde(with = "pair_list")]
    pub pairs: BTreeMap<(NodeId, PolicyId), Placement>,
    /// Number of nodes per policy that the index excluded.
    pub ruled_out: BTreeMap<PolicyId, u64>,
    /// Events: claims released, rollouts held, late replies.
    pub events: Vec<PlannerEvent>,
}

/// An event in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannerEvent {
    /// Kind, dotted, past tense: `rollout.paused`, `claim.released`, `message.late-reply`.
    pub kind: String,
    /// A human-readable sentence.
    pub text: String,
}

mod pair_list {
    use super::{BTreeMap, NodeId, Placement, PolicyId};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Row {
        node: NodeId,
        policy: PolicyId,
        #[serde(flatten)]
        placement: Placement,
    }

    pub fn serialize<S: Serializer>(
        pairs: &BTreeMap<(NodeId, PolicyId), Placement>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|((node, policy), placement)| Row {
            node: node.clone(),
            policy: policy.clone(),
            placement: placement.clone(),
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<(NodeId, PolicyId), Placement>, D::Error> {
        let rows = Vec::<Row>::deserialize(deserializer)?;
        Ok(rows.into_iter().map(|row| ((row.node, row.policy), row.placement)).collect())
    }
}
