//! The update supervisor: one engine that replaces the instances of a policy in an HA group step by step.
//!
//! A *group rollout* is the rollout of one policy through one HA group. The defaults are one at a time, stop first, minimum
//! available one; other modes are settings of the same engine. Whether a member may stop is asked of the gate table
//! ([`evenkeel_change`]). Source: orchestration B11, E3 to E5; design 4.3.

pub mod claim_expiry;
mod drain;
mod gate_facts;
pub mod group_rollout;
pub(crate) mod instance;
mod progress;
mod rollback;
mod step;
mod stop;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::claims::{Purpose, Scope};

/// Returns whether the rollout of a policy is changing this node now.
pub(crate) fn holds_claim(model: &Model, node: &NodeId, policy: &PolicyId) -> bool {
    let key = |group: &GroupId| (group.clone(), Scope::Policy(policy.clone()));
    let claim = model.group_of.get(node).and_then(|group| model.claims.get(&key(group)));
    claim.is_some_and(|claim| claim.node == *node && claim.purpose == Purpose::ServiceUpgrade)
}
