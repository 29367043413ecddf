//! What the engine carries out today.
//!
//! A valid document may ask for more. It is refused by name, because storing and ignoring a member would promise something.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::{MembersError, Orchestration};

/// Members of a policy's document without effect.
const WITHOUT_EFFECT: [&str; 8] = [
    "placement.domains",
    "placement.constraintPriorities",
    "placement.rebalance",
    "parents",
    "children",
    "loads",
    "compatGate",
    "priority",
];

/// Reads the document of a policy as [`Orchestration::of_policy`] does, and refuses what the engine cannot carry out.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let find = |path: &str| path.split('.').try_fold(&document, |value, member| value.get(member));
    let given = |path: &&str| find(path).is_some_and(|value| !value.is_null());
    let without_effect = WITHOUT_EFFECT.into_iter().find(given);
    let read = Orchestration::of_policy(policy, document)?;
    let refuse = |member: &str, rule: &str| {
        Err(MembersError { path: format!("orchestration.{member}"), rule: rule.to_owned() })
    };
    if let Some(member) = without_effect {
        return refuse(member, "is not supported");
    }
    Ok(read)
}
