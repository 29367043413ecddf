//! Violations of constraints that are not hard, and the order in which they are sacrificed.
//!
//! Source: orchestration D5.

use evenkeel_planner_record::{
    report::Constraint,
    workload::{CONFIGURABLE, Priority, position},
};

use super::SoftViolations;

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
}
