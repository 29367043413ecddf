//! The document `orchestration` of a deployment policy as it is stored.

use evenkeel_domain::orchestration::object::without_nulls;
use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_ids::PolicyId;
use serde_json::Value;

use crate::ApiError;

/// Checks a document and returns it without the members that are `null`.
///
/// # Errors
/// 400 with the path of the first member that breaks a rule or is not supported.
///
/// # Source
/// Orchestration 1.2.
pub(super) fn stored_orchestration(org: &str, id: &str, document: &Value) -> Result<Value, ApiError> {
    supported_orchestration(&PolicyId::new(org, id), document.clone())
        .map_err(|error| ApiError::invalid_input(error.to_string()))?;
    Ok(without_nulls(document))
}
