//! Recoveries that a user ordered.
//!
//! The row of the workload holds the action; each member records that its recovery is over, so that every agbot sees how far the action is.
//! Source: orchestration C7.

use evenkeel_domain::orchestration::HealthPolicy;

use super::recover;
use crate::{
    reconcile::UnitPass,
    workload::{ActionGoal, EndedOrder, PreparedAction, Recovery, Slot, TaskHealth, UserAction},
};

/// The order to recover the member of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    action: &'a UserAction,
    operation: Option<&'a PreparedAction>,
}

impl<'a> Order<'a> {
    /// Returns the order for a slot.
    pub fn of(pass: &UnitPass<'a>, slot: &Slot) -> Option<Self> {
        let action = pass.facts.workload.action.as_ref()?;
        match pass.action_goal? {
            ActionGoal::Recovered { slots, operation, .. } if slots.contains(slot) => {
                Some(Self { action, operation: operation.as_ref() })
            }
            _ => None,
        }
    }

    /// Returns whether the recovery has begun, or is over.
    pub fn has_begun(&self, pass: &UnitPass<'_>, slot: &Slot) -> bool {
        let id = &self.action.id;
        pass.tasks(slot).iter().any(|task| task.health.is_over(id))
            || recover::member(pass, slot).is_some_and(|task| task.health.has_begun(id))
    }

    /// Begins the recovery. One that is in progress becomes the ordered one, unless the user wants another action.
    pub fn begin(&self, pass: &mut UnitPass<'_>, slot: &Slot) {
        let Some(task) = recover::member(pass, slot) else { return self.drop_order(pass, slot) };
        let order = Some(self.action.id.clone());
        let in_progress = task.health.recovery.clone().filter(|recovery| recovery.failed_until.is_none());
        if let Some(recovery) = in_progress.filter(|_| self.operation.is_none()) {
            let recovery = Some(Box::new(Recovery { order, ..*recovery }));
            return pass.set_health(slot, &task.id, TaskHealth { recovery, ..task.health.clone() });
        }
        let without_checks = HealthPolicy::without_checks();
        let policy = pass.facts.workload.health.as_ref().unwrap_or(&without_checks);
        let actions = match self.operation {
            Some(operation) => vec![operation.clone()],
            None => policy.recovery.actions.iter().map(PreparedAction::from).collect(),
        };
        let reason = format!("ordered by {}", self.action.actor);
        let recovery = Recovery { order, ..Recovery::new(reason, actions, pass.now) };
        recover::start(pass, policy, &task, recovery);
    }

    /// Records that there is nothing any more to recover.
    fn drop_order(&self, pass: &mut UnitPass<'_>, slot: &Slot) {
        let Some(task) = pass.tasks(slot).newest().cloned() else { return };
        let failure = Some("it was stopped".to_owned());
        let ended_order = Some(EndedOrder { id: self.action.id.clone(), failure });
        pass.set_health(slot, &task.id, TaskHealth { ended_order, ..task.health });
    }
}
