//! Chooses nodes for the tasks of a decision, all in one evaluation.
//!
//! Source: orchestration B3 (scheduler), A1, A9.5 (ready period).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{UnitFacts, UnitPass, leaders_of, lost};
use crate::{
    change::{Cause, Change, Step},
    goal::{Leaders, StartMode},
    place::{
        self, Added, Buffer, Constraint, Elimination, EliminationReport, FullNodes, Location, Placed,
        Ranking, Want,
    },
    report::Blocked,
    settings::UpdateOrder,
    supervise::shortage,
    time::later,
    workload::{Slot, Task},
};

/// Tasks that are placed at once where it is not known whether there is room for all.
const FIRST_TRY: u32 = 64;
/// Workloads that the reason of a wait names.
const MOST_PARTNERS: usize = 10;

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

    fn note_unplaced(&mut self, report: EliminationReport) -> Blocked {
        let blocked = Blocked::unplaced(&report);
        self.plan.unplaced = Some(report);
        blocked
    }
}

/// Places every task of the decision that waits for a node.
pub(super) fn place_pending(pass: &mut UnitPass<'_>) {
    let mut seen = BTreeSet::new();
    let waiting: Vec<Task> = std::mem::take(&mut pass.pending)
        .iter()
        .filter(|(_, id)| seen.insert(id.clone()))
        .filter_map(|(slot, id)| pass.tasks(slot).iter().find(|task| task.id == *id))
        .filter(|task| task.is_live() && task.node.is_none())
        .cloned()
        .collect();
    if waiting.is_empty() {
        return;
    }
    let waiting = without_suspended(pass, waiting);
    let (waiting, wants) = without_those_that_wait_for_partners(pass, waiting);
    if waiting.is_empty() {
        return;
    }
    for buffer in [Buffer::Open, Buffer::Kept] {
        let is_meant = |task: &Task, pass: &UnitPass<'_>| pass.buffer_of(task) == buffer;
        let meant = waiting.iter().zip(&wants).filter(|(task, _)| is_meant(task, pass));
        let meant = meant.map(|(task, want)| (task.clone(), *want)).collect();
        place_tasks(pass, meant, buffer);
    }
}

/// Places those that use what the current version does in one evaluation, and the others one by one before them.
fn place_tasks(pass: &mut UnitPass<'_>, waiting: Vec<(Task, Want)>, buffer: Buffer) {
    let is_other = |(task, _): &(Task, Want)| pass.other_loads_of(task.spec).is_some();
    let (others, current): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_other);
    for (task, want) in others {
        let spec = task.spec;
        let one = [task];
        let left = lost::left_by(pass, &one);
        let placed = pass.place_one(spec, &left, want, buffer);
        assign_placed(pass, &one, &placed);
    }
    if !current.is_empty() {
        let (tasks, wants): (Vec<Task>, Vec<Want>) = current.into_iter().unzip();
        let left = lost::left_by(pass, &tasks);
        let placed = pass.place_without(&left, &wants, buffer);
        assign_placed(pass, &tasks, &placed);
    }
}

fn assign_placed(pass: &mut UnitPass<'_>, waiting: &[Task], placed: &Placed) {
    for ((task, node), violations) in waiting.iter().zip(&placed.nodes).zip(&placed.violations) {
        if let Some(number) = node {
            let node = pass.facts.table.node(*number).id.clone();
            let start_at = start_of(pass, task, &node);
            pass.assign(&task.slot, &task.id, &node, start_at);
            pass.stay_apart(&task.slot, &node, task.cause);
            note_soft_affinity(pass, task, *number);
            let soft: Vec<&str> = violations.soft().map(Constraint::name).collect();
            if !soft.is_empty() {
                let text = format!("{}: level soft", soft.join(", "));
                pass.emit("placement.violation", Some(&task.slot), Some(&node), text);
            }
        }
    }
    if placed.count() < waiting.len() as u32 {
        let blocked = pass.note_unplaced(place::report(pass.facts.table, placed));
        let left = waiting.iter().zip(&placed.nodes).filter(|(_, node)| node.is_none());
        for (task, _) in left {
            let step = unplaced_step(pass, task);
            pass.block(&step, blocked.clone());
        }
    }
}

/// Lets tasks wait for whose causes decisions are suspended.
///
/// # Source
/// Orchestration A7.
fn without_suspended(pass: &mut UnitPass<'_>, tasks: Vec<Task>) -> Vec<Task> {
    let (suspended, others): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| pass.suspended_by(task).is_some());
    for task in suspended {
        if let Some(blocked) = pass.suspended_by(&task) {
            let step = unplaced_step(pass, &task);
            pass.block(&step, blocked);
        }
    }
    others
}

/// Lets tasks wait for workloads that should be on the same node, as long as those start or stop. An instance that stays on its node is
/// not placed again.
///
/// # Source
/// Orchestration A4.5.
fn without_those_that_wait_for_partners(pass: &mut UnitPass<'_>, tasks: Vec<Task>) -> (Vec<Task>, Vec<Want>) {
    let partners = pass.facts.unsettled_partners;
    let wait_secs = pass.facts.workload.placement.affinity.wait_secs;
    let (mut placed, mut wants) = (Vec::new(), Vec::new());
    for task in tasks {
        let want = want(pass, &task);
        let until = later(task.created_at, wait_secs);
        if partners.is_empty() || want.preferred.is_some() || pass.now >= until {
            placed.push(task);
            wants.push(want);
            continue;
        }
        let workloads = partners.iter().take(MOST_PARTNERS).cloned().collect();
        let step = unplaced_step(pass, &task);
        pass.block(&step, Blocked::AffinityWait { workloads, until });
    }
    (placed, wants)
}

/// Reports that the best candidate has, or lacks, a workload that it should not. The only candidate is taken without regard to that.
fn note_soft_affinity(pass: &mut UnitPass<'_>, task: &Task, number: u32) {
    let row = pass.facts.table.node(number);
    let Some(text) =
        row.affinity.soft_text.as_ref().filter(|_| pass.elimination(Buffer::Kept).remaining.len() > 1)
    else {
        return;
    };
    let text = format!("soft affinity: {text}");
    pass.emit("placement.violation", Some(&task.slot), Some(&row.id), text);
}

/// An updated task stays on the node of its slot if it can; so does a restarted one, if the goal wants that.
fn want(pass: &UnitPass<'_>, task: &Task) -> Want {
    let earlier = || pass.tasks(&task.slot).iter().filter(|one| one.id != task.id);
    let number = |node: &NodeId| pass.facts.table.number(node);
    let live = earlier().find(|one| one.is_live()).and_then(|one| one.node.as_ref());
    let stays =
        task.cause.is_update() || task.cause == Cause::TaskFailed && pass.facts.workload.goal.is_sticky;
    let last = earlier().find_map(|one| one.node.as_ref()).filter(|_| stays);
    let is_leaving = |one: &&Task| !one.is_wanted() && !one.state.is_ended() && one.node.as_ref() == last;
    let is_hard = pass.facts.table.priorities().is_hard(Constraint::NodeCapacity);
    let fits = |one: &Task| !is_hard || task.spec != pass.versions.current || shortage(pass, one).is_none();
    let keeps_load = last.is_some() && earlier().any(|one| is_leaving(&one) && fits(one));
    let location = pass.location(&task.slot, task.origin.as_ref());
    Want { preferred: last.and_then(number), avoided: live.and_then(number), keeps_load, location }
}

impl UnitPass<'_> {
    /// Returns whether a task that waits for its node may use the buffer of the capacities.
    fn buffer_of(&self, task: &Task) -> Buffer {
        let earlier = self.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
        self.buffer_for(task.cause, earlier.into_iter().find_map(|one| one.node.as_ref()))
    }
}

/// Another node than before waits for the ready period, in which a better one may appear.
fn start_of(pass: &UnitPass<'_>, task: &Task, node: &NodeId) -> Timestamp {
    let ready_at = ready_at(pass, task).filter(|_| !has_stayed(pass, task, node));
    ready_at.map_or(task.start_at, |at| task.start_at.max(at))
}

/// Returns whether the task before was on the same node.
pub(crate) fn has_stayed(pass: &UnitPass<'_>, task: &Task, node: &NodeId) -> bool {
    let earlier = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    earlier.into_iter().find_map(|one| one.node.as_ref()) == Some(node)
}

/// Returns the end of a ready period that begins now; none when no other node could contest the start.
pub(super) fn ready_at(pass: &UnitPass<'_>, task: &Task) -> Option<Timestamp> {
    let is_alone = pass.facts.table.members().len() < 2;
    let ready_secs = pass.facts.workload.goal.ready_secs;
    (task.cause.is_contested() && !is_alone && ready_secs > 0).then(|| later(pass.now, ready_secs))
}

fn unplaced_step(pass: &UnitPass<'_>, task: &Task) -> Step {
    let change = Change::Replace { node: None, may_run: false, order: UpdateOrder::StopFirst };
    pass.step(&task.slot, change, task.cause)
}
