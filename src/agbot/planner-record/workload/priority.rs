//! Priorities: which constraints are kept at any price, and in which order the others are sacrificed.
//!
//! Source: orchestration D5.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{Constraint as Named, ConstraintPriorities};

use crate::report::Constraint;

/// Strictness of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// It removes nodes.
    Hard,
    /// It is kept if any node allows it.
    Soft,
    /// It decides between nodes that are equal otherwise; a violation is not reported.
    Optimization,
    /// It is not tested.
    Off,
}

impl Priority {
    fn of(number: i8) -> Self {
        match number {
            1 => Self::Soft,
            2 => Self::Optimization,
            number if number < 0 => Self::Off,
            _ => Self::Hard,
        }
    }
}

/// The constraints whose priority can be set, in the order in which they are tested.
pub const CONFIGURABLE: [(Constraint, Named); 6] = [
    (Constraint::PlacementConstraint, Named::PlacementConstraint),
    (Constraint::Affinity, Named::Affinity),
    (Constraint::NodeCapacity, Named::NodeCapacity),
    (Constraint::FaultDomain, Named::FaultDomain),
    (Constraint::UpgradeDomain, Named::UpgradeDomain),
    (Constraint::PreferredLocation, Named::PreferredLocation),
];

/// The priorities that hold for a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priorities([Priority; CONFIGURABLE.len()]);

impl Default for Priorities {
    fn default() -> Self {
        Self::of(&ConstraintPriorities::default(), &BTreeMap::new())
    }
}

impl Priorities {
    /// Returns the priorities of a policy, over those of its organization.
    pub fn of(org: &ConstraintPriorities, policy: &BTreeMap<Named, i8>) -> Self {
        Self(
            CONFIGURABLE
                .map(|(_, named)| Priority::of(policy.get(&named).copied().unwrap_or_else(|| org.of(named)))),
        )
    }

    /// Returns the same priorities with some constraints that are not tested.
    #[must_use]
    pub fn without(mut self, constraints: impl IntoIterator<Item = Constraint>) -> Self {
        for position in constraints.into_iter().filter_map(position) {
            self.0[position] = Priority::Off;
        }
        self
    }

    /// Returns the priority of a constraint. Those that cannot be configured are hard.
    pub fn of_constraint(&self, constraint: Constraint) -> Priority {
        position(constraint).map_or(Priority::Hard, |position| self.0[position])
    }

    /// Returns whether a constraint removes nodes.
    pub fn is_hard(&self, constraint: Constraint) -> bool {
        self.of_constraint(constraint) == Priority::Hard
    }
}

/// Returns the position of a constraint among those whose priority can be set.
pub fn position(constraint: Constraint) -> Option<usize> {
    CONFIGURABLE.iter().position(|(one, _)| *one == constraint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_over_organization_and_what_nobody_can_set_is_hard() {
        let org = ConstraintPriorities::default();
        let priorities = Priorities::of(&org, &BTreeMap::from([(Named::FaultDomain, -1)]));
        assert_eq!(priorities.of_constraint(Constraint::FaultDomain), Priority::Off);
        assert_eq!(priorities.of_constraint(Constraint::UpgradeDomain), Priority::Soft);
        assert!(priorities.is_hard(Constraint::NodeCapacity) && priorities.is_hard(Constraint::NodeState));
    }
}
