//! The nodes of a workload unit as sets, one for each constraint.
//!
//! The sets follow every change of a node or a task, so that a decision starts from a few set operations and not from the nodes.

use std::{collections::BTreeMap, sync::Arc};

use evenkeel_ids::{GroupId, NodeId};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{
    Buffer, Constraint, DomainRules, NodeAffinity, NodeRoom, Packing, Priorities, Priority, Violations,
    domains::{Domains, Spread},
    priority::Weight,
    sparse::{Sparse, Usual},
};
use crate::{
    facts::{Availability, NodeMonitorState},
    report::{Blocked, FrozenLevel},
    statistics::NodeStatistics,
    workload::PlacementRules,
};

/// The outcome of a test outside of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Passed.
    Passed,
    /// Failed, with the reason in words.
    Failed(Arc<str>),
    /// Cannot be decided now, with the reason in words: nothing starts, and what runs goes on.
    Unclear(Arc<str>),
}

impl Verdict {
    /// Returns whether the test passed.
    pub fn is_passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Returns whether the test failed for good.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Whether a node is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its heartbeats arrive.
    Ready,
    /// No heartbeat was ever seen.
    NeverHeard,
    /// Its heartbeats stopped.
    Down {
        /// Last heartbeat.
        since: Timestamp,
    },
    /// Its agent announced that it is not available for a while: what runs on it stays, and nothing is placed on it.
    Away {
        /// What the agent is doing.
        monitor_state: NodeMonitorState,
        /// Since when.
        since: Timestamp,
    },
}

/// A node as to one workload unit.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitNode {
    /// Its id.
    pub id: NodeId,
    /// Whether it belongs to the workload unit; an instance may still run on a node that left.
    pub is_member: bool,
    /// Whether the policy selects it.
    pub eligibility: Verdict,
    /// Whether the placement expression is true on it.
    pub expression: Verdict,
    /// Whether the workloads on it are those that the unit wants beside it.
    pub affinity: Sparse<NodeAffinity>,
    /// What its capacities leave; none when nothing limits the workload on it.
    pub room: Option<Box<NodeRoom>>,
    /// Its fault domain, with the domains around it: `fd:/dc/rack`; none when nobody said it.
    pub fault_domain: Option<Arc<str>>,
    /// Its upgrade domain; none when nobody said it.
    pub upgrade_domain: Option<Arc<str>>,
    /// Whether it is alive.
    pub state: NodeState,
    /// What its operator allows.
    pub availability: Availability,
    /// Whether the last instance of an HA group is taken off it as well while it is drained.
    pub is_drain_forced: bool,
    /// Whether it is upgraded, after which instances that left it return.
    pub is_in_upgrade: bool,
    /// What is frozen, apart from the workload.
    pub frozen: Option<FrozenLevel>,
    /// What happened on it.
    pub marks: Sparse<NodeMarks>,
    /// Whether a user placed the instance.
    pub is_pinned: bool,
    /// Whether its agent can hold two instances of one workload, and a prepared one.
    pub is_capable: bool,
    /// Its HA group.
    pub group: Option<GroupId>,
    /// Instances of all workloads on it.
    pub instance_count: u32,
    /// Its statistics; none without recent ones.
    pub statistics: Option<Box<NodeStatistics>>,
    /// The compatibility version of its agent; none if it announces none.
    pub compat_version: Option<i64>,
}

/// What happened on a node with a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeMarks {
    /// Why the last start of the workload failed on it.
    pub start_failed: Option<Arc<str>>,
    /// Why the last stop of the workload failed on it.
    pub stop_failed: Option<Arc<str>>,
    /// Why the node gets no start of the current version, until when.
    pub blocklisted: Option<Box<Blocked>>,
    /// When a user last cleared its failures: earlier restarts do not count.
    pub cleared_at: Option<Timestamp>,
    /// When a user confirmed that nothing of the workload runs on it any more.
    pub fenced_at: Option<Timestamp>,
    /// When the workload last started on it.
    pub last_start_at: Option<Timestamp>,
    /// Whether the version list of the workload has versions that were not tried on it often enough.
    pub has_versions_left: bool,
}

impl Usual for NodeMarks {
    const USUAL: &'static Self = &Self {
        start_failed: None,
        stop_failed: None,
        blocklisted: None,
        cleared_at: None,
        fenced_at: None,
        last_start_at: None,
        has_versions_left: false,
    };
}

impl UnitNode {
    /// Returns a node on which nothing prevents a start.
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            is_member: true,
            eligibility: Verdict::Passed,
            expression: Verdict::Passed,
            affinity: Sparse::default(),
            room: None,
            fault_domain: None,
            upgrade_domain: None,
            state: NodeState::Ready,
            availability: Availability::Active,
            is_drain_forced: false,
            is_in_upgrade: false,
            frozen: None,
            marks: Sparse::default(),
            is_pinned: false,
            is_capable: true,
            group: None,
            instance_count: 0,
            statistics: None,
            compat_version: None,
        }
    }

    /// Returns whether the node differs from an earlier state of it at most in what ranks it.
    pub fn differs_in_rank_only(&self, earlier: &Self) -> bool {
        let mut now = self.clone();
        (now.instance_count, now.statistics) = (earlier.instance_count, earlier.statistics.clone());
        if now.marks.last_start_at != earlier.marks.last_start_at {
            now.marks.last_start_at = earlier.marks.last_start_at;
        }
        now == *earlier
    }

    /// Returns whether the node is in other domains than before.
    pub fn has_moved(&self, earlier: &Self) -> bool {
        (&self.fault_domain, &self.upgrade_domain) != (&earlier.fault_domain, &earlier.upgrade_domain)
    }

    /// Returns since when the node is down.
    pub fn down_since(&self) -> Option<Timestamp> {
        match self.state {
            NodeState::Down { since } => Some(since),
            NodeState::Ready | NodeState::NeverHeard | NodeState::Away { .. } => None,
        }
    }

    /// Returns whether its agent announced that it is not available for a while.
    pub fn is_away(&self) -> bool {
        matches!(self.state, NodeState::Away { .. })
    }

    /// Returns why the constraint removes the node; `own`: instances of the workload unit on it.
    pub fn removed_by(&self, constraint: Constraint, own: u32, max_per_node: u32) -> Option<String> {
        match constraint {
            Constraint::Eligibility => self.eligibility.failure(),
            Constraint::NodeState => match self.state {
                NodeState::Down { since } => Some(format!("down since {since:.3}")),
                _ => self.unavailable().map(|blocked| blocked.to_string()),
            },
            Constraint::Frozen => self.frozen.map(|level| Blocked::Frozen { level }.to_string()),
            Constraint::PlacementConstraint => self.expression.failure(),
            Constraint::MaxPerNode => {
                (own >= max_per_node).then(|| format!("runs {own} of at most {max_per_node} instances"))
            }
            Constraint::StartFailed => self
                .marks
                .start_failed
                .as_ref()
                .or(self.marks.stop_failed.as_ref())
                .map(|why| why.as_ref().to_owned()),
            Constraint::Blocklist => self.marks.blocklisted.as_ref().map(ToString::to_string),
            Constraint::Affinity => self.affinity.hard.as_ref().map(|why| why.as_ref().to_owned()),
            Constraint::NodeCapacity => self.room.as_ref().and_then(|room| room.objection(0, Buffer::Kept)),
            Constraint::FaultDomain
            | Constraint::UpgradeDomain
            | Constraint::AlreadyChosen
            | Constraint::PreferredLocation => None,
        }
    }

    /// Returns whether its tasks use more than it has.
    pub fn has_surplus(&self) -> bool {
        self.room.as_ref().is_some_and(|room| room.surplus.is_some())
    }

    /// Returns how many more instances of the workload the capacities of the node leave room for.
    pub fn room_left(&self, buffer: Buffer) -> u32 {
        self.room.as_ref().map_or(u32::MAX, |room| room.instances(buffer))
    }

    fn unavailable(&self) -> Option<Blocked> {
        match (self.state, self.availability) {
            (NodeState::NeverHeard, _) => Some(Blocked::NeverHeard),
            (NodeState::Down { since }, _) => Some(Blocked::NodeDown { since }),
            (NodeState::Away { monitor_state, since }, _) => Some(Blocked::NodeAway { monitor_state, since }),
            (NodeState::Ready, Availability::Pause) => Some(Blocked::NodePaused),
            (NodeState::Ready, Availability::Drain) => Some(Blocked::NodeDraining),
            (NodeState::Ready, Availability::Active) => None,
        }
    }

    fn is_removed_by(&self, constraint: Constraint) -> bool {
        match constraint {
            Constraint::Eligibility => !self.eligibility.is_passed(),
            Constraint::NodeState => self.unavailable().is_some(),
            Constraint::Frozen => self.frozen.is_some(),
            Constraint::PlacementConstraint => !self.expression.is_passed(),
            Constraint::StartFailed => self.marks.start_failed.is_some() || self.marks.stop_failed.is_some(),
            Constraint::Blocklist => self.marks.blocklisted.is_some(),
            Constraint::Affinity => self.affinity.hard.is_some(),
            Constraint::NodeCapacity => self.room_left(Buffer::Kept) == 0,
            Constraint::MaxPerNode
            | Constraint::FaultDomain
            | Constraint::UpgradeDomain
            | Constraint::AlreadyChosen
            | Constraint::PreferredLocation => false,
        }
    }
}

impl Verdict {
    fn failure(&self) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Failed(reason) | Self::Unclear(reason) => Some(reason.as_ref().to_owned()),
        }
    }
}

/// What the nodes of a workload unit are tested by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableRules {
    /// Instances of the workload unit that a node may run; at least 1.
    pub max_per_node: u32,
    /// How instances are spread, and which constraints are hard.
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
    pub(crate) fn weight(&self, number: u32) -> Weight {
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

    /// Returns how many instances of the workload unit a node may run. Only agents that read tasks tell two of them apart.
    pub fn max_per_node(&self, number: u32) -> u32 {
        if self.node(number).is_capable { self.rules.max_per_node } else { 1 }
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
