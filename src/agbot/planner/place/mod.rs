//! Placement: which nodes instances go to, and why not to the others.
//!
//! Nodes are removed by constraints in a fixed order, as sets; those that remain are ranked. Source: orchestration A3, D3; engine 2, 3.

mod affinity;
mod capacity;
mod constraint;
mod domains;
mod eliminate;
mod explain;
mod plan;
mod priority;
mod rank;
mod sparse;
mod table;
mod unit_node;

pub use affinity::{NodeAffinity, SoftViolations};
pub use capacity::{Added, Buffer, FullNodes, Metric, NodeRoom, loading, loading_tasks};
pub use constraint::Constraint;
pub use domains::{DomainRules, Packing};
pub use eliminate::{Elimination, Stage};
pub(crate) use explain::summary;
pub use explain::{
    EliminatedNode, EliminationReport, ExplainedStage, UnplacedCause, cause, explain_node, report, report_of,
};
pub use plan::{Location, Placed, Want, place, spread};
pub use priority::{Priorities, Priority, Violations};
pub use rank::Ranking;
pub use sparse::{Sparse, Usual};
pub use table::{NodeTable, TableRules};
pub use unit_node::{NodeMarks, NodeState, UnitNode, Verdict};

#[cfg(test)]
mod tests;
