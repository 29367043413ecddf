//! Settings of the planner: the numbers that decisions use, with the defaults of the orchestration specification.
//!
//! Modes of the update supervisor are values here, so that there is one engine for all of them (orchestration B11).

pub use evenkeel_domain::orchestration::{FailureAction, OfflinePeerPolicy, Order as UpdateOrder, Pace};
use evenkeel_domain::orchestration::{Ha, Update};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::later;

/// The update settings of a group rollout.
///
/// # Units
/// Seconds.
/// # Source
/// Orchestration 1.2, B11.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSettings {
    /// Slots of one policy being changed at once over all groups; 0 means as many as the other rules allow. Inside a group it is
    /// always one, because there is one claim per group and policy.
    pub parallelism: u32,
    /// Delay between two slots.
    #[serde(rename = "delaySeconds")]
    pub delay_secs: u64,
    /// Stop or start first. The agreement protocol lets a node hold one agreement of a policy only, so on one node starting first
    /// is degraded to stopping first, with an event (orchestration 1.9).
    pub order: UpdateOrder,
    /// When the next slot follows. Members of HA groups whose policies have no tasks are always monitored.
    #[serde(default)]
    pub pace: Pace,
    /// Time the new instance must be seen running before its step counts.
    #[serde(rename = "monitorSeconds")]
    pub monitor_secs: u64,
    /// Share of failed slots that is tolerated.
    pub max_failure_ratio: f64,
    /// The effect of a failure beyond that share.
    pub failure_action: FailureAction,
    /// Time a slot has from the stop of the old instance until the new one is seen running.
    #[serde(rename = "startTimeoutSeconds")]
    pub start_timeout_secs: u64,
    /// Time an instance must be seen *not* running before it counts as failed, so that replacing it loses nothing; until then it
    /// may be starting.
    #[serde(rename = "brokenAfterSeconds")]
    pub broken_after_secs: u64,
    /// Instances that must run elsewhere before one may stop: the minimum available.
    pub min_running: u32,
    /// Rule for members that are down.
    #[serde(rename = "offlinePeerPolicy")]
    pub offline_peers: OfflinePeerPolicy,
}

impl UpdateSettings {
    /// Returns when the next slot may be replaced.
    pub fn next_slot_at(&self, last_step_at: Timestamp) -> Timestamp {
        later(last_step_at, self.delay_secs)
    }

    /// Returns the time from the start of an instance within which its failure is one of the update, in seconds: also while the next slot
    /// waits for its delay.
    pub fn judged_secs(&self) -> u64 {
        self.monitor_secs.max(self.delay_secs.saturating_add(1))
    }

    /// Returns until when a slot is monitored that runs since a time.
    pub fn monitored_until(&self, running_since: Timestamp) -> Timestamp {
        later(running_since, self.monitor_secs)
    }

    /// Returns by when a slot must run whose replacement began at a time.
    pub fn start_deadline(&self, since: Timestamp) -> Timestamp {
        later(since, self.start_timeout_secs)
    }
}

impl Default for UpdateSettings {
    fn default() -> Self {
        Self {
            parallelism: 0,
            delay_secs: 0,
            order: UpdateOrder::StopFirst,
            pace: Pace::Monitored,
            monitor_secs: 5,
            max_failure_ratio: 0.0,
            failure_action: FailureAction::Pause,
            start_timeout_secs: 600,
            broken_after_secs: 120,
            min_running: 1,
            offline_peers: OfflinePeerPolicy::Wait,
        }
    }
}

/// The settings of a deployment policy that override the hub's [`UpdateSettings`].
///
/// # Units
/// Seconds.
/// # Source
/// Orchestration 1.2 (`update` and `ha`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateOverrides {
    /// See [`UpdateSettings::parallelism`].
    pub parallelism: Option<u32>,
    /// See [`UpdateSettings::delay_secs`].
    pub delay_secs: Option<u64>,
    /// See [`UpdateSettings::order`].
    pub order: Option<UpdateOrder>,
    /// See [`UpdateSettings::pace`].
    #[serde(default)]
    pub pace: Option<Pace>,
    /// See [`UpdateSettings::monitor_secs`].
    pub monitor_secs: Option<u64>,
    /// See [`UpdateSettings::max_failure_ratio`].
    pub max_failure_ratio: Option<f64>,
    /// See [`UpdateSettings::failure_action`].
    pub failure_action: Option<FailureAction>,
    /// See [`UpdateSettings::start_timeout_secs`].
    pub start_timeout_secs: Option<u64>,
    /// See [`UpdateSettings::min_running`].
    pub min_running: Option<u32>,
    /// See [`UpdateSettings::offline_peers`].
    pub offline_peers: Option<OfflinePeerPolicy>,
}

impl UpdateOverrides {
    /// Returns the overrides that a policy names.
    pub fn of(update: &Update, ha: &Ha) -> Self {
        Self {
            parallelism: update.parallelism,
            delay_secs: update.delay_seconds,
            order: update.order,
            pace: update.pace,
            monitor_secs: update.monitor_seconds,
            max_failure_ratio: update.max_failure_ratio,
            failure_action: update.failure_action,
            start_timeout_secs: update.start_timeout_seconds,
            min_running: ha.min_running,
            offline_peers: ha.offline_peer_policy,
        }
    }

    /// Returns the effective settings of the policy.
    pub fn over(&self, hub: &UpdateSettings) -> UpdateSettings {
        UpdateSettings {
            parallelism: self.parallelism.unwrap_or(hub.parallelism),
            delay_secs: self.delay_secs.unwrap_or(hub.delay_secs),
            order: self.order.unwrap_or(hub.order),
            pace: self.pace.unwrap_or(hub.pace),
            monitor_secs: self.monitor_secs.unwrap_or(hub.monitor_secs),
            max_failure_ratio: self.max_failure_ratio.unwrap_or(hub.max_failure_ratio),
            failure_action: self.failure_action.unwrap_or(hub.failure_action),
            start_timeout_secs: self.start_timeout_secs.unwrap_or(hub.start_timeout_secs),
            broken_after_secs: hub.broken_after_secs,
            min_running: self.min_running.unwrap_or(hub.min_running),
            offline_peers: self.offline_peers.unwrap_or(hub.offline_peers),
        }
    }
}

/// The settings of the planner.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannerSettings {
    /// Update settings of HA groups.
    pub update: UpdateSettings,
    /// Silence after which a node counts as down.
    pub node_down_after_secs: u64,
    /// Age from which statistics of a node are no longer used for ranking.
    pub metrics_max_age_secs: u64,
    /// Time after the model began to be filled for which instances are not started automatically while a node of their workload unit
    /// has not been heard since.
    pub rejoin_grace_secs: u64,
    /// Silence of a claim's node after which the claim is released.
    pub lock_stale_secs: u64,
    /// Time a proposal waits for its reply.
    pub protocol_timeout_secs: u64,
    /// Time an accepted proposal waits to become final.
    pub agreement_timeout_secs: u64,
    /// Interval between two verifications of a final agreement; 0 disables them.
    pub verification_interval_secs: u64,
    /// Time after which a command without an outcome is issued again.
    pub command_timeout_secs: u64,
    /// First delay after a failed attempt; doubles with each further one.
    pub backoff_base_secs: u64,
    /// Longest delay after failed attempts.
    pub backoff_max_secs: u64,
    /// True if a failed agent upgrade on one member blocks the same management policy on the others.
    pub hold_agents_after_failure: bool,
    /// Validity of the lease of a partition without renewal.
    pub lease_secs: u64,
    /// Number of partitions that share the work.
    pub partition_count: u32,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            update: UpdateSettings::default(),
            node_down_after_secs: 180,
            metrics_max_age_secs: 300,
            rejoin_grace_secs: 90,
            lock_stale_secs: 1800,
            protocol_timeout_secs: 240,
            agreement_timeout_secs: 240,
            verification_interval_secs: 0,
            command_timeout_secs: 30,
            backoff_base_secs: 10,
            backoff_max_secs: 600,
            hold_agents_after_failure: true,
            lease_secs: 6,
            partition_count: 16,
        }
    }
}

/// The times and limits of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitSettings {
    /// Time after which a task that was to stop no longer keeps its successor waiting.
    pub old_task_timeout_secs: u64,
    /// Silence of a node after which its tasks are given up.
    pub orphan_after_secs: u64,
    /// Silence of a node after which it counts as down.
    pub node_down_after_secs: u64,
    /// Longest time between two checks of an instance.
    pub health_interval_max_secs: u64,
    /// Tasks kept for each slot; negative keeps all.
    pub task_history_limit: i32,
    /// True if the replacement of an instance on a lost node may use the buffer of the capacities.
    pub opens_buffer_on_failure: bool,
    /// Time between two moves to nodes that rank better.
    pub rebalance_interval_secs: u64,
    /// Additional monitoring time of an update if an agent does not read tasks, and so reports later.
    pub report_grace_secs: u64,
}

impl Default for UnitSettings {
    fn default() -> Self {
        Self {
            old_task_timeout_secs: 60,
            orphan_after_secs: 86_400,
            node_down_after_secs: 180,
            health_interval_max_secs: 3600,
            task_history_limit: 5,
            opens_buffer_on_failure: false,
            rebalance_interval_secs: 300,
            report_grace_secs: 60,
        }
    }
}

impl UnitSettings {
    /// Returns how much longer an instance is monitored on a node: agents that read no tasks check their instances only from time to time.
    ///
    /// # Source
    /// Orchestration B11.8.
    pub fn report_grace_on(&self, is_capable: bool) -> u64 {
        if is_capable { 0 } else { self.report_grace_secs }
    }
}
