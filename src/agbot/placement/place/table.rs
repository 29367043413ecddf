//! The nodes of a workload unit as sets, one for each constraint.
//!
//! The sets follow every change of a node or a task, so that a decision starts from a few set operations and not from the nodes.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    report::Constraint,
    statistics::NodeStatistics,
    workload::{PlacementRules, Priorities, Priority},
};
use roaring::RoaringBitmap;

use super::{
    Buffer, DomainRules, Packing, UnitNode, Violations,
    domains::{Domains, Spread},
    violations::Weight,
};

/// Rules by which the nodes of a workload unit are tested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableRules {
    /// Instances of the workload unit that a node may run; at least 1.
    pub max_per_node: u32,
    /// Spread of the instances, and the hard constraints.
    pub domains: DomainRules,
}

impl From<u32> for TableRules {
    fn from(max_per_node: u32) -> Self {
        Self { max_per_node, ..Self::default() }
    }
}

impl From<&PlacementRules> for TableRules {
    fn from(placement: &PlacementRules) -> Self {
        let is_distribution_required = placement.is_distribution_required;
        let domains = DomainRules { priorities: placement.priorities, is_distribution_required };
        Self { max_per_node: placement.max_per_node, domains }
    }
}

/// The nodes of a workload unit.
///
/// # Shape
/// Nodes are numbered in scope order, those that left after the others.
#[derive(Debug, Clone, Default)]
pub struct NodeTable {
    nodes: Vec<UnitNode>,
    numbers: BTreeMap<NodeId, u32>,
    members: RoaringBitmap,
    removed: BTreeMap<Constraint, RoaringBitmap>,
    /// The nodes whose capacities leave no room even with the buffer.
    full: RoaringBitmap,
    /// The nodes that are drained for an upgrade.
    in_upgrade: RoaringBitmap,
    /// The nodes that violate what is not hard.
    unwanted: BTreeMap<Violations, RoaringBitmap>,
    domains: Domains,
    /// The members that are not down, by the compatibility version that their agents announce.
    compat_versions: BTreeMap<i64, RoaringBitmap>,
    own: Vec<u32>,
    /// Instances of all workloads, apart from the nodes, so that ranking all of them reads little memory.
    instance_counts: Vec<u32>,
    rules: TableRules,
}

impl NodeTable {
    /// Numbers nodes, given in scope order.
    pub fn new(nodes: Vec<UnitNode>, rules: impl Into<TableRules>) -> Self {
        let rules = rules.into();
        let rules = TableRules { max_per_node: rules.max_per_node.max(1), ..rules };
        let numbers = (0..).zip(&nodes).map(|(number, node)| (node.id.clone(), number)).collect();
        let mut table = Self { own: vec![0; nodes.len()], numbers, rules, ..Self::default() };
        table.instance_counts = vec![0; nodes.len()];
        for node in nodes {
            table.nodes.push(node);
            table.index(table.nodes.len() - 1);
            table.index_room(table.nodes.len() as u32 - 1);
        }
        table.domains = Domains::of(&table.nodes, &table.own);
        table
    }

    /// Replaces a node by what it is now; ignored if it is not in the table.
    pub fn replace(&mut self, node: UnitNode) {
        let Some(number) = self.number(&node.id) else { return };
        let earlier = std::mem::replace(&mut self.nodes[number as usize], node);
        self.index(number as usize);
        self.index_room(number);
        if self.node(number).has_moved(&earlier) {
            self.domains = Domains::of(&self.nodes, &self.own);
        }
    }

    /// Counts instances of the workload unit that came to a node, or left it, as to its capacities.
    pub fn count_load(&mut self, node: &NodeId, by: i64) {
        let Some(number) = self.number(node).filter(|_| by != 0) else { return };
        if let Some(room) = &mut self.nodes[number as usize].room {
            room.add(by);
            self.index(number as usize);
        }
    }

    /// Replaces the statistics of all nodes.
    pub fn set_statistics(&mut self, of: impl Fn(&NodeId) -> Option<NodeStatistics>) {
        for node in &mut self.nodes {
            node.statistics = of(&node.id).map(Box::new);
        }
    }

    fn index(&mut self, number: usize) {
        self.index_violations(number);
        self.index_compat_version(number);
        let node = &self.nodes[number];
        self.instance_counts[number] = node.instance_count;
        set(&mut self.members, number, node.is_member);
        set(&mut self.in_upgrade, number, node.is_in_upgrade);
        let has_no_room = node.room_left(Buffer::Open) == 0;
        set(
            &mut self.full,
            number,
            has_no_room && self.rules.domains.priorities.is_hard(Constraint::NodeCapacity),
        );
        for constraint in Constraint::OF_NODES.into_iter().filter(|one| *one != Constraint::MaxPerNode) {
            let is_removed =
                self.rules.domains.priorities.is_hard(constraint) && node.is_removed_by(constraint);
            set(self.removed.entry(constraint).or_default(), number, is_removed);
        }
    }

    fn index_compat_version(&mut self, number: usize) {
        let node = &self.nodes[number];
        let version = node.compat_version.filter(|_| node.is_member && node.down_since().is_none());
        self.compat_versions.values_mut().for_each(|nodes| set(nodes, number, false));
        if let Some(version) = version {
            set(self.compat_versions.entry(version).or_default(), number, true);
        }
        self.compat_versions.retain(|_, nodes| !nodes.is_empty());
    }

    /// Returns the compatibility versions of the agents of members that are not down.
    ///
    /// # Source
    /// Orchestration A7.
    pub fn compat_versions(&self) -> impl Iterator<Item = i64> {
        self.compat_versions.keys().copied()
    }

    fn index_violations(&mut self, number: usize) {
        let violations = self.violations(number as u32);
        self.unwanted.values_mut().for_each(|nodes| set(nodes, number, false));
        if !violations.is_none() {
            set(self.unwanted.entry(violations).or_default(), number, true);
        }
        self.unwanted.retain(|_, nodes| !nodes.is_empty());
    }

    /// Returns what an instance on a node violates of the constraints that are not hard, apart from domains.
    pub(super) fn violations(&self, number: u32) -> Violations {
        let (node, priorities) = (self.node(number), &self.rules.domains.priorities);
        let mut violations = Violations::of_affinity(node.affinity.soft);
        for constraint in Constraint::OF_NODES {
            let priority = priorities.of_constraint(constraint);
            if priority != Priority::Hard && node.is_removed_by(constraint) {
                violations.add(constraint, priority);
            }
        }
        violations
    }

    /// Returns the nodes with the fewest violations among some.
    pub fn preferred(&self, among: &RoaringBitmap) -> RoaringBitmap {
        let classes = self.classes(among).into_iter();
        classes.min_by_key(|(violations, _)| violations.weight()).map(|(_, nodes)| nodes).unwrap_or_default()
    }

    /// Returns some nodes by what they violate.
    pub(super) fn classes(&self, among: &RoaringBitmap) -> Vec<(Violations, RoaringBitmap)> {
        let satisfied = self.unwanted.values().fold(among.clone(), |left, nodes| left - nodes);
        let unwanted = self.unwanted.iter().map(|(violations, nodes)| (*violations, nodes & among));
        let all = [(Violations::default(), satisfied)].into_iter().chain(unwanted);
        all.filter(|(_, nodes)| !nodes.is_empty()).collect()
    }

    /// Returns the constraints that are not hard and that an instance on a node violates, its domains included.
    pub fn relaxed_on(&self, number: u32) -> impl Iterator<Item = Constraint> {
        let packing = self.packing(number, None).map(|packing| packing.kind);
        let packing = packing.filter(|kind| !self.priorities().is_hard(*kind));
        self.violations(number).relaxed().chain(packing)
    }

    /// Returns the order of sacrifice of a node, apart from domains: smaller is better.
    pub fn weight(&self, number: u32) -> Weight {
        self.violations(number).weight()
    }

    /// Returns whether nodes are in domains.
    pub fn has_domains(&self) -> bool {
        !self.domains.is_empty()
    }

    /// Returns whether nodes are in upgrade domains.
    pub fn has_upgrade_domains(&self) -> bool {
        self.domains.has(Constraint::UpgradeDomain)
    }

    /// Returns whether a domain has at least two instances more than one beside it.
    pub fn has_packing(&self) -> bool {
        self.domains.has_packing(self.rules.domains)
    }

    pub(super) fn domains(&self) -> &Domains {
        &self.domains
    }

    pub(super) fn domain_rules(&self) -> DomainRules {
        self.rules.domains
    }

    /// Returns the priorities of the workload's constraints.
    pub fn priorities(&self) -> &Priorities {
        &self.rules.domains.priorities
    }

    /// Returns why the domains of a node take no further instance. `left`: the nodes that the other constraints leave.
    pub(super) fn domain_objection(&self, number: u32, left: &RoaringBitmap) -> Option<(Constraint, String)> {
        if self.domains.is_empty() {
            return None;
        }
        Spread::new(&self.domains, left).objection(&self.domains, self.rules.domains, number)
    }

    /// Returns a domain of a node with at least two instances more than a domain beside it. `left`: nodes of which that one must have one.
    pub fn packing(&self, number: u32, left: Option<&RoaringBitmap>) -> Option<Packing> {
        self.domains.packing_of(self.rules.domains, number, left)
    }

    /// Returns whether instances are spread better as a whole when one moves between two nodes.
    pub fn spreads_better(&self, from: u32, to: u32) -> bool {
        self.domains.spreads_better(self.rules.domains, from, to)
    }

    /// Returns whether a node is in the domain of a packing.
    pub fn is_in(&self, number: u32, packing: &Packing) -> bool {
        self.domains.is_in(number, packing)
    }

    /// Counts an instance of the workload unit on a node, or one less.
    pub fn count_instance(&mut self, node: &NodeId, is_added: bool) {
        let Some(number) = self.number(node) else { return };
        let own = &mut self.own[number as usize];
        let before = *own;
        *own = if is_added { *own + 1 } else { own.saturating_sub(1) };
        let by = i64::from(*own) - i64::from(before);
        self.domains.count(number, by);
        self.index_room(number);
    }

    fn index_room(&mut self, number: u32) {
        let is_full = self.own(number) >= self.max_per_node(number);
        set(self.removed.entry(Constraint::MaxPerNode).or_default(), number as usize, is_full);
    }

    /// Returns a node by its number.
    pub fn node(&self, number: u32) -> &UnitNode {
        &self.nodes[number as usize]
    }

    /// Returns the number of a node.
    pub fn number(&self, node: &NodeId) -> Option<u32> {
        self.numbers.get(node).copied()
    }

    /// Returns a node by its id.
    pub fn find(&self, node: &NodeId) -> Option<&UnitNode> {
        self.number(node).map(|number| self.node(number))
    }

    /// Returns all nodes in their order.
    pub fn nodes(&self) -> impl Iterator<Item = &UnitNode> {
        self.nodes.iter()
    }

    /// Returns the nodes that belong to the workload unit.
    pub fn members(&self) -> &RoaringBitmap {
        &self.members
    }

    /// Returns the nodes that a constraint removes while the buffer of the capacities is kept.
    pub fn removed_by(&self, constraint: Constraint) -> Option<&RoaringBitmap> {
        self.removed.get(&constraint)
    }

    /// Returns the nodes that a constraint removes.
    pub fn removed_under(&self, constraint: Constraint, buffer: Buffer) -> Option<&RoaringBitmap> {
        match (constraint, buffer) {
            (Constraint::NodeCapacity, Buffer::Open) => Some(&self.full),
            _ => self.removed_by(constraint),
        }
    }

    /// Returns whether an instance belongs on a member, whatever its state is now: the policy selects it, and neither its neighbors nor its
    /// capacities forbid that.
    ///
    /// # Source
    /// Orchestration E3.
    pub fn may_belong_on(&self, node: &NodeId) -> bool {
        let Some(number) = self.number(node).filter(|number| self.members.contains(*number)) else {
            return false;
        };
        let row = self.node(number);
        let is_removed = |constraint| self.removed_by(constraint).is_some_and(|nodes| nodes.contains(number));
        let is_full = is_removed(Constraint::NodeCapacity) && self.own(number) == 0;
        let is_selected = row.eligibility.is_passed() && row.expression.is_passed();
        is_selected && !is_removed(Constraint::Affinity) && !is_full
    }

    /// Returns whether no constraint removes a member.
    pub fn is_candidate(&self, node: &NodeId) -> bool {
        let left = self.removed.values().fold(self.members.clone(), |left, removed| left - removed);
        let number = self.number(node).filter(|number| left.contains(*number));
        number.is_some_and(|number| self.domain_objection(number, &left).is_none())
    }

    /// Returns whether a node is drained for an upgrade.
    pub fn is_in_upgrade(&self) -> bool {
        !self.in_upgrade.is_empty()
    }

    /// Returns the nodes in a fault domain, or below it. A node without one is its own, `fd:/` with its name.
    pub(super) fn nodes_in(&self, fault_domain: &str) -> RoaringBitmap {
        let mut nodes = self.domains.nodes_in(Constraint::FaultDomain, fault_domain);
        let alone = fault_domain.strip_prefix("fd:/").unwrap_or_default();
        let is_meant = |node: &&UnitNode| node.fault_domain.is_none() && node.id.name() == alone;
        nodes.extend(self.nodes.iter().filter(is_meant).filter_map(|node| self.number(&node.id)));
        nodes
    }

    /// Returns how many instances of the workload unit are on a node.
    pub fn own(&self, number: u32) -> u32 {
        self.own[number as usize]
    }

    /// Returns how many instances of all workloads are on a node.
    pub(super) fn instance_count(&self, number: u32) -> u32 {
        self.instance_counts[number as usize]
    }

    /// Returns how many instances of the workload unit a node may run. Only agents that read tasks
    /// distinguish two of them.
    pub fn max_per_node(&self, number: u32) -> u32 {
        match self.node(number) {
            node if node.is_occupied => 0,
            node if node.is_capable => self.rules.max_per_node,
            _ => 1,
        }
    }
}

fn set(nodes: &mut RoaringBitmap, number: usize, is_in: bool) {
    let number = u32::try_from(number).expect("a workload unit has fewer than 2^32 nodes");
    if is_in {
        nodes.insert(number);
    } else {
        nodes.remove(number);
    }
}
