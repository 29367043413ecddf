//! All values of one property name, with the nodes that have them.
//!
//! Texts are found by hashed words (the whole text and its elements between commas). A hash only proposes candidates; the
//! domain's own comparison decides, so that the index cannot give another result.

use std::borrow::Cow;

use evenkeel_domain::policy::{
    Property, PropertyType,
    constraint::{Operator, Predicate},
};
use evenkeel_planner_record::stable_hash::stable_hash;
use hashbrown::{HashMap, HashSet};
use roaring::RoaringBitmap;
use serde_json::Value;

use super::{
    numbers::NumberIndex,
    postings::{Postings, Union},
};

/// A text with its declared type.
#[derive(Debug, Clone)]
struct Text {
    text: Box<str>,
    declared: PropertyType,
    nodes: Postings,
}

/// The texts that hold a word; mostly one.
#[derive(Debug, Clone)]
enum Texts {
    One(u32),
    Many(HashSet<u32>),
}

/// The index of one name.
#[derive(Debug, Clone, Default)]
pub(super) struct NameIndex {
    numbers: NumberIndex,
    /// Nodes with `false` and with `true`.
    bools: [RoaringBitmap; 2],
    /// Freed entries hold none.
    texts: Vec<Option<Text>>,
    free: Vec<u32>,
    by_word: HashMap<u64, Texts>,
    has_text: RoaringBitmap,
    version_count: usize,
}

/// Returns the hashes under which a text is found.
pub(crate) fn words(text: &str) -> impl Iterator<Item = u64> {
    let parts = text.contains(',').then(|| text.split(',')).into_iter().flatten();
    std::iter::once(text).chain(parts).map(|word| stable_hash(&[word.trim_matches(' ')]))
}

impl NameIndex {
    pub fn insert(&mut self, property: &Property, node: u32) {
        match &property.value {
            Value::Number(number) => self.numbers.insert(number.as_f64().unwrap_or(f64::NAN), node),
            Value::Bool(value) => {
                self.bools[usize::from(*value)].insert(node);
            }
            Value::String(text) => self.insert_text(text, &property.declared, node),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }

    pub fn remove(&mut self, property: &Property, node: u32) {
        match &property.value {
            Value::Number(number) => self.numbers.remove(number.as_f64().unwrap_or(f64::NAN), node),
            Value::Bool(value) => {
                self.bools[usize::from(*value)].remove(node);
            }
            Value::String(text) => self.remove_text(text, &property.declared, node),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.bools.iter().all(RoaringBitmap::is_empty) && self.has_text.is_empty()
    }

    /// Returns the number of values.
    pub fn value_count(&self) -> usize {
        let bools = self.bools.iter().filter(|nodes| !nodes.is_empty()).count();
        self.numbers.count() + bools + self.texts.len() - self.free.len()
    }

    /// Returns the values in words, each with the nodes that have it.
    pub fn values(&self) -> impl Iterator<Item = (String, Cow<'_, RoaringBitmap>)> {
        let bools = [false, true].into_iter().zip(&self.bools).filter(|(_, nodes)| !nodes.is_empty());
        let bools = bools.map(|(value, nodes)| (value.to_string(), Cow::Borrowed(nodes)));
        let texts = self.texts.iter().flatten().map(|one| (one.text.to_string(), one.nodes.as_set()));
        self.numbers.values().chain(bools).chain(texts)
    }

    fn find_text(&self, text: &str, declared: &PropertyType) -> Option<u32> {
        let is_it = |id: &u32| {
            self.texts[*id as usize]
                .as_ref()
                .is_some_and(|one| &*one.text == text && one.declared == *declared)
        };
        self.candidates(stable_hash(&[text.trim_matches(' ')])).find(is_it)
    }

    fn candidates(&self, word: u64) -> impl Iterator<Item = u32> {
        let (one, many) = match self.by_word.get(&word) {
            None => (None, None),
            Some(Texts::One(id)) => (Some(*id), None),
            Some(Texts::Many(ids)) => (None, Some(ids.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn insert_text(&mut self, text: &str, declared: &PropertyType, node: u32) {
        self.has_text.insert(node);
        if let Some(id) = self.find_text(text, declared) {
            if let Some(known) = &mut self.texts[id as usize] {
                known.nodes.insert(node);
            }
            return;
        }
        let entry = Text { text: text.into(), declared: declared.clone(), nodes: Postings::One(node) };
        let id = match self.free.pop() {
            Some(id) => {
                self.texts[id as usize] = Some(entry);
                id
            }
            None => {
                self.texts.push(Some(entry));
                // There are at most as many texts as nodes, which are numbered by a u32.
                u32::try_from(self.texts.len() - 1).expect("nodes are numbered by 32 bits")
            }
        };
        self.version_count += usize::from(*declared == PropertyType::Version);
        for word in words(text) {
            self.by_word.entry(word).and_modify(|texts| texts.insert(id)).or_insert(Texts::One(id));
        }
    }

    fn remove_text(&mut self, text: &str, declared: &PropertyType, node: u32) {
        self.has_text.remove(node);
        let Some(id) = self.find_text(text, declared) else { return };
        let is_gone = self.texts[id as usize].as_mut().is_some_and(|known| known.nodes.remove(node));
        if !is_gone {
            return;
        }
        self.texts[id as usize] = None;
        self.free.push(id);
        self.version_count -= usize::from(*declared == PropertyType::Version);
        for word in words(text) {
            if self.by_word.get_mut(&word).is_some_and(|texts| texts.remove(id)) {
                self.by_word.remove(&word);
            }
        }
    }

    /// Returns the nodes (of `within`, if given) whose value of this name satisfies the predicate.
    pub fn evaluate(&self, predicate: &Predicate, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let mut union = Union::default();
        self.numbers.collect(predicate.operator(), predicate.operand().number(), &mut union);
        for (value, nodes) in [false, true].iter().zip(&self.bools) {
            if !nodes.is_empty()
                && predicate.compare(&Property::new(predicate.property(), *value)) == Some(true)
            {
                union.add_set(nodes);
            }
        }
        if self.has_text.is_empty() {
            return union.join(within);
        }
        if predicate.operator() == Operator::NotEqual {
            let mut equal = Union::default();
            self.collect_texts(predicate, false, &mut equal);
            let texts = within.map_or_else(|| self.has_text.clone(), |within| &self.has_text & within);
            let unequal = &texts - equal.join(Some(&texts));
            return union.join(within) | unequal;
        }
        self.collect_texts(predicate, true, &mut union);
        union.join(within)
    }

    /// Adds the nodes of the texts for which the predicate is `wanted`.
    fn collect_texts<'a>(&'a self, predicate: &Predicate, wanted: bool, union: &mut Union<'a>) {
        let mut test = |id: usize| {
            let Some(one) = &self.texts[id] else { return };
            let property = Property::typed(predicate.property(), &*one.text, one.declared.clone());
            if predicate.compare(&property) == Some(wanted) {
                union.add(&one.nodes);
            }
        };
        match self.words_to_search(predicate) {
            Some(words) => {
                // A text with several of the words is proposed once for each.
                let mut seen = HashSet::new();
                for id in words.into_iter().flat_map(|word| self.candidates(word)) {
                    if seen.insert(id) {
                        test(id as usize);
                    }
                }
            }
            None => (0..self.texts.len()).for_each(test),
        }
    }

    /// Returns the words of which a fitting text (for `!=`: a text that does not fit) must hold one; none when every text must be
    /// compared.
    fn words_to_search(&self, predicate: &Predicate) -> Option<Vec<u64>> {
        let operand = predicate.operand();
        if operand.text().contains('"') {
            return None;
        }
        match predicate.operator() {
            Operator::Equal | Operator::NotEqual => {
                Some(vec![stable_hash(&[operand.text().trim_matches(' ')])])
            }
            Operator::In if self.version_count == 0 && !operand.is_range_expression() => {
                Some(operand.elements().iter().map(|word| stable_hash(&[word.trim_matches(' ')])).collect())
            }
            Operator::In => None,
            // Texts have no order.
            _ => Some(Vec::new()),
        }
    }
}

impl Texts {
    fn insert(&mut self, id: u32) {
        match self {
            Self::One(only) if *only == id => {}
            Self::One(only) => *self = Self::Many([*only, id].into_iter().collect()),
            Self::Many(ids) => {
                ids.insert(id);
            }
        }
    }

    /// Removes a text; true when nothing is left.
    fn remove(&mut self, id: u32) -> bool {
        match self {
            Self::One(only) => *only == id,
            Self::Many(ids) => {
                ids.remove(&id);
                ids.is_empty()
            }
        }
    }
}
