//! The object `orchestration` of an organization: settings for all of its workloads and nodes unless a policy
//! overrides them.
//!
//! Source: orchestration 1.6.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blocklist::{BlocklistRules, BlocklistSettings};
use super::buffer::CapacityBuffer;
use super::health_evaluation::HealthEvaluation;
use super::priorities::ConstraintPriorities;
use crate::object::{Members, MembersError, Object};

/// A setting: its name, the least and the greatest value, and its default.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) range: std::ops::RangeInclusive<i64>,
    pub(super) default: i64,
}

/// The member that holds the rules by which health is evaluated.
const HEALTH_EVALUATION: &str = "healthEvaluation";

/// The member with the priorities of constraints on placement.
const PRIORITIES: &str = "constraintPriorities";

/// The member with the account that changed the settings last.
const LAST_UPDATED_BY: &str = "lastUpdatedBy";

/// A month, in seconds.
const MONTH: i64 = 31 * 86_400;

const SETTINGS: [Setting; 17] = [
    Setting { name: "readyPeriodSeconds", range: 0..=3600, default: 16 },
    Setting { name: "rejoinGracePeriodSeconds", range: 0..=86_400, default: 90 },
    Setting { name: "nodeDownAfterSeconds", range: 1..=MONTH, default: 180 },
    Setting { name: "orphanAfterSeconds", range: 1..=12 * MONTH, default: 86_400 },
    Setting { name: "metricsMaxAgeSeconds", range: 1..=MONTH, default: 300 },
    Setting { name: "oldTaskTimeoutSeconds", range: 1..=86_400, default: 60 },
    Setting { name: "taskHistoryRetentionLimit", range: -1..=1000, default: 5 },
    Setting { name: "maintenanceGracePeriodSeconds", range: 0..=MONTH, default: 60 },
    Setting { name: "agentUpgradeGraceSeconds", range: 0..=MONTH, default: 1800 },
    Setting { name: "reportGraceSeconds", range: 0..=3600, default: 60 },
    Setting { name: "systemReportTtlSeconds", range: 5..=86_400, default: 65 },
    Setting { name: "systemReportIntervalSeconds", range: 1..=86_400, default: 30 },
    Setting { name: "upgradeBlockedErrorAfterSeconds", range: 0..=MONTH, default: 600 },
    Setting { name: "healthCheckIntervalMinSeconds", range: 1..=86_400, default: 60 },
    Setting { name: "healthCheckIntervalMaxSeconds", range: 1..=604_800, default: 3600 },
    Setting { name: "rebalanceIntervalSeconds", range: 1..=MONTH, default: 300 },
    Setting { name: "eventRetention", range: 1..=1_000_000, default: 10_000 },
];

const MEMBERS: Members = Members {
    known: &[
        "readyPeriodSeconds",
        "rejoinGracePeriodSeconds",
        "nodeDownAfterSeconds",
        "orphanAfterSeconds",
        "metricsMaxAgeSeconds",
        "oldTaskTimeoutSeconds",
        "taskHistoryRetentionLimit",
        "blocklist",
        "maintenanceGracePeriodSeconds",
        "agentUpgradeGraceSeconds",
        "reportGraceSeconds",
        "systemReportTtlSeconds",
        "systemReportIntervalSeconds",
        "upgradeBlockedErrorAfterSeconds",
        HEALTH_EVALUATION,
        "healthCheckIntervalMinSeconds",
        "healthCheckIntervalMaxSeconds",
        PRIORITIES,
        CapacityBuffer::PERCENTAGES,
        CapacityBuffer::USE,
        "rebalanceIntervalSeconds",
        "eventRetention",
        LAST_UPDATED_BY,
    ],
    unsupported: &[],
};

/// The settings of an organization; `None` where it sets none, and the hub's or the default holds.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct OrgSettings {
    values: [Option<i64>; SETTINGS.len()],
    health_evaluation: HealthEvaluation,
    blocklist: BlocklistSettings,
    priorities: ConstraintPriorities,
    buffer: CapacityBuffer,
    last_updated_by: Option<String>,
}

impl TryFrom<Value> for OrgSettings {
    type Error = MembersError;

    fn try_from(document: Value) -> Result<Self, MembersError> {
        Self::read(document)
    }
}

impl From<OrgSettings> for Value {
    fn from(settings: OrgSettings) -> Self {
        settings.document()
    }
}

impl OrgSettings {
    /// Reads a whole document; a member that is `null` is not set.
    ///
    /// # Errors
    /// The first member that breaks a rule or is not supported, with its path.
    pub fn read(document: Value) -> Result<Self, MembersError> {
        Self::default().patched(document)
    }

    /// Returns the settings with what a merge patch changes: members that are left out stay, and `null` ends a setting.
    ///
    /// # Errors
    /// See [`OrgSettings::read`].
    pub fn patched(mut self, patch: Value) -> Result<Self, MembersError> {
        let cleared: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        let cleared = cleared.into_iter().filter(|name| patch.get(name).is_some_and(Value::is_null));
        let cleared: Vec<&str> = cleared.collect();
        if patch.get(HEALTH_EVALUATION).is_some_and(Value::is_null) {
            self.health_evaluation = HealthEvaluation::default();
        }
        let mut given = Object::open(String::new(), patch.clone(), &MEMBERS)?;
        self.health_evaluation = self.health_evaluation.patched(&mut given, HEALTH_EVALUATION)?;
        self.blocklist = self.blocklist.patched(&mut given, &patch)?;
        self.priorities = self.priorities.patched(&mut given, &patch)?;
        self.buffer = self.buffer.patched(&mut given, &patch)?;
        // An id has no length of its own, and the exchange replaces what a client gives.
        if let Some(id) = given.text(LAST_UPDATED_BY, usize::MAX)? {
            self.last_updated_by = Some(id);
        }
        for (value, setting) in self.values.iter_mut().zip(&SETTINGS) {
            if cleared.contains(&setting.name) {
                *value = None;
            }
            if let Some(number) = given.integer(setting.name, setting.range.clone())? {
                *value = Some(number);
            }
        }
        Ok(self)
    }

    /// Returns the document of what is set.
    #[must_use]
    pub fn document(&self) -> Value {
        let set = SETTINGS.iter().zip(self.values);
        let set = set.filter_map(|(one, value)| Some((one.name.to_owned(), value?.into())));
        let rules = self.health_evaluation.document();
        let rules = (!rules.is_empty()).then(|| (HEALTH_EVALUATION.to_owned(), Value::Object(rules)));
        let blocklist = self.blocklist.document().map(|document| ("blocklist".to_owned(), document));
        let priorities = self.priorities.document().map(|document| (PRIORITIES.to_owned(), document));
        let buffer = self.buffer.document();
        let author = self.author();
        Value::Object(
            set.chain(rules).chain(blocklist).chain(priorities).chain(buffer).chain(author).collect(),
        )
    }

    /// Returns the document of what holds, with the defaults.
    #[must_use]
    pub fn with_defaults(&self) -> Map<String, Value> {
        let all = SETTINGS.iter().zip(self.values);
        let all = all.map(|(one, value)| (one.name.to_owned(), value.unwrap_or(one.default).into()));
        let rules = Value::Object(self.health_evaluation.with_defaults());
        let blocklist = self.blocklist.with_defaults();
        let priorities = self.priorities.with_defaults();
        let documents = [(HEALTH_EVALUATION, rules), ("blocklist", blocklist), (PRIORITIES, priorities)];
        let documents = documents.map(|(name, document)| (name.to_owned(), document));
        all.chain(documents).chain(self.buffer.with_defaults()).collect()
    }

    fn author(&self) -> Option<(String, Value)> {
        self.last_updated_by().map(|id| (LAST_UPDATED_BY.to_owned(), id.into()))
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
    pub fn capacity_buffer(&self) -> &CapacityBuffer {
        &self.buffer
    }

    /// Time between two moves of one workload unit to nodes that rank better.
    #[must_use]
    pub fn rebalance_interval_secs(&self) -> u64 {
        self.value_or_default(15)
    }

    /// Events about the deployment policies of the organization that are kept, the newest ones.
    #[must_use]
    pub fn event_retention(&self) -> u64 {
        self.value_or_default(16)
    }

    /// The hard constraints on placement.
    #[must_use]
    pub fn constraint_priorities(&self) -> ConstraintPriorities {
        self.priorities
    }

    /// Rules by which a service version is blocked on a node on which it keeps failing.
    #[must_use]
    pub fn blocklist(&self) -> BlocklistRules {
        self.blocklist.rules()
    }

    fn value(&self, index: usize) -> Option<u64> {
        self.values[index].and_then(|value| u64::try_from(value).ok())
    }

    /// Returns a setting for which the hub has no other default.
    fn value_or_default(&self, index: usize) -> u64 {
        let value = self.values[index].unwrap_or(SETTINGS[index].default);
        u64::try_from(value).unwrap_or_default()
    }

    /// Time that a node must stay ready before an instance starts there.
    #[must_use]
    pub fn ready_secs(&self) -> Option<u64> {
        self.value(0)
    }

    /// Time after the start of an agbot for which automatic starts wait for nodes of the workload unit that were not heard since.
    #[must_use]
    pub fn rejoin_grace_secs(&self) -> Option<u64> {
        self.value(1)
    }

    /// Silence after which a node counts as down.
    #[must_use]
    pub fn node_down_after_secs(&self) -> Option<u64> {
        self.value(2)
    }

    /// Silence of a node after which its tasks are given up.
    #[must_use]
    pub fn orphan_after_secs(&self) -> Option<u64> {
        self.value(3)
    }

    /// Age from which statistics of a node are no longer used for ranking.
    #[must_use]
    pub fn metrics_max_age_secs(&self) -> Option<u64> {
        self.value(4)
    }

    /// Time after which a task that was to stop no longer keeps its successor waiting.
    #[must_use]
    pub fn old_task_timeout_secs(&self) -> Option<u64> {
        self.value(5)
    }

    /// Time in which a node that does not report tasks shows whether a new version keeps running.
    #[must_use]
    pub fn report_grace_secs(&self) -> u64 {
        self.value_or_default(9)
    }

    /// Time after which the engine's health reports disappear when no agbot keeps them up.
    #[must_use]
    pub fn system_report_ttl_secs(&self) -> u64 {
        self.value_or_default(10)
    }

    /// Time after which the engine confirms its health reports.
    #[must_use]
    pub fn system_report_interval_secs(&self) -> u64 {
        self.value_or_default(11)
    }

    /// Time after which a blocked update is an error.
    #[must_use]
    pub fn upgrade_blocked_error_after_secs(&self) -> u64 {
        self.value_or_default(12)
    }

    /// The rules by which health is evaluated.
    #[must_use]
    pub fn health_evaluation(&self) -> HealthEvaluation {
        self.health_evaluation
    }

    /// Least time between two checks that a health policy may ask for.
    #[must_use]
    pub fn health_interval_min_secs(&self) -> u64 {
        self.value_or_default(13)
    }

    /// Longest time between two checks; a health policy that asks for a longer one is checked so often.
    #[must_use]
    pub fn health_interval_max_secs(&self) -> u64 {
        self.value_or_default(14)
    }

    /// Tasks kept for each slot; negative keeps all.
    #[must_use]
    pub fn task_history_limit(&self) -> Option<i32> {
        self.values[6].and_then(|value| i32::try_from(value).ok())
    }

    /// Time for which a node may be away for maintenance before it counts as down.
    #[must_use]
    pub fn maintenance_grace_secs(&self) -> u64 {
        self.value_or_default(7)
    }

    /// Time for which a node may be away for an upgrade of its agent before it counts as down.
    #[must_use]
    pub fn agent_upgrade_grace_secs(&self) -> u64 {
        self.value_or_default(8)
    }
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
        assert_eq!(second.with_defaults()["readyPeriodSeconds"], 16);
    }

    #[test]
    fn names_of_settings_are_those_of_the_document() {
        let mut all = OrgSettings::default().with_defaults();
        all.insert(LAST_UPDATED_BY.to_owned(), "o/ann".into());
        assert_eq!(all.keys().collect::<Vec<_>>().len(), MEMBERS.known.len());
        let read = OrgSettings::read(Value::Object(all.clone())).unwrap();
        assert_eq!(read.document(), Value::Object(all));
        assert_eq!((read.rejoin_grace_secs(), read.node_down_after_secs()), (Some(90), Some(180)));
        assert_eq!((read.metrics_max_age_secs(), read.old_task_timeout_secs()), (Some(300), Some(60)));
        assert_eq!((read.maintenance_grace_secs(), read.agent_upgrade_grace_secs()), (60, 1800));
    }
}
