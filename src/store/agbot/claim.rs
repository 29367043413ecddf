//! Claims: which member of an HA group is being upgraded.
//!
//! Check and insert happen under the lock of the group's row in `claim_group`. Source: orchestration E5.1; seed 004, "Agent Upgrades".

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use crate::{StoreError, from_sql, to_sql};

/// One claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRow {
    /// `org/group`.
    pub ha_group: String,
    /// `agent`, or `org/policy`.
    pub scope: String,
    /// `org/node` that holds it.
    pub node: String,
    /// What for.
    pub purpose: Value,
    /// Wanted version.
    pub version: String,
    /// Number that commands under the claim state.
    pub fencing: i64,
    /// How far.
    pub phase: String,
    /// When it was taken.
    pub since: Timestamp,
    /// When the phase began.
    pub phase_at: Timestamp,
    /// When it is given up.
    pub deadline: Timestamp,
}

/// Serialises check-and-insert of a group: returns when no other transaction is deciding about it. Answers when an agent claim of the
/// group was released last.
pub async fn lock_group(tx: &mut PgConnection, ha_group: &str) -> Result<Option<Timestamp>, StoreError> {
    if let Some(released_at) = find_locked_group(tx, ha_group).await? {
        return Ok(released_at);
    }
    sqlx::query!(
        "-- claim.insert_group
        INSERT INTO claim_group (ha_group) VALUES ($1) ON CONFLICT DO NOTHING",
        ha_group,
    )
    .execute(&mut *tx)
    .await?;
    Ok(find_locked_group(tx, ha_group).await?.flatten())
}

async fn find_locked_group(
    tx: &mut PgConnection,
    ha_group: &str,
) -> Result<Option<Option<Timestamp>>, StoreError> {
    let row = sqlx::query!(
        r#"-- claim.lock_group
        SELECT released_at AS "released_at: jiff_sqlx::Timestamp" FROM claim_group WHERE ha_group = $1 FOR UPDATE"#,
        ha_group,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.released_at.map(from_sql)))
}

/// Lists the claims of one group.
pub async fn list_of_group(conn: &mut PgConnection, ha_group: &str) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_of_group
        SELECT ha_group, scope, node, purpose, version, fencing, phase, since AS "since: jiff_sqlx::Timestamp",
               phase_at AS "phase_at: jiff_sqlx::Timestamp", deadline AS "deadline: jiff_sqlx::Timestamp"
        FROM claim WHERE ha_group = $1 ORDER BY scope"#,
        ha_group,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClaimRow {
            ha_group: row.ha_group,
            scope: row.scope,
            node: row.node,
            purpose: row.purpose,
            version: row.version,
            fencing: row.fencing,
            phase: row.phase,
            since: from_sql(row.since),
            phase_at: from_sql(row.phase_at),
            deadline: from_sql(row.deadline),
        })
        .collect())
}

/// Lists all claims.
pub async fn list_all(conn: &mut PgConnection) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_all
        SELECT ha_group, scope, node, purpose, version, fencing, phase, since AS "since: jiff_sqlx::Timestamp",
               phase_at AS "phase_at: jiff_sqlx::Timestamp", deadline AS "deadline: jiff_sqlx::Timestamp"
        FROM claim ORDER BY ha_group, scope"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClaimRow {
            ha_group: row.ha_group,
            scope: row.scope,
            node: row.node,
            purpose: row.purpose,
            version: row.version,
            fencing: row.fencing,
            phase: row.phase,
            since: from_sql(row.since),
            phase_at: from_sql(row.phase_at),
            deadline: from_sql(row.deadline),
        })
        .collect())
}

/// Inserts a claim with the next fencing number, whatever number it has; answers that number. The caller holds the group's lock.
pub async fn insert_claim(tx: &mut PgConnection, claim: &ClaimRow) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        "-- claim.insert_claim
        INSERT INTO claim (ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, fencing)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nextval('claim_fencing'))
        RETURNING fencing",
        claim.ha_group,
        claim.scope,
        claim.node,
        claim.purpose,
        claim.version,
        claim.phase,
        to_sql(claim.since) as _,
        to_sql(claim.phase_at) as _,
        to_sql(claim.deadline) as _,
    )
    .fetch_one(tx)
    .await?;
    Ok(row.fencing)
}

/// Moves a claim to its next phase; false when the row is gone or has another number.
pub async fn advance_claim(
    tx: &mut PgConnection,
    ha_group: &str,
    scope: &str,
    fencing: i64,
    phase: &str,
    at: Timestamp,
    deadline: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- claim.advance_claim
        UPDATE claim SET phase = $4, phase_at = $5, deadline = $6
        WHERE ha_group = $1 AND scope = $2 AND fencing = $3",
        ha_group,
        scope,
        fencing,
        phase,
        to_sql(at) as _,
        to_sql(deadline) as _,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Whether the claim is still there under this number; holds the row until the transaction ends.
pub async fn lock_claim(
    tx: &mut PgConnection,
    ha_group: &str,
    scope: &str,
    fencing: i64,
) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        "-- claim.lock_claim
        SELECT fencing FROM claim WHERE ha_group = $1 AND scope = $2 AND fencing = $3 FOR SHARE",
        ha_group,
        scope,
        fencing,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.is_some())
}

/// Removes exactly the claim with this number; false when it is gone.
pub async fn delete_claim(
    tx: &mut PgConnection,
    ha_group: &str,
    scope: &str,
    fencing: i64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- claim.delete_claim
        DELETE FROM claim WHERE ha_group = $1 AND scope = $2 AND fencing = $3",
        ha_group,
        scope,
        fencing,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Notes that a member's agent upgrade was refused; keeps since when it waits.
pub async fn upsert_wait(
    tx: &mut PgConnection,
    ha_group: &str,
    node: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- claim.upsert_wait
        INSERT INTO upgrade_wait (ha_group, node, since, refreshed_at) VALUES ($1, $2, $3, $3)
        ON CONFLICT (ha_group, node) DO UPDATE SET refreshed_at = excluded.refreshed_at",
        ha_group,
        node,
        to_sql(now) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Forgets that a member waits, and waits not renewed since an instant.
pub async fn delete_waits(
    tx: &mut PgConnection,
    ha_group: &str,
    node: &str,
    stale: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- claim.delete_waits
        DELETE FROM upgrade_wait WHERE ha_group = $1 AND (node = $2 OR refreshed_at < $3)",
        ha_group,
        node,
        to_sql(stale) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A member that waits for its agent upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// `org/node`.
    pub node: String,
    /// When it was refused first.
    pub since: Timestamp,
    /// When it was refused last.
    pub refreshed_at: Timestamp,
}

/// Lists the members that were refused, the longest waiting first; also those that have not asked for long.
pub async fn list_waits(tx: &mut PgConnection, ha_group: &str) -> Result<Vec<WaitRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_waits
        SELECT node, since AS "since: jiff_sqlx::Timestamp", refreshed_at AS "refreshed_at: jiff_sqlx::Timestamp"
        FROM upgrade_wait WHERE ha_group = $1 ORDER BY since, node"#,
        ha_group,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| WaitRow {
            node: row.node,
            since: from_sql(row.since),
            refreshed_at: from_sql(row.refreshed_at),
        })
        .collect())
}

/// Notes when an agent claim of the group was released.
pub async fn set_released_at(tx: &mut PgConnection, ha_group: &str, at: Timestamp) -> Result<(), StoreError> {
    sqlx::query!(
        "-- claim.set_released_at
        UPDATE claim_group SET released_at = $2 WHERE ha_group = $1",
        ha_group,
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}
