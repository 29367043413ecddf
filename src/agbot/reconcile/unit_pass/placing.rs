//! Chooses nodes on top of what the decision has changed so far.
//!
//! Source: orchestration B3 (scheduler), A1, A9.5 (ready period).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{
    self, Added, Buffer, Elimination, FullNodes, Location, Placed, Ranking, Want, leaders_of,
};
use evenkeel_planner_record::{
    goal::{Leaders, StartMode},
    report::{Blocked, Constraint, EliminationReport},
    time::later,
    workload::{Cause, Slot, Task},
};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{UnitFacts, UnitPass};

/// Tasks that are placed at once where it is not known whether there is room for all.
const FIRST_TRY: u32 = 64;

impl<'a> UnitPass<'a> {
    /// Returns the ranking of the workload unit's nodes.
    pub fn ranking(&self) -> Ranking<'a> {
        Ranking::new(&self.facts.workload.placement, self.facts.unit_id, self.facts.table)
    }

    /// Returns what each constraint removes now.
    pub fn elimination(&mut self, buffer: Buffer) -> Elimination {
        if let Some(known) = self.eliminations.get(&buffer) {
            return known.clone();
        }
        let elimination = self.elimination_with(buffer, None);
        self.eliminations.insert(buffer, elimination.clone());
        elimination
    }

    /// See [`UnitPass::elimination`]; `full`: the nodes whose capacities leave no room, if those are not the ones of the table.
    pub(super) fn elimination_with(&self, buffer: Buffer, full: Option<FullNodes>) -> Elimination {
        let mut elimination = Elimination::with_full_nodes(self.facts.table, buffer, full);
        elimination.remove(Constraint::StartFailed, &self.failed_nodes);
        elimination.remove(Constraint::Blocklist, &self.blocked_nodes);
        if self.facts.workload.goal.start == StartMode::NaturalLeader && !self.is_started_by_user() {
            let natural = self.leaders().natural.into_iter().collect::<RoaringBitmap>();
            elimination.remaining &= natural;
        }
        elimination
    }

    /// Returns the leaders.
    pub fn leaders(&self) -> Leaders {
        let UnitFacts { workload, unit_id, table, .. } = self.facts;
        leaders_of(workload, unit_id, table, &|number| table.own(number) > 0)
    }

    /// Returns whether what is created for a cause may use the buffer of the capacities. `from`: the node that the instance leaves.
    ///
    /// # Source
    /// Orchestration D7.
    pub fn buffer_for(&self, cause: Cause, from: Option<&NodeId>) -> Buffer {
        let is_open = match cause {
            Cause::Update | Cause::Rollback | Cause::Return => true,
            Cause::Drain => {
                from.and_then(|node| self.facts.table.find(node)).is_some_and(|row| row.is_in_upgrade)
            }
            Cause::NodeLost => self.facts.settings.opens_buffer_on_failure,
            _ => false,
        };
        if is_open { Buffer::Open } else { Buffer::Kept }
    }

    /// Returns where the instance of a slot should go. `origin`: the node that it left during an upgrade.
    pub fn location(&self, slot: &Slot, origin: Option<&NodeId>) -> Location {
        if let Slot::Node(node) = slot {
            return self.facts.table.number(node).map_or(Location::Anywhere, Location::Only);
        }
        match origin.and_then(|node| self.facts.table.number(node)) {
            Some(origin) => Location::Origin(origin),
            None if self.is_primary(slot) => Location::PreferredDomain,
            None => Location::Anywhere,
        }
    }

    /// Returns whether a slot is the first one that is wanted, and so prefers a domain.
    fn is_primary(&self, slot: &Slot) -> bool {
        self.facts.workload.placement.preferred_domain.is_some()
            && self.first_wanted_slot().is_none_or(|first| first >= slot)
    }

    /// Places tasks of the current version on top of what this decision has changed so far.
    pub fn place(&mut self, wants: &[Want], buffer: Buffer) -> Placed {
        let elimination = self.elimination(buffer);
        self.place_among(elimination, wants)
    }

    /// See [`UnitPass::place`]; as if an instance had left each of some nodes, apart from what it uses of the capacities there.
    pub fn place_without(&mut self, left: &[u32], wants: &[Want], buffer: Buffer) -> Placed {
        let elimination = self.elimination(buffer);
        self.without(left, |pass| pass.place_among(elimination, wants))
    }

    /// Decides as if an instance had left each of some nodes.
    pub(super) fn without(&mut self, left: &[u32], place: impl FnOnce(&Self) -> Placed) -> Placed {
        left.iter().for_each(|node| *self.added.entry(*node).or_default() -= 1);
        let placed = place(self);
        left.iter().for_each(|node| *self.added.entry(*node).or_default() += 1);
        placed
    }

    /// See [`UnitPass::place`]; among the nodes that an elimination leaves.
    fn place_among(&self, elimination: Elimination, wants: &[Want]) -> Placed {
        self.place_beside(self.added_loads(), elimination, wants)
    }

    /// See [`UnitPass::place_among`]. `loads`: what the decision adds to nodes, in instances of the current version.
    pub(super) fn place_beside(
        &self,
        loads: BTreeMap<u32, u32>,
        elimination: Elimination,
        wants: &[Want],
    ) -> Placed {
        // Room that is left on a node that this decision finds failed is of no use.
        let is_failed = |node: u32| self.failed_nodes.contains(node) || self.blocked_nodes.contains(node);
        let is_used = |node: u32, by: i64| by > 0 || (by < 0 && !is_failed(node));
        let added = self.added.iter().filter(|(node, by)| is_used(**node, **by));
        let instances = added.map(|(node, by)| (*node, *by)).collect();
        let added = Added { instances, loads };
        place::place(self.facts.table, &self.ranking(), elimination, &added, wants)
    }

    /// Returns the best other node for what takes the place of a task that is to leave its node.
    pub fn candidate(&mut self, task: &Task, cause: Cause) -> Option<NodeId> {
        let spec = if cause.is_update() { self.versions.current } else { self.spec_of_replacement(task) };
        let avoided = task.node.as_ref().and_then(|node| self.facts.table.number(node));
        let buffer = self.buffer_for(cause, task.node.as_ref());
        let location = self.location(&task.slot, task.origin.as_ref());
        let placed = self.place_one(spec, &[], Want { avoided, location, ..Want::default() }, buffer);
        self.first_node(&placed)
    }

    /// Returns whether the node of a task that has ended has room for it again.
    pub fn has_room_again(&mut self, task: &Task) -> bool {
        let Some(number) = task.node.as_ref().and_then(|node| self.facts.table.number(node)) else {
            return false;
        };
        let table = self.facts.table;
        let added = self.added.get(&number).copied().unwrap_or(0);
        let is_full = i64::from(table.own(number)) + added >= i64::from(table.max_per_node(number));
        !is_full && self.elimination(Buffer::Kept).removed_by(number) != Some(Constraint::NodeCapacity)
    }

    fn first_node(&self, placed: &Placed) -> Option<NodeId> {
        let node = placed.nodes.iter().flatten().next()?;
        Some(self.facts.table.node(*node).id.clone())
    }

    /// Returns the best node for one more task, other than those.
    pub fn candidate_apart_from(&mut self, avoided: &BTreeSet<NodeId>) -> Option<NodeId> {
        let numbers = avoided.iter().filter_map(|node| self.facts.table.number(node));
        let numbers: RoaringBitmap = numbers.collect();
        let mut elimination = self.elimination(Buffer::Kept);
        elimination.remaining -= numbers;
        let placed = self.place_among(elimination, &[Want::default()]);
        self.first_node(&placed)
    }

    /// Returns that no node is left, with the elimination of now.
    pub fn unplaced(&mut self, wanted: u32) -> Blocked {
        let report = self.elimination_report(wanted);
        self.note_unplaced(report)
    }

    /// Returns how so many tasks would be placed now.
    pub fn elimination_report(&mut self, wanted: u32) -> EliminationReport {
        let placed = self.place_most(wanted);
        place::report_of(self.facts.table, &placed, wanted)
    }

    /// Places as many of some tasks as possible. How many are wanted costs nothing beyond what the nodes can hold.
    pub fn place_most(&mut self, wanted: u32) -> Placed {
        let mut size = wanted.min(FIRST_TRY);
        loop {
            let placed = self.place(&vec![Want::default(); size as usize], Buffer::Kept);
            if placed.count() < size || size == wanted {
                return placed;
            }
            size = size.saturating_mul(4).min(wanted);
        }
    }

    pub fn note_unplaced(&mut self, report: EliminationReport) -> Blocked {
        let blocked = Blocked::unplaced(&report);
        self.plan.unplaced = Some(report);
        blocked
    }
}

/// Returns whether the task before was on the same node.
pub(crate) fn has_stayed(pass: &UnitPass<'_>, task: &Task, node: &NodeId) -> bool {
    let earlier = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    earlier.into_iter().find_map(|one| one.node.as_ref()) == Some(node)
}

/// Returns the end of a ready period that begins now; none when no other node could contest the start.
pub(crate) fn ready_at(pass: &UnitPass<'_>, task: &Task) -> Option<Timestamp> {
    let is_alone = pass.facts.table.members().len() < 2;
    let ready_secs = pass.facts.workload.goal.ready_secs;
    (task.cause.is_contested() && !is_alone && ready_secs > 0).then(|| later(pass.now, ready_secs))
}
