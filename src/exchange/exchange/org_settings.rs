//! Settings of an organization for its workloads and nodes, as they are stored.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use serde_json::Value;

use crate::ApiError;

/// Reads what is stored. Settings that cannot be read are an error: the defaults are not what the administrator asked for.
pub(crate) fn stored_settings(org: &str, stored: Option<Value>) -> Result<OrgSettings, ApiError> {
    let Some(stored) = stored else { return Ok(OrgSettings::default()) };
    OrgSettings::read(stored).map_err(|error| {
        tracing::error!(org, %error, "the stored settings of the organization cannot be read; write them again");
        ApiError::internal(format!("the stored settings of organization '{org}' cannot be read: {error}"))
    })
}
