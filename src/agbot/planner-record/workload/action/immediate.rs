//! Actions of users that take effect at once (freeze, thaw, clear, abort, pause, resume, rollback), and the beginning of those that last.
//!
//! A pure step; the caller stores the row in the same transaction that read it, and every agbot follows it
//! from there. State of single nodes is in their rows. Source: orchestration A6, A11, A12, B12.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::workload::{ActionGoal, Instance, Part, UpdateEvent, UpdateState, UserAction, WorkloadRecord};

/// An action that a user requests on a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadAction {
    /// Change nothing that runs, and start nothing.
    Freeze,
    /// End a freeze.
    Thaw,
    /// Forget failed starts and stops.
    Clear,
    /// Give the action in progress up.
    Abort,
    /// An action on the update.
    Update(RolloutAction),
    /// Let the update continue without the gates that a user may lift.
    ForceUpdate,
}

impl WorkloadAction {
    /// The names of these actions, as the API has them.
    pub const NAMES: [&str; 7] = ["freeze", "thaw", "clear", "abort", "pause", "resume", "rollback"];

    /// Reads the name of an action in a route.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "freeze" => Self::Freeze,
            "thaw" => Self::Thaw,
            "clear" => Self::Clear,
            "abort" => Self::Abort,
            "pause" => Self::Update(RolloutAction::Pause),
            "resume" => Self::Update(RolloutAction::Resume),
            "rollback" => Self::Update(RolloutAction::Rollback),
            _ => return None,
        })
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Clear => "clear",
            Self::Abort => "abort",
            Self::Update(RolloutAction::Pause) => "pause",
            Self::Update(RolloutAction::Resume) | Self::ForceUpdate => "resume",
            Self::Update(RolloutAction::Abort) => "abort",
            Self::Update(RolloutAction::Rollback) => "rollback",
            Self::Update(RolloutAction::Retry) => "retry",
        }
    }

    /// Returns the action that a user forces; none when it cannot be forced.
    ///
    /// # Source
    /// Orchestration D11-S3, E4.5.
    pub fn forced(self) -> Option<Self> {
        (self == Self::Update(RolloutAction::Resume)).then_some(Self::ForceUpdate)
    }

    /// Returns the kind of the event that reports it.
    pub fn event_kind(self) -> &'static str {
        match self {
            Self::Freeze => "instance.freeze",
            Self::Thaw => "instance.thaw",
            Self::Clear => "instance.clear",
            Self::Abort => "orchestration.aborted",
            Self::Update(RolloutAction::Pause | RolloutAction::Abort) => "update.paused",
            Self::Update(RolloutAction::Resume | RolloutAction::Retry) => "update.resumed",
            Self::Update(RolloutAction::Rollback) => "update.rollback-started",
            Self::ForceUpdate => "update.forced",
        }
    }

    /// Returns the kind of the event that reports it; `next`: the row of the workload after it.
    pub fn event_kind_after(self, next: &WorkloadRecord) -> &'static str {
        match self {
            Self::Update(RolloutAction::Pause | RolloutAction::Abort)
                if next.update.state == UpdateState::RollbackPaused =>
            {
                "update.rollback-paused"
            }
            _ => self.event_kind(),
        }
    }

    /// Returns whether it can concern a single node.
    pub fn has_nodes(self) -> bool {
        matches!(self, Self::Freeze | Self::Thaw | Self::Clear)
    }
}

/// Summary of the instances of a workload when a user acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstanceSummary {
    /// True if an instance is frozen by itself.
    pub is_any_frozen: bool,
    /// True if an instance is wanted: nothing has ordered it to stop.
    pub is_any_wanted: bool,
}

impl WorkloadRecord {
    /// Returns the row with an action that begins.
    ///
    /// # Errors
    /// A message, when another one is in progress.
    pub fn begin(&self, action: UserAction) -> Result<Self, String> {
        if let Some(other) = &self.action {
            return Err(other.conflict());
        }
        let goals = || action.goals.iter().map(|(_, goal)| goal);
        let mut next = Self { revision: self.revision + 1, ..self.clone() };
        if goals().any(|goal| *goal == ActionGoal::Stopped) {
            (next.is_stopped, next.is_frozen) = (true, false);
        } else if goals().any(ActionGoal::is_thawing) {
            (next.is_stopped, next.is_frozen) = (false, false);
        }
        next.action = Some(action);
        Ok(next)
    }

    /// Checks that no action in progress forbids another one.
    ///
    /// # Errors
    /// A message with the action in progress.
    pub fn check_free(&self, action: WorkloadAction) -> Result<(), String> {
        let is_allowed = matches!(
            action,
            WorkloadAction::Abort
                | WorkloadAction::Clear
                | WorkloadAction::Freeze
                | WorkloadAction::Update(RolloutAction::Pause)
        );
        // Instances that a user froze meanwhile block the action.
        let is_allowed = is_allowed || action == WorkloadAction::Thaw && !self.is_stopped;
        match &self.action {
            Some(other) if !is_allowed => Err(other.conflict()),
            _ => Ok(()),
        }
    }

    /// Returns the row after a user's action on the whole workload; `instances`: how its instances are.
    ///
    /// # Errors
    /// A message, when the workload's state does not allow the action.
    pub fn act(
        &self,
        action: WorkloadAction,
        instances: InstanceSummary,
        requester: Requester<'_>,
    ) -> Result<Self, String> {
        self.check_free(action)?;
        let mut next = Self { revision: self.revision + 1, ..self.clone() };
        let policy = &self.policy;
        match action {
            WorkloadAction::Abort if self.action.is_none() => {
                return Err(format!("no action of {policy} is in progress"));
            }
            WorkloadAction::Freeze if self.is_frozen || self.is_stopped => {
                let state = if self.is_stopped { "stopped" } else { "frozen" };
                return Err(format!("{policy} is {state} already"));
            }
            WorkloadAction::Thaw if self.is_stopped => {
                return Err(format!("{policy} is stopped: start it with the action start"));
            }
            WorkloadAction::Thaw if !self.is_frozen && !instances.is_any_frozen => {
                return Err(format!("{policy} is not frozen"));
            }
            WorkloadAction::Abort => {
                // Instances that still wait for their children stay up (A8.4).
                next.is_stopped = self.is_stopped && !instances.is_any_wanted;
                next.action = None;
            }
            WorkloadAction::Freeze => next.is_frozen = true,
            WorkloadAction::Thaw => next.is_frozen = false,
            WorkloadAction::Clear => {}
            WorkloadAction::Update(action) => next.act_on_update(action, requester)?,
            WorkloadAction::ForceUpdate => {
                if !self.update.is_rolling() {
                    next.act_on_update(RolloutAction::Resume, requester)?;
                }
                next.update.is_forced = true;
            }
        }
        Ok(next)
    }

    fn act_on_update(&mut self, action: RolloutAction, requester: Requester<'_>) -> Result<(), String> {
        let actor = requester.actor;
        let policy = &self.policy;
        if action == RolloutAction::Retry && !self.update.is_paused() {
            // Versions of a rollback in progress are not exchanged under it.
            let retried = self.versions.retry().filter(|_| !self.update.is_rolling());
            self.versions = retried.ok_or_else(|| {
                format!("nothing failed in the update of {policy}: write another version to update it")
            })?;
            // Possible in every state. Earlier failures do not count again.
            let _ = self.update.request(UpdateEvent::Written, "", requester.now);
            self.update.counts_from = Some(requester.now);
            return Ok(());
        }
        let (event, message) = match action {
            RolloutAction::Pause => (UpdateEvent::Pause, format!("paused by {actor}")),
            RolloutAction::Abort => (UpdateEvent::Pause, format!("aborted by {actor}")),
            RolloutAction::Resume | RolloutAction::Retry => {
                (UpdateEvent::Resume, format!("resumed by {actor}"))
            }
            RolloutAction::Rollback => {
                (UpdateEvent::RollbackRequested, format!("manually requested by {actor}"))
            }
        };
        let state = self.update.state;
        self.update.request(event, &message, requester.now).map_err(|_| {
            let name = WorkloadAction::Update(action).name();
            format!("the update of {} cannot {name}: {}", self.policy, state_text(state))
        })?;
        if action == RolloutAction::Rollback {
            self.versions = self
                .versions
                .roll_back()
                .ok_or_else(|| format!("{} has no previous version to return to", self.policy))?;
        }
        Ok(())
    }
}

fn state_text(state: UpdateState) -> &'static str {
    match state {
        UpdateState::None => "there is none",
        UpdateState::Updating => "it is in progress",
        UpdateState::Paused => "it is paused",
        UpdateState::Completed => "it is completed",
        UpdateState::RollbackStarted => "it is being rolled back",
        UpdateState::RollbackPaused => "its rollback is paused",
        UpdateState::RollbackCompleted => "it was rolled back",
    }
}

impl Instance {
    /// Returns the row of a node after a user's action on it.
    ///
    /// # Errors
    /// A message, when its state does not allow the action.
    pub fn act(&self, action: WorkloadAction, now: Timestamp) -> Result<Self, String> {
        let mut next = self.clone();
        match action {
            WorkloadAction::Freeze if self.is_frozen => return Err("is frozen already".to_owned()),
            WorkloadAction::Thaw if !self.is_frozen => return Err("is not frozen by itself".to_owned()),
            WorkloadAction::Freeze => next.is_frozen = true,
            WorkloadAction::Thaw => next.is_frozen = false,
            WorkloadAction::Clear => (next.failed, next.cleared_at) = (None, Some(now)),
            WorkloadAction::Abort | WorkloadAction::Update(_) | WorkloadAction::ForceUpdate => {}
        }
        Ok(next)
    }

    /// Returns the row of a node as an action begins; `part`: the part of the workload that the node belongs to.
    pub fn begin(&self, node: &NodeId, part: Option<&Part>, action: &UserAction) -> Self {
        let mut next = self.clone();
        let is_meant = |one: &Option<Part>| one.is_none() || one.as_ref() == part;
        for (_, goal) in action.goals.iter().filter(|(one, _)| is_meant(one)) {
            if goal.has_destination(node) {
                next.failed = None;
            }
            match goal {
                ActionGoal::Started => next.is_frozen = false,
                ActionGoal::StartedOn { node: one } if one == node => next.is_frozen = false,
                ActionGoal::Placed { pinned, .. } if !pinned.is_empty() => next.is_frozen = false,
                ActionGoal::Placed { nodes, pinned } if pinned.is_empty() && nodes.contains(node) => {
                    next.pinned = None;
                }
                // It stays so, so that nothing starts there by itself.
                ActionGoal::StoppedOn { nodes } if nodes.contains(node) => next.is_frozen = true,
                // Failures there are cleared, so that it is retried.
                ActionGoal::Recovered { nodes, .. } if nodes.contains(node) => next.failed = None,
                _ => {}
            }
            // The stop is tried again.
            if !matches!(
                goal,
                ActionGoal::Started | ActionGoal::StartedOn { .. } | ActionGoal::Recovered { .. }
            ) {
                next.failed = next.failed.filter(|failed| !failed.is_of_stop);
            }
        }
        next
    }
}

impl UserAction {
    /// Returns the rows of nodes that differ as the action begins; `rows`: those that are stored, `parts`: the part of the workload that
    /// each node belongs to.
    pub fn changed_rows(
        &self,
        rows: &BTreeMap<NodeId, Instance>,
        parts: &BTreeMap<NodeId, Part>,
    ) -> Vec<(NodeId, Instance)> {
        let named = self.goals.iter().flat_map(|(_, goal)| goal.nodes());
        let nodes: BTreeSet<&NodeId> = rows.keys().chain(named).collect();
        let changed = |node: &NodeId| {
            let before = rows.get(node).cloned().unwrap_or_default();
            let after = before.begin(node, parts.get(node), self);
            (after != before).then(|| (node.clone(), after))
        };
        nodes.into_iter().filter_map(changed).collect()
    }
}

/// An action that a user requests on a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutAction {
    /// Finish the slot in work and start no further one.
    Pause,
    /// Continue with the next slot.
    Resume,
    /// Pause, and record that the rollout is not meant to continue.
    Abort,
    /// Return the changed members to their previous version.
    Rollback,
    /// Try the version that failed again.
    Retry,
}

impl RolloutAction {
    /// Reads the name of an action in a route or command.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "abort" => Some(Self::Abort),
            "rollback" | "undo" => Some(Self::Rollback),
            "retry" => Some(Self::Retry),
            _ => None,
        }
    }

    /// Returns the kind of the event that reports the action.
    pub fn event_kind(self) -> &'static str {
        match self {
            Self::Pause => "rollout.paused",
            Self::Resume => "rollout.resumed",
            Self::Abort => "rollout.aborted",
            Self::Rollback => "rollout.rollback-started",
            Self::Retry => "rollout.retried",
        }
    }
}

/// The user who requests an action, and when.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// The user, `org/user`.
    pub actor: &'a str,
    /// When.
    pub now: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, deployment_policy};
    use crate::workload::Failure;

    fn by() -> Requester<'static> {
        Requester { actor: "o/ann", now: at(9) }
    }

    #[test]
    fn action_against_the_state_is_refused_with_the_reason() {
        let record = WorkloadRecord::new(&deployment_policy());
        let refused = |record: &WorkloadRecord, action| {
            record.act(action, InstanceSummary::default(), by()).unwrap_err()
        };
        let paused = WorkloadAction::Update(RolloutAction::Pause);
        assert_eq!(refused(&record, paused), "the update of o/p cannot pause: there is none");
        let back = WorkloadAction::Update(RolloutAction::Rollback);
        assert_eq!(refused(&record, back), "o/p has no previous version to return to");
        assert_eq!(refused(&record, WorkloadAction::Thaw), "o/p is not frozen");
        assert_eq!(refused(&record, WorkloadAction::Abort), "no action of o/p is in progress");
        let frozen = record.act(WorkloadAction::Freeze, InstanceSummary::default(), by()).unwrap();
        assert!(frozen.is_frozen && frozen.revision == record.revision + 1);
        assert_eq!(refused(&frozen, WorkloadAction::Freeze), "o/p is frozen already");
        let stopped = frozen.begin(action(ActionGoal::Stopped)).unwrap();
        assert!(stopped.is_stopped && !stopped.is_frozen);
        assert!(refused(&stopped, WorkloadAction::Thaw).contains("orchestration 7 (stopped) in progress"));
        let stopped = stopped.act(WorkloadAction::Abort, InstanceSummary::default(), by()).unwrap();
        assert!(refused(&stopped, WorkloadAction::Thaw).contains("start it"));
        assert!(!stopped.begin(action(ActionGoal::Started)).unwrap().is_stopped);
        let waiting = record.begin(action(ActionGoal::Stopped)).unwrap();
        let summary = InstanceSummary { is_any_wanted: true, ..InstanceSummary::default() };
        assert!(!waiting.act(WorkloadAction::Abort, summary, by()).unwrap().is_stopped);
    }

    fn action(goal: ActionGoal) -> UserAction {
        UserAction {
            id: "7".into(),
            name: "test".into(),
            actor: "o/ann".into(),
            unit_name: None,
            accepted_at: at(9),
            is_forced: false,
            goals: vec![(None, goal)],
        }
    }

    /// A6, rule 1.
    #[test]
    fn one_action_at_a_time_but_safety_states_are_always_possible() {
        let record = WorkloadRecord::new(&deployment_policy());
        let moving = record.begin(action(ActionGoal::Restarted { node: None })).unwrap();
        let refused = moving.begin(action(ActionGoal::Started)).unwrap_err();
        assert!(refused.starts_with("orchestration 7 (restarted) in progress"), "{refused}");
        assert!(
            moving
                .act(WorkloadAction::Update(RolloutAction::Rollback), InstanceSummary::default(), by())
                .is_err()
        );
        for allowed in [WorkloadAction::Freeze, WorkloadAction::Clear, WorkloadAction::Abort] {
            assert!(moving.act(allowed, InstanceSummary::default(), by()).is_ok(), "{allowed:?}");
        }
        assert_eq!(moving.act(WorkloadAction::Abort, InstanceSummary::default(), by()).unwrap().action, None);
    }

    /// B11.9: a rollback by hand makes the previous version current.
    #[test]
    fn rollback_by_hand_returns_to_the_previous_version() {
        let mut policy = deployment_policy();
        let first = WorkloadRecord::new(&policy);
        (policy.last_updated, policy.versions[0].version) = (Some(at(1)), "2.0.0".into());
        let second = first.written(&policy, at(1)).unwrap();
        let back = WorkloadAction::Update(RolloutAction::Rollback);
        let next = second.act(back, InstanceSummary::default(), by()).unwrap();
        assert_eq!(
            (next.versions.current, next.update.state),
            (first.versions.current, UpdateState::RollbackStarted)
        );
        assert_eq!(next.update.message, "manually requested by o/ann");
        assert!(next.act(back, InstanceSummary::default(), by()).is_err());

        // The same document again, even with other settings, is no reason to run a version that was rolled back; a user's retry is.
        let retry = WorkloadAction::Update(RolloutAction::Retry);
        assert!(
            next.act(retry, InstanceSummary::default(), by()).unwrap_err().starts_with("nothing failed"),
            "it is still going back"
        );
        let mut done = next.clone();
        done.update.state = UpdateState::RollbackCompleted;
        policy.last_updated = Some(at(2));
        let edited = done.written(&policy, at(2)).unwrap();
        assert_eq!((edited.versions, edited.update.state), (next.versions, UpdateState::RollbackCompleted));
        let again = edited.act(back, InstanceSummary::default(), by()).unwrap_err();
        assert_eq!(again, "o/p has no previous version to return to");
        let retried = edited.act(retry, InstanceSummary::default(), by()).unwrap();
        assert_eq!((retried.versions, retried.update.state), (second.versions, UpdateState::None));
        assert_eq!(retried.update.counts_from, Some(at(9)), "what failed before does not count again");
    }

    #[test]
    fn clear_forgets_failures_of_a_node() {
        let failed = Instance {
            failed: Some(Failure { message: "exit 1".into(), version: 1, is_of_stop: false }),
            ..Instance::default()
        };
        let cleared = failed.act(WorkloadAction::Clear, at(9)).unwrap();
        assert_eq!((cleared.failed, cleared.cleared_at), (None, Some(at(9))));
        assert!(failed.act(WorkloadAction::Thaw, at(9)).is_err());
    }
}
