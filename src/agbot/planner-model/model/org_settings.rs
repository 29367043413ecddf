//! The settings that hold in an organization: its own, over those of the hub.
//!
//! Source: orchestration 1.6.

use std::sync::LazyLock;

use evenkeel_domain::orchestration::{BufferUse, org_settings::OrgSettings};
use evenkeel_planner_record::{settings::UnitSettings, workload::HubDefaults};

use super::Model;

/// Reports arrive within this time after a start of an agbot or the return of a node, unless the rejoin grace period is shorter.
const SETTLING_SECS: u64 = 15;

/// Settings of an organization that sets nothing.
static UNSET: LazyLock<OrgSettings> = LazyLock::new(OrgSettings::default);

impl Model {
    /// Returns what an organization sets itself.
    pub fn org_settings(&self, org: &str) -> &OrgSettings {
        self.org_settings.get(org).unwrap_or(&UNSET)
    }

    /// Returns the time after which the engine's reports disappear when no agbot keeps them up.
    pub fn system_report_ttl_secs(&self, org: &str) -> u64 {
        self.org_settings(org).system_report_ttl_secs()
    }

    /// Returns the time after which the engine confirms its reports.
    pub fn system_report_interval_secs(&self, org: &str) -> u64 {
        self.org_settings(org).system_report_interval_secs()
    }

    /// Returns the time after which a blocked update is an error.
    pub fn upgrade_blocked_error_after_secs(&self, org: &str) -> u64 {
        self.org_settings(org).upgrade_blocked_error_after_secs()
    }

    /// Returns the silence after which a node of an organization counts as down.
    pub fn node_down_after_secs(&self, org: &str) -> u64 {
        self.org_settings(org).node_down_after_secs().unwrap_or(self.settings.node_down_after_secs)
    }

    /// Returns the time for which a node of an organization may be away for maintenance before it counts as down.
    pub(crate) fn maintenance_grace_secs(&self, org: &str) -> u64 {
        self.org_settings(org).maintenance_grace_secs()
    }

    /// Returns the time for which a node of an organization may be away for an upgrade of its agent before it counts as down.
    pub(crate) fn agent_upgrade_grace_secs(&self, org: &str) -> u64 {
        self.org_settings(org).agent_upgrade_grace_secs()
    }

    /// Returns the time after a start for which automatic starts wait for nodes of an organization that were not heard since.
    ///
    /// # Source
    /// Orchestration A10.5.
    pub fn rejoin_grace_secs(&self, org: &str) -> u64 {
        self.org_settings(org).rejoin_grace_secs().unwrap_or(self.settings.rejoin_grace_secs)
    }

    /// Returns the time in which what is known of an organization may be out of date, after a start or a return.
    pub fn settling_secs(&self, org: &str) -> u64 {
        self.rejoin_grace_secs(org).min(SETTLING_SECS)
    }

    /// Returns the age from which statistics of a node of an organization are not ranked by.
    pub(crate) fn metrics_max_age_secs(&self, org: &str) -> u64 {
        self.org_settings(org).metrics_max_age_secs().unwrap_or(self.settings.metrics_max_age_secs)
    }

    /// Returns the settings of an organization for workloads whose policies set none.
    pub fn hub_defaults(&self, org: &str) -> HubDefaults {
        let hub = HubDefaults::default();
        let ready_secs = self.org_settings(org).ready_secs().unwrap_or(hub.ready_secs);
        let priorities = self.org_settings(org).constraint_priorities();
        HubDefaults { update: self.settings.update, ready_secs, priorities }
    }

    /// Returns the times and limits of the workload units of an organization.
    pub fn unit_settings(&self, org: &str) -> UnitSettings {
        let (settings, hub) = (self.org_settings(org), UnitSettings::default());
        UnitSettings {
            old_task_timeout_secs: settings.old_task_timeout_secs().unwrap_or(hub.old_task_timeout_secs),
            health_interval_max_secs: settings.health_interval_max_secs(),
            node_down_after_secs: self.node_down_after_secs(org),
            orphan_after_secs: settings.orphan_after_secs().unwrap_or(hub.orphan_after_secs),
            task_history_limit: settings.task_history_limit().unwrap_or(hub.task_history_limit),
            opens_buffer_on_failure: settings.capacity_buffer().usage() == BufferUse::UpgradeAndFailure,
            rebalance_interval_secs: settings.rebalance_interval_secs(),
            report_grace_secs: settings.report_grace_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::NodeId;
    use evenkeel_planner_record::{fixture::at, settings::PlannerSettings};
    use serde_json::json;

    use super::*;
    use crate::{event::Event, group_fixture::running_group, model::Liveness};

    fn set(model: &mut Model, org: &str, settings: serde_json::Value) {
        let settings = Box::new(OrgSettings::read(settings).expect("the settings are valid"));
        let org = org.parse().expect("an organization");
        model.apply(&Event::OrgSettingsChanged { org, settings }, at(100));
    }

    #[test]
    fn settings_of_an_organization_hold_over_those_of_the_hub_and_only_there() {
        let (mut model, _) = running_group(&["a"]);
        let node = NodeId::new("o", "a");
        set(&mut model, "p", json!({"nodeDownAfterSeconds": 5}));
        assert_eq!(model.liveness(&node, at(130)), Liveness::Alive);
        set(
            &mut model,
            "o",
            json!({"nodeDownAfterSeconds": 20, "readyPeriodSeconds": 1, "orphanAfterSeconds": 50}),
        );
        assert_eq!(model.liveness(&node, at(130)), Liveness::Down { since: at(100) });
        assert_eq!((model.hub_defaults("o").ready_secs, model.hub_defaults("p").ready_secs), (1, 16));
        assert_eq!(
            (model.unit_settings("o").orphan_after_secs, model.unit_settings("p").orphan_after_secs),
            (50, 86_400)
        );
        set(&mut model, "o", json!({}));
        assert_eq!(model.node_down_after_secs("o"), PlannerSettings::default().node_down_after_secs);
    }
}
