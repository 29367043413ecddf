//! Settings of a node's operator for orchestration.
//!
//! Source: orchestration 1.7.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// Stored settings of a node's operator for orchestration.
#[derive(Debug, Clone)]
pub struct NodeSpecRow {
    /// `active`, `pause` or `drain`.
    pub availability: String,
    /// True if a drain also removes the last instance of an HA group from the node.
    pub is_drain_forced: bool,
    /// True if a user froze the node.
    pub is_frozen: bool,
    /// True if the node is drained for an upgrade, after which its instances return.
    pub is_in_upgrade: bool,
    /// Capacities of the node for instances, by name; none when none were set.
    pub capacities: Option<serde_json::Value>,
    /// Fault domain of the node, such as `fd:/dc/rack`; none when it was not set.
    pub fault_domain: Option<String>,
    /// Upgrade domain of the node; none when it was not set.
    pub upgrade_domain: Option<String>,
    /// Account that made the last change; none when there was none.
    pub updated_by: Option<String>,
}

/// A change of it; `None` leaves a part.
#[derive(Debug, Clone, Default)]
pub struct NodeSpecChange {
    /// `active`, `pause` or `drain`; the last alone is forced, or goes with an upgrade.
    pub availability: Option<&'static str>,
    /// True if the drain is forced.
    pub is_drain_forced: Option<bool>,
    /// True if the node is frozen.
    pub is_frozen: Option<bool>,
    /// True if the node is drained for an upgrade.
    pub is_in_upgrade: Option<bool>,
    /// Capacities of the node for instances, by name; an empty object removes all.
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
