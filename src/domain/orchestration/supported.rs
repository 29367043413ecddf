//! What the engine carries out today.
//!
//! A valid document may ask for more. It is refused by name, because storing and ignoring a member would promise something. A member that
//! says what holds anyway promises nothing.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::{MembersError, Orchestration};

/// Reads the document of a policy as [`Orchestration::of_policy`] does, and refuses what the engine cannot carry out.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let read = Orchestration::of_policy(policy, document)?;
    match without_effect(&read) {
        None => Ok(read),
        Some(member) => {
            Err(MembersError { path: format!("orchestration.{member}"), rule: "is not supported".to_owned() })
        }
    }
}

/// Returns a member that asks for more than holds anyway, and would have no effect.
fn without_effect(read: &Orchestration) -> Option<&'static str> {
    let usual = Orchestration::of_mode(read.mode);
    let (placement, of_mode) = (&read.placement, &usual.placement);
    let members = [
        (
            "placement.domains.preferredDomain",
            placement.domains.preferred_domain != of_mode.domains.preferred_domain,
        ),
        ("placement.rebalance", placement.rebalance != of_mode.rebalance),
    ];
    members.into_iter().find(|(_, is_other)| *is_other).map(|(member, _)| member)
}
