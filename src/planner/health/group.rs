//! What the engine reports about HA groups: upgrades that something keeps from going on.
//!
//! Source: orchestration D2, D11.

use evenkeel_ids::GroupId;
use jiff::Timestamp;

use super::{
    Entity, HealthEvent, HealthState,
    conditions::UPGRADE_BLOCKED,
    system::{self, PLACEMENT, SystemReport},
};
use crate::{command::Lease, model::Model, usage::later};

impl Model {
    /// Returns the HA groups of which a blocked upgrade is reported.
    pub fn groups_reported_blocked(&self) -> impl Iterator<Item = &GroupId> {
        self.health
            .groups()
            .filter_map(|(entity, group)| self.health.find(entity, PLACEMENT, UPGRADE_BLOCKED).map(|_| group))
    }

    /// Returns what is to be reported about an HA group, with the lease for it; none when another agbot owns it, or nothing changed.
    ///
    /// # Shape
    /// `blocked`: since when its upgrades are blocked, and by what.
    pub fn group_reports(
        &self,
        group: &GroupId,
        blocked: Option<(Timestamp, String)>,
        now: Timestamp,
    ) -> Option<(Lease, Vec<SystemReport>)> {
        let lease = self.lease_for_group(group)?;
        let error_after = self.upgrade_blocked_error_after_secs(group.org());
        let found: Vec<SystemReport> = blocked
            .map(|(since, text)| {
                let is_long = now >= later(since, error_after);
                let state = if is_long { HealthState::Error } else { HealthState::Warning };
                let text = format!("upgrades of {group} are blocked since {since:.3}: {text}");
                SystemReport::new(PLACEMENT, UPGRADE_BLOCKED, state, text)
            })
            .into_iter()
            .collect();
        let entity = Entity::Group(group.clone());
        let changes = system::changes(&self.health, &entity, &found, lease.partition, is_of_groups);
        (!changes.is_empty()).then_some((lease, changes))
    }
}

fn is_of_groups(event: &HealthEvent) -> bool {
    *event.source == *PLACEMENT && *event.property == *UPGRADE_BLOCKED
}
