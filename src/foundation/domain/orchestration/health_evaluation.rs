//! The member `healthEvaluation` of an organization's settings: how much may be wrong before an entity is in error.
//!
//! Source: orchestration 1.6, D1.

use serde_json::{Map, Value};

use crate::object::{Members, MembersError, Object};

const WARNING: &str = "considerWarningAsError";
const NODES: &str = "maxPercentUnhealthyNodes";
const WORKLOADS: &str = "maxPercentUnhealthyWorkloads";
const UNITS: &str = "maxPercentUnhealthyUnits";
const INSTANCES: &str = "maxPercentUnhealthyInstances";

const MEMBERS: Members = Members { known: &[WARNING, NODES, WORKLOADS, UNITS, INSTANCES], unsupported: &[] };

/// Rules by which health is evaluated; `None` where the organization sets nothing.
///
/// # Units
/// Percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealthEvaluation {
    /// True if an event with a warning counts as an error.
    pub considers_warning_as_error: Option<bool>,
    /// Nodes of the organization that may be in error.
    pub max_percent_unhealthy_nodes: Option<u8>,
    /// Workloads of the organization that may be in error.
    pub max_percent_unhealthy_workloads: Option<u8>,
    /// Units of a workload that may be in error.
    pub max_percent_unhealthy_units: Option<u8>,
    /// Instances of a unit that may be in error.
    pub max_percent_unhealthy_instances: Option<u8>,
}

impl HealthEvaluation {
    /// Returns the rules with what the member `name` of a merge patch changes.
    pub(super) fn patched(mut self, given: &mut Object, name: &str) -> Result<Self, MembersError> {
        let Some(value) = given.take(name) else { return Ok(self) };
        let cleared = |member: &str| value.get(member).is_some_and(Value::is_null);
        let is_warning_cleared = cleared(WARNING);
        let are_cleared = [NODES, WORKLOADS, UNITS, INSTANCES].map(cleared);
        let mut rules = Object::open(name.to_owned(), value, &MEMBERS)?;
        let percents = self.percents_mut();
        for ((member, percent), is_cleared) in percents.into_iter().zip(are_cleared) {
            if is_cleared {
                *percent = None;
            }
            if let Some(number) = rules.number(member, 0..=100)? {
                *percent = Some(number);
            }
        }
        if is_warning_cleared {
            self.considers_warning_as_error = None;
        }
        if let Some(is_error) = rules.boolean(WARNING)? {
            self.considers_warning_as_error = Some(is_error);
        }
        Ok(self)
    }

    fn percents_mut(&mut self) -> [(&'static str, &mut Option<u8>); 4] {
        [
            (NODES, &mut self.max_percent_unhealthy_nodes),
            (WORKLOADS, &mut self.max_percent_unhealthy_workloads),
            (UNITS, &mut self.max_percent_unhealthy_units),
            (INSTANCES, &mut self.max_percent_unhealthy_instances),
        ]
    }

    /// Returns the members that are set.
    pub(super) fn document(mut self) -> Map<String, Value> {
        let warning = self.considers_warning_as_error.map(|is_error| (WARNING.to_owned(), is_error.into()));
        let percents = self.percents_mut().into_iter();
        let percents = percents.filter_map(|(name, percent)| Some((name.to_owned(), (*percent)?.into())));
        warning.into_iter().chain(percents).collect()
    }

    /// Returns every member, with the defaults.
    pub(super) fn with_defaults(mut self) -> Map<String, Value> {
        self.considers_warning_as_error.get_or_insert(false);
        for (_, percent) in self.percents_mut() {
            percent.get_or_insert(0);
        }
        self.document()
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
        assert_eq!(second.with_defaults()["healthEvaluation"]["maxPercentUnhealthyInstances"], 0);
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
