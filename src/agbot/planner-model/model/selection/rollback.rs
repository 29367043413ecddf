//! The version that a group returns to after a rollback, in place of those that its policy names.
//!
//! Source: orchestration B11.7.

use std::borrow::Cow;

use evenkeel_ids::GroupId;
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, VersionChoice},
    rollout::{Rollback, target_digest},
};

use crate::model::Model;

/// Returns the versions that a policy wants in a group: its own, or the one that the group returns to.
pub fn wanted_versions<'a>(
    model: &Model,
    policy: &'a DeploymentPolicyFacts,
    group: Option<&GroupId>,
) -> Cow<'a, [VersionChoice]> {
    let goes_back =
        |group: &&GroupId| model.rollbacks.get(&policy.id).is_some_and(|groups| groups.contains(*group));
    let rollout =
        group.filter(goes_back).and_then(|group| model.rollouts.get(&(group.clone(), policy.id.clone())));
    let rollout = rollout.filter(|rollout| rollout.is_for(target_digest(policy)));
    match rollout.and_then(|rollout| rollout.rollback.as_ref()) {
        Some(rollback) => Cow::Owned(vec![rollback.choice()]),
        _ => Cow::Borrowed(&policy.versions),
    }
}

/// Returns the rollback of a policy's newest version in one of its groups, also after the policy got tasks, which end its rollouts.
pub fn rollback_of<'a>(model: &'a Model, policy: &DeploymentPolicyFacts) -> Option<&'a Rollback> {
    let digest = target_digest(policy);
    let rollouts = model.rollouts.values().filter(|one| one.policy == policy.id);
    rollouts.filter(|one| one.target_digest == digest).find_map(|one| one.rollback.as_ref())
}
