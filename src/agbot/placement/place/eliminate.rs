//! The elimination: constraint by constraint, the nodes that remain.
//!
//! Source: orchestration D3.

use std::borrow::Cow;

use evenkeel_planner_record::report::Constraint;
use roaring::RoaringBitmap;

use super::{Buffer, FullNodes, NodeTable};

/// The nodes that one constraint removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The constraint.
    pub constraint: Constraint,
    /// The nodes that it removed, of those that were left.
    pub removed: RoaringBitmap,
}

/// Nodes removed by each constraint, and the remaining ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Elimination {
    /// Number of nodes of the workload unit.
    pub candidate_count: u64,
    /// The constraints that removed nodes, in their order.
    pub stages: Vec<Stage>,
    /// The nodes that remain.
    pub remaining: RoaringBitmap,
    /// Use of the buffer in the capacities.
    pub buffer: Buffer,
    /// The nodes whose capacities leave no room; none when they are those of the table.
    full: Option<FullNodes>,
}

impl Elimination {
    /// Tests the nodes of a workload unit against every constraint that depends on them alone; the buffer of the capacities is kept.
    pub fn of(table: &NodeTable) -> Self {
        Self::with_buffer(table, Buffer::Kept)
    }

    /// See [`Elimination::of`]; the buffer may be used if it is open.
    pub fn with_buffer(table: &NodeTable, buffer: Buffer) -> Self {
        Self::with_full_nodes(table, buffer, None)
    }

    /// See [`Elimination::with_buffer`]; `full`: the nodes whose capacities leave no room, if those are not the ones of the table.
    pub fn with_full_nodes(table: &NodeTable, buffer: Buffer, full: Option<FullNodes>) -> Self {
        let remaining = table.members().clone();
        let mut elimination =
            Self { candidate_count: remaining.len(), stages: Vec::new(), remaining, buffer, full };
        for constraint in Constraint::OF_NODES {
            if let Some(nodes) = elimination.removed_under(table, constraint) {
                elimination.remove(constraint, &nodes);
            }
        }
        elimination
    }

    /// Tests against eligibility alone: the nodes among which the natural leaders are.
    pub fn of_eligibility(table: &NodeTable) -> RoaringBitmap {
        match table.removed_by(Constraint::Eligibility) {
            Some(nodes) => table.members() - nodes,
            None => table.members().clone(),
        }
    }

    /// Returns the nodes that a constraint removes.
    pub(super) fn removed_under<'t>(
        &self,
        table: &'t NodeTable,
        constraint: Constraint,
    ) -> Option<Cow<'t, RoaringBitmap>> {
        match &self.full {
            Some(full) if constraint == Constraint::NodeCapacity => Some(Cow::Owned(full.nodes.clone())),
            _ => table.removed_under(constraint, self.buffer).map(Cow::Borrowed),
        }
    }

    /// Returns why the capacities of a node leave no room. `added`: instances that the decision has added to it.
    pub(super) fn capacity_objection(&self, table: &NodeTable, node: u32, added: u32) -> Option<String> {
        let room = table.node(node).room.as_ref()?;
        match &self.full {
            Some(full) => full.objection(node, room, self.buffer),
            None => room.objection(added, self.buffer),
        }
    }

    /// Returns the nodes that may have an instance now, whether or not they have one already.
    pub fn with_instances(table: &NodeTable) -> RoaringBitmap {
        let mut nodes = table.members().clone();
        let of_instance = [Constraint::MaxPerNode, Constraint::NodeCapacity];
        let constraints = Constraint::OF_NODES.into_iter().filter(|one| !of_instance.contains(one));
        for removed in constraints.filter_map(|constraint| table.removed_by(constraint)) {
            nodes -= removed;
        }
        // Instances on a full node already have their room there.
        let full = table.removed_by(Constraint::NodeCapacity).into_iter().flatten();
        full.filter(|node| table.own(*node) == 0).for_each(|node| {
            nodes.remove(node);
        });
        nodes
    }

    /// Returns the nodes that only their capacities keep from having an instance.
    pub fn removed_by_capacity(table: &NodeTable) -> RoaringBitmap {
        let mut stages = Self::of(table).stages.into_iter();
        let stage = stages.find(|stage| stage.constraint == Constraint::NodeCapacity);
        stage.map(|stage| stage.removed).unwrap_or_default()
    }

    /// Removes nodes; those of a constraint that removed some before are added to them.
    pub fn remove(&mut self, constraint: Constraint, nodes: &RoaringBitmap) {
        let removed = &self.remaining & nodes;
        if removed.is_empty() {
            return;
        }
        self.remaining -= &removed;
        match self.stages.iter_mut().find(|stage| stage.constraint == constraint) {
            Some(stage) => stage.removed |= removed,
            None => self.stages.push(Stage { constraint, removed }),
        }
    }

    /// Returns the constraint that removed a node.
    pub fn removed_by(&self, node: u32) -> Option<Constraint> {
        self.stages.iter().find(|stage| stage.removed.contains(node)).map(|stage| stage.constraint)
    }

    /// Counts the instances on some nodes as chosen by the decision that is explained, and not as what was there before.
    pub fn count_as_chosen(&mut self, nodes: &RoaringBitmap) {
        let stage = self.stages.iter_mut().find(|stage| stage.constraint == Constraint::MaxPerNode);
        let Some(stage) = stage.filter(|stage| !stage.removed.is_disjoint(nodes)) else { return };
        let removed = &stage.removed & nodes;
        stage.removed -= nodes;
        self.stages.retain(|stage| !stage.removed.is_empty());
        self.stages.push(Stage { constraint: Constraint::AlreadyChosen, removed });
    }

    /// Returns the nodes that would be left if no condition that passes had removed any.
    ///
    /// A node that such a condition removed was not tested by the constraints after it. Whether a node is full is not tested here.
    pub(super) fn remaining_in_the_long_run(&self, table: &NodeTable) -> RoaringBitmap {
        let transient = self.stages.iter().filter(|stage| stage.constraint.is_transient());
        let nodes = transient.fold(self.remaining.clone(), |nodes, stage| nodes | &stage.removed);
        let is_tested = |one: &Constraint| !one.is_transient() && *one != Constraint::MaxPerNode;
        let lasting = Constraint::OF_NODES.into_iter().filter(is_tested);
        lasting.filter_map(|one| table.removed_by(one)).fold(nodes, |nodes, removed| nodes - removed)
    }
}
