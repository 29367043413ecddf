//! Writes the health registry.
//!
//! Source: orchestration C1, C9, C10.

use evenkeel_agbot_store::event::{EventRow, insert_event, insert_events};
use evenkeel_agbot_store::registration::{self as store, NewRegistration};
use evenkeel_planner_model::plan::UnitEvent;
use evenkeel_planner_record::health::{Entity, Registration};
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::retry;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    AgbotError,
    context::Context,
    lease_check::check_lease,
    records::{entity_key, event_about},
};

/// Stores a registration with its events, if it is based on the stored one.
///
/// # Errors
/// [`AgbotError::Refused`] when another agbot holds the partition by now, or the row was changed meanwhile.
pub(super) async fn record(
    context: &Context,
    lease: Lease,
    registration: &Registration,
    events: &[UnitEvent],
) -> Result<(), AgbotError> {
    let row = row_of(context, registration)?;
    let now = context.now();
    let name = context.name();
    let events: Vec<EventRow> =
        events.iter().map(|event| event_row(&name, now, &registration.target, event)).collect();
    retry("registration.record", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = store::lock_registration(&mut tx, &row.target).await?;
        let stored: Option<Registration> = stored.map(serde_json::from_value).transpose()?;
        if !registration.may_replace(stored.as_ref()) {
            let text = format!("the registration of {} was changed meanwhile", registration.target);
            return Err(AgbotError::Refused(text));
        }
        if stored.as_ref() != Some(registration) {
            store::upsert_registration(&mut tx, &row).await?;
            if !events.is_empty() {
                insert_events(&mut tx, now, &events).await?;
            }
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Deletes a registration.
///
/// # Errors
/// [`AgbotError::Refused`] when another agbot holds the partition by now.
pub(super) async fn remove(context: &Context, lease: Lease, target: &Entity) -> Result<(), AgbotError> {
    let key = entity_key(target);
    let (name, now) = (context.name(), context.now());
    retry("registration.remove", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        if store::delete_registration(&mut tx, &key).await? {
            let detail = json!({"actor": name, "text": "there is no longer a health policy"});
            insert_event(&mut tx, &event_about(now, "health.unregistered", target, detail)).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

fn row_of(context: &Context, registration: &Registration) -> Result<NewRegistration, AgbotError> {
    let Registration { target, modes, lease, .. } = registration;
    Ok(NewRegistration {
        target: entity_key(target),
        modes: modes.iter().map(|mode| mode.word().to_owned()).collect(),
        interval_secs: i64::try_from(registration.interval_secs).unwrap_or(i64::MAX),
        is_enabled: registration.is_enabled,
        suspended_by: registration.suspended_by.clone(),
        engine: context.engine_name(),
        partition: i32::try_from(lease.partition).unwrap_or(i32::MAX),
        fencing: lease.fencing.cast_signed(),
        record: serde_json::to_value(registration)?,
    })
}

fn event_row(actor: &str, at: Timestamp, target: &Entity, event: &UnitEvent) -> EventRow {
    let mut detail = event.data.clone().unwrap_or_else(|| json!({}));
    detail["text"] = json!(event.text);
    // The event of a user's action names the user.
    if detail["actor"].is_null() {
        detail["actor"] = json!(actor);
    }
    EventRow { node: event.node.clone(), ..event_about(at, &event.kind, target, detail) }
}
