//! Explains on demand what a node or a workload has, what it waits for, or every clause that fails.
//!
//! Uses the plan of a decision for one pair without carrying anything out, so that the explanation matches the behavior.
//! Source: design 1.5; orchestration D3.

mod node_waits;
mod part;
mod status;
mod waits;

pub use node_waits::{blocked_task, held_task, waiting_drain, why_no_task};
pub use part::explain_part;
pub(crate) use part::explain_placement;
pub use status::{status_of, update_of};
pub use waits::Waits;

use evenkeel_agreement::{pair, rolling};
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::{command::Action, focus::Focus, model::Model, pass::Pass};
use evenkeel_planner_record::{
    claims::Scope,
    report::{Blocked, Explanation, Placement},
};
use jiff::Timestamp;

/// Explains the current placement of a pair.
///
/// The partition does not matter here: every agbot has the whole model and can explain every pair.
pub fn explain(model: &Model, node: &NodeId, policy: &PolicyId, now: Timestamp) -> Explanation {
    let mut pass = Pass::to_explain(model, now);
    let mut focus = Focus::default();
    focus.pairs.insert((node.clone(), policy.clone()));
    pair::plan_all(&mut pass, &focus);
    let group = model.group_of(node).map(|group| group.id.clone());
    if let Some(group) = &group {
        focus.group_rollouts.insert((group.clone(), policy.clone()));
        rolling::group_rollout::plan_all(&mut pass, &focus);
    }
    let holds_claim = group.is_some_and(|group| {
        model.claims.get(&(group, Scope::Policy(policy.clone()))).is_some_and(|claim| claim.node == *node)
    });
    let decision = pass.finish();
    let acting = decision.commands.iter().any(|command| matches!(command.action, Action::Propose { .. }));
    let placement = decision.report.pairs.get(&(node.clone(), policy.clone())).cloned();
    let placement = placement.unwrap_or_else(|| fallback(model, node, policy, acting));
    Explanation { node: node.clone(), policy: policy.clone(), placement, holds_claim }
}

fn fallback(model: &Model, node: &NodeId, policy: &PolicyId, acting: bool) -> Placement {
    match model.live_agreement(node, policy) {
        Some(agreement) => Placement::Acting { action: format!("replacing {}", agreement.version) },
        None if acting => Placement::Acting { action: "proposing".to_owned() },
        None if model.node(node).is_none() => Placement::NotPlaced { blocked: Blocked::NodeUnknown },
        None => Placement::NotPlaced { blocked: Blocked::PolicyUnknown },
    }
}
