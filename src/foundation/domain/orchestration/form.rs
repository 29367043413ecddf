//! Parts of a deployment policy that cannot change while nodes have tasks of it: its mode and the type of its scope.
//!
//! Source: orchestration 1.2, 1.1-6; engine 6.

use evenkeel_ids::PolicyId;
use serde_json::Value;

/// A write that would change mode or kind of scope while nodes have tasks of the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mode change needs delete and create: nodes have tasks of deployment policy {policy}, so that mode and scope.type cannot change"
)]
pub struct FormConflict {
    /// The policy.
    pub policy: PolicyId,
}

/// Returns whether mode or type of scope differ between two documents. Adding or removing the whole document is not such a change.
#[must_use]
pub fn changes_form(stored: Option<&Value>, next: Option<&Value>) -> bool {
    match (stored, next) {
        (Some(stored), Some(next)) => form(stored) != form(next),
        _ => false,
    }
}

fn form(document: &Value) -> (&str, &str) {
    let word = |path: &str, default| document.pointer(path).and_then(Value::as_str).unwrap_or(default);
    (word("/mode", "global"), word("/scope/type", "eligible"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn form_is_mode_and_kind_of_scope_with_their_defaults() {
        let changes =
            |before: Option<Value>, next: Option<Value>| changes_form(before.as_ref(), next.as_ref());
        let nodes = |list: &[&str]| json!({"scope": {"type": "nodes", "nodes": list}});
        assert!(!changes(Some(json!({})), Some(json!({"mode": "global", "scope": {"type": "eligible"}}))));
        assert!(changes(Some(json!({})), Some(json!({"mode": "replicated"}))));
        assert!(changes(Some(json!({})), Some(nodes(&["n1"]))));
        assert!(!changes(Some(nodes(&["n1"])), Some(nodes(&["n2", "n1"]))));
        assert!(!changes(None, Some(json!({"mode": "flex"}))));
        assert!(!changes(Some(json!({"mode": "flex"})), None));
    }
}
