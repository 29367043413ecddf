//! Recoveries that were ordered: by a user, or by the health policy of the HA group of a node.
//!
//! The row of the workload holds the user's action, the row of the group the recovery of the node; each member records that its recovery
//! is over, so that every agbot sees how far that is. Source: orchestration C1, C7.

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_ids::GroupId;
use evenkeel_planner_record::{
    health::MemberRecovery,
    workload::{ActionGoal, EndedOrder, GroupOrder, PreparedAction, Recovery, Slot, TaskHealth, UserAction},
};

use super::{check, recover};
use crate::unit_pass::UnitPass;

/// The order to recover the member of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order<'a> {
    /// A user wants it recovered.
    OfUser {
        /// The action.
        action: &'a UserAction,
        /// Action that replaces those of the health policy.
        operation: Option<&'a PreparedAction>,
        /// True if the node checks the instance first.
        checks: bool,
    },
    /// The HA group of its node recovers the node.
    OfGroup {
        /// The group.
        group: &'a GroupId,
        /// The recovery of the node.
        recovery: &'a MemberRecovery,
    },
}

impl<'a> Order<'a> {
    /// Returns the order for a slot.
    pub fn of(pass: &UnitPass<'a>, slot: &Slot) -> Option<Self> {
        Self::of_user(pass, slot).or_else(|| Self::of_group(pass, slot))
    }

    fn of_user(pass: &UnitPass<'a>, slot: &Slot) -> Option<Self> {
        let action = pass.facts.workload.action.as_ref()?;
        match pass.action_goal? {
            ActionGoal::Recovered { slots, operation, checks, .. } if slots.contains(slot) => {
                let checks = checks.contains(slot);
                Some(Self::OfUser { action, operation: operation.as_ref(), checks })
            }
            _ => None,
        }
    }

    /// Returns the order of the HA group. While a user changes the workload it waits.
    fn of_group(pass: &UnitPass<'a>, slot: &Slot) -> Option<Self> {
        let around = pass.facts.recovery;
        let task = recover::member(pass, slot)?;
        let covered = around.nodes.get(task.node.as_ref()?).filter(|_| !recover::is_suspended(pass))?;
        let recovery = covered.recovery.as_ref()?;
        // One recovery at a time: the instance's own ends first.
        if task.health.is_recovering() && !task.health.carries_out(&recovery.id) {
            return None;
        }
        Some(Self::OfGroup { group: &covered.group, recovery })
    }

    fn id(&self) -> &'a str {
        match self {
            Self::OfUser { action, .. } => &action.id,
            Self::OfGroup { recovery, .. } => &recovery.id,
        }
    }

    /// Returns whether the recovery has begun, or is over.
    pub fn has_begun(&self, pass: &UnitPass<'_>, slot: &Slot) -> bool {
        let id = self.id();
        match self {
            Self::OfUser { .. } => {
                pass.tasks(slot).iter().any(|task| task.health.is_over(id))
                    || recover::member(pass, slot).is_some_and(|task| task.health.has_begun(id))
            }
            Self::OfGroup { .. } => pass.tasks(slot).iter().any(|task| task.health.has_begun_for_group(id)),
        }
    }

    /// Begins the recovery. One that is in progress becomes the ordered one, unless the user wants another action.
    pub fn begin(&self, pass: &mut UnitPass<'_>, slot: &Slot) {
        let Some(task) = recover::member(pass, slot) else { return self.drop_order(pass, slot) };
        let known = task.health.recovery.clone();
        let without_checks = HealthPolicy::without_checks();
        match self {
            Self::OfUser { action, operation, checks } => {
                let order = Some(action.id.clone());
                let in_progress = known.filter(|recovery| recovery.failed_until.is_none());
                if let Some(recovery) = in_progress.filter(|_| operation.is_none()) {
                    let recovery = Some(Box::new(Recovery { order, ..*recovery }));
                    return pass.set_health(slot, &task.id, TaskHealth { recovery, ..task.health.clone() });
                }
                let policy = pass.facts.workload.health.as_ref().unwrap_or(&without_checks);
                let actions = match operation {
                    Some(operation) => vec![(*operation).clone()],
                    None => policy.recovery.actions.iter().map(PreparedAction::from).collect(),
                };
                let reason = format!("ordered by {}", action.actor);
                let recovery = Recovery { order, ..Recovery::new(reason, actions, pass.now) };
                match checks {
                    true => check::begin(pass, policy, &task, recovery),
                    false => recover::start(pass, policy, &task, recovery),
                }
            }
            Self::OfGroup { group, recovery } => {
                let order = GroupOrder { group: (*group).clone(), id: recovery.id.clone() };
                let policy = pass.facts.recovery.policies.get(*group).map(|policy| &**policy);
                let begun = Recovery {
                    of_group: Some(order),
                    order: known.and_then(|recovery| recovery.order),
                    ..Recovery::new(recovery.reason.clone(), recovery.actions.clone(), pass.now)
                };
                recover::start(pass, policy.unwrap_or(&without_checks), &task, begun);
            }
        }
    }

    /// Records that there is nothing left to recover.
    fn drop_order(&self, pass: &mut UnitPass<'_>, slot: &Slot) {
        let Some(task) = pass.tasks(slot).newest().cloned() else { return };
        let failure = Some("it was stopped".to_owned());
        let ended = Some(Box::new(EndedOrder { id: self.id().to_owned(), failure, is_checked: false }));
        let health = match self {
            Self::OfUser { .. } => TaskHealth { ended_order: ended, ..task.health },
            Self::OfGroup { .. } => TaskHealth { ended_group_order: ended, ..task.health },
        };
        pass.set_health(slot, &task.id, health);
    }
}
