//! The index over the policies' predicates: which policies can select a node, without evaluating each of them.
//!
//! Each policy is stored under the terms of which a node must satisfy one ("cover"): words of an equality, or the name of a
//! property, or nothing. A node's own properties propose the policies; the whole constraint then decides, so that the
//! result is exactly that of evaluating every policy. Source: design 4.1.

use std::collections::BTreeSet;

use evenkeel_domain::policy::{
    Property, PropertyList,
    constraint::{Expression, Operator, Predicate},
};
use evenkeel_planner_record::stable_hash::stable_hash;
use hashbrown::{HashMap, HashSet};
use serde_json::Value;

use super::index::{is_regular, words};

/// The index.
///
/// # Shape
/// Entries are dense numbers given by the caller, one per constraint tree. Hash maps are for look-up only.
#[derive(Debug, Clone, Default)]
pub struct PolicyIndex {
    trees: Vec<Option<Filed>>,
    /// Numbers of the property names that any tree mentions; they only grow, because names are few.
    names: HashMap<Box<str>, u32>,
    by_key: HashMap<u64, Vec<Posting>>,
    always: BTreeSet<u32>,
}

#[derive(Debug, Clone)]
struct Filed {
    tree: Expression,
    numbered: Numbered,
    cover: Cover,
}

/// A tree whose names are numbers, so that a property is found without comparing names.
#[derive(Debug, Clone)]
enum Numbered {
    All(Vec<Numbered>),
    Any(Vec<Numbered>),
    Term(u32, Predicate),
}

impl Numbered {
    /// Evaluates the tree for regular properties: every name occurs once.
    fn is_satisfied_by(&self, properties: &[Option<&Property>]) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.is_satisfied_by(properties)),
            Self::Any(parts) => parts.iter().any(|part| part.is_satisfied_by(properties)),
            Self::Term(name, predicate) => {
                let property = properties.get(*name as usize).copied().flatten();
                property.is_some_and(|property| predicate.compare(property) == Some(true))
            }
        }
    }
}

/// An entry under a key, with a second condition beside it, so that most entries that do not fit are skipped without
/// evaluating their trees.
#[derive(Debug, Clone)]
struct Posting {
    entry: u32,
    /// Keys of another part of the conjunction, of which a node must have one; zeros when there is no such part.
    second: [u64; 2],
}

/// The keys under which an entry is stored.
#[derive(Debug, Clone, PartialEq)]
enum Cover {
    /// Under keys, of which a node must have one; none at all when no node can satisfy the tree. Broad when a key only
    /// requires that the node has the property.
    Keys { keys: Vec<u64>, is_broad: bool },
    /// Under no key: every node proposes it.
    Always,
}

/// Returns the key of "has this word as value of this name".
fn word_key(name: &str, word: u64) -> u64 {
    stable_hash(&["word", name]).wrapping_add(word.rotate_left(17))
}

/// Returns the key of "has this number as value of this name"; both zeros are one number.
fn number_key(name: &str, number: f64) -> u64 {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    stable_hash(&["number", name]).wrapping_add(bits.rotate_left(17))
}

fn bool_key(name: &str, value: bool) -> u64 {
    stable_hash(&["bool", name, if value { "t" } else { "f" }])
}

fn name_key(name: &str) -> u64 {
    stable_hash(&["name", name])
}

impl PolicyIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a tree under a number, which must be free.
    pub fn insert(&mut self, entry: u32, tree: Expression) {
        let cover = self.cover(&tree);
        match &cover {
            Cover::Keys { keys, .. } => {
                let second = self.second_keys(&tree, &cover);
                for key in keys {
                    self.by_key.entry(*key).or_default().push(Posting { entry, second });
                }
            }
            Cover::Always => {
                self.always.insert(entry);
            }
        }
        let place = entry as usize;
        if self.trees.len() <= place {
            self.trees.resize(place + 1, None);
        }
        let numbered = self.number(&tree);
        self.trees[place] = Some(Filed { tree, numbered, cover });
    }

    /// Returns the keys of the second best part of a conjunction, if there are one or two.
    fn second_keys(&self, tree: &Expression, first: &Cover) -> [u64; 2] {
        let Expression::All(parts) = tree else { return [0; 2] };
        let others = parts.iter().map(|part| self.cover(part)).filter(|cover| cover != first);
        let mut narrow: Vec<Cover> = others
            .filter(|cover| matches!(cover, Cover::Keys { keys, is_broad: false } if (1..=2).contains(&keys.len())))
            .collect();
        narrow.sort_by_key(|cover| self.crowd(cover));
        match narrow.first() {
            Some(Cover::Keys { keys, .. }) => [keys[0], keys[keys.len() - 1]],
            _ => [0; 2],
        }
    }

    fn number(&mut self, tree: &Expression) -> Numbered {
        match tree {
            Expression::All(parts) => Numbered::All(parts.iter().map(|part| self.number(part)).collect()),
            Expression::Any(parts) => Numbered::Any(parts.iter().map(|part| self.number(part)).collect()),
            Expression::Predicate(predicate) => {
                let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                let name = *self.names.entry(predicate.property().into()).or_insert(next);
                Numbered::Term(name, predicate.clone())
            }
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, entry: u32) {
        let Some(filed) = self.trees.get_mut(entry as usize).and_then(Option::take) else { return };
        let Cover::Keys { keys, .. } = filed.cover else {
            self.always.remove(&entry);
            return;
        };
        for key in keys {
            if let Some(entries) = self.by_key.get_mut(&key) {
                entries.retain(|one| one.entry != entry);
                if entries.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// Returns the numbers whose trees the properties satisfy, ascending.
    pub fn evaluate(&self, properties: &PropertyList) -> Vec<u32> {
        let filed = |entry: &u32| self.trees.get(*entry as usize).and_then(Option::as_ref);
        if !is_regular(properties) {
            let fits = |entry: &u32| filed(entry).is_some_and(|filed| filed.tree.is_satisfied_by(properties));
            return self.every().into_iter().filter(fits).collect();
        }
        let mut by_name = vec![None; self.names.len()];
        let mut keys = HashSet::new();
        for property in properties.iter() {
            if let Some(name) = self.names.get(property.name.as_str()) {
                by_name[*name as usize] = Some(property);
                add_keys(property, &mut keys);
            }
        }
        let fits = |entry: &u32| filed(entry).is_some_and(|filed| filed.numbered.is_satisfied_by(&by_name));
        self.propose(&keys).into_iter().filter(fits).collect()
    }

    fn every(&self) -> Vec<u32> {
        (0_u32..).zip(&self.trees).filter(|(_, filed)| filed.is_some()).map(|(entry, _)| entry).collect()
    }

    fn propose(&self, keys: &HashSet<u64>) -> Vec<u32> {
        let filed = keys.iter().filter_map(|key| self.by_key.get(key)).flatten();
        let may_fit = |posting: &&Posting| {
            posting.second == [0; 2] || posting.second.iter().any(|key| keys.contains(key))
        };
        let filed = filed.filter(may_fit).map(|posting| posting.entry);
        let mut proposed: Vec<u32> = self.always.iter().copied().chain(filed).collect();
        // A hash set has no order.
        proposed.sort_unstable();
        proposed.dedup();
        proposed
    }

    /// Chooses the keys of a tree: of a conjunction those of the part that the fewest other entries share.
    fn cover(&self, tree: &Expression) -> Cover {
        match tree {
            Expression::Predicate(predicate) => keys_of(predicate),
            Expression::All(parts) => {
                let covers = parts.iter().map(|part| self.cover(part));
                covers.min_by_key(|cover| self.crowd(cover)).unwrap_or(Cover::Always)
            }
            Expression::Any(parts) => {
                let (mut all, mut is_any_broad) = (Vec::new(), false);
                for part in parts {
                    match self.cover(part) {
                        Cover::Keys { keys, is_broad } => {
                            all.extend(keys);
                            is_any_broad |= is_broad;
                        }
                        Cover::Always => return Cover::Always,
                    }
                }
                all.sort_unstable();
                all.dedup();
                Cover::Keys { keys: all, is_broad: is_any_broad }
            }
        }
    }

    /// Returns the number of entries under the same keys, which would be proposed together; broad keys come last, because nearly
    /// every node has them.
    fn crowd(&self, cover: &Cover) -> (u8, usize) {
        match cover {
            Cover::Always => (2, usize::MAX),
            Cover::Keys { keys, is_broad } => {
                (u8::from(*is_broad), keys.iter().map(|key| self.by_key.get(key).map_or(0, Vec::len)).sum())
            }
        }
    }
}

/// Adds the keys that a node has by a property.
fn add_keys(property: &Property, keys: &mut HashSet<u64>) {
    let name = property.name.as_str();
    keys.insert(name_key(name));
    match &property.value {
        Value::String(text) => keys.extend(words(text).map(|word| word_key(name, word))),
        Value::Number(number) => keys.extend(number.as_f64().map(|number| number_key(name, number))),
        Value::Bool(value) => {
            keys.insert(bool_key(name, *value));
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Returns the keys of which a node that satisfies the predicate has at least one.
fn keys_of(predicate: &Predicate) -> Cover {
    let (name, operand) = (predicate.property(), predicate.operand());
    let is_plain = !operand.text().contains('"');
    let mut keys = match predicate.operator() {
        Operator::Equal if is_plain => vec![word_key(name, stable_hash(&[operand.text().trim_matches(' ')]))],
        // With a range the element itself need not occur.
        Operator::In if is_plain && operand.range().is_none() && !operand.is_range_expression() => {
            let words = operand.elements().iter().map(|word| stable_hash(&[word.trim_matches(' ')]));
            words.map(|word| word_key(name, word)).collect()
        }
        Operator::MisspelledOrder => Vec::new(),
        _ => return Cover::Keys { keys: vec![name_key(name)], is_broad: true },
    };
    keys.extend(operand.number().map(|number| number_key(name, number)));
    if predicate.operator() == Operator::Equal {
        keys.extend(operand.boolean().map(|value| bool_key(name, value)));
    }
    Cover::Keys { keys, is_broad: false }
}

#[cfg(test)]
mod tests;
