//! The object `orchestration` of an organization: settings for its workloads and nodes, which are
//! in `domain/orchestration/org_settings.rs`.
//!
//! Source: orchestration 1.6.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::query;

/// Replaces or changes the settings of an organization; `null` removes a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = OrgSettings)]
pub struct WriteOrgOrchestration(pub Value);

/// Selection of settings.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct OrgOrchestrationQuery {
    /// Only the settings of the organization, without the defaults.
    #[serde(deserialize_with = "query::optional_flag")]
    pub given: Option<bool>,
}
