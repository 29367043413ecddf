//! One rollout in detail: its waves, its steps, the time left, and which nodes failed.
//!
//! Read from the model for people; nothing here decides. A policy with tasks is read slot by slot, one without by its rows of each HA group.
//! Very large rollouts are read in part, so that the cost is bounded. Source: orchestration B11, B12.

mod groups;
mod tasks;

use std::collections::BTreeSet;

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_model::model::{CommonCauses, Model, NodeSet};
use evenkeel_planner_record::{
    forecast::{Forecast, MeasuredSteps, Pacing, RemainingSteps, forecast},
    stable_hash::stable_hash,
    workload::UpdateState,
};
use jiff::Timestamp;

/// Slots, or members of HA groups, that are read at most.
const MOST_READ: usize = 4_096;
/// Measured durations that are used at most, of the rollout and of earlier ones each.
const MOST_MEASURED: usize = 512;

/// Kind of a part of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaveKind {
    /// Everything.
    All,
    /// An HA group, of which one member is changed at a time.
    HaGroup,
    /// An upgrade domain, which is finished before the next one begins.
    UpgradeDomain,
}

impl WaveKind {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::HaGroup => "ha-group",
            Self::UpgradeDomain => "upgrade-domain",
        }
    }
}

/// A part of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// Its kind.
    pub kind: WaveKind,
    /// Name of the group, without its organization, or of the domain; empty for everything.
    pub name: String,
    /// Steps.
    pub total: u32,
    /// Steps that are done.
    pub done: u32,
    /// Steps that have begun.
    pub in_work: u32,
    /// Steps that failed.
    pub failed: u32,
    /// When its first step began.
    pub started_at: Option<Timestamp>,
    /// When its last step was finished; none before that.
    pub finished_at: Option<Timestamp>,
}

impl Wave {
    fn new(kind: WaveKind, name: &str) -> Self {
        let name = name.to_owned();
        Self { kind, name, total: 0, done: 0, in_work: 0, failed: 0, started_at: None, finished_at: None }
    }

    /// Returns whether steps of it remain.
    pub fn is_open(&self) -> bool {
        self.done + self.failed < self.total
    }
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// The new instance is not seen running yet.
    Starting,
    /// It runs, and is watched.
    Watched,
    /// It failed.
    Failed,
    /// It is done.
    Done,
}

impl StepState {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Watched => "watched",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }
}

/// A step that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepStatus {
    /// The node; none before one is chosen.
    pub node: Option<NodeId>,
    /// Its wave.
    pub wave: String,
    /// Its state.
    pub state: StepState,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When the new instance was first seen running.
    pub running_at: Option<Timestamp>,
    /// Until when it is watched.
    pub watched_until: Option<Timestamp>,
    /// The evidence of its state, in words; it may be an error that the node reported.
    pub evidence: String,
}

/// With what failing nodes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedWith {
    /// The nodes of steps that are done or failed.
    Attempted,
    /// All nodes that the policy selects: no step has succeeded, or there are very many.
    Selected,
}

impl ComparedWith {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Attempted => "attempted",
            Self::Selected => "selected",
        }
    }
}

/// A rollout in detail.
#[derive(Debug, Clone)]
pub struct RolloutDetail {
    /// Its state.
    pub state: UpdateState,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The service.
    pub service: ServiceKey,
    /// The parts, in the order in which they are changed.
    pub waves: Vec<Wave>,
    /// The steps that have begun: those in work, those that failed, and the others, the newest first.
    pub steps: Vec<StepStatus>,
    /// The pace at which steps may follow each other.
    pub pacing: Pacing,
    /// The steps that remain.
    pub remaining: RemainingSteps,
    /// Durations of steps.
    pub measured: MeasuredSteps,
    /// Nodes on which the version failed.
    pub failing: BTreeSet<NodeId>,
    /// Nodes on which it runs.
    pub succeeded: BTreeSet<NodeId>,
    /// True if only a part was read: numbers are extrapolated.
    pub is_sampled: bool,
}

/// Returns the rollout of a policy in detail; none when there is none.
pub fn detail_of(model: &Model, policy: &PolicyId, now: Timestamp) -> Option<RolloutDetail> {
    match model.workload(policy).zip(model.workload_of(policy)) {
        Some((record, workload)) => tasks::detail(model, record, workload, now),
        None => groups::detail(model, model.policy(policy)?, now),
    }
}

impl RolloutDetail {
    fn new(state: UpdateState, service: ServiceKey, pacing: Pacing) -> Self {
        Self {
            state,
            started_at: None,
            service,
            waves: Vec::new(),
            steps: Vec::new(),
            pacing,
            remaining: RemainingSteps::default(),
            measured: MeasuredSteps::default(),
            failing: BTreeSet::new(),
            succeeded: BTreeSet::new(),
            is_sampled: false,
        }
    }

    /// Returns whether steps remain, whether it is paused or not.
    pub fn is_open(&self) -> bool {
        use UpdateState::{Paused, RollbackPaused, RollbackStarted, Updating};
        matches!(self.state, Updating | RollbackStarted | Paused | RollbackPaused)
    }

    /// Returns the time that it still takes, from when nothing blocks it; none when it is over.
    pub fn time_left(&self, policy: &PolicyId) -> Option<Forecast> {
        let seed = stable_hash(&[policy.as_str()]);
        let found = || forecast(&self.remaining, &self.pacing, &self.measured, seed);
        self.is_open().then(found).flatten()
    }

    /// Returns what the nodes on which the version failed have in common; `shown`: the nodes that the caller may read, none for all.
    pub fn common_causes(
        &self,
        model: &Model,
        policy: &PolicyId,
        shown: Option<&NodeSet>,
        limit: usize,
    ) -> (ComparedWith, CommonCauses) {
        let visible = |set: NodeSet| shown.map_or_else(|| set.clone(), |shown| set.and(shown));
        let failing = visible(model.set_of_nodes(&self.failing));
        let succeeded = visible(model.set_of_nodes(&self.succeeded));
        let (reference, whole) = match succeeded.is_empty() || self.is_sampled {
            false => (ComparedWith::Attempted, succeeded),
            true => (ComparedWith::Selected, visible(model.set_of_policy(policy))),
        };
        (reference, model.common_causes(&failing, &whole, Some(&self.service), limit))
    }

    /// Orders the steps, and keeps what is used of the measured ones.
    fn finish(mut self) -> Self {
        let key = |step: &StepStatus| {
            let is_newest_first = std::cmp::Reverse(step.running_at.max(step.started_at));
            let order = match step.state {
                StepState::Starting | StepState::Watched => 0,
                StepState::Failed => 1,
                StepState::Done => 2,
            };
            (order, is_newest_first, step.node.clone())
        };
        self.steps.sort_by_cached_key(key);
        self.measured.own.truncate(MOST_MEASURED);
        self.measured.earlier.truncate(MOST_MEASURED);
        self
    }
}
