//! Explanation of the placement of a workload unit: the elimination, computed without acting.
//!
//! Source: orchestration D3.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_placement::place::{
    Added, Elimination, Location, NodeState, NodeTable, Placed, Ranking, Want, cause, leaders_of, place,
    summary,
};
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    facts::Availability,
    goal::StartMode,
    report::{Blocked, Constraint, EliminatedNode, Explanation, FrozenLevel, UnplacedCause, WithoutNodes},
    workload::{Cause, NodeOrder, Slot, SlotTasks, Step, Task, UnitId, Workload},
};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{
    part::{is_selected, selected},
    texts::{lost_instance_wait, surplus_text},
};

/// Nodes that are listed.
pub const NODE_COUNT: usize = 100;

/// Nodes removed by one constraint.
///
/// # Shape
/// Lists hold at most 100 nodes; the counts count all.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedConstraint {
    /// The constraint.
    pub constraint: Constraint,
    /// The removed nodes, with reasons.
    pub eliminated: Vec<EliminatedNode>,
    /// Number of removed nodes.
    pub eliminated_count: u64,
    /// The nodes that are left.
    pub remaining: Vec<NodeId>,
    /// Number of nodes that are left.
    pub remaining_count: u64,
}

/// Explanation of the placement of a workload unit.
///
/// # Shape
/// Lists hold at most 100 nodes. `rank`: position and number of nodes in the order of preference, for a single node that is not needed.
#[derive(Debug, Clone, PartialEq)]
pub struct PartExplanation {
    /// The version of the task spec; none for a policy without tasks.
    pub spec_version: Option<u64>,
    /// Wanted instances.
    pub requested: u32,
    /// Instances that have a node, or would get one.
    pub placed: u32,
    /// The nodes of the workload unit, or the one that was named.
    pub candidates: Vec<NodeId>,
    /// Number of nodes.
    pub candidate_count: u64,
    /// The constraints in their order.
    pub sequence: Vec<ExplainedConstraint>,
    /// The nodes that have an instance, or would get one.
    pub chosen: Vec<NodeId>,
    /// Constraints that are not hard and that an instance violates, or would violate, on its node.
    pub relaxed: Vec<Constraint>,
    /// Cause of an incomplete placement; none when everything is placed.
    pub cause: Option<UnplacedCause>,
    /// Human-readable explanation of the cause.
    pub summary: String,
    /// State of the named node and the policy; none for a policy with tasks. It may name other nodes.
    pub pair: Option<Explanation>,
}

/// Instances that are placed to explain what is missing; no fleet holds more of one workload.
const MOST_PLACED: u32 = 100_000;

/// Subject of an explanation: a workload unit.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The workload unit.
    pub part: &'a UnitId,
    /// Only this node.
    pub node: Option<&'a NodeId>,
    /// Also constraints that removed nothing.
    pub is_complete: bool,
    /// The time.
    pub now: Timestamp,
}

/// Returns a workload unit with its workload; none without tasks.
pub fn with_tasks<'m>(model: &'m Model, part: &UnitId) -> Option<(&'m UnitRecord, &'m Workload)> {
    let unit = model.workload_unit(part).filter(|unit| unit.is_wanted)?;
    Some((unit, model.workload_of(&part.policy)?))
}

/// Explains where the instances of a workload unit with tasks are, or would be; none when it does not have the node in question.
///
/// # Shape
/// `blocked`: the steps that wait; without them it is explained apart from that.
pub fn explain_unit(
    model: &Model,
    (unit, workload): (&UnitRecord, &Workload),
    question: Question<'_>,
    blocked: &[(Step, Blocked)],
) -> Option<PartExplanation> {
    let gone_group = model.gone_group(question.part);
    Explainer { gone_group, ..Explainer::new(workload, question, unit, blocked) }.explain()
}

/// Returns why the slots whose last tasks ended have no instances and get none, with their numbers.
pub fn why_given_up<'t>(
    table: &NodeTable,
    tasks: impl IntoIterator<Item = &'t Task>,
) -> BTreeMap<&'static str, u32> {
    let mut reasons = BTreeMap::new();
    for task in tasks {
        let row = task.node.as_ref().and_then(|node| table.find(node));
        let why = match row {
            Some(row) if row.availability == Availability::Pause => "not restarted: its node is paused",
            Some(row) if row.marks.start_failed.is_some() => {
                "given up: the start failed and no other node is left; try again with: hzn exchange deployment orchestration clear"
            }
            _ if !task.state.has_failed() => {
                "ended with exit code 0: the restart policy does not start it again"
            }
            _ => "given up: the restart policy allows no further restart",
        };
        *reasons.entry(why).or_default() += 1;
    }
    reasons
}

/// Returns what an instance waits for that ended on a node on which nothing is started.
fn held_by_freeze<'t>(table: &NodeTable, tasks: &'t SlotTasks) -> Option<&'t Task> {
    let newest = tasks.wanted().next().filter(|newest| newest.state.is_ended())?;
    table.find(newest.node.as_ref()?)?.frozen.map(|_| newest)
}

struct Explainer<'a> {
    workload: &'a Workload,
    question: Question<'a>,
    table: &'a NodeTable,
    /// The nodes of instances, apart from those that are lost.
    live: Vec<u32>,
    /// Lost instances, by node: others take their places.
    lost: BTreeMap<u32, i64>,
    /// The node of the first slot, which prefers a domain.
    primary: Option<u32>,
    /// The last tasks of the slots that were given up, and their nodes.
    given_up: Vec<&'a Task>,
    given_up_nodes: RoaringBitmap,
    /// Tasks that ended and are frozen.
    held: Vec<&'a Task>,
    /// The nodes of instances that wait for the end of a block of their version there: they are as good as missing.
    barred: RoaringBitmap,
    blocked: &'a [(Step, Blocked)],
    /// Number of slots with an instance on a node that is there.
    slot_count: u32,
    /// The HA group of the workload unit, if it does not exist.
    gone_group: Option<&'a GroupId>,
}

impl<'a> Explainer<'a> {
    fn new(
        workload: &'a Workload,
        question: Question<'a>,
        unit: &'a UnitRecord,
        blocked: &'a [(Step, Blocked)],
    ) -> Self {
        let on_blocks = blocked.iter().filter(|(_, why)| matches!(why, Blocked::Blocklisted { .. }));
        let on_blocks: BTreeSet<(&Slot, Option<&NodeId>)> =
            on_blocks.map(|(step, _)| (&step.slot, step.node())).collect();
        let is_barred =
            |task: &&Task| !task.is_running() && on_blocks.contains(&(&task.slot, task.node.as_ref()));
        let tasks = unit.slots.values().flat_map(SlotTasks::iter).filter(|task| task.is_live());
        let (barred, tasks): (Vec<&Task>, Vec<&Task>) = tasks.partition(is_barred);
        let number = |task: &Task| unit.table.number(task.node.as_ref()?);
        let all = tasks.into_iter().filter_map(number);
        let is_there = |number: &u32| unit.table.node(*number).down_since().is_none();
        let (live, gone): (Vec<u32>, Vec<u32>) = all.partition(is_there);
        let mut lost: BTreeMap<u32, i64> = BTreeMap::new();
        gone.into_iter().for_each(|number| *lost.entry(number).or_default() -= 1);
        let is_held = |task: &Task| {
            let number = task.node.as_ref().and_then(|node| unit.table.number(node));
            task.is_live() && number.is_some_and(|number| is_there(&number))
        };
        let slot_count = unit.slots.values().filter(|tasks| tasks.iter().any(is_held)).count() as u32;
        let given_up: Vec<&Task> = unit.slots.values().filter_map(given_up).collect();
        let nodes = given_up.iter().filter_map(|task| unit.table.number(task.node.as_ref()?));
        Self {
            workload,
            question,
            table: &unit.table,
            primary: live.first().copied(),
            live,
            lost,
            given_up_nodes: nodes.collect(),
            given_up,
            barred: barred.into_iter().filter_map(number).collect(),
            held: unit.slots.values().filter_map(|tasks| held_by_freeze(&unit.table, tasks)).collect(),
            blocked,
            slot_count,
            gone_group: None,
        }
    }

    fn explain(&self) -> Option<PartExplanation> {
        let goal = &self.workload.goal;
        let requested = goal.wanted(selected(self.table));
        let kept = self.live.len() + self.given_up.len() + self.held.len();
        let missing = requested.saturating_sub(kept as u32);
        let (elimination, new, placement) = self.placed(missing);
        let chosen: RoaringBitmap = self.live.iter().chain(&new).copied().collect();
        let placed = if goal.is_per_node() {
            chosen.len() as u32
        } else {
            let surplus = Some(self.slot_count).filter(|count| *count > requested);
            surplus.unwrap_or_else(|| requested.min((self.live.len() + new.len()) as u32))
        };
        let sequence = self.sequence(&elimination, placement.as_ref());
        let missing = requested.saturating_sub(placed);
        let cause = (missing > 0).then(|| cause(self.table, &elimination, placement.as_ref(), missing));
        let candidates = self.table.members().len();
        let mut summary = summary((placed, requested), candidates, removed(&sequence));
        if placed > requested {
            let _ = write!(summary, "; {}", self.surplus_text(placed - requested));
        }
        for (why, count) in why_given_up(self.table, self.given_up.iter().copied()) {
            let _ = write!(summary, "; {count} {why}");
        }
        if !self.held.is_empty() {
            let _ =
                write!(summary, "; {} ended where it is frozen, and starts after a thaw", self.held.len());
        }
        if !new.is_empty() && goal.start == StartMode::Never {
            summary.push_str("; nothing starts before a user starts it: orchestrate is no");
        }
        let of_new = placement.iter().flat_map(|placement| &placement.violations);
        let of_live = self.live.iter().flat_map(|number| self.table.relaxed_on(*number));
        let of_primary = self.primary.filter(|number| self.is_outside_of_preferred(*number));
        let relaxed = of_new.flat_map(|one| one.relaxed()).chain(of_live);
        let relaxed: BTreeSet<Constraint> =
            relaxed.chain(of_primary.map(|_| Constraint::PreferredLocation)).collect();
        let whole = PartExplanation {
            relaxed: relaxed.into_iter().collect(),
            spec_version: Some(self.workload.versions.current.number),
            requested,
            placed,
            candidates: self.names(self.table.members()),
            candidate_count: self.table.members().len(),
            sequence,
            chosen: self.names(&chosen),
            cause,
            summary,
            pair: None,
        };
        match self.question.node {
            None => Some(PartExplanation { summary: self.with_wait(whole.summary, None), ..whole }),
            Some(node) => self.of_node((node, placement.as_ref()), whole, &elimination, &chosen),
        }
    }

    /// Returns what becomes of instances beyond the wanted number.
    fn surplus_text(&self, surplus: u32) -> String {
        let is_away = |number: &u32| {
            let row = self.table.node(*number);
            !is_selected(row) && row.state != NodeState::Ready && self.table.members().contains(*number)
        };
        let away = self.live.iter().filter(|number| self.workload.goal.is_per_node() && is_away(number));
        surplus_text(surplus, away.count() as u32, self.gone_group)
    }

    fn natural_leaders(&self) -> RoaringBitmap {
        let has_task = |number: u32| self.live.contains(&number);
        let leaders = leaders_of(self.workload, self.question.part, self.table, &has_task);
        leaders.natural.into_iter().collect()
    }

    fn is_outside_of_preferred(&self, number: u32) -> bool {
        let ranking = Ranking::new(&self.workload.placement, self.question.part, self.table);
        ranking.preferred_nodes().is_some_and(|preferred| !preferred.contains(number))
    }

    /// Returns the elimination, the node of each missing instance that would get one, and how they would be placed.
    fn placed(&self, missing: u32) -> (Elimination, Vec<u32>, Option<Placed>) {
        let mut elimination = Elimination::of(self.table);
        if !self.barred.is_empty() {
            // What removes them is the block, and not the instance that waits there.
            elimination.stages.iter_mut().for_each(|stage| stage.removed -= &self.barred);
            elimination.remaining |= &self.barred;
            elimination.remove(Constraint::Blocklist, &self.barred);
        }
        if self.workload.is_frozen {
            elimination.remove(Constraint::Frozen, self.table.members());
        }
        if self.workload.goal.start == StartMode::NaturalLeader && !self.workload.goal.is_per_node() {
            // Nothing starts by itself elsewhere.
            elimination.remaining &= self.natural_leaders();
        }
        let live: RoaringBitmap = self.live.iter().copied().collect();
        if missing > 0 && !self.workload.goal.is_per_node() {
            // One goal wants what runs and what is missing: both are explained as one decision.
            elimination.count_as_chosen(&live);
            let ranking = Ranking::new(&self.workload.placement, self.question.part, self.table);
            let mut wants = vec![Want::default(); missing.min(MOST_PLACED) as usize];
            if self.live.is_empty()
                && let Some(first) = wants.first_mut()
            {
                first.location = Location::PreferredDomain;
            }
            let added = Added { instances: self.lost.clone(), ..Added::default() };
            let placed = place(self.table, &ranking, elimination, &added, &wants);
            let new: Vec<u32> = placed.nodes.iter().copied().flatten().collect();
            let mut elimination = placed.elimination.clone();
            if placed.count() == missing {
                // Nothing is left for which a node that is chosen would have been removed.
                let chosen = new.iter().copied().collect::<RoaringBitmap>() | live;
                elimination.stages.iter_mut().for_each(|stage| stage.removed -= &chosen);
                elimination.stages.retain(|stage| !stage.removed.is_empty());
            }
            return (elimination, new, Some(placed));
        }
        // A node is not eliminated because of the instance that it already has.
        for stage in &mut elimination.stages {
            stage.removed -= &live;
        }
        elimination.stages.retain(|stage| !stage.removed.is_empty());
        elimination.remaining |= &live;
        let is_per_node = self.workload.goal.is_per_node();
        let chosen = (&elimination.remaining - &self.given_up_nodes).iter().filter(|_| is_per_node).collect();
        (elimination, chosen, None)
    }

    fn of_node(
        &self,
        (node, placement): (&NodeId, Option<&Placed>),
        whole: PartExplanation,
        elimination: &Elimination,
        chosen: &RoaringBitmap,
    ) -> Option<PartExplanation> {
        let number = self.table.number(node)?;
        let is_chosen = chosen.contains(number);
        let removed_by = elimination.removed_by(number).filter(|_| !is_chosen);
        let sequence: Vec<ExplainedConstraint> = removed_by
            .into_iter()
            .map(|constraint| ExplainedConstraint {
                constraint,
                eliminated: vec![self.eliminated(constraint, number, placement)],
                eliminated_count: 1,
                remaining: Vec::new(),
                remaining_count: 0,
            })
            .collect();
        let summary = match sequence.first() {
            Some(stage) => format!("{} {}", stage.constraint.label(), stage.eliminated[0].reason),
            None if self.live.contains(&number) => {
                // What keeps failing there is not removed by the blocklist while an attempt is in progress.
                let failing = self.table.node(number).marks.blocklisted.as_ref();
                let failing = failing.map(|why| format!("; {why}")).unwrap_or_default();
                self.with_wait(format!("has an instance{failing}"), Some(node))
            }
            None if self.given_up_nodes.contains(number) => {
                let here = self.given_up.iter().copied().filter(|task| task.node.as_ref() == Some(node));
                why_given_up(self.table, here).into_keys().next().unwrap_or_default().to_owned()
            }
            None if is_chosen && self.workload.goal.start == StartMode::Never => {
                "would get an instance when a user starts it: orchestrate is no".to_owned()
            }
            None if is_chosen => "would get an instance".to_owned(),
            None => self.rank(number),
        };
        Some(PartExplanation {
            candidates: vec![node.clone()],
            candidate_count: 1,
            sequence,
            chosen: is_chosen.then(|| node.clone()).into_iter().collect(),
            summary,
            ..whole
        })
    }

    /// Adds what the first instance waits for, or the first on a node: an instance on a lost node, a parent or a child, or with a drain
    /// another member or node. Other reasons may name nodes that the caller may not know.
    fn with_wait(&self, text: String, node: Option<&NodeId>) -> String {
        let is_meant = |(step, blocked): &&(Step, Blocked)| {
            (blocked.is_of_dependency() || step.cause == Cause::Drain)
                && node.is_none_or(|node| step.node() == Some(node))
        };
        if let Some(wait) = lost_instance_wait(self.blocked, node) {
            return format!("{text}; {wait}");
        }
        match self.blocked.iter().find(is_meant) {
            Some((step, blocked)) if step.cause == Cause::Drain => {
                format!("{text}; its drain waits: {}", WithoutNodes(blocked))
            }
            Some((step, blocked)) if step.starts_instance() => format!("{text}; its start waits: {blocked}"),
            Some((_, blocked)) => format!("{text}; its stop waits: {blocked}"),
            None => text,
        }
    }

    fn rank(&self, number: u32) -> String {
        let ranking = Ranking::new(&self.workload.placement, self.question.part, self.table);
        let order = ranking.order(&Elimination::of_eligibility(self.table));
        let policy = match self.workload.placement.order {
            NodeOrder::Listed => "nodes-order",
            NodeOrder::LoadAverage => "load-avg",
            NodeOrder::Score => "score",
            NodeOrder::Spread => "spread",
            NodeOrder::LastStart => "last-start",
            NodeOrder::Shifted(_) => "shift",
            NodeOrder::LeastInstances => "least-instances",
            NodeOrder::Unranked => "none",
        };
        match order.iter().position(|one| *one == number) {
            Some(position) => format!("not needed, rank {} of {} ({policy})", position + 1, order.len()),
            None => format!("not chosen automatically ({policy})"),
        }
    }

    fn sequence(&self, elimination: &Elimination, placement: Option<&Placed>) -> Vec<ExplainedConstraint> {
        let mut remaining = self.table.members().clone();
        let mut constraints: Vec<Constraint> =
            elimination.stages.iter().map(|stage| stage.constraint).collect();
        if self.question.is_complete {
            constraints.extend(Constraint::OF_NODES);
            constraints.extend(Constraint::OF_DOMAINS);
            constraints.extend([Constraint::AlreadyChosen, Constraint::PreferredLocation]);
        }
        constraints.sort();
        constraints.dedup();
        let none = RoaringBitmap::new();
        let explained = constraints.into_iter().map(|constraint| {
            let stage = elimination.stages.iter().find(|stage| stage.constraint == constraint);
            let removed = stage.map_or(&none, |stage| &stage.removed);
            remaining -= removed;
            let examples = removed.iter().take(NODE_COUNT);
            ExplainedConstraint {
                constraint,
                eliminated: examples.map(|number| self.eliminated(constraint, number, placement)).collect(),
                eliminated_count: removed.len(),
                remaining: self.names(&remaining),
                remaining_count: remaining.len(),
            }
        });
        explained.collect()
    }

    fn eliminated(&self, constraint: Constraint, number: u32, placement: Option<&Placed>) -> EliminatedNode {
        let row = self.table.node(number);
        let reason = row.removed_by(constraint, self.table.own(number), self.table.max_per_node(number));
        let by_domain = placement.filter(|_| Constraint::OF_DOMAINS.contains(&constraint));
        let by_domain = || by_domain.and_then(|placement| placement.domain_objection(self.table, number));
        let reason = reason.or_else(by_domain).unwrap_or_else(|| match constraint {
            Constraint::Frozen => Blocked::Frozen { level: FrozenLevel::Workload }.to_string(),
            constraint => constraint.reason_of_decision().to_owned(),
        });
        EliminatedNode { node: row.id.clone(), reason }
    }

    fn names(&self, numbers: &RoaringBitmap) -> Vec<NodeId> {
        numbers.iter().take(NODE_COUNT).map(|number| self.table.node(number).id.clone()).collect()
    }
}

impl PartExplanation {
    /// Returns the numbers in words, without the rest of the summary.
    pub(crate) fn numbers(&self) -> String {
        numbers_of((self.placed, self.requested), self.candidate_count, &self.sequence)
    }
}

/// Returns the numbers of a placement in words.
pub fn numbers_of(counts: (u32, u32), candidates: u64, sequence: &[ExplainedConstraint]) -> String {
    summary(counts, candidates, removed(sequence))
}

fn removed(sequence: &[ExplainedConstraint]) -> impl Iterator<Item = (Constraint, u64)> {
    sequence.iter().map(|stage| (stage.constraint, stage.eliminated_count))
}

/// Returns the last task of a slot that the restart policy gave up; none of another slot.
pub fn given_up(tasks: &SlotTasks) -> Option<&Task> {
    tasks.newest().filter(|newest| tasks.wanted().next().is_none() && newest.ended_by_itself())
}
