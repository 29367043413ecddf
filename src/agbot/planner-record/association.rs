//! The strength of the association of a value with failures, by counts alone.
//!
//! The test is Fisher's exact one, one-sided: the probability that as many of the failing elements have the value if it had nothing to do
//! with failing. The smaller the fleet, the more must have it in common before that is shown.

use std::cmp::Ordering;

/// Largest probability of a value that is shown.
const MAX_PROBABILITY: f64 = 0.05;
/// Largest number of values that chance alone would show, for a value that is shown.
const MAX_BY_CHANCE: f64 = 1.0;
/// Failing elements that must have a value in common.
const MIN_FAILING: u64 = 2;
/// Terms below this share of the sum no longer matter.
const NEGLIGIBLE: f64 = 1e-12;

/// The counts of one value.
///
/// # Shape
/// The failing elements are a part of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Failing elements with the value.
    pub failing_with: u64,
    /// Failing elements.
    pub failing: u64,
    /// Elements with the value.
    pub whole_with: u64,
    /// Elements.
    pub whole: u64,
}

/// The result for the counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Association {
    /// Share of the failing elements that have the value, relative to the share of all.
    pub lift: f64,
    /// Probability of that many failing elements with the value by chance.
    pub probability: f64,
}

impl Counts {
    /// Returns the association of the value with failures.
    pub fn association(&self) -> Association {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let of_all = share(self.whole_with, self.whole);
        let lift = if of_all > 0.0 { share(self.failing_with, self.failing) / of_all } else { 0.0 };
        Association { lift, probability: self.tail().min(1.0) }
    }

    /// Returns the probability of at least so many failing elements with the value, by the hypergeometric distribution.
    fn tail(&self) -> f64 {
        let Self { failing_with, failing, whole_with, whole } = *self;
        let most = failing.min(whole_with);
        if failing_with == 0 || failing_with > most || whole < failing || whole < whole_with {
            return 1.0;
        }
        // Fewer is impossible: every other element fails already.
        if failing_with <= (failing + whole_with).saturating_sub(whole) {
            return 1.0;
        }
        let without = whole - whole_with;
        let first = ln_choose(whole_with, failing_with) + ln_choose(without, failing - failing_with)
            - ln_choose(whole, failing);
        let (mut term, mut sum) = (1.0_f64, 1.0_f64);
        for with in failing_with..most {
            let up = (whole_with - with) as f64 * (failing - with) as f64;
            let down = (with + 1) as f64 * (without + with + 1 - failing) as f64;
            term *= up / down;
            sum += term;
            if term < sum * NEGLIGIBLE {
                break;
            }
        }
        (first + sum.ln()).exp()
    }

    /// Returns whether the value may be a cause: enough failing elements have it, and more than by chance. `examined`: values that were
    /// examined, of which some are frequent among the failing elements in any case.
    pub fn is_notable(&self, association: &Association, examined: u64) -> bool {
        self.failing_with >= MIN_FAILING
            && association.lift > 1.0
            && association.probability <= MAX_PROBABILITY
            && association.by_chance(examined) <= MAX_BY_CHANCE
    }
}

impl Association {
    /// Returns how many of the examined values would be as strongly associated by chance.
    pub fn by_chance(&self, examined: u64) -> f64 {
        self.probability * examined as f64
    }

    /// Orders the stronger association first.
    pub fn strongest_first(&self, other: &Self) -> Ordering {
        self.probability.total_cmp(&other.probability).then_with(|| other.lift.total_cmp(&self.lift))
    }
}

/// Returns the logarithm of the number of ways to choose some of all elements.
fn ln_choose(all: u64, some: u64) -> f64 {
    ln_factorial(all) - ln_factorial(some) - ln_factorial(all - some)
}

/// Returns the logarithm of a factorial, for large numbers by the series of Stirling.
fn ln_factorial(number: u64) -> f64 {
    if number < 32 {
        return (2..=number).map(|factor| (factor as f64).ln()).sum();
    }
    let number = number as f64;
    let series = 1.0 / (12.0 * number) - 1.0 / (360.0 * number.powi(3));
    number * number.ln() - number + 0.5 * (std::f64::consts::TAU * number).ln() + series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(failing_with: u64, failing: u64, whole_with: u64, whole: u64) -> Counts {
        Counts { failing_with, failing, whole_with, whole }
    }

    /// Counts the ways by their definition.
    fn probability(of: Counts) -> f64 {
        let choose = |all: u64, some: u64| -> f64 {
            if some > all {
                return 0.0;
            }
            (1..=some).map(|one| (all - some + one) as f64 / one as f64).product()
        };
        let without = of.whole - of.whole_with;
        let ways = |with: u64| choose(of.whole_with, with) * choose(without, of.failing - with);
        let at_least: f64 = (of.failing_with..=of.failing).map(ways).sum();
        at_least / choose(of.whole, of.failing)
    }

    proptest! {
        #[test]
        fn probability_is_that_of_the_definition(
            whole in 1_u64..60,
            (failing, whole_with, failing_with) in (any::<u64>(), any::<u64>(), any::<u64>()),
        ) {
            let (failing, whole_with) = (failing % whole + 1, whole_with % (whole + 1));
            let least = (failing + whole_with).saturating_sub(whole);
            let most = failing.min(whole_with);
            let of = counts(least + failing_with % (most - least + 1), failing, whole_with, whole);
            let found = of.association().probability;
            prop_assert!((found - probability(of).min(1.0)).abs() < 1e-9, "{of:?}: {found}");
        }
    }

    #[test]
    fn value_of_nearly_all_failing_elements_and_few_others_is_notable() {
        let of = counts(42, 45, 1_200, 10_000);
        let found = of.association();
        assert!((found.lift - 7.78).abs() < 0.01 && found.probability < 1e-30, "{found:?}");
        assert!(of.is_notable(&found, 5_000));
    }

    #[test]
    fn what_chance_explains_is_not_notable() {
        for (of, examined) in [
            // One failing element has everything in common with itself.
            (counts(1, 1, 1, 100), 1),
            // As frequent as everywhere.
            (counts(5, 10, 50, 100), 1),
            // Less frequent than elsewhere.
            (counts(2, 10, 90, 100), 1),
            // All elements have it.
            (counts(10, 10, 100, 100), 1),
            // Two of two, of six of thirty: one in thirty.
            (counts(2, 2, 6, 30), 40),
        ] {
            assert!(!of.is_notable(&of.association(), examined), "{of:?}");
        }
        let of = counts(3, 3, 6, 30);
        assert!(of.is_notable(&of.association(), 100), "{:?}", of.association());
    }

    #[test]
    fn large_fleets_are_no_problem() {
        let found = counts(90_000, 100_000, 100_000, 1_000_000).association();
        assert!(found.probability < 1e-300 && (found.lift - 9.0).abs() < 1e-9);
        let even = counts(10_000, 100_000, 100_000, 1_000_000).association();
        assert!((0.4..0.6).contains(&even.probability), "{even:?}");
    }
}
