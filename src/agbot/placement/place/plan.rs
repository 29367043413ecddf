//! One evaluation that places any number of tasks of one workload unit.
//!
//! Source: orchestration B3 (the scheduler places a group of tasks at once), A3, D3.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use evenkeel_planner_record::{report::Constraint, workload::Priority};
use roaring::RoaringBitmap;

use super::{
    Added, Elimination, NodeTable, Ranking, Violations,
    domains::{Admission, Spread},
    violations::Weight,
};

/// So many tasks are placed by a scan of every key for each of them; for more, the keys are ordered once.
const FEW: usize = 4;

/// The key of a node with what it violates, which outweighs the ranking.
type Key = (Weight, [u64; 4], u32);

/// Preferred location of a task, if the constraints that weigh more allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// To whichever node is best.
    #[default]
    Anywhere,
    /// To the node that the instance left during an upgrade.
    Origin(u32),
    /// To the preferred domain of the workload.
    PreferredDomain,
    /// To this node; it must not go to another one.
    Only(u32),
}

/// A task that waits for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Want {
    /// The node that it is to get if that remains.
    pub preferred: Option<u32>,
    /// The node that it must not get.
    pub avoided: Option<u32>,
    /// True if the instance takes over the capacity that its predecessor uses on the preferred node.
    pub keeps_load: bool,
    /// Preferred location.
    pub location: Location,
}

/// The outcome of a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// A node for each task, in the order of the tasks; none when no node is left.
    pub nodes: Vec<Option<u32>>,
    /// Nodes that each constraint removed.
    pub elimination: Elimination,
    /// Violations of constraints that are not hard, by instance, in the order of the tasks.
    pub violations: Vec<Violations>,
    /// Instances that the decision has added to nodes, as to capacities.
    pub loads: BTreeMap<u32, u32>,
    /// Instances that the decision has added to nodes or removed from them.
    pub(super) added: BTreeMap<u32, i64>,
    /// The instances in each domain; none without domains.
    pub(super) spread: Option<Spread>,
}

impl Placed {
    /// Returns that one task has no node.
    pub fn nowhere(elimination: Elimination) -> Self {
        let (nodes, violations) = (vec![None], vec![Violations::default()]);
        let (loads, added) = (BTreeMap::new(), BTreeMap::new());
        Self { nodes, elimination, violations, loads, added, spread: None }
    }

    /// Returns why the domains of a node take no further instance, after this placement.
    pub fn domain_objection(&self, table: &NodeTable, node: u32) -> Option<String> {
        let spread = self.spread.as_ref()?;
        spread.objection(table.domains(), table.domain_rules(), node).map(|(_, text)| text)
    }

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
    let mut found: Vec<Option<(u32, Violations)>> = vec![None; wants.len()];
    for (found, want) in found.iter_mut().zip(wants) {
        let preferred = want.preferred.filter(|node| search.may_stay(*node));
        let preferred = preferred.filter(|node| search.take_preferred(*node, want.keeps_load));
        // An instance that stays on its node packs no domain that was not packed before.
        *found = preferred.map(|node| (node, table.violations(node)));
    }
    let open = found.iter_mut().zip(wants).filter(|(found, _)| found.is_none());
    for (found, want) in open {
        *found = search.best(want);
    }
    let nodes = found.iter().map(|found| found.map(|(node, _)| node)).collect();
    let violations =
        found.iter().map(|found| found.map_or_else(Violations::default, |(_, one)| one)).collect();
    let (loads, added) = (search.loads.clone(), search.added.clone());
    let (elimination, spread) = search.finish();
    Placed { nodes, elimination, violations, loads, added, spread }
}

/// Returns nodes in the order in which instances are spread over them: by `order` as far as their domains
/// allow.
///
/// `count`: so many instances are spread; the other nodes follow in their order.
pub fn spread(table: &NodeTable, order: Vec<u32>, count: usize) -> Vec<u32> {
    let domains = table.domains();
    if domains.is_empty() {
        return order;
    }
    let mut spread = Spread::without_instances(domains, &order.iter().copied().collect());
    let mut cells = vec![VecDeque::new(); domains.cell_count()];
    for (position, node) in order.iter().enumerate() {
        cells[domains.cell_of(*node)].push_back((position, *node));
    }
    let mut chosen = Vec::new();
    for _ in 0..count.min(order.len()) {
        let admissions = spread.admissions(domains, table.domain_rules());
        let allowed = admissions.iter().enumerate().filter_map(|(cell, admission)| match admission {
            Admission::Allowed(violations) => Some((cell, violations)),
            Admission::Excluded(_) => None,
        });
        let heads = allowed.filter_map(|(cell, violations)| {
            let (position, node) = *cells[cell].front()?;
            Some((violations.with(table.violations(node)).weight(), position, cell))
        });
        let Some((.., cell)) = heads.min() else { break };
        let Some((_, node)) = cells[cell].pop_front() else { break };
        spread.count(domains, node, 1);
        spread.fill(domains, node);
        chosen.push(node);
    }
    let first: RoaringBitmap = chosen.iter().copied().collect();
    chosen.extend(order.into_iter().filter(|node| !first.contains(*node)));
    chosen
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
    /// The best of each cell of domains on top; none when every key is compared for each task.
    heaps: Option<Vec<BinaryHeap<Reverse<Key>>>>,
    /// The instances in each domain; none without domains.
    spread: Option<Spread>,
    full: RoaringBitmap,
    /// Nodes whose capacities leave no room for more than the decision has added.
    loaded: RoaringBitmap,
    /// The nodes in the preferred domain, once they are asked for.
    preferred: Option<RoaringBitmap>,
    /// Nodes outside of it that were not taken although no other one was left.
    outside: RoaringBitmap,
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
            heaps: None,
            spread: None,
            full: RoaringBitmap::new(),
            loaded: RoaringBitmap::new(),
            preferred: None,
            outside: RoaringBitmap::new(),
        };
        added.loads.keys().for_each(|node| search.note_load(*node));
        let domains = table.domains();
        if !domains.is_empty() {
            let mut spread = Spread::new(domains, &(&search.elimination.remaining - &search.full));
            search.added.iter().for_each(|(node, by)| spread.count(domains, *node, *by));
            search.spread = Some(spread);
        }
        if !is_scan {
            let mut heaps = vec![BinaryHeap::new(); domains.cell_count()];
            for (key, node) in ranking.keys(&search.elimination.remaining) {
                let key = (table.weight(node), search.shifted(key, node), node);
                heaps[domains.cell_of(node)].push(Reverse(key));
            }
            search.heaps = Some(heaps);
        }
        search
    }

    /// Returns for each cell of domains whether one more instance may come to its nodes.
    fn admissions(&self) -> Vec<Admission> {
        let (domains, rules) = (self.table.domains(), self.table.domain_rules());
        match &self.spread {
            Some(spread) => spread.admissions(domains, rules),
            None => vec![Admission::Allowed(Violations::default())],
        }
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

    /// Returns whether the domains of a node take an instance that was there before: where distribution is required another one may have come
    /// into them since it ended.
    fn may_stay(&self, node: u32) -> bool {
        let is_vacated = self.added.get(&node).is_some_and(|by| *by < 0);
        let is_excluded = || {
            let admission = self.admissions().get(self.table.domains().cell_of(node)).copied();
            matches!(admission, Some(Admission::Excluded(_)))
        };
        is_vacated || !self.table.domain_rules().is_distribution_required || !is_excluded()
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
        let is_hard = self.table.priorities().is_hard(Constraint::NodeCapacity);
        let room = self.table.node(node).room_left(self.elimination.buffer);
        if is_hard && self.loads.get(&node).copied().unwrap_or(0) >= room {
            self.loaded.insert(node);
            self.fill(node);
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
        if let Some(spread) = &mut self.spread {
            spread.count(self.table.domains(), node, 1);
        }
        if self.own(node) >= i64::from(self.table.max_per_node(node)) {
            self.fill(node);
        }
    }

    fn fill(&mut self, node: u32) {
        let is_new = self.full.insert(node);
        if let Some(spread) =
            self.spread.as_mut().filter(|_| is_new && self.elimination.remaining.contains(node))
        {
            spread.fill(self.table.domains(), node);
        }
    }

    /// Takes room on the best node.
    fn best(&mut self, want: &Want) -> Option<(u32, Violations)> {
        let (avoided, priorities) = (want.avoided, self.table.priorities());
        let priority = priorities.of_constraint(Constraint::PreferredLocation);
        // An origin that cannot be reached never keeps an instance from running.
        let of_origin = if priority == Priority::Hard { Priority::Soft } else { priority };
        let (nodes, priority) = match want.location {
            Location::Only(node) => (RoaringBitmap::from_iter([node]), Priority::Hard),
            Location::Origin(node) if priority != Priority::Off => {
                (RoaringBitmap::from_iter([node]), of_origin)
            }
            Location::PreferredDomain => match self.preferred_nodes() {
                Some(preferred) => (preferred, priority),
                None => return self.best_anywhere(avoided),
            },
            _ => return self.best_anywhere(avoided),
        };
        let (node, violations) = self.best_inside(&nodes, priority, avoided)?;
        self.take(node);
        Some((node, violations))
    }

    /// Returns the nodes in the preferred domain; none when no domain is preferred, so that no node is outside of it.
    fn preferred_nodes(&mut self) -> Option<RoaringBitmap> {
        if self.preferred.is_none() {
            self.preferred = self.ranking.preferred_nodes();
        }
        self.preferred.clone()
    }

    /// Returns the best node if those outside of some violate the preferred location.
    fn best_inside(
        &mut self,
        nodes: &RoaringBitmap,
        priority: Priority,
        avoided: Option<u32>,
    ) -> Option<(u32, Violations)> {
        let mut left = &self.elimination.remaining - &self.full;
        if let Some(avoided) = avoided {
            left.remove(avoided);
        }
        let (inside, outside) = (&left & nodes, &left - nodes);
        let mut missed = Violations::default();
        missed.add(Constraint::PreferredLocation, priority);
        let best_inside = self.best_among(&inside).map(|(key, violations)| (violations, key));
        let best_outside = self.best_among(&outside).map(|(key, violations)| (violations.with(missed), key));
        let allowed = best_outside.filter(|_| priority != Priority::Hard);
        if best_inside.is_none() && allowed.is_none() {
            self.outside |= outside;
        }
        let best = best_inside.into_iter().chain(allowed);
        let best = best.min_by_key(|(violations, key)| (violations.weight(), *key));
        best.map(|(violations, (_, node))| (node, violations))
    }

    /// Takes room on the best node, wherever it is.
    fn best_anywhere(&mut self, avoided: Option<u32>) -> Option<(u32, Violations)> {
        match self.heaps.take() {
            Some(mut heaps) => {
                let found = self.best_in(&mut heaps, avoided);
                self.heaps = Some(heaps);
                found
            }
            None => {
                let (node, violations) = self.best_of_all(avoided)?;
                self.take(node);
                Some((node, violations))
            }
        }
    }

    /// Returns the best node by a scan of every key; those of nodes that this decision has changed are shifted.
    fn best_of_all(&self, avoided: Option<u32>) -> Option<(u32, Violations)> {
        let mut left = &self.elimination.remaining - &self.full;
        if let Some(avoided) = avoided {
            left.remove(avoided);
        }
        self.best_among(&left).map(|((_, node), violations)| (node, violations))
    }

    /// Returns the best of some nodes, with its key and what it violates.
    fn best_among(&self, left: &RoaringBitmap) -> Option<(super::rank::Key, Violations)> {
        let (violations, left) = self.least_violating(left)?;
        if !self.ranking.has_single_keys() {
            let keys = self.ranking.keys(&self.elimination.remaining).into_iter();
            let best = keys.filter(|(_, node)| left.contains(*node)).min();
            return best.map(|key| (key, violations));
        }
        let changed: RoaringBitmap = self.added.keys().filter(|node| left.contains(**node)).collect();
        let shifted =
            changed.iter().filter_map(|node| Some((self.shifted(self.ranking.key(node)?, node), node)));
        let best = shifted.chain(self.ranking.best(&(left - &changed))).min();
        best.map(|key| (key, violations))
    }

    /// Returns the nodes that violate least, with what they violate.
    fn least_violating(&self, left: &RoaringBitmap) -> Option<(Violations, RoaringBitmap)> {
        let domains = self.table.domains();
        let mut by_admission: BTreeMap<Violations, RoaringBitmap> = BTreeMap::new();
        for (cell, admission) in self.admissions().into_iter().enumerate() {
            if let Admission::Allowed(violations) = admission {
                let nodes = domains.nodes(cell).map_or_else(|| left.clone(), |nodes| nodes & left);
                *by_admission.entry(violations).or_default() |= nodes;
            }
        }
        let mut least: Option<(Violations, RoaringBitmap)> = None;
        for (of_domains, nodes) in by_admission {
            for (of_nodes, nodes) in self.table.classes(&nodes) {
                let violations = of_domains.with(of_nodes);
                match &mut least {
                    Some((known, all)) if known.weight() == violations.weight() => *all |= nodes,
                    Some((known, _)) if known.weight() < violations.weight() => {}
                    _ => least = Some((violations, nodes)),
                }
            }
        }
        least
    }

    fn best_in(
        &mut self,
        heaps: &mut [BinaryHeap<Reverse<Key>>],
        avoided: Option<u32>,
    ) -> Option<(u32, Violations)> {
        let mut passed_over = None;
        let mut best: Option<(Weight, [u64; 4], u32, usize, Violations)> = None;
        for (cell, admission) in self.admissions().into_iter().enumerate() {
            let Admission::Allowed(of_domains) = admission else { continue };
            let heap = &mut heaps[cell];
            self.clean(heap);
            if heap.peek().is_some_and(|Reverse((.., node))| Some(*node) == avoided) {
                passed_over = heap.pop().map(|top| (cell, top));
                self.clean(heap);
            }
            let Some(Reverse((_, key, node))) = heap.peek() else { continue };
            let violations = of_domains.with(self.table.violations(*node));
            let found = (violations.weight(), *key, *node, cell, violations);
            if best.is_none_or(|best| (found.0, found.1, found.2) < (best.0, best.1, best.2)) {
                best = Some(found);
            }
        }
        if let Some((.., cell, _)) = best {
            heaps[cell].pop();
        }
        if let Some((cell, top)) = passed_over {
            heaps[cell].push(top);
        }
        let (_, mut key, node, cell, violations) = best?;
        self.take(node);
        if !self.full.contains(node) {
            if self.counts_matter {
                shift(&mut key, 1);
            }
            heaps[cell].push(Reverse((self.table.weight(node), key, node)));
        }
        Some((node, violations))
    }

    /// Removes full nodes from the top, and brings the key on top up to date: preferred nodes were taken without their keys being changed.
    fn clean(&self, heap: &mut BinaryHeap<Reverse<Key>>) {
        while let Some(Reverse((weight, mut key, node))) = heap.peek().copied() {
            let own = self.own(node).max(0) as u64;
            let is_stale = self.counts_matter && key[0] < own;
            if !is_stale && !self.full.contains(node) {
                return;
            }
            heap.pop();
            if !self.full.contains(node) {
                let missing = own - key[0];
                shift(&mut key, missing as i64);
                heap.push(Reverse((weight, key, node)));
            }
        }
    }

    fn finish(mut self) -> (Elimination, Option<Spread>) {
        let has_place = |node: &u32| self.own(*node) < i64::from(self.table.max_per_node(*node));
        let loaded: RoaringBitmap = self.loaded.iter().filter(has_place).collect();
        self.elimination.remove(Constraint::NodeCapacity, &loaded);
        let admissions = self.admissions();
        for kind in Constraint::OF_DOMAINS {
            for (cell, _) in
                admissions.iter().enumerate().filter(|(_, one)| **one == Admission::Excluded(kind))
            {
                if let Some(nodes) = self.table.domains().nodes(cell) {
                    self.elimination.remove(kind, &(nodes - &self.full));
                }
            }
        }
        self.elimination.remove(Constraint::AlreadyChosen, &self.full);
        self.elimination.remove(Constraint::PreferredLocation, &self.outside);
        (self.elimination, self.spread)
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
        if let Some(loaded) = elimination.removed_under(table, Constraint::NodeCapacity) {
            elimination.remove(Constraint::NodeCapacity, &loaded);
        }
    }
    elimination.stages.retain(|stage| !stage.removed.is_empty());
}

fn shift(key: &mut [u64; 4], by: i64) {
    key[0] = key[0].saturating_add_signed(by);
    key[1] = key[1].saturating_add_signed(by);
}
