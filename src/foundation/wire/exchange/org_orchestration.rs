//! The object `orchestration` of an organization: settings for its workloads and nodes.
//!
//! Source: orchestration 1.6. The rules are in `domain/orchestration/org_settings.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::query;

/// Settings of an organization, in seconds where the name says so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OrgOrchestration {
    /// Time that a node must stay ready before an instance starts there, from 0 to 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_period_seconds: Option<i64>,
    /// Time after the start of an agbot for which instances are not started automatically while a node of their workload unit has not
    /// been heard since, from 0 to 86400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejoin_grace_period_seconds: Option<i64>,
    /// Silence after which a node counts as down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_down_after_seconds: Option<i64>,
    /// Silence of a node after which its tasks are given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_after_seconds: Option<i64>,
    /// Age from which statistics of a node are no longer used for ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_max_age_seconds: Option<i64>,
    /// Time after which a task that was to stop no longer keeps its successor waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_task_timeout_seconds: Option<i64>,
    /// Tasks kept for each slot, from 0 to 1000; -1 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history_retention_limit: Option<i64>,
    /// Time for which a node may be away for maintenance before it counts as down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance_grace_period_seconds: Option<i64>,
    /// Time for which a node may be away for an upgrade of its agent before it counts as down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_upgrade_grace_seconds: Option<i64>,
    /// Time after the monitoring time in which an agent that does not read tasks may still report a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_grace_seconds: Option<i64>,
    /// Time after which the hub's health reports disappear when no agbot renews them, from 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_report_ttl_seconds: Option<i64>,
    /// Time after which such a report is shown as confirmed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_report_interval_seconds: Option<i64>,
    /// Time after which a blocked update is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_blocked_error_after_seconds: Option<i64>,
    /// The rules by which health is evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_evaluation: Option<HealthEvaluationRules>,
    /// Rules by which a service version is blocked on a node on which it keeps failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocklist: Option<BlocklistSettings>,
    /// Least time between two checks that a health policy may ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_interval_min_seconds: Option<i64>,
    /// Longest time between two checks, whatever a health policy asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_interval_max_seconds: Option<i64>,
    /// The priorities of constraints on placement: 0 hard, 1 soft, 2 an optimization, -1 off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint_priorities: Option<BTreeMap<String, i64>>,
    /// The share of each capacity of a node that is kept free, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_buffer_percentage: Option<BTreeMap<String, f64>>,
    /// Purposes for which that share may be used: `upgrade` or `upgrade-and-failure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_use: Option<String>,
    /// Least time between two moves of one workload unit to nodes that rank better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance_interval_seconds: Option<i64>,
    /// Events about the deployment policies of the organization that are kept, the newest ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_retention: Option<i64>,
    /// User who changed the settings last, apart from the defaults; left out when no user did. Read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_by: Option<String>,
}

/// The rules by which the health of an organization is evaluated, in percent where the name says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthEvaluationRules {
    /// True if an event with a warning counts as an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consider_warning_as_error: Option<bool>,
    /// Nodes that may be in error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_percent_unhealthy_nodes: Option<i64>,
    /// Workloads that may be in error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_percent_unhealthy_workloads: Option<i64>,
    /// Units of a workload that may be in error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_percent_unhealthy_units: Option<i64>,
    /// Instances of a unit that may be in error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_percent_unhealthy_instances: Option<i64>,
}

/// Rules by which a service version is blocked on a node on which it keeps failing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlocklistSettings {
    /// Failures within the window that block a node, from 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i64>,
    /// Time for which a failure counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<i64>,
    /// Duration of the first block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_seconds: Option<i64>,
    /// Factor by which each block is longer than the one before, from 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i64>,
    /// Longest duration of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<i64>,
    /// Time after which a running instance counts as a success and the number of blocks is reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_after_seconds: Option<i64>,
}

/// Replaces or changes the settings of an organization; `null` ends a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = OrgOrchestration)]
pub struct WriteOrgOrchestration(pub Value);

/// Selection of settings.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct OrgOrchestrationQuery {
    /// Only the settings of the organization, without the defaults.
    #[serde(deserialize_with = "query::optional_flag")]
    pub given: Option<bool>,
}
