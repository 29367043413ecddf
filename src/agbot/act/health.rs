//! Stores what the engine reports about health, and drops what was reported about entities that are gone.
//!
//! Source: orchestration D2; engine 6.

use evenkeel_agbot_store::health as store;
use evenkeel_agbot_store::health::EntityKey;
use evenkeel_planner::command::Lease;
use evenkeel_planner::health::{Entity, StoredReport, SystemReport, stored_reports};
use evenkeel_store::retry;

use super::check_lease;
use crate::AgbotError;
use crate::api::health::row_of;
use crate::context::Context;
use crate::observe::records::entity_key;

/// Stores reports about an entity that say something new.
///
/// # Errors
/// [`AgbotError::Refused`] when another agbot holds the partition by now.
pub(crate) async fn report(
    context: &Context,
    lease: Lease,
    entity: &Entity,
    reports: &[SystemReport],
    ttl_secs: u64,
) -> Result<(), AgbotError> {
    let key = entity_key(entity);
    retry("health.report_system", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = store::lock_of_entity(&mut tx, &key).await?;
        let stored: Vec<StoredReport> =
            stored.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
        let changed = stored_reports(&stored, reports, ttl_secs, lease.partition, context.now());
        let rows = changed.iter().map(row_of).collect::<Result<Vec<_>, _>>()?;
        if !rows.is_empty() {
            store::upsert_events(&mut tx, &key, &rows).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Deletes all events of entities.
pub(super) async fn drop_entities(
    context: &Context,
    lease: Lease,
    entities: &[Entity],
) -> Result<(), AgbotError> {
    let keys: Vec<EntityKey> = entities.iter().map(entity_key).collect();
    retry("health.drop_entities", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        store::delete_entities(&mut tx, &keys).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}
