//! Restart of instances that end, and their replacement by another version.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Mode;

/// Restart of an instance that ended.
///
/// # Source
/// Orchestration B10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restart {
    /// Condition of a restart.
    #[schema(required = false)]
    pub condition: RestartCondition,
    /// Time before it is started again, in seconds.
    #[schema(required = false, maximum = 604_800)]
    pub delay_seconds: u64,
    /// Maximum number of restarts of a slot; 0 is unlimited.
    #[schema(required = false)]
    pub max_attempts: u32,
    /// Age up to which restarts are counted, in seconds; 0 counts all.
    #[schema(required = false, maximum = 604_800)]
    pub window_seconds: u64,
    /// Action after the last attempt.
    #[schema(required = false)]
    pub on_exhausted: OnExhausted,
}

impl Restart {
    pub(super) fn of_mode(mode: Mode) -> Self {
        Self {
            condition: RestartCondition::Any,
            delay_seconds: 5,
            max_attempts: 0,
            window_seconds: 0,
            on_exhausted: if mode.is_topology() { OnExhausted::Switch } else { OnExhausted::None },
        }
    }
}

/// Condition for restarting an instance that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartCondition {
    /// Never.
    None,
    /// Unless it completed.
    OnFailure,
    /// Always.
    Any,
}

/// Action after the last attempt to restart an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnExhausted {
    /// The slot stays down.
    None,
    /// Another node is tried.
    Switch,
}

/// Update of instances; `None` stands for the setting of the hub.
///
/// # Source
/// Orchestration B11.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Update {
    /// Slots in work at once; 0 is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100_000)]
    pub parallelism: Option<u32>,
    /// Time between two slots, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub delay_seconds: Option<u64>,
    /// Order of stop and start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// When the next slot follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Time that a new instance must have run before its slot is finished, and during which its failure counts as a
    /// failure of the update, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub monitor_seconds: Option<u64>,
    /// Share of failures that is tolerated, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub max_failure_ratio: Option<f64>,
    /// Action on more failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_action: Option<FailureAction>,
    /// Time in which a new instance must be seen running, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub start_timeout_seconds: Option<u64>,
}

/// Order of stop and start when an instance is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The old instance stops before the new one starts.
    StopFirst,
    /// The new instance is seen running before the old one stops.
    StartFirst,
}

/// When the slot after a replaced one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// When the new instance has run for the monitoring time.
    #[default]
    Monitored,
    /// As soon as the new instance is seen running.
    Running,
}

/// Action on failures beyond the tolerated share of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureAction {
    /// It is paused.
    Pause,
    /// It continues.
    Continue,
    /// It is reverted.
    Rollback,
}

impl FromStr for Order {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "stop-first" => Ok(Self::StopFirst),
            "start-first" => Ok(Self::StartFirst),
            _ => Err("must be stop-first or start-first".to_owned()),
        }
    }
}

impl FromStr for FailureAction {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "pause" => Ok(Self::Pause),
            "rollback" => Ok(Self::Rollback),
            "continue" => Ok(Self::Continue),
            _ => Err("must be pause, rollback or continue".to_owned()),
        }
    }
}
