//! A node as to one workload unit, and why a constraint removes it.
//!
//! Source: orchestration D3.

use std::sync::Arc;

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::{
    blocklist::BlocklistKey,
    facts::{Availability, Guardian, NodeMonitorState},
    report::{Blocked, Constraint, FrozenLevel},
    statistics::NodeStatistics,
};
use jiff::Timestamp;

use super::{
    Buffer, NodeAffinity, NodeRoom,
    sparse::{Sparse, Usual},
};

/// The outcome of a test outside of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Passed.
    Passed,
    /// Failed, with the reason in words.
    Failed(Arc<str>),
    /// Cannot be decided now, with the reason in words: nothing starts, and what runs continues.
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

/// Liveness of a node.
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
        /// Activity of the agent.
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
    /// True if the node belongs to the workload unit; an instance may still run on a node that left.
    pub is_member: bool,
    /// Result of the policy's selection of the node.
    pub eligibility: Verdict,
    /// Value of the placement expression on the node.
    pub expression: Verdict,
    /// Affinity between the unit and the workloads on the node.
    pub affinity: Sparse<NodeAffinity>,
    /// Room that its capacities leave; none when nothing limits the workload on the node.
    pub room: Option<Box<NodeRoom>>,
    /// Fault domain of the node, with the enclosing domains, such as `fd:/dc/rack`; none when not set.
    pub fault_domain: Option<Arc<str>>,
    /// Upgrade domain of the node; none when not set.
    pub upgrade_domain: Option<Arc<str>>,
    /// Liveness of the node.
    pub state: NodeState,
    /// When it was alive again after it had been down.
    pub back_at: Option<Timestamp>,
    /// Availability that the operator set.
    pub availability: Availability,
    /// True if a drain also removes the last instance of an HA group from the node.
    pub is_drain_forced: bool,
    /// True if the node is being upgraded, after which instances that left it return.
    pub is_in_upgrade: bool,
    /// Frozen level, apart from the workload.
    pub frozen: Option<FrozenLevel>,
    /// Past events of the workload on the node.
    pub marks: Sparse<NodeMarks>,
    /// True if a user placed the instance.
    pub is_pinned: bool,
    /// True if the agent can hold two instances of one workload, and a prepared one.
    pub is_capable: bool,
    /// True if the agent names itself, and so supports later additions of the hub.
    pub is_named: bool,
    /// State of the guardian that enforces the leases of the agent.
    pub guardian: Guardian,
    /// True if the only instance that the agent can hold belongs to another workload unit.
    pub is_occupied: bool,
    /// Its HA group.
    pub group: Option<GroupId>,
    /// Instances of all workloads on it.
    pub instance_count: u32,
    /// Its statistics; none without recent ones.
    pub statistics: Option<Box<NodeStatistics>>,
    /// The compatibility version of its agent; none if it announces none.
    pub compat_version: Option<i64>,
}

/// Past events of a workload on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeMarks {
    /// Reason why the last start of the workload failed on it.
    pub start_failed: Option<Arc<str>>,
    /// Reason why the last stop of the workload failed on it.
    pub stop_failed: Option<Arc<str>>,
    /// Reason why the node gets no start of the current version, until when.
    pub blocklisted: Option<Box<Blocked>>,
    /// The row of the blocklist whose block is over, so that the next start is a probe.
    pub probe: Option<Box<BlocklistKey>>,
    /// When a user last cleared its failures: earlier restarts do not count.
    pub cleared_at: Option<Timestamp>,
    /// When a user confirmed that no instance of the workload runs on it.
    pub fenced_at: Option<Timestamp>,
    /// When the workload last started on it.
    pub last_start_at: Option<Timestamp>,
    /// True if the version list of the workload has versions that were not tried on it often enough.
    pub has_versions_left: bool,
}

impl Usual for NodeMarks {
    const USUAL: &'static Self = &Self {
        start_failed: None,
        stop_failed: None,
        blocklisted: None,
        probe: None,
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
            back_at: None,
            availability: Availability::Active,
            is_drain_forced: false,
            is_in_upgrade: false,
            frozen: None,
            marks: Sparse::default(),
            is_pinned: false,
            is_capable: true,
            is_named: true,
            guardian: Guardian::Running,
            is_occupied: false,
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
            Constraint::MaxPerNode if self.is_occupied => {
                Some("runs an instance of another unit, and its agent can hold one only".to_owned())
            }
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

    /// Returns why nothing starts on the node, whatever it is.
    pub fn unavailable(&self) -> Option<Blocked> {
        match (self.state, self.availability) {
            (NodeState::NeverHeard, _) => Some(Blocked::NeverHeard),
            (NodeState::Down { since }, _) => Some(Blocked::NodeDown { since }),
            (NodeState::Away { monitor_state, since }, _) => Some(Blocked::NodeAway { monitor_state, since }),
            (NodeState::Ready, Availability::Pause) => Some(Blocked::NodePaused),
            (NodeState::Ready, Availability::Drain) => Some(Blocked::NodeDraining),
            (NodeState::Ready, Availability::Active) => None,
        }
    }

    pub(super) fn is_removed_by(&self, constraint: Constraint) -> bool {
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
