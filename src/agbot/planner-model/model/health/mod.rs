//! The health of entities in the model: which exist, what each holds, and how events add up from instances to the organization.
//!
//! Source: orchestration C1, C3, D1, D2.

mod evaluate;
mod node_check;
mod tree;

pub use evaluate::{Evaluation, EvaluationRules, ListedChildren, Reason};
pub use node_check::NodeVerdict;

#[cfg(test)]
mod tests;
