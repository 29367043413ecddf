//! The recovery of members of an HA group that a user orders.
//!
//! Source: orchestration C7.

use evenkeel_domain::orchestration::HealthPolicy;
use evenkeel_ids::{GroupId, NodeId};
use jiff::Timestamp;

use super::{Entity, GroupAction, MemberRecovery, Registration};
use crate::{
    engine::ActionRefusal,
    model::{Liveness, Model},
    workload::PreparedAction,
};

/// Returns the members of an HA group that a user's order is about.
///
/// # Shape
/// `node`: only this member. `examines`: the members that have failed by the health policy; without it those that are down.
/// # Errors
/// When the group has no health policy, or the node is not one of its members.
pub fn members_to_recover(
    model: &Model,
    group: &GroupId,
    node: Option<&NodeId>,
    examines: bool,
    now: Timestamp,
) -> Result<Vec<NodeId>, ActionRefusal> {
    let target = Entity::Group(group.clone());
    let (Some(facts), Some(policy)) = (model.group(group), model.health_policy_of(&target)) else {
        let text = format!("{group} has no health policy: give it one in orchestration.healthPolicy first");
        return Err(ActionRefusal::Conflict(text));
    };
    if let Some(node) = node.filter(|node| !facts.members.contains(node)) {
        return Err(ActionRefusal::NoNode { node: node.clone(), part: None });
    }
    let has_failed = |member: &NodeId| match examines {
        true => model.examine_node(policy, member, now).failure().is_some(),
        false => matches!(model.liveness(member, now), Liveness::Down { .. }),
    };
    let meant = facts.members.iter().filter(|member| node.is_none_or(|node| node == *member));
    Ok(meant.filter(|member| has_failed(member)).cloned().collect())
}

impl Registration {
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
        let mut next = Self { action: Some(action.clone()), revision: self.revision + 1, ..self.clone() };
        for node in &action.members {
            let in_progress = next.recoveries.get_mut(node).filter(|one| one.is_open());
            match in_progress {
                // One that is in progress becomes the ordered one, unless the user wants another action.
                Some(known) if operation.is_none() => known.ordered_by = Some(action.id.clone()),
                _ => {
                    let actions = match operation {
                        Some(operation) => vec![operation.clone()],
                        None => policy.recovery.actions.iter().map(PreparedAction::from).collect(),
                    };
                    let reason = format!("ordered by {}", action.actor);
                    let begun = MemberRecovery::new(node, reason, actions, action.accepted_at);
                    let ordered_by = Some(action.id.clone());
                    next.recoveries.insert(node.clone(), MemberRecovery { ordered_by, ..begun });
                }
            }
        }
        Ok(next)
    }
}
