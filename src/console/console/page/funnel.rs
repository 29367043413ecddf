//! The elimination of nodes, constraint by constraint, as pages show it.

use evenkeel_wire::agbot::orchestration::ExplainedConstraint;

/// Removed nodes of a constraint that are named.
const NAMED: usize = 10;

/// A constraint of the funnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunnelStage {
    pub(crate) constraint: String,
    pub(crate) removed: u64,
    pub(crate) left: u64,
    pub(crate) examples: Vec<(String, String)>,
}

impl FunnelStage {
    pub(crate) fn new(stage: ExplainedConstraint) -> Self {
        let count = |counted: Option<u64>, listed: usize| counted.unwrap_or(listed as u64);
        Self {
            removed: count(stage.eliminated_count, stage.eliminated.len()),
            left: count(stage.remaining_count, stage.remaining.len()),
            examples: stage.eliminated.into_iter().take(NAMED).map(|one| (one.node, one.reason)).collect(),
            constraint: stage.constraint,
        }
    }

    pub(crate) fn others(&self) -> u64 {
        self.removed.saturating_sub(self.examples.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::EliminatedNode;

    use super::*;

    #[test]
    fn some_nodes_are_named_and_the_others_counted() {
        let node = |number: usize| EliminatedNode { node: format!("n{number}"), reason: "r".to_owned() };
        let stage = ExplainedConstraint {
            constraint: "NodeState".to_owned(),
            eliminated: (0..30).map(node).collect(),
            remaining: vec!["m".to_owned()],
            ..ExplainedConstraint::default()
        };
        let shown = FunnelStage::new(stage.clone());
        assert_eq!((shown.removed, shown.left, shown.examples.len(), shown.others()), (30, 1, NAMED, 20));
        let many = ExplainedConstraint { eliminated_count: Some(1_000), remaining_count: Some(7), ..stage };
        let shown = FunnelStage::new(many);
        assert_eq!((shown.removed, shown.left, shown.others()), (1_000, 7, 990));
    }
}
