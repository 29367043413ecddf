//! The numbers of one property name: which nodes have a value in a range.
//!
//! Values are kept exactly and again under two coarser prefixes of an order-preserving key, so that a range over a
//! million different values joins some hundreds of sets and not a million.

use std::{borrow::Cow, collections::BTreeMap, ops::RangeInclusive};

use evenkeel_domain::policy::constraint::Operator;
use roaring::RoaringBitmap;

use super::postings::{Postings, Union};

/// Shifts that leave the 16 and the 24 leading bits of a key.
const COARSE: u32 = 48;
const FINE: u32 = 40;

#[derive(Debug, Clone, Default)]
pub(super) struct NumberIndex {
    exact: BTreeMap<u64, Postings>,
    fine: BTreeMap<u64, RoaringBitmap>,
    coarse: BTreeMap<u64, RoaringBitmap>,
}

/// Maps a number to a key of the same order; both zeros get the same.
fn key_of(number: f64) -> u64 {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

/// Returns the number of a key.
fn number_of(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

impl NumberIndex {
    /// Returns how many different numbers there are.
    pub fn count(&self) -> usize {
        self.exact.len()
    }

    /// Returns the numbers in words, each with the nodes that have it.
    pub fn values(&self) -> impl Iterator<Item = (String, Cow<'_, RoaringBitmap>)> {
        self.exact.iter().map(|(key, nodes)| (number_of(*key).to_string(), nodes.as_set()))
    }

    pub fn insert(&mut self, number: f64, node: u32) {
        let key = key_of(number);
        self.exact.entry(key).and_modify(|nodes| nodes.insert(node)).or_insert(Postings::One(node));
        self.fine.entry(key >> FINE).or_default().insert(node);
        self.coarse.entry(key >> COARSE).or_default().insert(node);
    }

    pub fn remove(&mut self, number: f64, node: u32) {
        let key = key_of(number);
        if self.exact.get_mut(&key).is_some_and(|nodes| nodes.remove(node)) {
            self.exact.remove(&key);
        }
        for (level, key) in [(&mut self.fine, key >> FINE), (&mut self.coarse, key >> COARSE)] {
            if let Some(nodes) = level.get_mut(&key) {
                nodes.remove(node);
                if nodes.is_empty() {
                    level.remove(&key);
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// Adds the nodes whose number fits; the domain defines the operators.
    pub fn collect<'a>(&'a self, operator: Operator, operand: Option<f64>, union: &mut Union<'a>) {
        let Some(operand) = operand else { return };
        if operand.is_nan() {
            if operator == Operator::NotEqual {
                self.collect_range(0..=u64::MAX, union);
            }
            return;
        }
        let key = key_of(operand);
        let below = key.checked_sub(1).map(|below| 0..=below);
        let above = key.checked_add(1).map(|above| above..=u64::MAX);
        let mut add = |range: Option<RangeInclusive<u64>>| {
            if let Some(range) = range {
                self.collect_range(range, union);
            }
        };
        match operator {
            Operator::Less => add(below),
            Operator::LessOrEqual => add(Some(0..=key)),
            Operator::Greater => add(above),
            Operator::GreaterOrEqual => add(Some(key..=u64::MAX)),
            Operator::NotEqual => {
                add(below);
                add(above);
            }
            Operator::Equal | Operator::In | Operator::MisspelledOrder => add(Some(key..=key)),
        }
    }

    fn collect_range<'a>(&'a self, range: RangeInclusive<u64>, union: &mut Union<'a>) {
        let rest = collect_level(&self.coarse, COARSE, range, union);
        for part in rest {
            for part in collect_level(&self.fine, FINE, part, union) {
                self.exact.range(part).for_each(|(_, nodes)| union.add(nodes));
            }
        }
    }
}

/// Adds the sets of all prefixes that lie wholly inside the range, and returns what remains at its ends.
fn collect_level<'a>(
    level: &'a BTreeMap<u64, RoaringBitmap>,
    shift: u32,
    range: RangeInclusive<u64>,
    union: &mut Union<'a>,
) -> Vec<RangeInclusive<u64>> {
    let (low, high) = (*range.start(), *range.end());
    let mask = (1_u64 << shift) - 1;
    // First and last prefix that begin and end inside the range.
    let first = (low >> shift) + u64::from(low & mask != 0);
    let last = (high >> shift).checked_sub(u64::from(high & mask != mask));
    let Some(last) = last.filter(|last| first <= *last) else { return vec![range] };
    level.range(first..=last).for_each(|(_, nodes)| union.add_set(nodes));
    let mut rest = Vec::new();
    if low < first << shift {
        rest.push(low..=(first << shift) - 1);
    }
    if let Some(after) = ((last << shift) | mask).checked_add(1).filter(|after| *after <= high) {
        rest.push(after..=high);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_the_numbers() {
        let numbers =
            [f64::NEG_INFINITY, -1e300, -2.5, -1.0, -0.0, 5e-324, 0.5, 1.0, 4096.0, 1e300, f64::INFINITY];
        for pair in numbers.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
        }
        assert_eq!(key_of(0.0), key_of(-0.0));
        for number in numbers {
            assert_eq!(number_of(key_of(number)), number);
        }
    }

    #[test]
    fn ranges_over_many_values_hold_exactly_the_values_inside() {
        let mut index = NumberIndex::default();
        for node in 0..20_000 {
            index.insert(f64::from(node) * 0.25 - 1000.0, node);
        }
        let mut union = Union::default();
        index.collect(Operator::GreaterOrEqual, Some(100.0), &mut union);
        let found = union.join(None);
        let expected = (0..20_000).filter(|node| f64::from(*node) * 0.25 - 1000.0 >= 100.0).count() as u64;
        assert_eq!((found.len(), found.min()), (expected, Some(4_400)));
    }
}
