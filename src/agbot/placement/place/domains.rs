//! Fault domains and upgrade domains: how the instances of a workload unit are spread over them.
//!
//! Nodes without a domain take no part. Source: orchestration D6.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evenkeel_planner_record::{
    report::Constraint,
    workload::{Priorities, Priority},
};
use roaring::RoaringBitmap;

use super::{UnitNode, Violations};

/// One domain at one level.
#[derive(Debug, Clone)]
struct Domain {
    kind: Constraint,
    name: Arc<str>,
    /// The domains with the same parent, this one included.
    siblings: usize,
    /// True if nodes name exactly this domain.
    is_leaf: bool,
}

/// The nodes that are in the same domains.
#[derive(Debug, Clone)]
struct Cell {
    nodes: RoaringBitmap,
    /// Domains at every level.
    domains: Vec<usize>,
}

/// The domains of the nodes of a workload unit, with its instances in each.
#[derive(Debug, Clone, Default)]
pub(super) struct Domains {
    domains: Vec<Domain>,
    /// Domains by their parent.
    families: Vec<Vec<usize>>,
    cells: Vec<Cell>,
    cell_of: Vec<usize>,
    instances: Vec<i64>,
}

impl Domains {
    pub fn of(nodes: &[UnitNode], own: &[u32]) -> Self {
        let mut builder = Builder::default();
        for (number, node) in (0..).zip(nodes) {
            builder.add(number, node);
        }
        let mut domains = builder.built;
        domains.instances = vec![0; domains.domains.len()];
        for (number, count) in (0..).zip(own).filter(|(_, count)| **count > 0) {
            domains.count(number, i64::from(*count));
        }
        domains
    }

    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    pub fn has(&self, kind: Constraint) -> bool {
        self.domains.iter().any(|domain| domain.kind == kind)
    }

    /// Counts instances of the workload unit that came to a node, or left it.
    pub fn count(&mut self, node: u32, by: i64) {
        if let Some(cell) = self.cell_of.get(node as usize) {
            self.cells[*cell].domains.iter().for_each(|domain| self.instances[*domain] += by);
        }
    }

    pub fn cell_count(&self) -> usize {
        self.cells.len().max(1)
    }

    /// Returns the nodes of a cell; those of the only one are all.
    pub fn nodes(&self, cell: usize) -> Option<&RoaringBitmap> {
        self.cells.get(cell).filter(|_| !self.is_empty()).map(|cell| &cell.nodes)
    }

    pub fn cell_of(&self, node: u32) -> usize {
        if self.is_empty() { 0 } else { self.cell_of[node as usize] }
    }

    /// Returns a domain of a node that has at least two instances more than a domain beside it.
    ///
    /// # Shape
    /// `left`: nodes of which the other domain must have one, so that an instance can move there; none: it may have none.
    pub fn packing_of(&self, rules: DomainRules, node: u32, left: Option<&RoaringBitmap>) -> Option<Packing> {
        let cell = self.cells.get(*self.cell_of.get(node as usize)?)?;
        let tested =
            cell.domains.iter().filter(|one| rules.priority(self.domains[**one].kind) != Priority::Off);
        let mut packed = tested.filter(|one| self.instances[**one] > 1).peekable();
        packed.peek()?;
        let free = left.map(|left| Spread::new(self, left).free_of_all(self));
        packed.find_map(|domain| {
            let family = self.families[self.domains[*domain].siblings].iter();
            let is_open = |one: &&usize| free.as_ref().is_none_or(|free| free[**one] > 0);
            let fewest = family.filter(is_open).min_by_key(|one| self.instances[**one])?;
            let is_packed = self.instances[*domain] - self.instances[*fewest] >= 2;
            let kind = self.domains[*domain].kind;
            let text = || compared(self, &self.instances, *domain, *fewest);
            is_packed.then(|| Packing { kind, domain: *domain, text: text() })
        })
    }

    /// Returns whether the sum of the squares of the counts falls when an instance moves: then moves come to an end.
    pub fn spreads_better(&self, rules: DomainRules, from: u32, to: u32) -> bool {
        let tested = |node: u32| {
            let cell = self.cells.get(self.cell_of(node)).into_iter();
            let domains = cell.flat_map(|cell| cell.domains.iter().copied());
            domains.filter(|one| rules.priority(self.domains[*one].kind) != Priority::Off)
        };
        let (left, entered): (BTreeSet<usize>, BTreeSet<usize>) =
            (tested(from).collect(), tested(to).collect());
        let lost: i64 = left.difference(&entered).map(|one| 2 * self.instances[*one] - 1).sum();
        let gained: i64 = entered.difference(&left).map(|one| 2 * self.instances[*one] + 1).sum();
        gained < lost
    }

    /// Returns whether a domain has at least two instances more than one beside it.
    pub fn has_packing(&self, rules: DomainRules) -> bool {
        self.families.iter().any(|family| {
            let counts = || family.iter().map(|one| self.instances[*one]);
            let kind = family.first().map(|one| self.domains[*one].kind);
            let is_tested = kind.is_some_and(|kind| rules.priority(kind) != Priority::Off);
            is_tested && counts().max() >= counts().min().map(|fewest| fewest + 2)
        })
    }

    /// Returns the nodes in a domain, or in one below it.
    pub fn nodes_in(&self, kind: Constraint, name: &str) -> RoaringBitmap {
        let is_meant = |domain: &usize| {
            let domain = &self.domains[*domain];
            domain.kind == kind && *domain.name == *name
        };
        let inside = self.cells.iter().filter(|cell| cell.domains.iter().any(is_meant));
        inside.fold(RoaringBitmap::new(), |all, cell| all | &cell.nodes)
    }

    /// Returns whether a node is in the domain of a packing.
    pub fn is_in(&self, node: u32, packing: &Packing) -> bool {
        let cell = self.cell_of.get(node as usize).and_then(|cell| self.cells.get(*cell));
        cell.is_some_and(|cell| cell.domains.contains(&packing.domain))
    }
}

#[derive(Default)]
struct Builder {
    built: Domains,
    numbers: BTreeMap<(Constraint, Arc<str>), usize>,
    families: BTreeMap<(Constraint, String), usize>,
    cells: BTreeMap<Vec<usize>, usize>,
}

impl Builder {
    fn add(&mut self, number: u32, node: &UnitNode) {
        let mut around = Vec::new();
        if let Some(path) = &node.fault_domain {
            // "fd:/dc/rack": each level but the root is a domain.
            let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]);
            let mut parent = String::new();
            for end in ends {
                let name = &path[..end];
                around.push(self.domain(Constraint::FaultDomain, &parent, name, end == path.len()));
                parent = name.to_owned();
            }
        }
        if let Some(name) = &node.upgrade_domain {
            around.push(self.domain(Constraint::UpgradeDomain, "", name, true));
        }
        let next = self.built.cells.len();
        let cell = *self.cells.entry(around.clone()).or_insert(next);
        if cell == next {
            self.built.cells.push(Cell { nodes: RoaringBitmap::new(), domains: around });
        }
        self.built.cells[cell].nodes.insert(number);
        self.built.cell_of.push(cell);
    }

    fn domain(&mut self, kind: Constraint, parent: &str, name: &str, is_leaf: bool) -> usize {
        if let Some(known) = self.numbers.get(&(kind, name.into())) {
            self.built.domains[*known].is_leaf |= is_leaf;
            return *known;
        }
        let number = self.built.domains.len();
        let next = self.built.families.len();
        let siblings = *self.families.entry((kind, parent.to_owned())).or_insert(next);
        if siblings == next {
            self.built.families.push(Vec::new());
        }
        self.built.families[siblings].push(number);
        let name: Arc<str> = name.into();
        self.built.domains.push(Domain { kind, name: name.clone(), siblings, is_leaf });
        self.numbers.insert((kind, name), number);
        number
    }
}

/// Strictness of the spreading of instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DomainRules {
    /// The priorities of the workload.
    pub priorities: Priorities,
    /// True if two instances may never share a domain.
    pub is_distribution_required: bool,
}

impl DomainRules {
    fn priority(self, kind: Constraint) -> Priority {
        if self.is_distribution_required { Priority::Hard } else { self.priorities.of_constraint(kind) }
    }
}

/// Decision about the nodes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Allowed, but ranked lower.
    Allowed(Violations),
    /// Not allowed.
    Excluded(Constraint),
}

/// The instances in each domain during one decision, and where nodes are left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spread {
    counts: Vec<i64>,
    /// Nodes that are left in each cell.
    free: Vec<u64>,
}

impl Spread {
    /// Begins with the instances that the table counts. `left`: nodes that the other constraints leave.
    pub fn new(domains: &Domains, left: &RoaringBitmap) -> Self {
        let free = domains.cells.iter().map(|cell| cell.nodes.intersection_len(left)).collect();
        Self { counts: domains.instances.clone(), free }
    }

    /// Begins without instances.
    pub fn without_instances(domains: &Domains, left: &RoaringBitmap) -> Self {
        Self { counts: vec![0; domains.domains.len()], ..Self::new(domains, left) }
    }

    /// Counts instances that the decision adds to a node or removes from it.
    pub fn count(&mut self, domains: &Domains, node: u32, by: i64) {
        if let Some(cell) = domains.cell_of.get(node as usize) {
            domains.cells[*cell].domains.iter().for_each(|domain| self.counts[*domain] += by);
        }
    }

    /// Notes that a node is no longer left.
    pub fn fill(&mut self, domains: &Domains, node: u32) {
        if let Some(cell) = domains.cell_of.get(node as usize) {
            self.free[*cell] = self.free[*cell].saturating_sub(1);
        }
    }

    /// Returns for each cell whether one more instance may come to its nodes.
    pub fn admissions(&self, domains: &Domains, rules: DomainRules) -> Vec<Admission> {
        let mut admissions = vec![Admission::Allowed(Violations::default()); domains.cell_count()];
        for kind in Constraint::OF_DOMAINS {
            let priority = rules.priority(kind);
            if domains.is_empty() || priority == Priority::Off {
                continue;
            }
            let free = self.free_of(domains, &admissions);
            let is_packing: Vec<bool> =
                (0..domains.domains.len()).map(|one| self.is_packing(domains, rules, one, &free)).collect();
            for (admission, cell) in admissions.iter_mut().zip(&domains.cells) {
                let mut of_kind = cell.domains.iter().filter(|one| domains.domains[**one].kind == kind);
                if let (true, Admission::Allowed(violations)) =
                    (of_kind.any(|one| is_packing[*one]), &mut *admission)
                {
                    match priority {
                        Priority::Hard => *admission = Admission::Excluded(kind),
                        _ => violations.add(kind, priority),
                    }
                }
            }
        }
        admissions
    }

    /// Returns whether so many more instances could come to some nodes, one after the other.
    ///
    /// # Shape
    /// `room`: how many instances a node takes.
    pub fn has_room(
        &self,
        domains: &Domains,
        rules: DomainRules,
        nodes: &RoaringBitmap,
        room: impl Fn(u32) -> u64,
        count: u32,
    ) -> bool {
        let room_in = |cell: &Cell| (&cell.nodes & nodes).iter().map(&room).sum();
        let mut rooms: Vec<u64> = domains.cells.iter().map(room_in).collect();
        if rooms.iter().sum::<u64>() < u64::from(count) {
            return false;
        }
        let mut spread = Self { counts: self.counts.clone(), ..Self::new(domains, nodes) };
        (0..count).all(|_| {
            let admissions = spread.admissions(domains, rules);
            let is_open =
                |cell: &usize| rooms[*cell] > 0 && matches!(admissions[*cell], Admission::Allowed(_));
            let Some(cell) = (0..rooms.len()).find(is_open) else { return false };
            rooms[cell] -= 1;
            domains.cells[cell].domains.iter().for_each(|domain| spread.counts[*domain] += 1);
            if rooms[cell] == 0 {
                spread.free[cell] = 0;
            }
            true
        })
    }

    /// Returns how many nodes are left in each domain, in cells that are not excluded.
    fn free_of(&self, domains: &Domains, admissions: &[Admission]) -> Vec<u64> {
        let mut free = vec![0; domains.domains.len()];
        for ((cell, left), admission) in domains.cells.iter().zip(&self.free).zip(admissions) {
            if matches!(admission, Admission::Allowed(_)) {
                cell.domains.iter().for_each(|domain| free[*domain] += left);
            }
        }
        free
    }

    fn free_of_all(&self, domains: &Domains) -> Vec<u64> {
        self.free_of(domains, &vec![Admission::Allowed(Violations::default()); domains.cells.len()])
    }

    /// Returns whether one more instance in a domain would pack them.
    fn is_packing(&self, domains: &Domains, rules: DomainRules, domain: usize, free: &[u64]) -> bool {
        let count = self.counts[domain];
        let Domain { is_leaf, kind, .. } = domains.domains[domain];
        if rules.is_distribution_required && is_leaf {
            return count >= 1;
        }
        // Above the leaves nothing is required beyond what is hard anyway.
        if rules.is_distribution_required && !rules.priorities.is_hard(kind) {
            return false;
        }
        self.fewest(domains, domain, free).is_some_and(|(_, fewest)| count + 1 - fewest > 1)
    }

    /// Returns the live domain beside a domain that has the fewest instances; a domain is live while it has a node left or an instance.
    fn fewest(&self, domains: &Domains, domain: usize, free: &[u64]) -> Option<(usize, i64)> {
        let family = domains.families[domains.domains[domain].siblings].iter();
        let live = family.filter(|one| free[**one] > 0 || self.counts[**one] > 0);
        live.map(|one| (*one, self.counts[*one])).min_by_key(|(_, count)| *count)
    }

    /// Returns why a cell takes no further instance.
    pub fn objection(
        &self,
        domains: &Domains,
        rules: DomainRules,
        node: u32,
    ) -> Option<(Constraint, String)> {
        let cell = domains.cell_of(node);
        let Admission::Excluded(kind) = self.admissions(domains, rules).get(cell).copied()? else {
            return None;
        };
        let free = self.free_of_all(domains);
        let mut of_kind =
            domains.cells[cell].domains.iter().filter(|one| domains.domains[**one].kind == kind);
        let packed = of_kind.find(|one| self.is_packing(domains, rules, **one, &free))?;
        let domain = &domains.domains[*packed];
        let text = match self.fewest(domains, *packed, &free) {
            Some((fewest, _)) if !rules.is_distribution_required || !domain.is_leaf => {
                compared(domains, &self.counts, *packed, fewest)
            }
            _ => format!("{} has an instance, distribution policy Required", domain.name),
        };
        Some((kind, text))
    }
}

fn compared(domains: &Domains, counts: &[i64], domain: usize, other: usize) -> String {
    let name = |one: usize| &domains.domains[one].name;
    format!("{} has {} instances, {} has {}", name(domain), counts[domain], name(other), counts[other])
}

/// A domain with more instances than necessary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// The constraint.
    pub kind: Constraint,
    domain: usize,
    /// The domain, and one with fewer instances, in words.
    pub text: String,
}
