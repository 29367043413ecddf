//! Placement: which nodes instances go to, and why not to the others.
//!
//! Nodes are removed by constraints in a fixed order, as sets; those that remain are ranked. Source: orchestration A3, D3; engine 2, 3.

mod affinity;
mod capacity;
mod domains;
mod eliminate;
mod explain;
mod leaders;
mod plan;
mod rank;
mod sparse;
mod table;
mod unit_node;
mod violations;

pub use affinity::{NodeAffinity, SoftViolations};
pub use capacity::{Added, Buffer, FullNodes, Metric, NodeRoom, loading, loading_tasks};
pub use domains::{DomainRules, Packing};
pub use eliminate::{Elimination, Stage};
pub use explain::summary;
pub use explain::{cause, explain_node, report, report_of};
pub use leaders::leaders_of;
pub use plan::{Location, Placed, Want, place, spread};
pub use rank::Ranking;
pub use sparse::{Sparse, Usual};
pub use table::{NodeTable, TableRules};
pub use unit_node::{NodeMarks, NodeState, UnitNode, Verdict};
pub use violations::Violations;

#[cfg(test)]
mod tests;
