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

/// A group that the transaction has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedGroup {
    /// `org/group`.
    pub ha_group: String,
    /// When an agent claim of the group was released last.
    pub released_at: Option<Timestamp>,
}

/// Serialises check-and-insert of groups: returns when no other transaction is deciding about them. They are locked in the order of
/// their names.
pub async fn lock_groups(tx: &mut PgConnection, ha_groups: &[&str]) -> Result<Vec<LockedGroup>, StoreError> {
    let locked = find_locked_groups(tx, ha_groups).await?;
    if locked.len() == ha_groups.len() {
        return Ok(locked);
    }
    sqlx::query!(
        "-- claim.insert_groups
        INSERT INTO claim_group (ha_group) SELECT name FROM UNNEST($1::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING",
        ha_groups as &[&str],
    )
    .execute(&mut *tx)
    .await?;
    find_locked_groups(tx, ha_groups).await
}

async fn find_locked_groups(
    tx: &mut PgConnection,
    ha_groups: &[&str],
) -> Result<Vec<LockedGroup>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.lock_groups
        SELECT ha_group, released_at AS "released_at: jiff_sqlx::Timestamp" FROM claim_group
        WHERE ha_group = ANY ($1) ORDER BY ha_group FOR UPDATE"#,
        ha_groups as &[&str],
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| LockedGroup { ha_group: row.ha_group, released_at: row.released_at.map(from_sql) })
        .collect())
}

/// Lists the claims of groups.
pub async fn list_of_groups(
    conn: &mut PgConnection,
    ha_groups: &[&str],
) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_of_groups
        SELECT ha_group, scope, node, purpose, version, fencing, phase, since AS "since: jiff_sqlx::Timestamp",
               phase_at AS "phase_at: jiff_sqlx::Timestamp", deadline AS "deadline: jiff_sqlx::Timestamp"
        FROM claim WHERE ha_group = ANY ($1) ORDER BY ha_group, scope"#,
        ha_groups as &[&str],
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

/// A claim to insert.
#[derive(Debug, Clone, PartialEq)]
pub struct NewClaim {
    /// The row; its number is not looked at.
    pub row: ClaimRow,
    /// Members that the decision counted on, for the record of what happened.
    pub seen_running: Value,
}

/// Inserts claims with the next fencing numbers and records that they were granted; answers their numbers in the order of the claims.
/// The caller holds the locks of their groups.
pub async fn insert_claims(tx: &mut PgConnection, claims: &[NewClaim]) -> Result<Vec<i64>, StoreError> {
    let text = |of: fn(&ClaimRow) -> &str| claims.iter().map(|claim| of(&claim.row)).collect::<Vec<&str>>();
    let times = |of: fn(&ClaimRow) -> Timestamp| {
        claims.iter().map(|claim| to_sql(of(&claim.row))).collect::<Vec<jiff_sqlx::Timestamp>>()
    };
    let purposes: Vec<&Value> = claims.iter().map(|claim| &claim.row.purpose).collect();
    let seen: Vec<&Value> = claims.iter().map(|claim| &claim.seen_running).collect();
    let rows = sqlx::query!(
        r#"-- claim.insert_claims
        WITH wanted AS MATERIALIZED (
            SELECT row.*, nextval('claim_fencing') AS fencing
            FROM UNNEST($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::text[], $7::timestamptz[],
                        $8::timestamptz[], $9::timestamptz[], $10::jsonb[])
                WITH ORDINALITY
                AS row (ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, seen, position)
        ), inserted AS (
            INSERT INTO claim (ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, fencing)
            SELECT ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, fencing FROM wanted
        ), told AS (
            INSERT INTO agbot_event (happened_at, kind, ha_group, node, detail)
            SELECT since, 'hagroup.lock-granted', ha_group, node,
                   jsonb_build_object('scope', scope, 'fencing', fencing, 'seenRunning', seen, 'version', version)
            FROM wanted
        )
        SELECT fencing AS "fencing!" FROM wanted ORDER BY position"#,
        &text(|row| &row.ha_group) as &[&str],
        &text(|row| &row.scope) as &[&str],
        &text(|row| &row.node) as &[&str],
        &purposes as &[&Value],
        &text(|row| &row.version) as &[&str],
        &text(|row| &row.phase) as &[&str],
        &times(|row| row.since) as &[jiff_sqlx::Timestamp],
        &times(|row| row.phase_at) as &[jiff_sqlx::Timestamp],
        &times(|row| row.deadline) as &[jiff_sqlx::Timestamp],
        &seen as &[&Value],
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.fencing).collect())
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

/// A claim to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedClaim {
    /// `org/group`.
    pub ha_group: String,
    /// `agent`, or `org/policy`.
    pub scope: String,
    /// The number it was taken with.
    pub fencing: i64,
    /// Why it ends, for the record of what happened.
    pub why: String,
}

/// Removes exactly the claims with these numbers, notes when an agent claim of their groups was released last, and records that they were
/// released; answers the numbers of those that were still there. The caller holds the locks of their groups.
pub async fn delete_claims(
    tx: &mut PgConnection,
    claims: &[EndedClaim],
    at: Timestamp,
) -> Result<Vec<i64>, StoreError> {
    let text = |of: fn(&EndedClaim) -> &str| claims.iter().map(of).collect::<Vec<&str>>();
    let numbers: Vec<i64> = claims.iter().map(|claim| claim.fencing).collect();
    let rows = sqlx::query!(
        r#"-- claim.delete_claims
        WITH gone AS (
            DELETE FROM claim
            USING UNNEST($1::text[], $2::text[], $3::bigint[], $4::text[]) AS ended (ha_group, scope, fencing, why)
            WHERE claim.ha_group = ended.ha_group AND claim.scope = ended.scope AND claim.fencing = ended.fencing
            RETURNING claim.ha_group, claim.scope, claim.fencing, claim.node, ended.why
        ), rested AS (
            UPDATE claim_group SET released_at = $5
            FROM gone WHERE claim_group.ha_group = gone.ha_group AND gone.scope = 'agent'
        ), told AS (
            INSERT INTO agbot_event (happened_at, kind, ha_group, node, detail)
            SELECT $5, 'hagroup.lock-released', ha_group, node,
                   jsonb_build_object('scope', scope, 'fencing', fencing, 'why', why)
            FROM gone
        )
        SELECT fencing FROM gone"#,
        &text(|claim| &claim.ha_group) as &[&str],
        &text(|claim| &claim.scope) as &[&str],
        &numbers,
        &text(|claim| &claim.why) as &[&str],
        to_sql(at) as _,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.fencing).collect())
}

/// Members of groups, for statements that unnest them.
fn columns<'w>(waits: &[(&'w str, &'w str)]) -> (Vec<&'w str>, Vec<&'w str>) {
    waits.iter().copied().unzip()
}

/// Notes that agent upgrades of members (group and node) were refused; keeps since when they wait.
pub async fn upsert_waits(
    tx: &mut PgConnection,
    waits: &[(&str, &str)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let (ha_groups, nodes) = columns(waits);
    sqlx::query!(
        "-- claim.upsert_waits
        INSERT INTO upgrade_wait (ha_group, node, since, refreshed_at)
        SELECT DISTINCT ha_group, node, $3::timestamptz, $3::timestamptz
        FROM UNNEST($1::text[], $2::text[]) AS row (ha_group, node)
        ON CONFLICT (ha_group, node) DO UPDATE SET refreshed_at = excluded.refreshed_at",
        &ha_groups as &[&str],
        &nodes as &[&str],
        to_sql(now) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Forgets that members (group and node) wait, and waits of their groups not renewed since an instant.
pub async fn delete_waits(
    tx: &mut PgConnection,
    waits: &[(&str, &str)],
    stale: Timestamp,
) -> Result<(), StoreError> {
    let (ha_groups, nodes) = columns(waits);
    sqlx::query!(
        "-- claim.delete_waits
        DELETE FROM upgrade_wait
        USING UNNEST($1::text[], $2::text[]) AS row (ha_group, node)
        WHERE upgrade_wait.ha_group = row.ha_group
          AND (upgrade_wait.node = row.node OR upgrade_wait.refreshed_at < $3)",
        &ha_groups as &[&str],
        &nodes as &[&str],
        to_sql(stale) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A member that waits for its agent upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRow {
    /// `org/group`.
    pub ha_group: String,
    /// `org/node`.
    pub node: String,
    /// When it was refused first.
    pub since: Timestamp,
    /// When it was refused last.
    pub refreshed_at: Timestamp,
}

/// Lists the members of groups that were refused, the longest waiting first; also those that have not asked for long.
pub async fn list_waits(tx: &mut PgConnection, ha_groups: &[&str]) -> Result<Vec<WaitRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_waits
        SELECT ha_group, node, since AS "since: jiff_sqlx::Timestamp",
               refreshed_at AS "refreshed_at: jiff_sqlx::Timestamp"
        FROM upgrade_wait WHERE ha_group = ANY ($1) ORDER BY since, node"#,
        ha_groups as &[&str],
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| WaitRow {
            ha_group: row.ha_group,
            node: row.node,
            since: from_sql(row.since),
            refreshed_at: from_sql(row.refreshed_at),
        })
        .collect())
}
