//! The record of a placement: the nodes that each constraint removed.
//!
//! Source: orchestration D3.

use evenkeel_ids::NodeId;
use serde::{Deserialize, Serialize};

use super::Constraint;

/// Nodes of each constraint that a text names, and the longest text in characters.
const NAMED_COUNT: usize = 5;
const LONGEST_TEXT: usize = 2000;

/// A node that a constraint removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EliminatedNode {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub reason: String,
}

/// Nodes removed by one constraint.
///
/// # Shape
/// `eliminated` holds at most 100 nodes, by scope order; `count` counts all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedStage {
    /// The constraint.
    pub constraint: Constraint,
    /// Number of removed nodes.
    pub count: u64,
    /// Some of them.
    pub eliminated: Vec<EliminatedNode>,
    /// Number of nodes left after that.
    pub remaining: u64,
}

/// Cause of an incomplete placement, which shows whether waiting may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnplacedCause {
    /// There are enough nodes, and some are not available now.
    Transient,
    /// There are too few nodes.
    Unsatisfiable,
}

/// The record of a placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EliminationReport {
    /// Wanted instances.
    pub requested: u32,
    /// Placed instances.
    pub placed: u32,
    /// Number of nodes of the workload unit.
    pub candidates: u64,
    /// Nodes removed by each constraint, in order.
    pub sequence: Vec<ExplainedStage>,
    /// The chosen nodes, at most 100.
    pub chosen: Vec<NodeId>,
    /// Cause of an incomplete placement; none when everything was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<UnplacedCause>,
    /// The numbers in words.
    pub summary: String,
}

impl EliminationReport {
    /// Returns the numbers in words, and for each constraint some of the nodes that it removed, with the reasons.
    pub fn with_nodes(&self) -> String {
        let mut text = self.summary.clone();
        for stage in self.sequence.iter().filter(|stage| stage.count > 0) {
            let named: Vec<String> = stage
                .eliminated
                .iter()
                .take(NAMED_COUNT)
                .map(|one| format!("{} ({})", one.node.name(), one.reason))
                .collect();
            let more = stage.count.saturating_sub(named.len() as u64);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            text.push_str(&format!("; {}: {}{rest}", stage.constraint.label(), named.join(", ")));
        }
        text.chars().take(LONGEST_TEXT).collect()
    }
}
