//! The inverted index of node properties: one policy against a million nodes in a few set operations.
//!
//! Values are kept per property name with the set of nodes that have them; a constraint's tree is evaluated as unions and
//! intersections. The result is exactly that of the domain's evaluator for each node, which a property test shows. Nodes
//! with irregular properties (a duplicate name, a value that is no scalar, a quotation mark) are few and evaluated one by one.
//! Source: design 4.1; agbot 6.10.

mod name;
mod numbers;
mod postings;

use std::borrow::Cow;

use evenkeel_domain::policy::{
    Property, PropertyList,
    constraint::{Expression, Operator},
};
use hashbrown::HashMap;
use roaring::RoaringBitmap;
use serde_json::Value;

use name::NameIndex;
pub(crate) use name::words;

/// The index.
///
/// # Shape
/// Nodes are dense numbers given by the caller. Hash maps are for look-up only; what lists them sorts them.
#[derive(Debug, Clone, Default)]
pub struct NodeIndex {
    names: HashMap<Box<str>, NameIndex>,
    all: RoaringBitmap,
    irregular: RoaringBitmap,
    irregular_properties: HashMap<u32, PropertyList>,
}

impl NodeIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many nodes are in the index.
    pub fn len(&self) -> u64 {
        self.all.len()
    }

    /// Returns whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a node.
    ///
    /// # Shape
    /// The number must not be in the index; remove the old properties first.
    pub fn insert(&mut self, node: u32, properties: &PropertyList) {
        self.all.insert(node);
        if !is_regular(properties) {
            self.irregular.insert(node);
            self.irregular_properties.insert(node, properties.clone());
            return;
        }
        for property in properties.iter() {
            match self.names.get_mut(property.name.as_str()) {
                Some(index) => index.insert(property, node),
                None => {
                    let mut index = NameIndex::default();
                    index.insert(property, node);
                    self.names.insert(property.name.as_str().into(), index);
                }
            }
        }
    }

    /// Removes a node.
    ///
    /// # Shape
    /// `properties` must be those it was added with.
    pub fn remove(&mut self, node: u32, properties: &PropertyList) {
        self.all.remove(node);
        if self.irregular.remove(node) {
            self.irregular_properties.remove(&node);
            return;
        }
        for property in properties.iter() {
            if let Some(index) = self.names.get_mut(property.name.as_str()) {
                index.remove(property, node);
                if index.is_empty() {
                    self.names.remove(property.name.as_str());
                }
            }
        }
    }

    /// Returns the nodes whose properties satisfy the tree.
    pub fn evaluate(&self, tree: &Expression) -> RoaringBitmap {
        let mut found = self.evaluate_regular(tree, None);
        for node in &self.irregular {
            let fits = self
                .irregular_properties
                .get(&node)
                .is_some_and(|properties| tree.is_satisfied_by(properties));
            if fits {
                found.insert(node);
            } else {
                found.remove(node);
            }
        }
        found
    }

    /// Returns the names of properties with the number of their values, by name. Irregular properties are left out.
    pub fn names(&self) -> Vec<(&str, usize)> {
        let mut names: Vec<(&str, usize)> =
            self.names.iter().map(|(name, index)| (&**name, index.value_count())).collect();
        names.sort_unstable();
        names
    }

    /// Returns the values of a property in words, each with the nodes that have it.
    pub fn values_of<'i>(
        &'i self,
        name: &str,
    ) -> impl Iterator<Item = (String, Cow<'i, RoaringBitmap>)> + use<'i> {
        self.names.get(name).into_iter().flat_map(NameIndex::values)
    }

    /// Evaluates among the nodes of `within` only, if given.
    fn evaluate_regular(&self, tree: &Expression, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        match tree {
            Expression::All(parts) => self.intersect(parts, within),
            Expression::Any(parts) => {
                let mut found = RoaringBitmap::new();
                for part in parts {
                    found |= self.evaluate_regular(part, within);
                }
                found
            }
            Expression::Predicate(predicate) => match self.names.get(predicate.property()) {
                Some(index) => index.evaluate(predicate, within),
                None => RoaringBitmap::new(),
            },
        }
    }

    /// Evaluates the parts that leave the fewest nodes first, and each further part among what is left.
    fn intersect(&self, parts: &[Expression], within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let mut order: Vec<&Expression> = parts.iter().collect();
        order.sort_by_key(|part| selectivity(part));
        let mut found: Option<RoaringBitmap> = None;
        for part in order {
            let left = self.evaluate_regular(part, found.as_ref().or(within));
            if left.is_empty() {
                return left;
            }
            found = Some(left);
        }
        found.or_else(|| within.cloned()).unwrap_or_else(|| self.all.clone())
    }
}

/// Guesses how much a part leaves, by its kind alone: an equality the least.
fn selectivity(tree: &Expression) -> u8 {
    match tree {
        Expression::Predicate(predicate) => match predicate.operator() {
            Operator::Equal => 0,
            Operator::In => 1,
            Operator::NotEqual => 5,
            _ => 3,
        },
        Expression::All(parts) => parts.iter().map(selectivity).min().unwrap_or(u8::MAX),
        Expression::Any(parts) => parts.iter().map(selectivity).max().unwrap_or(0).saturating_add(1),
    }
}

/// Returns whether every name occurs once, with a scalar value that holds no quotation mark.
pub(crate) fn is_regular(properties: &[Property]) -> bool {
    let is_plain = |property: &Property| match &property.value {
        Value::Number(_) | Value::Bool(_) => true,
        Value::String(text) => !text.contains('"'),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let is_first = |(position, property): (usize, &Property)| {
        !properties[..position].iter().any(|earlier| earlier.name == property.name)
    };
    properties.iter().all(is_plain) && properties.iter().enumerate().all(is_first)
}

#[cfg(test)]
pub(crate) mod tests;
