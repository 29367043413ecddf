//! Priorities: which constraints are kept at any price, and in which order the others are sacrificed.
//!
//! Source: orchestration D5.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{Constraint as Named, ConstraintPriorities};

use super::{Constraint, SoftViolations};

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
const CONFIGURABLE: [(Constraint, Named); 6] = [
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

fn position(constraint: Constraint) -> Option<usize> {
    CONFIGURABLE.iter().position(|(one, _)| *one == constraint)
}

/// Violations by an instance on a node of constraints that are not hard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violations {
    soft: u8,
    affinity: SoftViolations,
    optional: u8,
}

/// The order of sacrifice: smaller is better.
///
/// # Shape
/// Number of soft constraints, which ones (earlier ones weigh more), soft affinity, number of optimizations.
pub(super) type Weight = (u32, u8, SoftViolations, u32);

impl Violations {
    /// Returns the violation of soft affinity alone.
    pub(super) fn of_affinity(affinity: SoftViolations) -> Self {
        Self { affinity, ..Self::default() }
    }

    pub(super) fn add(&mut self, constraint: Constraint, priority: Priority) {
        let bit = position(constraint).map_or(0, |position| 1 << (CONFIGURABLE.len() - 1 - position));
        match priority {
            Priority::Soft => self.soft |= bit,
            Priority::Optimization => self.optional |= bit,
            Priority::Hard | Priority::Off => {}
        }
    }

    /// Returns the violations of both.
    pub(super) fn with(self, other: Self) -> Self {
        let affinity = self.affinity.max(other.affinity);
        Self { soft: self.soft | other.soft, affinity, optional: self.optional | other.optional }
    }

    pub(super) fn weight(self) -> Weight {
        (self.soft.count_ones(), self.soft, self.affinity, self.optional.count_ones())
    }

    /// Returns whether nothing is violated.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns the violated soft constraints.
    pub fn soft(self) -> impl Iterator<Item = Constraint> {
        constraints(self.soft)
    }

    /// Returns the violated constraints that are not hard.
    pub fn relaxed(self) -> impl Iterator<Item = Constraint> {
        constraints(self.soft | self.optional)
    }
}

fn constraints(bits: u8) -> impl Iterator<Item = Constraint> {
    let is_set = move |position: usize| bits & 1 << (CONFIGURABLE.len() - 1 - position) != 0;
    CONFIGURABLE.iter().enumerate().filter(move |(position, _)| is_set(*position)).map(|(_, (one, _))| *one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(soft: &[Constraint], optional: &[Constraint]) -> Violations {
        let mut found = Violations::default();
        soft.iter().for_each(|one| found.add(*one, Priority::Soft));
        optional.iter().for_each(|one| found.add(*one, Priority::Optimization));
        found
    }

    #[test]
    fn fewer_soft_violations_are_better_then_later_constraints_then_fewer_optimizations() {
        use Constraint::{Affinity, FaultDomain, UpgradeDomain};
        let order = [
            violations(&[], &[]),
            violations(&[], &[UpgradeDomain]),
            violations(&[], &[UpgradeDomain, FaultDomain]),
            violations(&[UpgradeDomain], &[]),
            violations(&[FaultDomain], &[]),
            violations(&[Affinity], &[]),
            violations(&[FaultDomain, UpgradeDomain], &[]),
            violations(&[Affinity, UpgradeDomain], &[]),
        ];
        assert!(order.is_sorted_by(|one, next| one.weight() < next.weight()));
        let relaxed: Vec<Constraint> = order[7].relaxed().collect();
        assert_eq!(relaxed, [Affinity, UpgradeDomain]);
    }

    #[test]
    fn policy_is_over_organization_and_what_nobody_can_set_is_hard() {
        let org = ConstraintPriorities::default();
        let priorities = Priorities::of(&org, &BTreeMap::from([(Named::FaultDomain, -1)]));
        assert_eq!(priorities.of_constraint(Constraint::FaultDomain), Priority::Off);
        assert_eq!(priorities.of_constraint(Constraint::UpgradeDomain), Priority::Soft);
        assert!(priorities.is_hard(Constraint::NodeCapacity) && priorities.is_hard(Constraint::NodeState));
    }
}
