//! What the engine carries out today.
//!
//! A valid document may ask for more. It is refused by name, because storing and ignoring a member would promise something.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::{MembersError, Mode, Orchestrate, Orchestration, Scope};

/// Members of a policy's document without effect.
const WITHOUT_EFFECT: [&str; 12] = [
    "replicas",
    "flex",
    "maxPerNode",
    "placement",
    "parents",
    "children",
    "loads",
    "restart",
    "rollback",
    "compatGate",
    "timers",
    "priority",
];

/// Reads the document of a policy as [`Orchestration::of_policy`] does, and refuses what the engine cannot carry out.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let given = |member: &&str| document.get(*member).is_some_and(|value| !value.is_null());
    let without_effect = WITHOUT_EFFECT.into_iter().find(given);
    let names_orchestrate = given(&"orchestrate");
    let read = Orchestration::of_policy(policy, document)?;
    let refuse = |member: &str, rule: &str| {
        Err(MembersError { path: format!("orchestration.{member}"), rule: rule.to_owned() })
    };
    match read.mode {
        Mode::Global | Mode::Failover => {}
        Mode::Replicated => return refuse("mode", "replicated is not supported"),
        Mode::Flex => return refuse("mode", "flex is not supported"),
    }
    if let Some(member) = without_effect {
        return refuse(member, "is not supported");
    }
    match read.orchestrate {
        Orchestrate::Ha => {}
        Orchestrate::No if !names_orchestrate => {
            let rule = "must be ha with the mode failover: its default, no, is not supported";
            return refuse("orchestrate", rule);
        }
        Orchestrate::No => return refuse("orchestrate", "no is not supported"),
        Orchestrate::Start => return refuse("orchestrate", "start is not supported"),
    }
    match (&read.scope, read.mode) {
        (Scope::Nodes { .. }, _) => refuse("scope.type", "nodes is not supported"),
        (Scope::Eligible, Mode::Failover) => {
            refuse("scope", "must be of the type hagroups with the mode failover")
        }
        _ => Ok(read),
    }
}
