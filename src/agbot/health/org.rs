//! Reports of the engine about organizations: capacities of their nodes that are too small for their
//! instances.
//!
//! Source: orchestration D2.

use evenkeel_ids::OrgId;
use evenkeel_planner_model::model::{CapacitySums, Model};
use evenkeel_planner_record::{
    health::{
        Entity, HealthEvent, HealthState,
        system::{self, PLACEMENT, SystemReport},
    },
    lease::Lease,
};

/// Beginning of the property about a capacity.
const CAPACITY: &str = "OrgCapacity_";

/// Returns what is to be reported about an organization, with the lease for it; none when another agbot owns it, or nothing changed.
///
/// # Shape
/// `sums`: the capacities of all nodes.
pub fn org_reports(model: &Model, org: &OrgId, sums: &CapacitySums) -> Option<(Lease, Vec<SystemReport>)> {
    let lease = model.lease_for_org(org)?;
    let over = sums.of(org).filter(|(_, sum)| sum.used > sum.usable);
    let found: Vec<SystemReport> = over
        .map(|(name, sum)| {
            let text = format!(
                "the nodes of {org} have too little {name}: {} > {} without the buffer",
                sum.used, sum.usable
            );
            SystemReport::new(PLACEMENT, format!("{CAPACITY}{name}"), HealthState::Warning, text)
        })
        .collect();
    let entity = Entity::Org(org.clone());
    let changes = system::changes(&model.health, &entity, &found, lease.partition, is_of_orgs);
    (!changes.is_empty()).then_some((lease, changes))
}

fn is_of_orgs(event: &HealthEvent) -> bool {
    *event.source == *PLACEMENT && event.property.starts_with(CAPACITY)
}
