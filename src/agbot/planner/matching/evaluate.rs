//! Collects the failing terms of a constraint, each with the actual value.
//!
//! The domain defines the terms. Source: agreement-protocol 3.4.

use evenkeel_domain::policy::{
    PropertyList,
    constraint::{Expression, Predicate},
};

use crate::report::{FailedClause, Side};

/// Appends every failing term.
///
/// # Shape
/// Nothing is appended when the properties satisfy the tree; of alternatives that all fail, the terms of each.
pub fn collect_failures(
    side: Side,
    constraint: &str,
    tree: &Expression,
    properties: &PropertyList,
    found: &mut Vec<FailedClause>,
) {
    for predicate in tree.failing_predicates(properties) {
        found.push(FailedClause {
            side,
            constraint: constraint.to_owned(),
            clause: predicate.to_string().trim().to_owned(),
            property: predicate.property().to_owned(),
            actual: actual_value(predicate, properties),
        });
    }
}

/// Returns the value that decided: of the first property of that name that can be compared at all.
fn actual_value(predicate: &Predicate, properties: &PropertyList) -> Option<serde_json::Value> {
    let mut named = properties.iter().filter(|property| property.name == predicate.property());
    let decisive = named.clone().find(|property| predicate.compare(property).is_some());
    decisive.or_else(|| named.next()).map(|property| property.value.clone())
}
