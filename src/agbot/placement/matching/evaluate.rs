//! Collects the failing terms of a constraint, each with the actual value.
//!
//! The domain defines the terms. Source: agreement-protocol 3.4.

use evenkeel_domain::policy::{
    PropertyList,
    constraint::Expression,
    terms::{FailedClauses, MAX_REPORTED_CLAUSES, reported_text},
};
use evenkeel_planner_record::report::{Blocked, FailedClause, Side};

/// The failing terms of the constraints between a node and a policy.
///
/// # Shape
/// The first [`MAX_REPORTED_CLAUSES`] are kept, the others counted: reports hold them for each node of a policy.
#[derive(Debug, Default)]
pub struct FailedTerms {
    clauses: Vec<FailedClause>,
    more: usize,
}

impl FailedTerms {
    /// Adds every failing term of a constraint.
    ///
    /// # Shape
    /// Nothing is added when the properties satisfy the tree; of alternatives that all fail, the terms of each.
    pub fn collect(&mut self, side: Side, constraint: &str, tree: &Expression, properties: &PropertyList) {
        let failing = tree.failing_predicates(properties);
        if failing.is_empty() {
            return;
        }
        let room = MAX_REPORTED_CLAUSES - self.clauses.len();
        let kept = FailedClauses::new(&failing[..failing.len().min(room)], properties);
        self.more += failing.len() - kept.shown.len();
        let constraint = reported_text(constraint);
        self.clauses.extend(kept.shown.into_iter().map(|failed| FailedClause {
            side,
            constraint: constraint.clone(),
            clause: failed.clause,
            property: failed.property,
            actual: failed.actual,
        }));
    }

    /// Returns whether every constraint was satisfied.
    ///
    /// # Errors
    /// [`Blocked::Constraints`] with the terms that failed.
    pub fn into_result(self) -> Result<(), Blocked> {
        let Self { clauses, more } = self;
        if clauses.is_empty() { Ok(()) } else { Err(Blocked::Constraints { clauses, more }) }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::ConstraintList;

    use super::*;

    #[test]
    fn many_failing_terms_of_long_constraints_take_little_memory() {
        let mut failures = FailedTerms::default();
        for name in ["a", "b", "c"] {
            let terms = vec![format!("{name} == {}", "1".repeat(190)); 320];
            let text = terms.join(" || ");
            let tree = ConstraintList::from_iter([text.as_str()]).parse().unwrap();
            failures.collect(Side::Node, &text, &tree, &PropertyList::default());
        }
        let blocked = failures.into_result().unwrap_err();
        let Blocked::Constraints { clauses, more } = &blocked else { panic!("{blocked:?}") };
        assert_eq!((clauses.len(), *more), (MAX_REPORTED_CLAUSES, 3 * 320 - MAX_REPORTED_CLAUSES));
        let json = serde_json::to_string(&blocked).unwrap();
        assert!(json.len() < 50_000, "{} bytes", json.len());
        assert!(blocked.to_string().ends_with("; and 910 more"), "{blocked}");
    }
}
