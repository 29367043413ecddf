//! What the operator of a node asks of the engine.
//!
//! Source: orchestration 1.7.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// What the operator of a node asks of the engine, as it is stored.
#[derive(Debug, Clone)]
pub struct NodeSpecRow {
    /// `active`, `pause` or `drain`.
    pub availability: String,
    /// Whether the last instance of an HA group is taken off it as well while it is drained.
    pub is_drain_forced: bool,
    /// Whether a user froze it.
    pub is_frozen: bool,
    /// Whether it is drained for an upgrade, after which its instances return.
    pub is_in_upgrade: bool,
    /// What instances may use of it, by name; none when nobody said it.
    pub capacities: Option<serde_json::Value>,
    /// What fails together with it, `fd:/dc/rack`; none when nobody said it.
    pub fault_domain: Option<String>,
    /// What is upgraded together with it; none when nobody said it.
    pub upgrade_domain: Option<String>,
    /// Who changed any of it last; none when nobody did.
    pub updated_by: Option<String>,
}

/// A change of it; `None` leaves a part.
#[derive(Debug, Clone, Default)]
pub struct NodeSpecChange {
    /// `active`, `pause` or `drain`; the last alone is forced, or goes with an upgrade.
    pub availability: Option<&'static str>,
    /// Whether the drain is forced.
    pub is_drain_forced: Option<bool>,
    /// Whether it is frozen.
    pub is_frozen: Option<bool>,
    /// Whether it is drained for an upgrade.
    pub is_in_upgrade: Option<bool>,
    /// What instances may use of it, by name; an empty object removes all.
    pub capacities: Option<serde_json::Value>,
    /// Its fault domain; an empty text removes it.
    pub fault_domain: Option<String>,
    /// Its upgrade domain; an empty text removes it.
    pub upgrade_domain: Option<String>,
}

/// Changes what is asked of the engine for a node, as `actor` wants it. False when the node does not exist.
pub async fn update_spec(
    tx: &mut Permitted<right::NodeOrchestrationWrite>,
    org: &str,
    node: &str,
    change: &NodeSpecChange,
    actor: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let connection: &mut PgConnection = tx;
    let done = sqlx::query!(
        "-- node_spec.update_spec
        UPDATE node
        SET availability = COALESCE($3, availability), is_frozen = COALESCE($4, is_frozen),
            is_in_upgrade = COALESCE($3, availability) = 'drain' AND COALESCE($9, is_in_upgrade),
            is_drain_forced = COALESCE($3, availability) = 'drain' AND COALESCE($10, is_drain_forced),
            capacities = NULLIF(COALESCE($6, capacities), '{}'::jsonb),
            fault_domain = NULLIF(COALESCE($7, fault_domain), ''),
            upgrade_domain = NULLIF(COALESCE($8, upgrade_domain), ''), spec_updated_by = $11, updated_at = $5
        WHERE org = $1 AND node = $2",
        org,
        node,
        change.availability,
        change.is_frozen,
        to_sql(now) as _,
        change.capacities.as_ref(),
        change.fault_domain.as_deref(),
        change.upgrade_domain.as_deref(),
        change.is_in_upgrade,
        change.is_drain_forced,
        actor,
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}
