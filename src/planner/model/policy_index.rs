//! The index over the policies' predicates: which policies can select a node, without asking each of them.
//!
//! Each policy is filed under the terms of which a node must satisfy one ("cover"): words of an equality, or the name of a
//! property, or nothing. A node's own properties propose the policies; the whole constraint then decides, so that the
//! answer is exactly that of asking every policy. Source: design "The agbot".

use std::collections::BTreeSet;

use evenkeel_domain::policy::{
    Property, PropertyList,
    constraint::{Expression, Operator, Predicate},
};
use hashbrown::{HashMap, HashSet};
use serde_json::Value;

use super::index::{is_regular, words};
use crate::ids::stable_hash;

/// Is the index.
///
/// # Shape
/// Entries are dense numbers given by the caller, one per constraint tree. Hash maps are for look-up only.
#[derive(Debug, Clone, Default)]
pub struct PolicyIndex {
    trees: Vec<Option<Filed>>,
    /// Numbers of the property names that any tree mentions; they only grow, because names are few.
    names: HashMap<Box<str>, u32>,
    by_key: HashMap<u64, Vec<u32>>,
    always: BTreeSet<u32>,
}

#[derive(Debug, Clone)]
struct Filed {
    tree: Expression,
    numbered: Numbered,
    cover: Cover,
}

/// Is a tree whose names are numbers, so that a property is found without comparing names.
#[derive(Debug, Clone)]
enum Numbered {
    All(Vec<Numbered>),
    Any(Vec<Numbered>),
    /// Name, keys of which a satisfied node has one, and the term itself.
    Term(u32, Box<[u64]>, Predicate),
}

/// Is a node as trees are asked with it.
struct Asked<'a> {
    by_name: Vec<Option<&'a Property>>,
    keys: HashSet<u64>,
}

impl Numbered {
    /// Answers for properties of which every name occurs once and no value plays tricks.
    ///
    /// Most terms fail, and most of those because the node has none of their keys.
    fn is_satisfied_by(&self, node: &Asked<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.is_satisfied_by(node)),
            Self::Any(parts) => parts.iter().any(|part| part.is_satisfied_by(node)),
            Self::Term(name, keys, predicate) => {
                let property = node.by_name.get(*name as usize).copied().flatten();
                property.is_some_and(|property| {
                    keys.iter().any(|key| node.keys.contains(key))
                        && predicate.compare(property) == Some(true)
                })
            }
        }
    }
}

/// Is where an entry is filed.
#[derive(Debug, Clone, PartialEq)]
enum Cover {
    /// Under keys, of which a node must have one; none at all when no node can satisfy the tree.
    Keys(Vec<u64>),
    /// Nowhere: every node proposes it.
    Always,
}

/// Key of "has this word as value of this name".
fn word_key(name: &str, word: u64) -> u64 {
    stable_hash(&["word", name]).wrapping_add(word.rotate_left(17))
}

/// Key of "has this number as value of this name"; both zeros are one number.
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
    /// Makes an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files a tree under a number, which must be free.
    pub fn insert(&mut self, entry: u32, tree: Expression) {
        let cover = self.cover(&tree);
        match &cover {
            Cover::Keys(keys) => {
                for key in keys {
                    self.by_key.entry(*key).or_default().push(entry);
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

    fn number(&mut self, tree: &Expression) -> Numbered {
        match tree {
            Expression::All(parts) => Numbered::All(parts.iter().map(|part| self.number(part)).collect()),
            Expression::Any(parts) => Numbered::Any(parts.iter().map(|part| self.number(part)).collect()),
            Expression::Predicate(predicate) => {
                // There are fewer names than predicates, which fit the memory.
                let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                let name = *self.names.entry(predicate.property().into()).or_insert(next);
                Numbered::Term(name, keys_of(predicate).into(), predicate.clone())
            }
        }
    }

    /// Takes a number out.
    pub fn remove(&mut self, entry: u32) {
        let Some(filed) = self.trees.get_mut(entry as usize).and_then(Option::take) else { return };
        let Cover::Keys(keys) = filed.cover else {
            self.always.remove(&entry);
            return;
        };
        for key in keys {
            if let Some(entries) = self.by_key.get_mut(&key) {
                entries.retain(|one| *one != entry);
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
        let mut asked = Asked { by_name: vec![None; self.names.len()], keys: HashSet::new() };
        for property in properties.iter() {
            if let Some(name) = self.names.get(property.name.as_str()) {
                asked.by_name[*name as usize] = Some(property);
                add_keys(property, &mut asked.keys);
            }
        }
        let fits = |entry: &u32| filed(entry).is_some_and(|filed| filed.numbered.is_satisfied_by(&asked));
        self.propose(&asked.keys).into_iter().filter(fits).collect()
    }

    fn every(&self) -> Vec<u32> {
        (0_u32..).zip(&self.trees).filter(|(_, filed)| filed.is_some()).map(|(entry, _)| entry).collect()
    }

    fn propose(&self, keys: &HashSet<u64>) -> Vec<u32> {
        let filed = keys.iter().filter_map(|key| self.by_key.get(key)).flatten();
        let mut proposed: Vec<u32> = self.always.iter().chain(filed).copied().collect();
        // The set has no order; the answer has.
        proposed.sort_unstable();
        proposed.dedup();
        proposed
    }

    /// Chooses where to file a tree: of a conjunction the part that the fewest others are filed under.
    fn cover(&self, tree: &Expression) -> Cover {
        match tree {
            Expression::Predicate(predicate) => Cover::Keys(keys_of(predicate)),
            Expression::All(parts) => {
                let covers = parts.iter().map(|part| self.cover(part));
                covers.min_by_key(|cover| self.crowd(cover)).unwrap_or(Cover::Always)
            }
            Expression::Any(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match self.cover(part) {
                        Cover::Keys(keys) => all.extend(keys),
                        Cover::Always => return Cover::Always,
                    }
                }
                all.sort_unstable();
                all.dedup();
                Cover::Keys(all)
            }
        }
    }

    /// How many entries are filed under the same keys and would be proposed together.
    fn crowd(&self, cover: &Cover) -> (bool, usize) {
        match cover {
            Cover::Always => (true, usize::MAX),
            Cover::Keys(keys) => {
                (false, keys.iter().map(|key| self.by_key.get(key).map_or(0, Vec::len)).sum())
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
fn keys_of(predicate: &Predicate) -> Vec<u64> {
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
        _ => return vec![name_key(name)],
    };
    keys.extend(operand.number().map(|number| number_key(name, number)));
    if predicate.operator() == Operator::Equal {
        keys.extend(operand.boolean().map(|value| bool_key(name, value)));
    }
    keys
}

#[cfg(test)]
mod tests;
