//! The rows of the health registry: which targets are checked, by which agbot, and how.
//!
//! A target is an HA group or a deployment policy with a health policy. The agbot that holds the target's partition checks it: the row
//! names the lease under which that agbot adopted it, so there is no lease beside that of the partition. Source: orchestration C1, C9, C10.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy};
use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Entity;
use crate::{lease::Lease, stable_hash::stable_hash, workload::PreparedAction};

/// The registration of a target.
///
/// # Shape
/// `revision` grows by one with every write; a write that is not based on the newest one is refused. `members`, `leaving`, `recoveries`
/// and `action` are those of an HA group, and empty for a deployment policy, whose tasks hold their recoveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The HA group or deployment policy.
    pub target: Entity,
    /// The modes of detection.
    pub modes: Vec<DetectionType>,
    /// Time between two checks, in seconds.
    pub interval_secs: u64,
    /// True if the health policy is enabled.
    pub is_enabled: bool,
    /// The operation of a user that suspends the checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_by: Option<String>,
    /// The lease under which the owner adopted the target.
    pub lease: Lease,
    /// When it did.
    pub adopted_at: Timestamp,
    /// The members of the group, each with the time at which it joined; none for those of the first registration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<NodeId, Option<Timestamp>>,
    /// Nodes that a user removed from the group and on which an instance of it still stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<NodeId>,
    /// The recoveries of members: those in progress, and those that ended recently or while the member had
    /// failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recoveries: BTreeMap<NodeId, MemberRecovery>,
    /// Reason why no recovery of a member that is up begins, although some have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The recovery that a user ordered and that is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<GroupAction>,
    /// Number of writes of the row.
    pub revision: u64,
}

/// A recovery of a member of an HA group: an order to every task of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecovery {
    /// Its id, which the tasks that carry it out name.
    pub id: String,
    /// Reason why it began, in words.
    pub reason: String,
    /// The actions, tried in order on each instance.
    pub actions: Vec<PreparedAction>,
    /// When it began.
    pub since: Timestamp,
    /// When it ended; none while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Reason why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Recoveries of the node before it that did not help, one after the other.
    #[serde(default)]
    pub failures: u32,
    /// The action of the user who ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered_by: Option<String>,
}

impl MemberRecovery {
    /// Returns a recovery that begins.
    pub fn new(node: &NodeId, reason: String, actions: Vec<PreparedAction>, since: Timestamp) -> Self {
        let id = format!("{node}@{}", since.as_millisecond());
        Self { id, reason, actions, since, ended_at: None, failure: None, failures: 0, ordered_by: None }
    }

    /// Returns the recoveries in a row that did not help, this one included.
    pub fn failures_so_far(&self) -> u32 {
        self.failures.saturating_add(u32::from(self.failure.is_some()))
    }

    /// Returns whether it is in progress.
    pub fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Returns whether it is in progress under a policy: one that is disabled recovers nothing by itself.
    pub fn goes_on(&self, policy: &HealthPolicy) -> bool {
        self.is_open() && (policy.enabled || self.ordered_by.is_some())
    }
}

/// A recovery of members of an HA group that a user ordered.
///
/// # Source
/// Orchestration C7.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAction {
    /// Its id.
    pub id: String,
    /// The user.
    pub actor: String,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The members that are recovered; empty until the check has ended.
    pub members: Vec<NodeId>,
    /// The check that decides about the members; none when it is over, or was not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<GroupCheck>,
}

/// A check of the members of an HA group with which a recovery begins. The agbot that decides about the group makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCheck {
    /// The only member that is meant; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Action that replaces those of the health policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<PreparedAction>,
    /// When every member has been examined since the order.
    pub until: Timestamp,
}

impl Registration {
    /// Returns the first row of a target.
    pub fn new(
        target: Entity,
        policy: &HealthPolicy,
        interval_max_secs: u64,
        lease: Lease,
        now: Timestamp,
    ) -> Self {
        let first = Self {
            target,
            modes: Vec::new(),
            interval_secs: 0,
            is_enabled: false,
            suspended_by: None,
            lease,
            adopted_at: now,
            members: BTreeMap::new(),
            leaving: Vec::new(),
            recoveries: BTreeMap::new(),
            withheld: None,
            action: None,
            revision: 0,
        };
        first.following(policy, interval_max_secs)
    }

    /// Returns the row of a health policy.
    pub fn following(self, policy: &HealthPolicy, interval_max_secs: u64) -> Self {
        let modes = policy.detection.detection_modes.iter().map(|mode| mode.kind);
        Self {
            modes: modes.collect(),
            interval_secs: policy.detection.interval.min(interval_max_secs).max(1),
            is_enabled: policy.enabled,
            ..self
        }
    }

    /// Returns whether failures are detected.
    pub fn is_checking(&self) -> bool {
        self.is_enabled && self.suspended_by.is_none()
    }

    /// Returns whether a write may replace the stored row: it is based on that row, or was carried out before.
    pub fn may_replace(&self, stored: Option<&Self>) -> bool {
        match stored {
            None => self.revision == 1,
            Some(stored) => stored.revision + 1 == self.revision || stored == self,
        }
    }

    /// Returns the number of the newest round of checks that is due.
    ///
    /// The rounds of a target are at fixed times, so that an agbot that takes it over continues with the next
    /// one and nothing is checked twice in an interval. They are spread over the interval, so that targets
    /// are not all checked at once.
    pub fn round_at(&self, now: Timestamp) -> i64 {
        (now.as_millisecond() - self.offset_millis()).div_euclid(self.interval_millis())
    }

    /// Returns when the round after the newest one is due.
    pub fn next_round_at(&self, now: Timestamp) -> Timestamp {
        let millis = (self.round_at(now) + 1) * self.interval_millis() + self.offset_millis();
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    /// Returns the row with the order of a user.
    ///
    /// # Errors
    /// When another order is in progress.
    pub fn ordered(
        &self,
        action: &GroupAction,
        operation: Option<&PreparedAction>,
        policy: &HealthPolicy,
    ) -> Result<Self, String> {
        if let Some(other) = &self.action {
            return Err(format!("orchestration {} (recovered) in progress: wait until it ends", other.id));
        }
        let mut next = Self { revision: self.revision + 1, ..self.clone() };
        next.begin(action, operation, policy, action.accepted_at);
        Ok(next)
    }

    /// Begins the recoveries of the members of an action.
    pub fn begin(
        &mut self,
        action: &GroupAction,
        operation: Option<&PreparedAction>,
        policy: &HealthPolicy,
        at: Timestamp,
    ) {
        self.action = Some(action.clone());
        for node in &action.members {
            let in_progress = self.recoveries.get_mut(node).filter(|one| one.is_open());
            match in_progress {
                // One that is in progress becomes the ordered one, unless the user wants another action.
                Some(known) if operation.is_none() => known.ordered_by = Some(action.id.clone()),
                _ => {
                    let actions = match operation {
                        Some(operation) => vec![operation.clone()],
                        None => policy.recovery.actions.iter().map(PreparedAction::from).collect(),
                    };
                    let reason = format!("ordered by {}", action.actor);
                    let begun = MemberRecovery::new(node, reason, actions, at);
                    let ordered_by = Some(action.id.clone());
                    self.recoveries.insert(node.clone(), MemberRecovery { ordered_by, ..begun });
                }
            }
        }
    }

    fn interval_millis(&self) -> i64 {
        i64::try_from(self.interval_secs.max(1)).unwrap_or(i64::MAX / 1000).saturating_mul(1000)
    }

    fn offset_millis(&self) -> i64 {
        let (kind, name, _) = self.target.key();
        let offset = stable_hash(&[kind, name]) % self.interval_millis().unsigned_abs().max(1);
        i64::try_from(offset).unwrap_or_default()
    }
}

/// A round of checks that a decision made or left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthRound {
    /// The target.
    pub target: Entity,
    /// The lease under which it was checked.
    pub lease: Lease,
    /// Number of the round.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// Numbers of members that were healthy, and that had failed without anything to be written; none when
    /// the round was left out.
    pub found: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::orchestration::health_policy::Target;
    use evenkeel_ids::GroupId;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::fixture::at;

    fn registration(name: &str) -> Registration {
        let document = json!({"detection": {"type": "NODE_STATUS_POLLING", "interval": 60}});
        let policy = HealthPolicy::read("healthPolicy", document, Target::Group).expect("it is valid");
        let lease = Lease { partition: 0, fencing: 1 };
        Registration::new(Entity::Group(GroupId::new("o", name)), &policy, 3600, lease, at(0))
    }

    #[test]
    fn rounds_follow_each_other_at_the_interval_and_differ_between_targets() {
        let one = registration("g");
        let first = one.next_round_at(at(1_000));
        assert!(first > at(1_000) && first <= at(1_060));
        assert_eq!(one.round_at(first), one.round_at(at(1_000)) + 1);
        assert_eq!(one.next_round_at(first), first + SignedDuration::from_secs(60));
        assert_ne!(registration("h").next_round_at(at(1_000)), first);
    }

    #[test]
    fn write_that_is_not_based_on_the_stored_row_is_refused() {
        let row = |revision| Registration { revision, ..registration("g") };
        assert!(row(1).may_replace(None) && row(2).may_replace(Some(&row(1))));
        assert!(row(2).may_replace(Some(&row(2))), "it was carried out before");
        let other = Registration { is_enabled: false, ..row(2) };
        assert!(!row(2).may_replace(Some(&other)) && !row(2).may_replace(None));
    }
}
