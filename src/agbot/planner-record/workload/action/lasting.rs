//! Actions of users that last: what the whole of a workload, or a part of it, is to reach.
//!
//! The row of the workload holds the one that is in progress, so that every agbot continues with it. Whether
//! it is reached is read from the tasks and nodes of each workload unit (`user_action`);
//! nothing else is stored. Source: orchestration A6.

use std::collections::BTreeSet;

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::workload::{Part, PreparedAction, Slot, Task};

/// An action that lasts until its goal is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastingAction {
    /// Run the wanted number of instances, or one on a node.
    Start,
    /// Run nothing, or nothing on a node.
    Stop,
    /// Start again what runs, one instance at a time.
    Restart,
    /// Run an instance on a node.
    Takeover,
    /// Run the instances on other nodes.
    Switch,
    /// Run the instances on the leaders.
    Giveback,
    /// Recover instances that have failed.
    Recover,
}

impl LastingAction {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Start, Self::Stop, Self::Restart, Self::Takeover, Self::Switch, Self::Giveback, Self::Recover];

    /// Reads the name of an action in a route.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Takeover => "takeover",
            Self::Switch => "switch",
            Self::Giveback => "giveback",
            Self::Recover => "recover",
        }
    }

    /// Returns the kind of the event that reports it.
    pub fn event_kind(self) -> &'static str {
        match self {
            Self::Start => "workload.start",
            Self::Stop => "workload.stop",
            Self::Restart => "workload.restart",
            Self::Takeover | Self::Switch | Self::Giveback => "workload.move",
            Self::Recover => "workload.recover",
        }
    }
}

/// Goals of parts of a workload.
pub type ActionGoals = Vec<(Option<Part>, ActionGoal)>;

/// An action of a user that is in progress.
///
/// # Shape
/// `goals`: what parts of the workload are to reach; a goal without a part is that of every workload unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAction {
    /// Its id.
    pub id: String,
    /// Its name, such as `takeover`.
    pub name: String,
    /// The user who requested it.
    pub actor: String,
    /// The workload unit that the user named.
    pub unit_name: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// True if the gates that a user may lift are lifted.
    pub is_forced: bool,
    /// Goals of the action.
    pub goals: ActionGoals,
}

/// Goal of a user's action for a workload unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionGoal {
    /// The wanted number of instances runs.
    Started,
    /// An instance runs on this node, whatever else runs.
    StartedOn {
        /// The node.
        node: NodeId,
    },
    /// Nothing runs.
    Stopped,
    /// Nothing runs on these nodes.
    StoppedOn {
        /// The nodes.
        nodes: BTreeSet<NodeId>,
    },
    /// The instances that ran when the action was accepted have been started again.
    Restarted {
        /// Only on this node.
        node: Option<NodeId>,
    },
    /// Instances run on these nodes, and on no others.
    Placed {
        /// The nodes.
        nodes: BTreeSet<NodeId>,
        /// Those of them that the user chose: they are not left for a violated placement expression.
        pinned: BTreeSet<NodeId>,
    },
    /// The instances of these slots have been recovered.
    Recovered {
        /// The slots.
        slots: BTreeSet<Slot>,
        /// The nodes of their instances, for the result.
        nodes: BTreeSet<NodeId>,
        /// The actions to take; none takes those of the health policy.
        operation: Option<PreparedAction>,
        /// True if missing instances are created afterwards, as by a start.
        fills_up: bool,
        /// Slots that are checked by their nodes first: a healthy instance needs nothing.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        checks: BTreeSet<Slot>,
    },
}

impl ActionGoal {
    /// Returns whether the number of instances is left alone until the goal is reached.
    pub fn holds_count(&self) -> bool {
        matches!(self, Self::Placed { .. } | Self::Restarted { .. } | Self::StartedOn { .. })
    }

    /// Returns whether a stop or freeze of the whole workload ends with it.
    pub fn is_thawing(&self) -> bool {
        matches!(self, Self::Started | Self::StartedOn { .. } | Self::Placed { .. })
    }

    /// Returns the nodes that it names.
    pub fn nodes(&self) -> Vec<&NodeId> {
        match self {
            Self::StartedOn { node } | Self::Restarted { node: Some(node) } => vec![node],
            Self::StoppedOn { nodes } | Self::Placed { nodes, .. } => nodes.iter().collect(),
            Self::Started | Self::Stopped | Self::Restarted { node: None } | Self::Recovered { .. } => {
                Vec::new()
            }
        }
    }

    /// Returns whether instances that are missing are started as a user's start does it.
    pub fn starts_missing(&self) -> bool {
        matches!(self, Self::Started | Self::Recovered { fills_up: true, .. })
    }

    /// Returns whether it names a node as a destination.
    pub fn has_destination(&self, node: &NodeId) -> bool {
        match self {
            Self::StartedOn { node: one } => one == node,
            Self::Placed { nodes, .. } => nodes.contains(node),
            _ => false,
        }
    }
}

impl UserAction {
    /// Returns what a part of the workload is to reach.
    pub fn goal_of(&self, part: &Part) -> Option<&ActionGoal> {
        let is_meant = |one: &Option<Part>| one.as_ref().is_none_or(|one| one == part);
        self.goals.iter().find(|(one, _)| is_meant(one)).map(|(_, goal)| goal)
    }

    /// Returns the nodes whose instances are recovered; none for other actions.
    pub fn members(&self) -> Option<Vec<&NodeId>> {
        (self.name == LastingAction::Recover.name()).then(|| {
            let nodes = self.goals.iter().filter_map(|(_, goal)| match goal {
                ActionGoal::Recovered { nodes, .. } => Some(nodes),
                _ => None,
            });
            nodes.flatten().collect()
        })
    }

    /// Returns the action without the members that a check found healthy.
    pub fn without_healthy<'t>(&self, tasks: impl Iterator<Item = &'t Task>) -> Self {
        let is_healthy = |task: &&Task| {
            task.health.ended_order.as_ref().is_some_and(|ended| ended.is_checked && ended.id == self.id)
        };
        let healthy: BTreeSet<NodeId> =
            tasks.filter(is_healthy).filter_map(|task| task.node.clone()).collect();
        let mut next = self.clone();
        for (_, goal) in &mut next.goals {
            if let ActionGoal::Recovered { nodes, .. } = goal {
                nodes.retain(|node| !healthy.contains(node));
            }
        }
        next
    }

    /// Returns why no other action may begin.
    pub fn conflict(&self) -> String {
        format!(
            "orchestration {} ({}) in progress: wait until it ends, or use the action abort",
            self.id,
            self.expect()
        )
    }

    /// Returns the state that the action leads to, as the API shows it.
    pub fn expect(&self) -> String {
        let names = |nodes: &BTreeSet<NodeId>| {
            nodes.iter().map(|node| node.name().to_owned()).collect::<Vec<_>>().join(",")
        };
        match self.goals.first().map(|(_, goal)| goal) {
            Some(ActionGoal::Placed { pinned, .. }) if !pinned.is_empty() => {
                format!("placed@{}", names(pinned))
            }
            Some(ActionGoal::Placed { .. }) => "placed".to_owned(),
            Some(ActionGoal::Started | ActionGoal::StartedOn { .. }) | None => "started".to_owned(),
            Some(ActionGoal::Stopped | ActionGoal::StoppedOn { .. }) => "stopped".to_owned(),
            Some(ActionGoal::Restarted { .. }) => "restarted".to_owned(),
            Some(ActionGoal::Recovered { .. }) => "recovered".to_owned(),
        }
    }
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionEnd {
    /// The action.
    pub action: UserAction,
    /// Reason why it failed; none when it reached its goal.
    pub failure: Option<String>,
}
