//! The index compared with evaluating every policy, on generated nodes and constraints.

use evenkeel_domain::policy::ConstraintList;
use proptest::prelude::*;

use super::*;
use crate::model::index::tests::{constraint, properties};

proptest! {
    #[test]
    fn index_matches_evaluating_every_policy(
        texts in prop::collection::vec(constraint(), 1..20),
        nodes in prop::collection::vec(properties(), 1..10),
        removed in any::<prop::sample::Index>(),
    ) {
        let parse = |text: &String| ConstraintList::from_iter([text.as_str()]).parse().ok();
        let trees: Vec<Expression> = texts.iter().filter_map(parse).collect();
        let mut index = PolicyIndex::new();
        for (entry, tree) in (0_u32..).zip(&trees) {
            index.insert(entry, tree.clone());
        }
        let gone = u32::try_from(removed.index(texts.len())).unwrap();
        index.remove(gone);
        for node in &nodes {
            let expected: Vec<u32> = (0_u32..)
                .zip(&trees)
                .filter(|(entry, tree)| *entry != gone && tree.is_satisfied_by(node))
                .map(|(entry, _)| entry)
                .collect();
            prop_assert_eq!(index.evaluate(node), expected, "node {:?}", node);
        }
    }
}

#[test]
fn policy_without_constraints_selects_every_node() {
    let mut index = PolicyIndex::new();
    index.insert(0, Expression::All(Vec::new()));
    assert_eq!(index.evaluate(&PropertyList::new()), [0]);
    index.remove(0);
    assert!(index.evaluate(&PropertyList::new()).is_empty());
}
