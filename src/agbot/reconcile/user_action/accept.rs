//! Acceptance of a user's action: whether it may begin, and what it is to reach.
//!
//! Source: orchestration A6, A11.

mod recover;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::place::{self, Elimination, Placed, Ranking, leaders_of};
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    goal::{Count, Goal},
    report::Constraint,
    workload::{
        ActionGoal, ActionGoals, LastingAction, Part, SlotTasks, Task, UnitId, Workload, WorkloadRecord,
    },
};
use jiff::Timestamp;

use super::{
    progress::{UnitView, is_started},
    request::{ActionRefusal, RequestedAction},
};

/// Returns what an action is to reach.
///
/// # Errors
/// The reason why it cannot be carried out now.
pub fn accept(
    model: &Model,
    policy: &PolicyId,
    request: &RequestedAction<'_>,
    now: Timestamp,
) -> Result<ActionGoals, ActionRefusal> {
    let (Some(record), Some(workload)) = (model.workload(policy), model.workload_of(policy)) else {
        return Err(ActionRefusal::Conflict(format!("{policy} has no tasks")));
    };
    let is_meant = |id: &UnitId| request.part.is_none_or(|part| part == id.name());
    let parts: Vec<Candidate<'_>> = model
        .workload_units_of(policy)
        .filter(|(id, unit)| unit.is_wanted && is_meant(id))
        .map(|(id, unit)| Candidate { id, unit, workload })
        .collect();
    if let Some(part) = request.part.filter(|_| parts.is_empty()) {
        return Err(ActionRefusal::NoPart(part.to_owned()));
    }
    let is_of_parts = |node: &NodeId| parts.iter().any(|part| part.unit.table.find(node).is_some());
    let rows = model.instances_of(policy).iter();
    let is_any_frozen = rows.into_iter().any(|(node, row)| row.is_frozen && is_of_parts(node));
    let is_held = record.is_stopped || record.is_frozen || is_any_frozen;
    Accepting { model, record, workload, parts, request, is_held, now }.goals()
}

fn conflict<T>(text: String) -> Result<T, ActionRefusal> {
    Err(ActionRefusal::Conflict(text))
}

struct Accepting<'a> {
    model: &'a Model,
    record: &'a WorkloadRecord,
    workload: &'a Workload,
    /// The workload units that are meant.
    parts: Vec<Candidate<'a>>,
    request: &'a RequestedAction<'a>,
    /// True if an instance is stopped or frozen.
    is_held: bool,
    now: Timestamp,
}

impl<'a> Accepting<'a> {
    fn goals(&self) -> Result<ActionGoals, ActionRefusal> {
        match self.request.kind {
            LastingAction::Start => self.start(),
            LastingAction::Stop => self.stop(),
            LastingAction::Restart => self.restart(),
            LastingAction::Takeover => match self.request.node {
                Some(node) => self.place(std::slice::from_ref(node)),
                None => {
                    Err(ActionRefusal::Malformed("node must be given with the action takeover".to_owned()))
                }
            },
            LastingAction::Switch if self.request.destinations.is_empty() => self.switch(),
            LastingAction::Switch => self.place(self.request.destinations),
            LastingAction::Giveback => self.give_back(),
            LastingAction::Recover => self.recover(),
        }
    }

    fn policy(&self) -> &PolicyId {
        &self.record.policy
    }

    fn part_of(&self, node: &NodeId) -> Result<&Candidate<'a>, ActionRefusal> {
        let holds = |part: &&Candidate<'_>| part.unit.table.find(node).is_some();
        let part = self.request.part.map(str::to_owned);
        self.parts.iter().find(holds).ok_or_else(|| ActionRefusal::NoNode { node: node.clone(), part })
    }

    /// Returns the part that is named, if it is not the whole workload. A workload that is stopped or frozen
    /// as a whole is not started in parts.
    fn named_part(&self) -> Result<Option<&Candidate<'a>>, ActionRefusal> {
        let part = self.request.part.and_then(|_| self.parts.first());
        let part = part.filter(|candidate| candidate.id.part != Part::All);
        let word = if self.record.is_stopped { "stopped" } else { "frozen" };
        match part {
            Some(part) if self.record.is_stopped || self.record.is_frozen => conflict(format!(
                "all of {} is {word}, not only {}: use the action without unit",
                self.policy(),
                part.id.name()
            )),
            part => Ok(part),
        }
    }

    fn start(&self) -> Result<ActionGoals, ActionRefusal> {
        if let Some(node) = self.request.node {
            let part = self.part_of(node)?;
            part.check_destination(node)?;
            if part.started().any(|task| task.node.as_ref() == Some(node)) {
                return conflict(format!("{} runs on {node} already", self.policy()));
            }
            let other = part
                .started()
                .find_map(|task| task.node.clone())
                .filter(|_| self.workload.goal.is_exclusive() && !self.request.is_forced);
            if let Some(other) = other {
                return conflict(format!(
                    "an instance of {} is on {other}: move it with the action takeover, or start a second one with force",
                    self.policy()
                ));
            }
            let (count, most) = (part.started().count(), most(&self.workload.goal));
            if count >= most && !self.workload.goal.is_exclusive() {
                return conflict(format!(
                    "{count} instances of {} are started in {}, and at most {most} may run: raise that number, or move one with the action switch",
                    self.policy(),
                    part.id.name()
                ));
            }
            return Ok(vec![(Some(part.id.part.clone()), ActionGoal::StartedOn { node: node.clone() })]);
        }
        let named = self.named_part()?;
        if !self.is_held && !self.parts.is_empty() && self.parts.iter().all(Candidate::is_started) {
            return conflict(format!("{} is started already", self.policy()));
        }
        for part in self.parts.iter().filter(|part| !part.is_started()) {
            if !part.ranking().has_order() && !self.workload.goal.is_per_node() {
                return conflict(format!(
                    "{} has the placement policy none: name the node to start it on",
                    self.policy()
                ));
            }
            if let Some(why) = part.no_candidate().filter(|_| !self.is_held) {
                return conflict(why);
            }
        }
        let surplus =
            self.parts.iter().find(|part| self.workload.goal.is_exclusive() && part.live().count() > 1);
        match surplus {
            Some(part) => conflict(format!(
                "{} has more than one instance in {}: stop one with the action stop and its node",
                self.policy(),
                part.id.name()
            )),
            None => Ok(vec![(named.map(|part| part.id.part.clone()), ActionGoal::Started)]),
        }
    }

    fn stop(&self) -> Result<ActionGoals, ActionRefusal> {
        if let Some(node) = self.request.node {
            let part = self.part_of(node)?;
            let is_there = |task: &Task| !task.is_stopped() && task.node.as_ref() == Some(node);
            if !part.tasks().any(is_there) {
                return conflict(format!("{} does not run on {node}", self.policy()));
            }
            let nodes = BTreeSet::from([node.clone()]);
            return Ok(vec![(Some(part.id.part.clone()), ActionGoal::StoppedOn { nodes })]);
        }
        if self.record.is_stopped {
            return conflict(format!("{} is stopped already", self.policy()));
        }
        if let Some(part) = self.named_part()? {
            let nodes: BTreeSet<NodeId> = part.unit.table.nodes().map(|row| row.id.clone()).collect();
            let rows = self.model.instances_of(self.policy());
            let is_frozen = |node: &NodeId| rows.get(node).is_some_and(|row| row.is_frozen);
            if part.tasks().all(Task::is_stopped) && nodes.iter().all(is_frozen) {
                return conflict(format!("{} is stopped already in {}", self.policy(), part.id.name()));
            }
            return Ok(vec![(Some(part.id.part.clone()), ActionGoal::StoppedOn { nodes })]);
        }
        Ok(vec![(None, ActionGoal::Stopped)])
    }

    fn restart(&self) -> Result<ActionGoals, ActionRefusal> {
        self.check_update()?;
        if self.record.is_frozen {
            return conflict(format!("{} is frozen: thaw it first", self.policy()));
        }
        let node = self.request.node;
        let part = node.map(|node| self.part_of(node)).transpose()?;
        let is_frozen = |node: &NodeId| {
            self.parts.iter().any(|part| part.unit.table.find(node).is_some_and(|row| row.frozen.is_some()))
        };
        if let Some(node) = node.filter(|node| is_frozen(node)) {
            return conflict(format!("{} is frozen on {node}: thaw it first", self.policy()));
        }
        let is_meant = |task: &&Task| {
            let is_named = |one: &NodeId| node.is_none_or(|node| node == one);
            task.node.as_ref().is_some_and(|node| is_named(node) && !is_frozen(node))
        };
        if !self.parts.iter().flat_map(Candidate::live).any(|task| is_meant(&task)) {
            return conflict(format!("{} has no instance to restart that is not frozen", self.policy()));
        }
        // A stopped instance could not start again.
        let ineligible = |part: &Candidate<'_>| {
            let mut nodes = part.live().filter(is_meant).filter_map(|task| task.node.as_ref());
            nodes.find_map(|node| part.ineligible(node))
        };
        if let Some(why) = self.parts.iter().find_map(ineligible) {
            return conflict(why);
        }
        let named = self.request.part.and_then(|_| self.parts.first());
        let part = part.or(named).map(|part| part.id.part.clone());
        Ok(vec![(part, ActionGoal::Restarted { node: node.cloned() })])
    }

    /// An update needs slots that stay where they are.
    fn check_update(&self) -> Result<(), ActionRefusal> {
        if self.record.update.is_rolling() && !self.request.is_forced {
            return conflict(format!(
                "an update of {} is in progress: wait until it ends, or use force",
                self.policy()
            ));
        }
        Ok(())
    }

    fn check_moves(&self) -> Result<(), ActionRefusal> {
        if self.workload.goal.is_per_node() {
            return conflict(format!("{} has one instance on every node: none can move", self.policy()));
        }
        self.check_update()
    }

    fn place(&self, destinations: &[NodeId]) -> Result<ActionGoals, ActionRefusal> {
        self.check_moves()?;
        let mut nodes_of: BTreeMap<&UnitId, BTreeSet<NodeId>> = BTreeMap::new();
        for node in destinations {
            let part = self.part_of(node)?;
            part.check_destination(node)?;
            nodes_of.entry(part.id).or_default().insert(node.clone());
        }
        let mut goals = ActionGoals::new();
        for part in &self.parts {
            let Some(pinned) = nodes_of.remove(part.id) else { continue };
            let mut nodes = pinned.clone();
            let most = most(&self.workload.goal);
            if nodes.len() > most {
                return conflict(format!(
                    "{} nodes are named, and at most {most} instances run",
                    nodes.len()
                ));
            }
            part.fill(&mut nodes);
            if !part.runs_exactly_on(&nodes) {
                goals.push((Some(part.id.part.clone()), ActionGoal::Placed { nodes, pinned }));
            }
        }
        if goals.is_empty() {
            return conflict(format!("{} runs there already", self.policy()));
        }
        Ok(goals)
    }

    fn switch(&self) -> Result<ActionGoals, ActionRefusal> {
        self.check_moves()?;
        if !self.workload.goal.is_exclusive() {
            return Err(ActionRefusal::Malformed(
                "destination must be given: only the mode failover chooses the node".to_owned(),
            ));
        }
        let mut why_not = None;
        let mut goals = ActionGoals::new();
        for part in &self.parts {
            let remaining = Elimination::of(&part.unit.table).remaining;
            let order = part.ranking().order_of_candidates(&remaining);
            match order.first() {
                Some(best) => {
                    let nodes = BTreeSet::from([part.unit.table.node(*best).id.clone()]);
                    let pinned = nodes.clone();
                    goals.push((Some(part.id.part.clone()), ActionGoal::Placed { nodes, pinned }));
                }
                None => why_not = why_not.or_else(|| Some(part.summary())),
            }
        }
        match why_not.filter(|_| goals.is_empty()) {
            Some(why) => conflict(why),
            None => Ok(goals),
        }
    }

    fn give_back(&self) -> Result<ActionGoals, ActionRefusal> {
        self.check_moves()?;
        let mut why_not = None;
        let mut goals = ActionGoals::new();
        for part in &self.parts {
            if !part.ranking().has_order() {
                return conflict(format!(
                    "{} has the placement policy none, and so no leaders: name the nodes with the action switch",
                    self.policy()
                ));
            }
            let mut nodes = part.leaders();
            let has_none = nodes.is_empty();
            // Without enough leaders the others stay where they are.
            part.fill(&mut nodes);
            if part.runs_exactly_on(&nodes) {
                continue;
            }
            match nodes.iter().find_map(|node| part.unavailable(node)) {
                Some(why) => why_not = Some(why),
                None if has_none => why_not = Some(part.summary()),
                None => {
                    goals.push((
                        Some(part.id.part.clone()),
                        ActionGoal::Placed { nodes, pinned: BTreeSet::new() },
                    ));
                }
            }
        }
        match why_not {
            _ if !goals.is_empty() => Ok(goals),
            Some(why) => conflict(why),
            None => conflict(format!("{} runs on its leaders already", self.policy())),
        }
    }
}

/// The most instances that a user may place.
fn most(goal: &Goal) -> usize {
    match goal.count {
        Count::PerNode => usize::MAX,
        Count::Exactly(count) => count as usize,
        Count::Between { max, .. } => max.map_or(usize::MAX, |max| max as usize),
    }
}

/// A workload unit that an action may concern.
struct Candidate<'a> {
    id: &'a UnitId,
    unit: &'a UnitRecord,
    workload: &'a Workload,
}

impl<'a> Candidate<'a> {
    fn tasks(&self) -> impl Iterator<Item = &'a Task> {
        self.unit.slots.values().flat_map(SlotTasks::iter)
    }

    fn live(&self) -> impl Iterator<Item = &'a Task> {
        self.tasks().filter(|task| task.is_live())
    }

    /// Returns the tasks that run, or are to run whatever another node does.
    fn started(&self) -> impl Iterator<Item = &'a Task> {
        self.live().filter(|task| !task.is_contender())
    }

    fn has_live(&self, node: &NodeId) -> bool {
        self.live().any(|task| task.node.as_ref() == Some(node))
    }

    fn ranking(&self) -> Ranking<'a> {
        Ranking::new(&self.workload.placement, self.id, &self.unit.table)
    }

    /// Returns whether everything runs that is wanted when nothing is stopped.
    fn is_started(&self) -> bool {
        let workload = self.workload.clone();
        let goal = Goal { is_stopped: false, ..workload.goal };
        let workload = Workload { goal, ..workload };
        let view = UnitView { workload: &workload, table: &self.unit.table, tasks: self.tasks().collect() };
        is_started(&view)
    }

    fn summary(&self) -> String {
        let elimination = Elimination::of(&self.unit.table);
        let report = place::report(&self.unit.table, &Placed::nowhere(elimination));
        format!("no node of {} can take an instance: {}", self.id.name(), report.summary)
    }

    /// Returns why nothing more can start by itself.
    fn no_candidate(&self) -> Option<String> {
        let is_empty = Elimination::of(&self.unit.table).remaining.is_empty();
        (is_empty && self.live().next().is_none()).then(|| self.summary())
    }

    /// Returns why a node cannot be chosen, not even by name.
    fn unreachable(&self, node: &NodeId) -> Option<String> {
        self.removed(node, &[Constraint::Eligibility, Constraint::NodeState])
    }

    /// Returns why a node cannot run the workload at all.
    fn ineligible(&self, node: &NodeId) -> Option<String> {
        self.removed(node, &[Constraint::Eligibility])
    }

    fn removed(&self, node: &NodeId, constraints: &[Constraint]) -> Option<String> {
        let row = self.unit.table.find(node)?;
        let why = constraints.iter().find_map(|constraint| row.removed_by(*constraint, 0, 1))?;
        Some(format!("{node} cannot take an instance: {why}"))
    }

    fn check_destination(&self, node: &NodeId) -> Result<(), ActionRefusal> {
        match self.unreachable(node) {
            Some(why) => conflict(why),
            None => Ok(()),
        }
    }

    /// Returns why a leader cannot get its instance back.
    fn unavailable(&self, node: &NodeId) -> Option<String> {
        let frozen = || {
            let why = self.unit.table.find(node)?.removed_by(Constraint::Frozen, 0, 1)?;
            Some(format!("{node} cannot take an instance: {why}"))
        };
        if self.has_live(node) { None } else { self.unreachable(node).or_else(frozen) }
    }

    fn leaders(&self) -> BTreeSet<NodeId> {
        let has_task = |number: u32| self.has_live(&self.unit.table.node(number).id);
        let leaders = leaders_of(self.workload, self.id, &self.unit.table, &has_task);
        let numbers = leaders.of_giveback(&self.workload.goal).iter();
        numbers.map(|number| self.unit.table.node(*number).id.clone()).collect()
    }

    /// Adds nodes that have instances already, the best ones first, so that no fewer run than wanted.
    fn fill(&self, nodes: &mut BTreeSet<NodeId>) {
        let wanted = Goal { is_stopped: false, ..self.workload.goal }.wanted(0) as usize;
        let order = self.ranking().order(&Elimination::of_eligibility(&self.unit.table));
        let ids = order.into_iter().map(|number| &self.unit.table.node(number).id);
        for node in ids.filter(|node| self.has_live(node)) {
            if nodes.len() >= wanted {
                break;
            }
            nodes.insert(node.clone());
        }
    }

    fn runs_exactly_on(&self, nodes: &BTreeSet<NodeId>) -> bool {
        let live: BTreeSet<&NodeId> = self.live().filter_map(|task| task.node.as_ref()).collect();
        let running =
            |node: &NodeId| self.live().any(|task| task.is_running() && task.node.as_ref() == Some(node));
        live.iter().copied().eq(nodes) && nodes.iter().all(running)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
