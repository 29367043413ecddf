//! The member `healthEvaluation` of an organization's settings: how many children may be in error before an entity is.
//!
//! Source: orchestration 1.6, D1.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::integer;

/// Rules by which the health of an organization is evaluated, in percent where the name says so.
// `None` where the organization sets nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthEvaluationRules {
    /// True if an event with a warning counts as an error.
    #[serde(rename = "considerWarningAsError", skip_serializing_if = "Option::is_none")]
    pub considers_warning_as_error: Option<bool>,
    /// Nodes of the organization that may be in error.
    #[serde(deserialize_with = "integer::<_, _, 0, 100>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_nodes: Option<u8>,
    /// Workloads of the organization that may be in error.
    #[serde(deserialize_with = "integer::<_, _, 0, 100>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_workloads: Option<u8>,
    /// Units of a workload that may be in error.
    #[serde(deserialize_with = "integer::<_, _, 0, 100>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_units: Option<u8>,
    /// Instances of a unit that may be in error.
    #[serde(deserialize_with = "integer::<_, _, 0, 100>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_percent_unhealthy_instances: Option<u8>,
}

impl HealthEvaluationRules {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the rules that apply, with the defaults.
    pub(super) fn with_defaults(self) -> Self {
        Self {
            considers_warning_as_error: self.considers_warning_as_error.or(Some(false)),
            max_percent_unhealthy_nodes: self.max_percent_unhealthy_nodes.or(Some(0)),
            max_percent_unhealthy_workloads: self.max_percent_unhealthy_workloads.or(Some(0)),
            max_percent_unhealthy_units: self.max_percent_unhealthy_units.or(Some(0)),
            max_percent_unhealthy_instances: self.max_percent_unhealthy_instances.or(Some(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::org_settings::OrgSettings;

    #[test]
    fn patch_changes_single_rules_and_null_ends_them() {
        let set =
            json!({"healthEvaluation": {"maxPercentUnhealthyNodes": 5, "considerWarningAsError": true}});
        let first = OrgSettings::read(set.clone()).unwrap();
        assert_eq!(first.document(), set);
        let patch =
            json!({"healthEvaluation": {"maxPercentUnhealthyNodes": null, "maxPercentUnhealthyUnits": 40}});
        let second = first.patched(patch).unwrap();
        let expected = json!({"considerWarningAsError": true, "maxPercentUnhealthyUnits": 40});
        assert_eq!(second.document()["healthEvaluation"], expected);
        assert_eq!(second.with_defaults().health_evaluation().max_percent_unhealthy_instances, Some(0));
        assert_eq!(second.patched(json!({"healthEvaluation": null})).unwrap(), OrgSettings::default());
    }

    #[test]
    fn refusal_names_the_rule() {
        for (rules, expected) in [
            (json!(1), "healthEvaluation must be an object"),
            (
                json!({"maxPercentUnhealthyNodes": 101}),
                "healthEvaluation.maxPercentUnhealthyNodes must be an integer from 0 to 100",
            ),
            (
                json!({"considerWarningAsError": 1}),
                "healthEvaluation.considerWarningAsError must be true or false",
            ),
            (
                json!({"maxPercentUnhealthyNode": 1}),
                "healthEvaluation.maxPercentUnhealthyNode is not known; maxPercentUnhealthyNodes was probably meant",
            ),
        ] {
            let refused = OrgSettings::read(json!({"healthEvaluation": rules})).unwrap_err();
            assert_eq!(refused.to_string(), expected);
        }
    }
}
