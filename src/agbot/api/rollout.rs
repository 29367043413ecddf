//! The body of a rollout.

use evenkeel_planner::rolling::Rollout;
use serde_json::{Value, json};

/// Returns a rollout with a sentence that describes its state.
pub(super) fn shown(rollout: &Rollout) -> Value {
    let mut shown = json!(rollout);
    if let Some(members) = shown.as_object_mut() {
        members.insert("text".to_owned(), Value::String(rollout.text()));
        if rollout.rollback.is_some() {
            members.insert("rolledBackFrom".to_owned(), Value::String(rollout.target.clone()));
            members.insert("target".to_owned(), Value::String(rollout.effective_target()));
        }
    }
    shown
}
