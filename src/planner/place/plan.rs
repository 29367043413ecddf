//! One evaluation that places any number of tasks of one workload unit.
//!
//! Source: orchestration B3 (the scheduler places a group of tasks at once), A3, D3.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use roaring::RoaringBitmap;

use super::{Added, Constraint, Elimination, NodeTable, Ranking, SoftViolations};

/// So many tasks are placed by a look at every key for each of them; for more, the keys are ordered once.
const FEW: usize = 4;

/// The key of a node with what soft affinity says of it, which outweighs the ranking.
type Key = (SoftViolations, [u64; 4], u32);

/// A task that waits for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Want {
    /// The node that it is to get if that remains.
    pub preferred: Option<u32>,
    /// The node that it must not get.
    pub avoided: Option<u32>,
    /// Whether it takes over what its predecessor uses of the preferred node.
    pub keeps_load: bool,
}

/// The outcome of a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// A node for each task, in the order of the tasks; none when no node is left.
    pub nodes: Vec<Option<u32>>,
    /// Which constraint removed which nodes.
    pub elimination: Elimination,
    /// Instances that the decision has added to nodes, as to capacities.
    pub loads: BTreeMap<u32, u32>,
}

impl Placed {
    /// Returns how many tasks got a node.
    pub fn count(&self) -> u32 {
        self.nodes.iter().flatten().count() as u32
    }
}

/// Places tasks.
///
/// Each gets the best node that is left, in the order of the tasks; those with a preferred node come first.
/// # Shape
/// `elimination`: what remains before this decision. `added`: what the decision has added to nodes or removed from them, beyond what
/// the table counts.
pub fn place(
    table: &NodeTable,
    ranking: &Ranking<'_>,
    elimination: Elimination,
    added: &Added,
    wants: &[Want],
) -> Placed {
    let mut search = Search::new(table, ranking, elimination, added, wants.len());
    let mut nodes = vec![None; wants.len()];
    for (node, want) in nodes.iter_mut().zip(wants) {
        *node = want.preferred.filter(|preferred| search.take_preferred(*preferred, want.keeps_load));
    }
    let open = nodes.iter_mut().zip(wants).filter(|(node, _)| node.is_none());
    for (node, want) in open {
        *node = search.best(want.avoided);
    }
    let loads = search.loads.clone();
    Placed { nodes, elimination: search.finish(), loads }
}

/// The nodes that are left.
struct Search<'a> {
    table: &'a NodeTable,
    ranking: &'a Ranking<'a>,
    elimination: Elimination,
    added: BTreeMap<u32, i64>,
    /// Instances that the decision adds, as to capacities.
    loads: BTreeMap<u32, u32>,
    counts_matter: bool,
    /// The best on top; none when every key is looked at for each task.
    heap: Option<BinaryHeap<Reverse<Key>>>,
    full: RoaringBitmap,
    /// Nodes whose capacities leave no room for more than the decision has added.
    loaded: RoaringBitmap,
}

impl<'a> Search<'a> {
    fn new(
        table: &'a NodeTable,
        ranking: &'a Ranking<'a>,
        mut elimination: Elimination,
        added: &Added,
        task_count: usize,
    ) -> Self {
        restore(table, &mut elimination, &added.instances);
        let is_scan = task_count <= FEW && ranking.has_single_keys();
        let mut search = Self {
            table,
            ranking,
            elimination,
            added: added.instances.clone(),
            loads: added.loads.clone(),
            counts_matter: ranking.depends_on_counts(),
            heap: None,
            full: RoaringBitmap::new(),
            loaded: RoaringBitmap::new(),
        };
        added.loads.keys().for_each(|node| search.note_load(*node));
        if !is_scan {
            let keys = ranking.keys(&search.elimination.remaining).into_iter();
            search.heap = Some(keys.map(|(key, node)| Reverse(search.weighted(key, node))).collect());
        }
        search
    }

    fn weighted(&self, key: [u64; 4], node: u32) -> Key {
        (self.table.node(node).affinity.soft, self.shifted(key, node), node)
    }

    /// Returns the key of a node with the instances of this decision.
    fn shifted(&self, mut key: [u64; 4], node: u32) -> [u64; 4] {
        if self.counts_matter
            && let Some(by) = self.added.get(&node)
        {
            shift(&mut key, *by);
        }
        key
    }

    /// Instances of the workload unit on a node, with those of this decision.
    fn own(&self, node: u32) -> i64 {
        i64::from(self.table.own(node)) + self.added.get(&node).copied().unwrap_or(0)
    }

    /// Takes room on a node, if it remains, or if only its capacities speak against it and a predecessor makes room.
    fn take_preferred(&mut self, node: u32, keeps_load: bool) -> bool {
        if !keeps_load {
            return self.take(node);
        }
        let mut stages = self.elimination.stages.iter();
        let capacity = stages.find(|stage| stage.constraint == Constraint::NodeCapacity);
        let is_loaded =
            self.loaded.contains(node) || capacity.is_some_and(|stage| stage.removed.contains(node));
        if !(is_loaded || self.elimination.remaining.contains(node)) || self.is_full(node) {
            return false;
        }
        self.count(node);
        true
    }

    fn is_full(&self, node: u32) -> bool {
        self.full.contains(node) && !self.loaded.contains(node)
            || self.own(node) >= i64::from(self.table.max_per_node(node))
    }

    /// Notes whether the capacities of a node leave room for more than the decision has added.
    fn note_load(&mut self, node: u32) {
        if self.loads.get(&node).copied().unwrap_or(0) >= self.table.node(node).room_left() {
            self.loaded.insert(node);
            self.full.insert(node);
        }
    }

    /// Takes room on a node, if it remains.
    fn take(&mut self, node: u32) -> bool {
        if !self.elimination.remaining.contains(node) || self.full.contains(node) {
            return false;
        }
        if self.table.node(node).room.is_some() {
            *self.loads.entry(node).or_default() += 1;
            self.note_load(node);
        }
        self.count(node);
        true
    }

    fn count(&mut self, node: u32) {
        *self.added.entry(node).or_default() += 1;
        if self.own(node) >= i64::from(self.table.max_per_node(node)) {
            self.full.insert(node);
        }
    }

    /// Takes room on the best node.
    fn best(&mut self, avoided: Option<u32>) -> Option<u32> {
        match self.heap.take() {
            Some(mut heap) => {
                let found = self.best_in(&mut heap, avoided);
                self.heap = Some(heap);
                found
            }
            None => {
                let node = self.best_of_all(avoided)?;
                self.take(node);
                Some(node)
            }
        }
    }

    /// Returns the best node by a look at every key; those of nodes that this decision has changed are shifted.
    fn best_of_all(&self, avoided: Option<u32>) -> Option<u32> {
        let mut left = &self.elimination.remaining - &self.full;
        if let Some(avoided) = avoided {
            left.remove(avoided);
        }
        let left = self.table.preferred(&left);
        let changed: RoaringBitmap = self.added.keys().filter(|node| left.contains(**node)).collect();
        let shifted =
            changed.iter().filter_map(|node| Some((self.shifted(self.ranking.key(node)?, node), node)));
        let best = shifted.chain(self.ranking.best(&(left - &changed))).min();
        best.map(|(_, node)| node)
    }

    fn best_in(&mut self, heap: &mut BinaryHeap<Reverse<Key>>, avoided: Option<u32>) -> Option<u32> {
        let mut passed_over = None;
        let found = loop {
            let Some(Reverse((violations, mut key, node))) = heap.pop() else { break None };
            if self.full.contains(node) {
                continue;
            }
            if Some(node) == avoided {
                passed_over = Some(Reverse((violations, key, node)));
                continue;
            }
            // Preferred nodes were taken without their keys being changed.
            let own = self.own(node).max(0) as u64;
            if self.counts_matter && key[0] < own {
                let missing = own - key[0];
                shift(&mut key, missing as i64);
                heap.push(Reverse((violations, key, node)));
                continue;
            }
            self.take(node);
            if !self.full.contains(node) {
                if self.counts_matter {
                    shift(&mut key, 1);
                }
                heap.push(Reverse((violations, key, node)));
            }
            break Some(node);
        };
        heap.extend(passed_over);
        found
    }

    fn finish(mut self) -> Elimination {
        let has_place = |node: &u32| self.own(*node) < i64::from(self.table.max_per_node(*node));
        let loaded: RoaringBitmap = self.loaded.iter().filter(has_place).collect();
        self.elimination.remove(Constraint::NodeCapacity, &loaded);
        self.elimination.remove(Constraint::AlreadyChosen, &self.full);
        self.elimination
    }
}

/// Corrects the elimination by what the decision has changed so far.
fn restore(table: &NodeTable, elimination: &mut Elimination, added: &BTreeMap<u32, i64>) {
    let is_full = |node: u32, by: i64| i64::from(table.own(node)) + by >= i64::from(table.max_per_node(node));
    let filled = added.iter().filter(|(node, by)| **by > 0 && is_full(**node, **by));
    let filled: RoaringBitmap = filled.map(|(node, _)| *node).collect();
    elimination.remove(Constraint::AlreadyChosen, &filled);
    let freed = added.iter().filter(|(node, by)| **by < 0 && !is_full(**node, **by));
    let freed: RoaringBitmap = freed.map(|(node, _)| *node).collect();
    if let Some(stage) = elimination.stages.iter_mut().find(|one| one.constraint == Constraint::MaxPerNode) {
        let mut back = &stage.removed & &freed;
        for later in [Constraint::StartFailed, Constraint::Blocklist, Constraint::Affinity] {
            if let Some(removed) = table.removed_by(later) {
                back -= removed;
            }
        }
        stage.removed -= &back;
        elimination.remaining |= back;
        if let Some(loaded) = table.removed_by(Constraint::NodeCapacity) {
            elimination.remove(Constraint::NodeCapacity, loaded);
        }
    }
    elimination.stages.retain(|stage| !stage.removed.is_empty());
}

fn shift(key: &mut [u64; 4], by: i64) {
    key[0] = key[0].saturating_add_signed(by);
    key[1] = key[1].saturating_add_signed(by);
}
