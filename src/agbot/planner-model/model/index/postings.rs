//! Sets of nodes that are mostly very small or very large.

use std::borrow::Cow;

use roaring::RoaringBitmap;

/// The set of nodes that have one value; a single node costs no allocation, because names like a serial number have as
/// many values as there are nodes.
#[derive(Debug, Clone)]
pub(super) enum Postings {
    One(u32),
    Many(Box<RoaringBitmap>),
}

impl Postings {
    pub fn insert(&mut self, node: u32) {
        match self {
            Self::One(only) if *only == node => {}
            Self::One(only) => *self = Self::Many(Box::new([*only, node].into_iter().collect())),
            Self::Many(nodes) => {
                nodes.insert(node);
            }
        }
    }

    /// Removes a node; true when nothing is left.
    pub fn remove(&mut self, node: u32) -> bool {
        match self {
            Self::One(only) => *only == node,
            Self::Many(nodes) => {
                nodes.remove(node);
                nodes.is_empty()
            }
        }
    }
}

impl Postings {
    /// Returns the nodes.
    pub fn as_set(&self) -> Cow<'_, RoaringBitmap> {
        match self {
            Self::One(only) => Cow::Owned([*only].into_iter().collect()),
            Self::Many(nodes) => Cow::Borrowed(nodes),
        }
    }
}

/// Collects sets to be joined at once.
#[derive(Debug, Default)]
pub(super) struct Union<'a> {
    singles: Vec<u32>,
    sets: Vec<&'a RoaringBitmap>,
}

impl<'a> Union<'a> {
    pub fn add(&mut self, postings: &'a Postings) {
        match postings {
            Postings::One(node) => self.singles.push(*node),
            Postings::Many(nodes) => self.sets.push(nodes),
        }
    }

    pub fn add_set(&mut self, nodes: &'a RoaringBitmap) {
        self.sets.push(nodes);
    }

    /// Joins the sets, or their parts inside `within`: with few nodes left the large sets are only probed.
    pub fn join(mut self, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        use roaring::MultiOps;
        self.singles.sort_unstable();
        let Some(within) = within else {
            let mut joined = match self.sets.as_slice() {
                [] => RoaringBitmap::new(),
                [only] => (*only).clone(),
                _ => self.sets.union(),
            };
            if !self.singles.is_empty() {
                joined |= self.singles.into_iter().collect::<RoaringBitmap>();
            }
            return joined;
        };
        let singles: RoaringBitmap = self.singles.into_iter().filter(|node| within.contains(*node)).collect();
        let parts = self.sets.into_iter().map(|set| set & within);
        parts.chain([singles]).collect::<Vec<_>>().union()
    }
}
