//! The object `orchestration` of an organization: settings for all of its workloads and nodes unless a policy
//! overrides them.
//!
//! Source: orchestration 1.6.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::blocklist::{BlocklistRules, BlocklistSettings};
use super::buffer::{BufferUse, CapacityBuffer, shares};
use super::capacity::Amounts;
use super::health_evaluation::HealthEvaluationRules;
use super::priorities::{self, ConstraintPriorities};
use crate::document::{integer, merge, read};
use crate::object::MembersError;

/// A month, in seconds.
pub(super) const MONTH: i64 = 31 * 86_400;
/// A year, in seconds.
const YEAR: i64 = 12 * MONTH;

/// Values that apply where neither the organization nor the hub sets one, in seconds where the name says so.
mod default {
    pub(super) const READY_SECS: u64 = 16;
    pub(super) const REJOIN_GRACE_SECS: u64 = 90;
    pub(super) const NODE_DOWN_AFTER_SECS: u64 = 180;
    pub(super) const ORPHAN_AFTER_SECS: u64 = 86_400;
    pub(super) const METRICS_MAX_AGE_SECS: u64 = 300;
    pub(super) const OLD_TASK_TIMEOUT_SECS: u64 = 60;
    pub(super) const TASK_HISTORY_LIMIT: i32 = 5;
    pub(super) const MAINTENANCE_GRACE_SECS: u64 = 60;
    pub(super) const AGENT_UPGRADE_GRACE_SECS: u64 = 1_800;
    pub(super) const REPORT_GRACE_SECS: u64 = 60;
    pub(super) const SYSTEM_REPORT_TTL_SECS: u64 = 65;
    pub(super) const SYSTEM_REPORT_INTERVAL_SECS: u64 = 30;
    pub(super) const UPGRADE_BLOCKED_ERROR_AFTER_SECS: u64 = 600;
    pub(super) const HEALTH_INTERVAL_MIN_SECS: u64 = 60;
    pub(super) const HEALTH_INTERVAL_MAX_SECS: u64 = 3_600;
    pub(super) const REBALANCE_INTERVAL_SECS: u64 = 300;
    pub(super) const EVENT_RETENTION: u64 = 200_000;
}

/// Settings of an organization, in seconds where the name says so.
// `None` where the organization sets none: the hub's setting or the default applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = OrgOrchestration)]
pub struct OrgSettings {
    /// Time that a node must stay ready before an instance starts there.
    #[serde(deserialize_with = "integer::<_, _, 0, 3_600>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600)]
    ready_period_seconds: Option<u64>,
    /// Time after the start of an agbot for which instances are not started automatically while a node of their
    /// workload unit has not sent a heartbeat since.
    #[serde(deserialize_with = "integer::<_, _, 0, 86_400>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 86_400)]
    rejoin_grace_period_seconds: Option<u64>,
    /// Time without a heartbeat after which a node counts as down.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    node_down_after_seconds: Option<u64>,
    /// Time without a heartbeat after which the tasks of a node are given up.
    #[serde(deserialize_with = "integer::<_, _, 1, YEAR>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 32_140_800)]
    orphan_after_seconds: Option<u64>,
    /// Age from which statistics of a node are no longer used for ranking.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    metrics_max_age_seconds: Option<u64>,
    /// Time after which the successor of a task that was to stop no longer waits for it.
    #[serde(deserialize_with = "integer::<_, _, 1, 86_400>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400)]
    old_task_timeout_seconds: Option<u64>,
    /// Tasks kept for each slot; -1 keeps all.
    #[serde(deserialize_with = "integer::<_, _, -1, 1_000>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 1_000)]
    task_history_retention_limit: Option<i32>,
    /// Time for which a node may be in maintenance before it counts as down.
    #[serde(deserialize_with = "integer::<_, _, 0, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2_678_400)]
    maintenance_grace_period_seconds: Option<u64>,
    /// Time that the upgrade of an agent may take before its node counts as down.
    #[serde(deserialize_with = "integer::<_, _, 0, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2_678_400)]
    agent_upgrade_grace_seconds: Option<u64>,
    /// Time after the monitoring time in which an agent that does not read tasks may still report a failure.
    #[serde(deserialize_with = "integer::<_, _, 0, 3_600>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600)]
    report_grace_seconds: Option<u64>,
    /// Time after which the hub's health reports disappear when no agbot renews them.
    #[serde(deserialize_with = "integer::<_, _, 5, 86_400>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 5, maximum = 86_400)]
    system_report_ttl_seconds: Option<u64>,
    /// Time after which the hub renews its health reports.
    #[serde(deserialize_with = "integer::<_, _, 1, 86_400>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400)]
    system_report_interval_seconds: Option<u64>,
    /// Time after which a blocked update is an error.
    #[serde(deserialize_with = "integer::<_, _, 0, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2_678_400)]
    upgrade_blocked_error_after_seconds: Option<u64>,
    /// The rules by which health is evaluated.
    #[serde(skip_serializing_if = "HealthEvaluationRules::is_empty")]
    health_evaluation: HealthEvaluationRules,
    /// Rules by which a service version is blocked on a node on which it keeps failing.
    #[serde(skip_serializing_if = "BlocklistSettings::is_empty")]
    blocklist: BlocklistSettings,
    /// Shortest interval between two checks that a health policy may set.
    #[serde(deserialize_with = "integer::<_, _, 1, 86_400>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400)]
    health_check_interval_min_seconds: Option<u64>,
    /// Longest interval between two checks; it also limits longer intervals of health policies.
    #[serde(deserialize_with = "integer::<_, _, 1, 604_800>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    health_check_interval_max_seconds: Option<u64>,
    /// The priorities of constraints on placement: 0 hard, 1 soft, 2 an optimization, -1 off.
    #[serde(skip_serializing_if = "ConstraintPriorities::is_empty")]
    constraint_priorities: ConstraintPriorities,
    /// The share of each capacity of a node that is kept free, from 0 to 1.
    #[serde(deserialize_with = "shares", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, f64>>)]
    node_buffer_percentage: Option<Amounts>,
    /// Purposes for which that share may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_use: Option<BufferUse>,
    /// Shortest time between two moves of one workload unit to nodes that rank better.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    rebalance_interval_seconds: Option<u64>,
    /// Number of events about the deployment policies of the organization that are kept, the newest ones.
    #[serde(deserialize_with = "integer::<_, _, 1, 1_000_000>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    event_retention: Option<u64>,
    /// Writes that need the approval of a second person [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalRule>,
    /// User who changed the settings last, apart from the defaults; left out when no user did. Read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_updated_by: Option<String>,
}

impl OrgSettings {
    /// Reads a whole document; a member that is `null` is not set.
    ///
    /// # Errors
    /// The first member that breaks a rule or is not known, with its path.
    pub fn read(document: Value) -> Result<Self, MembersError> {
        Self::default().patched(document)
    }

    /// Returns the settings with what a merge patch changes: members that are left out stay, and `null` removes a setting.
    ///
    /// # Errors
    /// See [`OrgSettings::read`].
    pub fn patched(&self, mut patch: Value) -> Result<Self, MembersError> {
        // The patch is validated first, because merging drops members that are `null` even if their names are unknown.
        let _: Self = read("", patch.clone())?;
        // Each constraint has two names. Under the other name it would be merged as a second member.
        if let Some(given) = patch.get_mut(priorities::MEMBER).filter(|given| !given.is_null()) {
            let by_name = priorities::read(given.take()).map_err(|error| error.under(priorities::MEMBER))?;
            *given = serde_json::to_value(by_name).unwrap_or_default();
        }
        let mut document = self.document();
        merge(&mut document, patch);
        read("", document)
    }

    /// Returns the document of what is set.
    #[must_use]
    pub fn document(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the settings that apply, with the defaults.
    #[must_use]
    pub fn with_defaults(&self) -> Self {
        Self {
            ready_period_seconds: self.ready_period_seconds.or(Some(default::READY_SECS)),
            rejoin_grace_period_seconds: self
                .rejoin_grace_period_seconds
                .or(Some(default::REJOIN_GRACE_SECS)),
            node_down_after_seconds: self.node_down_after_seconds.or(Some(default::NODE_DOWN_AFTER_SECS)),
            orphan_after_seconds: self.orphan_after_seconds.or(Some(default::ORPHAN_AFTER_SECS)),
            metrics_max_age_seconds: self.metrics_max_age_seconds.or(Some(default::METRICS_MAX_AGE_SECS)),
            old_task_timeout_seconds: self.old_task_timeout_seconds.or(Some(default::OLD_TASK_TIMEOUT_SECS)),
            task_history_retention_limit: self
                .task_history_retention_limit
                .or(Some(default::TASK_HISTORY_LIMIT)),
            maintenance_grace_period_seconds: Some(self.maintenance_grace_secs()),
            agent_upgrade_grace_seconds: Some(self.agent_upgrade_grace_secs()),
            report_grace_seconds: Some(self.report_grace_secs()),
            system_report_ttl_seconds: Some(self.system_report_ttl_secs()),
            system_report_interval_seconds: Some(self.system_report_interval_secs()),
            upgrade_blocked_error_after_seconds: Some(self.upgrade_blocked_error_after_secs()),
            health_evaluation: self.health_evaluation.with_defaults(),
            blocklist: self.blocklist.with_defaults(),
            health_check_interval_min_seconds: Some(self.health_interval_min_secs()),
            health_check_interval_max_seconds: Some(self.health_interval_max_secs()),
            constraint_priorities: self.constraint_priorities.with_defaults(),
            node_buffer_percentage: Some(self.node_buffer_percentage.clone().unwrap_or_default()),
            buffer_use: Some(self.buffer_use.unwrap_or_default()),
            rebalance_interval_seconds: Some(self.rebalance_interval_secs()),
            event_retention: Some(self.event_retention()),
            approval: Some(self.approval()),
            last_updated_by: None,
        }
    }

    /// Returns the settings with other defaults of the hub: the time after which a node is down, and the grace period after the start of an
    /// agbot.
    ///
    /// # Units
    /// Seconds.
    #[must_use]
    pub fn or_of_hub(&self, node_down_after_secs: u64, rejoin_grace_secs: u64) -> Self {
        Self {
            node_down_after_seconds: self.node_down_after_seconds.or(Some(node_down_after_secs)),
            rejoin_grace_period_seconds: self.rejoin_grace_period_seconds.or(Some(rejoin_grace_secs)),
            ..self.clone()
        }
    }

    /// Returns the settings with this user as the last one who changed them.
    #[must_use]
    pub fn updated_by(self, id: &str) -> Self {
        Self { last_updated_by: Some(id.to_owned()), ..self }
    }

    /// Returns the settings alone.
    #[must_use]
    pub fn without_author(&self) -> Self {
        Self { last_updated_by: None, ..self.clone() }
    }

    /// Returns the account that changed the settings last; none when they were never changed.
    #[must_use]
    pub fn last_updated_by(&self) -> Option<&str> {
        self.last_updated_by.as_deref()
    }

    /// Returns the capacity buffer of nodes.
    #[must_use]
    pub fn capacity_buffer(&self) -> CapacityBuffer<'_> {
        CapacityBuffer {
            shares: self.node_buffer_percentage.as_ref(),
            usage: self.buffer_use.unwrap_or_default(),
        }
    }

    /// Returns the priorities of the constraints on placement.
    #[must_use]
    pub fn constraint_priorities(&self) -> ConstraintPriorities {
        self.constraint_priorities
    }

    /// Returns the rules by which a service version is blocked on a node on which it keeps failing.
    #[must_use]
    pub fn blocklist(&self) -> BlocklistRules {
        self.blocklist.rules()
    }

    /// Returns the rules by which health is evaluated.
    #[must_use]
    pub fn health_evaluation(&self) -> HealthEvaluationRules {
        self.health_evaluation
    }

    /// Returns the time that a node must stay ready before an instance starts there.
    #[must_use]
    pub fn ready_secs(&self) -> Option<u64> {
        self.ready_period_seconds
    }

    /// Returns the time after the start of an agbot for which automatic starts wait for nodes of the workload unit without a heartbeat since.
    #[must_use]
    pub fn rejoin_grace_secs(&self) -> Option<u64> {
        self.rejoin_grace_period_seconds
    }

    /// Returns the time without a heartbeat after which a node counts as down.
    #[must_use]
    pub fn node_down_after_secs(&self) -> Option<u64> {
        self.node_down_after_seconds
    }

    /// Returns the time without a heartbeat after which the tasks of a node are given up.
    #[must_use]
    pub fn orphan_after_secs(&self) -> Option<u64> {
        self.orphan_after_seconds
    }

    /// Returns the age from which statistics of a node are no longer used for ranking.
    #[must_use]
    pub fn metrics_max_age_secs(&self) -> Option<u64> {
        self.metrics_max_age_seconds
    }

    /// Returns the time after which the successor of a task that was to stop no longer waits for it.
    #[must_use]
    pub fn old_task_timeout_secs(&self) -> Option<u64> {
        self.old_task_timeout_seconds
    }

    /// Returns the number of tasks kept for each slot; negative keeps all.
    #[must_use]
    pub fn task_history_limit(&self) -> Option<i32> {
        self.task_history_retention_limit
    }

    /// Returns the time for which a node may be in maintenance before it counts as down.
    #[must_use]
    pub fn maintenance_grace_secs(&self) -> u64 {
        self.maintenance_grace_period_seconds.unwrap_or(default::MAINTENANCE_GRACE_SECS)
    }

    /// Returns the time that the upgrade of an agent may take before its node counts as down.
    #[must_use]
    pub fn agent_upgrade_grace_secs(&self) -> u64 {
        self.agent_upgrade_grace_seconds.unwrap_or(default::AGENT_UPGRADE_GRACE_SECS)
    }

    /// Returns the time in which a node that does not report tasks shows whether a new version keeps running.
    #[must_use]
    pub fn report_grace_secs(&self) -> u64 {
        self.report_grace_seconds.unwrap_or(default::REPORT_GRACE_SECS)
    }

    /// Returns the time after which the hub's health reports disappear when no agbot renews them.
    #[must_use]
    pub fn system_report_ttl_secs(&self) -> u64 {
        self.system_report_ttl_seconds.unwrap_or(default::SYSTEM_REPORT_TTL_SECS)
    }

    /// Returns the time after which the hub renews its health reports.
    #[must_use]
    pub fn system_report_interval_secs(&self) -> u64 {
        self.system_report_interval_seconds.unwrap_or(default::SYSTEM_REPORT_INTERVAL_SECS)
    }

    /// Returns the time after which a blocked update is an error.
    #[must_use]
    pub fn upgrade_blocked_error_after_secs(&self) -> u64 {
        self.upgrade_blocked_error_after_seconds.unwrap_or(default::UPGRADE_BLOCKED_ERROR_AFTER_SECS)
    }

    /// Returns the shortest interval between two checks that a health policy may set.
    #[must_use]
    pub fn health_interval_min_secs(&self) -> u64 {
        self.health_check_interval_min_seconds.unwrap_or(default::HEALTH_INTERVAL_MIN_SECS)
    }

    /// Returns the longest interval between two checks; it also limits longer intervals of health policies.
    #[must_use]
    pub fn health_interval_max_secs(&self) -> u64 {
        self.health_check_interval_max_seconds.unwrap_or(default::HEALTH_INTERVAL_MAX_SECS)
    }

    /// Returns the time between two moves of one workload unit to nodes that rank better.
    #[must_use]
    pub fn rebalance_interval_secs(&self) -> u64 {
        self.rebalance_interval_seconds.unwrap_or(default::REBALANCE_INTERVAL_SECS)
    }

    /// Returns how many events about the deployment policies of the organization are kept.
    #[must_use]
    pub fn event_retention(&self) -> u64 {
        self.event_retention.unwrap_or(default::EVENT_RETENTION)
    }

    /// Returns which writes need the approval of a second person.
    #[must_use]
    pub fn approval(&self) -> ApprovalRule {
        self.approval.unwrap_or_default()
    }
}

/// Writes that need the approval of a second person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRule {
    /// No write.
    #[default]
    None,
    /// Writes of deployment policies and of settings, and actions on policies and rollouts that stop, replace or start instances.
    Changes,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusal_names_the_member_and_the_rule() {
        for (document, expected) in [
            (json!([]), "the body must be an object"),
            (json!({"readyPeriodSeconds": -1}), "readyPeriodSeconds must be an integer from 0 to 3600"),
            (json!({"readyPeriodSeconds": 1.5}), "readyPeriodSeconds must be an integer from 0 to 3600"),
            (
                json!({"taskHistoryRetentionLimit": -2}),
                "taskHistoryRetentionLimit must be an integer from -1 to 1000",
            ),
            (
                json!({"readyPeriodSecond": 1}),
                "readyPeriodSecond is not known; readyPeriodSeconds was probably meant",
            ),
            (json!({"eventRetention": 0}), "eventRetention must be an integer from 1 to 1000000"),
            (json!({"approval": "all"}), "approval must be none or changes"),
        ] {
            assert_eq!(OrgSettings::read(document.clone()).unwrap_err().to_string(), expected, "{document}");
        }
    }

    #[test]
    fn patch_changes_what_it_names_and_null_ends_a_setting() {
        let first = OrgSettings::read(json!({"readyPeriodSeconds": 3, "orphanAfterSeconds": 9})).unwrap();
        assert_eq!((first.ready_secs(), first.orphan_after_secs()), (Some(3), Some(9)));
        let second =
            first.patched(json!({"readyPeriodSeconds": null, "taskHistoryRetentionLimit": -1})).unwrap();
        assert_eq!(second.document(), json!({"orphanAfterSeconds": 9, "taskHistoryRetentionLimit": -1}));
        assert_eq!((second.ready_secs(), second.task_history_limit()), (None, Some(-1)));
        assert_eq!(OrgSettings::read(second.document()).unwrap(), second.clone());
        assert_eq!(second.with_defaults().ready_secs(), Some(16));
    }

    #[test]
    fn names_of_settings_are_those_of_the_document() {
        let all = OrgSettings::default().with_defaults().updated_by("o/ann").document();
        let read = OrgSettings::read(all.clone()).unwrap();
        assert_eq!(read.document(), all);
        assert_eq!((read.rejoin_grace_secs(), read.node_down_after_secs()), (Some(90), Some(180)));
        assert_eq!((read.metrics_max_age_secs(), read.old_task_timeout_secs()), (Some(300), Some(60)));
        assert_eq!((read.maintenance_grace_secs(), read.agent_upgrade_grace_secs()), (60, 1800));
    }

    #[test]
    fn patch_names_constraints_by_either_of_their_names() {
        let first =
            OrgSettings::read(json!({"constraintPriorities": {"AffinityConstraintPriority": 1}})).unwrap();
        assert_eq!(first.document(), json!({"constraintPriorities": {"Affinity": 1}}));
        let listed = json!([{"name": "AffinityConstraintPriority", "value": "2"}]);
        let second = first.patched(json!({"constraintPriorities": listed})).unwrap();
        assert_eq!(second.document(), json!({"constraintPriorities": {"Affinity": 2}}));
        let none = second.patched(json!({"constraintPriorities": {"Affinity": null}})).unwrap();
        assert_eq!(none.document(), json!({}));
    }
}
