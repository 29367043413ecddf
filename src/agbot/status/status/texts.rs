//! Sentences that explanations and the status have in common. They name no node.
//!
//! Source: orchestration D3.

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::{
    report::{Blocked, WithoutNodes},
    workload::Step,
};

/// Returns which instance on a lost node the start of an instance waits for; that on a node, or any.
///
/// # Source
/// Orchestration B10, C8.
pub fn lost_instance_wait(blocked: &[(Step, Blocked)], node: Option<&NodeId>) -> Option<String> {
    let is_there = |step: &Step| node.is_none() || step.node() == node;
    let (_, why) = blocked.iter().find(|(step, why)| why.is_of_lost_instance() && is_there(step))?;
    Some(format!("its start waits: {}", WithoutNodes(why)))
}

/// Returns what becomes of so many instances beyond the wanted number; `away`: those on nodes that are away for a while.
pub(super) fn surplus_text(surplus: u32, away: u32, gone_group: Option<&GroupId>) -> String {
    if let Some(group) = gone_group {
        return Blocked::GroupGone { group: group.clone() }.to_string();
    }
    let away = away.min(surplus);
    let removed = match surplus - away {
        0 => None,
        1 => Some("1 of them is to be removed".to_owned()),
        count => Some(format!("{count} of them are to be removed")),
    };
    let kept = (away > 0).then(|| format!("{away} on nodes that are away for a while"));
    let texts: Vec<String> = removed.into_iter().chain(kept).collect();
    texts.join(", ")
}
