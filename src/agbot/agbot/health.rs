//! Stores what the engine reports about health, and drops what was reported about entities that are gone.
//!
//! Source: orchestration D2; engine 6.

use evenkeel_agbot_store::event::{EventRow, insert_events};
use evenkeel_agbot_store::health as store;
use evenkeel_agbot_store::health::EntityKey;
use evenkeel_planner_record::health::{
    Entity, HealthState, StoredReport, SystemReport, kind_of_news, stored_reports,
};
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::retry;
use serde_json::json;

use crate::{
    AgbotError,
    context::Context,
    lease_check::check_lease,
    records::{entity_key, health_row_of},
};

/// Stores reports about an entity that contain news.
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
        let rows = changed.iter().map(health_row_of).collect::<Result<Vec<_>, _>>()?;
        if !rows.is_empty() {
            store::upsert_events(&mut tx, &key, &rows).await?;
        }
        let news: Vec<EventRow> =
            changed.iter().filter_map(|next| news(&context.name(), entity, &stored, next)).collect();
        if !news.is_empty() {
            insert_events(&mut tx, context.now(), &news).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Records reports about an entity, unless another agbot has the partition by now.
pub(crate) async fn report_if_leased(
    context: &Context,
    lease: Lease,
    entity: &Entity,
    reports: &[SystemReport],
    ttl_secs: u64,
) -> Result<(), AgbotError> {
    match report(context, lease, entity, reports, ttl_secs).await {
        Ok(()) | Err(AgbotError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the event of a rule of placement that begins to be broken, or is kept again.
///
/// # Source
/// Orchestration D2.
fn news(actor: &str, entity: &Entity, stored: &[StoredReport], next: &StoredReport) -> Option<EventRow> {
    let known = stored.iter().find(|one| one.source == next.source && one.property == next.property);
    let is_broken = |report: &StoredReport| report.state != HealthState::Ok;
    let was_broken = known.is_some_and(|known| is_broken(known) && !known.is_gone(next.received_at));
    if is_broken(next) == was_broken {
        return None;
    }
    let kind = kind_of_news(entity, &next.property, is_broken(next))?;
    Some(EventRow {
        happened_at: next.received_at,
        kind: kind.to_owned(),
        ha_group: None,
        node: entity.node().cloned(),
        policy: entity.policy().cloned(),
        detail: json!({
            "actor": actor, "entity": entity.to_string(), "property": next.property,
            "text": format!("{}: {}", next.property, next.description),
        }),
    })
}

/// Deletes all events of entities.
pub(crate) async fn drop_entities(
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
