//! Validates `orchestration` of deployment policies before it is sent.

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_ids::PolicyId;
use evenkeel_wire::agbot::orchestration::ExplainedConstraint;
use serde_json::Value;

use crate::exit::{CliError, Exit, Outcome};

/// Part of the hub's text about a workload unit whose policy selects no node.
pub const NO_NODE: &str = "no node belongs to it";

/// Returns how to find the constraint that keeps a deployment policy, `org/policy`, away from a node.
pub fn clause_advice(policy: &str) -> String {
    format!("see which constraint a node does not satisfy with: hzn explain NODE {policy}")
}

/// Returns the reason for which a constraint removes nodes, with the first node that the caller may read.
pub fn removal_example(stage: &ExplainedConstraint) -> Option<String> {
    let readable = stage.eliminated.iter().find(|one| !one.reason.is_empty())?;
    Some(format!("{}: {}", readable.node, readable.reason))
}

/// Refuses a deployment policy, or a change of one, whose `orchestration` breaks a rule of its document.
///
/// A valid document that the hub cannot carry out is sent: the hub may have another version, and rejects the
/// document itself.
///
/// # Errors
/// With status 3, naming the member.
pub fn check(policy: &PolicyId, body: &Value) -> Outcome<()> {
    let Some(document) = body.get("orchestration").filter(|document| !document.is_null()) else {
        return Ok(());
    };
    match Orchestration::of_policy(policy, document.clone()) {
        Ok(_) => Ok(()),
        Err(error) => Err(CliError::new(
            Exit::Json,
            format!("deployment policy {policy} was not sent: its orchestration breaks a rule"),
            error.to_string(),
            "correct the member that is named",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn document_that_breaks_a_rule_is_not_sent() {
        let check = |body: Value| check(&PolicyId::new("o", "p"), &body).map_err(|error| error.to_string());
        for body in [
            json!({"label": "l"}),
            json!({"orchestration": null}),
            json!({"orchestration": {"mode": "replicated", "replicas": 2}}),
        ] {
            assert_eq!(check(body), Ok(()));
        }
        let wrong = json!({"orchestration": {"mode": "flex", "flex": {"max": 3, "target": 5}}});
        let error = check(wrong).unwrap_err();
        assert!(error.contains("orchestration.flex.target must not be greater than max, 3"), "{error}");
        let other = json!({"orchestration": {"parents": ["x/db"]}});
        assert!(check(other).unwrap_err().contains("organization o"));
    }
}
