//! Events of a rollout, derived from two versions of its row, so that no writer can forget one.
//!
//! Source: orchestration 2.6, B12.

use evenkeel_ids::NodeId;
use serde_json::{Value, json};

use super::{Rollout, RolloutState};
use crate::report::HoldReason;

/// An event of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutEvent {
    /// Kind, for instance `rollout.paused`.
    pub kind: &'static str,
    /// The member it concerns, if any.
    pub node: Option<NodeId>,
    /// Reason and counts; `text` is a sentence.
    pub detail: Value,
}

/// Returns the events between two versions of a rollout's row, in order.
///
/// # Shape
/// Empty when the rows are equal, so that a repeated write reports nothing twice.
pub fn events(before: Option<&Rollout>, after: &Rollout) -> Vec<RolloutEvent> {
    let mut events = Vec::new();
    let before = before.filter(|before| before.is_same_rollout(after));
    let target = after.effective_target();
    if before.is_none() {
        let from = after.previous_version.as_deref();
        events.push(event("rollout.started", None, json!({"total": after.total, "from": from})));
    }
    let was_failed = |node: &&NodeId| before.is_some_and(|before| before.failed.contains(*node));
    for node in after.failed.iter().filter(|node| !was_failed(node)) {
        events.push(event("rollout.step-failed", Some(node), json!({})));
    }
    let is_turned = after.rollback.is_some() && before.is_none_or(|before| before.rollback.is_none());
    if let Some(back) = after.rollback.as_ref().filter(|_| is_turned) {
        let rule =
            (!matches!(back.why, HoldReason::RollbackRequested { .. })).then_some("update.failureAction");
        let detail =
            json!({"from": after.target, "total": after.total, "text": back.why.to_string(), "rule": rule});
        events.push(event("rollout.rollback-started", back.why.node(), detail));
    }
    let done = before.filter(|_| !is_turned).map_or(0, |before| before.done);
    if after.done > done {
        let detail = json!({"done": after.done, "total": after.total});
        events.push(event("rollout.step-done", after.last_node.as_ref(), detail));
    }
    if before.is_none_or(|before| before.state != after.state) {
        events.extend(state_event(before, after));
    }
    for event in &mut events {
        event.detail["target"] = Value::from(target.as_str());
    }
    events
}

fn state_event(before: Option<&Rollout>, after: &Rollout) -> Option<RolloutEvent> {
    let numbers = json!({"done": after.done, "total": after.total});
    Some(match &after.state {
        RolloutState::Updating => {
            let before = before.filter(|before| before.rollback.is_some() == after.rollback.is_some())?;
            match &before.state {
                RolloutState::Held { hold, .. } => {
                    let text = format!("no longer paused: {hold}");
                    event("rollout.resumed", hold.node(), json!({"text": text}))
                }
                _ => return None,
            }
        }
        RolloutState::Held { hold, .. } => {
            event("rollout.paused", hold.node(), json!({"text": hold.to_string(), "hold": hold}))
        }
        RolloutState::Completed { .. } if after.rollback.is_some() => {
            event("rollout.rollback-completed", None, numbers)
        }
        RolloutState::Completed { .. } => event("rollout.completed", None, numbers),
        RolloutState::Abandoned { why, .. } => {
            event("rollout.abandoned", None, json!({"text": why.to_string()}))
        }
    })
}

fn event(kind: &'static str, node: Option<&NodeId>, detail: Value) -> RolloutEvent {
    RolloutEvent { kind, node: node.cloned(), detail }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
