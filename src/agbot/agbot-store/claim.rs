//! Claims: the members of HA groups that may be disrupted now.
//!
//! Decisions read without a lock, and a claim is inserted only if the revision of its group is unchanged. Source: orchestration E5.1; requirements
//! 004 ("Agent Upgrades").

use std::collections::BTreeSet;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::partition::LeaseRow;
use evenkeel_store::{StoreError, from_sql, to_sql};

/// A claim.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClaimRow {
    /// The group.
    pub ha_group: GroupId,
    /// `agent`, or `org/policy`.
    pub scope: String,
    /// The holder.
    pub node: NodeId,
    /// The purpose.
    pub purpose: Value,
    /// Wanted version.
    pub version: String,
    /// Fencing number that commands under the claim carry.
    pub fencing: i64,
    /// The phase.
    pub phase: String,
    /// When it was taken.
    pub since: Timestamp,
    /// When the phase began.
    pub phase_at: Timestamp,
    /// Expiry of the claim.
    pub deadline: Timestamp,
}

/// A member that waits for its agent upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WaitRow {
    /// The member.
    pub node: NodeId,
    /// When it was refused first.
    pub since: Timestamp,
    /// When it was refused last.
    pub refreshed_at: Timestamp,
}

/// The stored state of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow {
    /// The group.
    pub ha_group: GroupId,
    /// Incremented with every claim of the group that is taken or released.
    pub revision: i64,
    /// When an agent claim of the group was released last.
    pub released_at: Option<Timestamp>,
    /// Its claims, in the order of their scopes.
    pub claims: Vec<ClaimRow>,
    /// Its members that were refused an agent upgrade, the longest waiting first; including those whose last request is long ago.
    pub waits: Vec<WaitRow>,
}

fn texts<'i>(ids: &[&'i GroupId]) -> Vec<&'i str> {
    ids.iter().map(|id| id.as_str()).collect()
}

/// Reads the inputs of decisions about claims of groups, in the order of their names; nothing is locked.
///
/// The subselect around the names hides their number, so that the server does not plan again for each number.
pub async fn read_groups(
    conn: &mut PgConnection,
    ha_groups: &[&GroupId],
) -> Result<Vec<GroupRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.read_groups
        SELECT claim_group.ha_group AS "ha_group: GroupId", claim_group.revision,
               claim_group.released_at AS "released_at: jiff_sqlx::Timestamp",
               (SELECT jsonb_agg(claim ORDER BY claim.scope) FROM claim
                WHERE claim.ha_group = claim_group.ha_group) AS "claims: Json<Vec<ClaimRow>>",
               (SELECT jsonb_agg(upgrade_wait ORDER BY upgrade_wait.since, upgrade_wait.node) FROM upgrade_wait
                WHERE upgrade_wait.ha_group = claim_group.ha_group) AS "waits: Json<Vec<WaitRow>>"
        FROM claim_group
        WHERE claim_group.ha_group = ANY ((SELECT $1::text[])::text[])
        ORDER BY claim_group.ha_group"#,
        &texts(ha_groups) as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| GroupRow {
            ha_group: row.ha_group,
            revision: row.revision,
            released_at: row.released_at.map(from_sql),
            claims: row.claims.map(|Json(claims)| claims).unwrap_or_default(),
            waits: row.waits.map(|Json(waits)| waits).unwrap_or_default(),
        })
        .collect())
}

/// Lists the groups of which members were refused an agent upgrade.
pub async fn list_waiting_groups(conn: &mut PgConnection) -> Result<Vec<GroupId>, StoreError> {
    let groups = sqlx::query_scalar!(
        r#"-- claim.list_waiting_groups
        SELECT DISTINCT ha_group AS "ha_group: GroupId" FROM upgrade_wait ORDER BY ha_group"#,
    )
    .fetch_all(conn)
    .await?;
    Ok(groups)
}

/// Inserts the rows of groups that have none yet.
pub async fn insert_groups(conn: &mut PgConnection, ha_groups: &[&GroupId]) -> Result<(), StoreError> {
    // The rows are sorted, so that two transactions that insert the same groups do not deadlock.
    sqlx::query!(
        "-- claim.insert_groups
        INSERT INTO claim_group (ha_group) SELECT name FROM UNNEST($1::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING",
        &texts(ha_groups) as &[&str],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists all claims.
pub async fn list_all(conn: &mut PgConnection) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim.list_all
        SELECT ha_group AS "ha_group: GroupId", scope, node AS "node: NodeId", purpose, version, fencing, phase,
               since AS "since: jiff_sqlx::Timestamp",
               phase_at AS "phase_at: jiff_sqlx::Timestamp", deadline AS "deadline: jiff_sqlx::Timestamp"
        FROM claim ORDER BY claim.ha_group, claim.scope"#
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

/// Waits for other transactions that take a claim of a policy under a limit, and returns the groups that hold one.
///
/// Until the transaction ends, other callers for the policy wait. Call it after locking a lease and before [`insert_claims`],
/// which locks groups.
pub async fn lock_policy(tx: &mut PgConnection, policy: &PolicyId) -> Result<Vec<GroupId>, StoreError> {
    // The assignment changes nothing: it locks an existing row.
    sqlx::query!(
        "-- claim.lock_policy
        INSERT INTO claim_policy (policy) VALUES ($1)
        ON CONFLICT (policy) DO UPDATE SET policy = EXCLUDED.policy",
        policy.as_str(),
    )
    .execute(&mut *tx)
    .await?;
    // A separate statement: it sees what was committed while waiting for the lock.
    let groups = sqlx::query_scalar!(
        r#"-- claim.list_groups_of_policy
        SELECT ha_group AS "ha_group: GroupId"
        FROM claim
        WHERE scope = $1 AND scope <> 'agent'
        ORDER BY claim.ha_group"#,
        policy.as_str(),
    )
    .fetch_all(tx)
    .await?;
    Ok(groups)
}

/// Deletes the lock rows of policies that hold no claim.
///
/// A row that another transaction has locked is left for the next time.
pub async fn delete_unused_policies(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "-- claim.delete_unused_policies
        DELETE FROM claim_policy
        WHERE policy IN (
            SELECT policy FROM claim_policy AS unused
            WHERE NOT EXISTS (SELECT FROM claim WHERE scope = unused.policy AND scope <> 'agent')
            FOR UPDATE SKIP LOCKED
        )"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A claim to insert.
#[derive(Debug, Clone, PartialEq)]
pub struct NewClaim {
    /// The row; its fencing number is ignored.
    pub row: ClaimRow,
    /// Revision of the group at the time of the decision.
    pub revision: i64,
    /// Members that the decision counted on, for the event.
    pub seen_running: Value,
    /// For a claim that its node waited for: its wait is removed, and waits of the group that were not renewed since this instant.
    pub waits_end_before: Option<Timestamp>,
}

/// Contents of the event of a granted claim, except for the fencing number, which only the statement knows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GrantedClaim<'c> {
    scope: &'c str,
    version: &'c str,
    seen_running: &'c Value,
}

impl<'c> GrantedClaim<'c> {
    fn of(claim: &'c NewClaim) -> Self {
        let NewClaim { row, seen_running, .. } = claim;
        Self { scope: &row.scope, version: &row.version, seen_running }
    }
}

/// Contents of the event of a released claim.
#[derive(Serialize)]
struct ReleasedClaim<'c> {
    scope: &'c str,
    fencing: i64,
    why: &'c str,
}

impl<'c> ReleasedClaim<'c> {
    fn of(claim: &'c EndedClaim) -> Self {
        Self { scope: &claim.scope, fencing: claim.fencing, why: &claim.why }
    }
}

/// Inserts claims with the next fencing numbers and their events. Returns the fencing numbers in the order of the claims: none for a
/// claim of a group whose revision has changed, of which nothing is written.
///
/// Groups are locked in the order of their names; a transaction that waited for a lock sees the new revision.
pub async fn insert_claims(
    conn: &mut PgConnection,
    claims: &[NewClaim],
) -> Result<Vec<Option<i64>>, StoreError> {
    let text = |of: fn(&ClaimRow) -> &str| claims.iter().map(|claim| of(&claim.row)).collect::<Vec<&str>>();
    let times = |of: fn(&ClaimRow) -> Timestamp| {
        claims.iter().map(|claim| to_sql(of(&claim.row))).collect::<Vec<jiff_sqlx::Timestamp>>()
    };
    let revisions: Vec<i64> = claims.iter().map(|claim| claim.revision).collect();
    let purposes: Vec<&Value> = claims.iter().map(|claim| &claim.row.purpose).collect();
    let waits_end: Vec<Option<jiff_sqlx::Timestamp>> =
        claims.iter().map(|claim| claim.waits_end_before.map(to_sql)).collect();
    let details: Vec<Json<GrantedClaim>> = claims.iter().map(|claim| Json(GrantedClaim::of(claim))).collect();
    // Under READ COMMITTED, a row that another transaction has changed while this one waited for its lock is compared
    // with the condition again. So `unchanged` has only groups whose revision is still the one of the decision.
    // MATERIALIZED keeps the steps in this order, and calls `nextval` once for each claim.
    let rows = sqlx::query!(
        r#"-- claim.insert_claims
        WITH wanted AS MATERIALIZED (
            SELECT * FROM UNNEST((SELECT $1::text[]), $2::bigint[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::text[],
                                 $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::jsonb[],
                                 $12::timestamptz[])
                WITH ORDINALITY
                AS row (ha_group, revision, scope, node, purpose, version, phase, since, phase_at, deadline, detail, waits_end,
                        position)
        ), unchanged AS MATERIALIZED (
            SELECT claim_group.ha_group
            FROM claim_group
            JOIN (SELECT DISTINCT ha_group, revision FROM wanted) AS known USING (ha_group)
            WHERE claim_group.revision = known.revision
            ORDER BY claim_group.ha_group
            FOR UPDATE OF claim_group
        ), changed AS (
            UPDATE claim_group SET revision = revision + 1 FROM unchanged WHERE claim_group.ha_group = unchanged.ha_group
        ), granted AS MATERIALIZED (
            SELECT wanted.*, nextval('claim_fencing') AS fencing FROM wanted JOIN unchanged USING (ha_group)
        ), inserted AS (
            INSERT INTO claim (ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, fencing)
            SELECT ha_group, scope, node, purpose, version, phase, since, phase_at, deadline, fencing FROM granted
        ), forgotten AS (
            DELETE FROM upgrade_wait USING granted
            WHERE upgrade_wait.ha_group = granted.ha_group
              AND granted.waits_end IS NOT NULL
              AND (upgrade_wait.node = granted.node OR upgrade_wait.refreshed_at < granted.waits_end)
        ), reported AS (
            INSERT INTO agbot_event (happened_at, kind, ha_group, node, detail)
            SELECT since, 'hagroup.lock-granted', ha_group, node, detail || jsonb_build_object('fencing', fencing)
            FROM granted
            UNION ALL
            SELECT since, 'node.upgrade', NULL, node, purpose FROM granted WHERE scope = 'agent'
        )
        SELECT granted.fencing AS "fencing?" FROM wanted LEFT JOIN granted USING (position) ORDER BY position"#,
        &text(|row| row.ha_group.as_str()) as &[&str],
        &revisions,
        &text(|row| &row.scope) as &[&str],
        &text(|row| row.node.as_str()) as &[&str],
        &purposes as &[&Value],
        &text(|row| &row.version) as &[&str],
        &text(|row| &row.phase) as &[&str],
        &times(|row| row.since) as &[jiff_sqlx::Timestamp],
        &times(|row| row.phase_at) as &[jiff_sqlx::Timestamp],
        &times(|row| row.deadline) as &[jiff_sqlx::Timestamp],
        &details as &[Json<GrantedClaim>],
        &waits_end as &[Option<jiff_sqlx::Timestamp>],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.fencing).collect())
}

/// Moves a claim to its next phase; false when the row is gone or has another fencing number.
#[expect(clippy::too_many_arguments, reason = "the columns of a row and its key")]
pub async fn advance_claim(
    tx: &mut PgConnection,
    ha_group: &GroupId,
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
        ha_group.as_str(),
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

/// Returns whether the claim still exists with this fencing number, and locks its row until the transaction ends.
pub async fn lock_claim(
    tx: &mut PgConnection,
    ha_group: &GroupId,
    scope: &str,
    fencing: i64,
) -> Result<bool, StoreError> {
    // FOR SHARE, so that commands under one claim do not wait for each other, while its end and its next phase wait for
    // them.
    let row = sqlx::query!(
        "-- claim.lock_claim
        SELECT fencing FROM claim WHERE ha_group = $1 AND scope = $2 AND fencing = $3 FOR SHARE",
        ha_group.as_str(),
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
    /// The group.
    pub ha_group: GroupId,
    /// `agent`, or `org/policy`.
    pub scope: String,
    /// Its fencing number.
    pub fencing: i64,
    /// The reason, for the event.
    pub why: String,
    /// The lease under which this was decided, if any.
    pub lease: Option<LeaseRow>,
}

/// The result of removing a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimEnding {
    /// Removed.
    Removed,
    /// Already gone.
    Absent,
    /// The lease is no longer this agbot's; nothing was done.
    LeaseLost,
}

/// Removes exactly the claims with these fencing numbers, records the last release of an agent claim per group, and inserts the
/// events. Leases are those of `owner`, locked until the transaction ends, so that a release of the partition waits.
///
/// Leases are locked first, then groups, each in order.
pub async fn delete_claims(
    conn: &mut PgConnection,
    owner: Uuid,
    claims: &[EndedClaim],
    at: Timestamp,
) -> Result<Vec<ClaimEnding>, StoreError> {
    let text = |of: fn(&EndedClaim) -> &str| claims.iter().map(of).collect::<Vec<&str>>();
    let numbers: Vec<i64> = claims.iter().map(|claim| claim.fencing).collect();
    let details: Vec<Json<ReleasedClaim>> =
        claims.iter().map(|claim| Json(ReleasedClaim::of(claim))).collect();
    let partitions: Vec<Option<i32>> =
        claims.iter().map(|claim| claim.lease.map(|lease| lease.partition)).collect();
    let lease_numbers: Vec<Option<i64>> =
        claims.iter().map(|claim| claim.lease.map(|lease| lease.fencing)).collect();
    // Leases before groups, like every transaction that locks both, and each sorted, so that batches of several agbots
    // do not deadlock. MATERIALIZED keeps the steps in this order.
    let rows = sqlx::query!(
        r#"-- claim.delete_claims
        WITH wanted AS MATERIALIZED (
            SELECT * FROM UNNEST((SELECT $1::text[]), $2::text[], $3::bigint[], $4::jsonb[], $5::integer[], $6::bigint[])
                WITH ORDINALITY
                AS row (ha_group, scope, fencing, detail, partition_number, lease_fencing, position)
        ), lease AS MATERIALIZED (
            SELECT work_partition.partition_number, work_partition.fencing AS lease_fencing
            FROM work_partition
            JOIN (SELECT DISTINCT partition_number, lease_fencing FROM wanted) AS named USING (partition_number)
            WHERE work_partition.fencing = named.lease_fencing AND work_partition.owner = $7
              AND work_partition.expires_at > now()
            ORDER BY work_partition.partition_number
            FOR SHARE OF work_partition
        ), allowed AS MATERIALIZED (
            SELECT wanted.* FROM wanted LEFT JOIN lease USING (partition_number, lease_fencing)
            WHERE wanted.partition_number IS NULL OR lease.partition_number IS NOT NULL
        ), locked AS MATERIALIZED (
            SELECT ha_group FROM claim_group WHERE ha_group IN (SELECT ha_group FROM allowed)
            ORDER BY ha_group
            FOR UPDATE
        ), gone AS (
            DELETE FROM claim
            USING allowed JOIN locked USING (ha_group)
            WHERE claim.ha_group = allowed.ha_group AND claim.scope = allowed.scope AND claim.fencing = allowed.fencing
            RETURNING claim.ha_group, claim.scope, claim.node, allowed.detail, allowed.position
        ), changed AS (
            UPDATE claim_group
            SET revision = revision + 1, released_at = CASE WHEN freed.is_agent THEN $8 ELSE released_at END
            FROM (SELECT ha_group, bool_or(scope = 'agent') AS is_agent FROM gone GROUP BY ha_group) AS freed
            WHERE claim_group.ha_group = freed.ha_group
        ), reported AS (
            INSERT INTO agbot_event (happened_at, kind, ha_group, node, detail)
            SELECT $8, 'hagroup.lock-released', ha_group, node, detail FROM gone
        )
        SELECT gone.position IS NOT NULL AS "is_removed!", allowed.position IS NOT NULL AS "is_allowed!"
        FROM wanted LEFT JOIN allowed USING (position) LEFT JOIN gone USING (position)
        ORDER BY position"#,
        &text(|claim| claim.ha_group.as_str()) as &[&str],
        &text(|claim| &claim.scope) as &[&str],
        &numbers,
        &details as &[Json<ReleasedClaim>],
        &partitions as &[Option<i32>],
        &lease_numbers as &[Option<i64>],
        owner,
        to_sql(at) as _,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| match (row.is_allowed, row.is_removed) {
            (false, _) => ClaimEnding::LeaseLost,
            (true, true) => ClaimEnding::Removed,
            (true, false) => ClaimEnding::Absent,
        })
        .collect())
}

/// Records refused agent upgrades of members; keeps the start of their wait, which is an event.
pub async fn upsert_waits(
    conn: &mut PgConnection,
    waits: &BTreeSet<(&GroupId, &NodeId)>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let pairs = waits.iter().map(|(group, node)| (group.as_str(), node.as_str()));
    let (ha_groups, nodes): (Vec<&str>, Vec<&str>) = pairs.unzip();
    // `since` equals the parameter only for rows that were inserted now, so a renewed wait is no further event.
    sqlx::query!(
        "-- claim.upsert_waits
        WITH renewed AS (
            INSERT INTO upgrade_wait (ha_group, node, since, refreshed_at)
            SELECT ha_group, node, $3::timestamptz, $3::timestamptz
            FROM UNNEST($1::text[], $2::text[]) AS row (ha_group, node)
            ORDER BY ha_group, node
            ON CONFLICT (ha_group, node) DO UPDATE SET refreshed_at = excluded.refreshed_at
            RETURNING ha_group, node, since
        )
        INSERT INTO agbot_event (happened_at, kind, ha_group, node, detail)
        SELECT since, 'hagroup.lock-denied', ha_group, node, jsonb_build_object('scope', 'agent')
        FROM renewed
        WHERE since = $3::timestamptz",
        &ha_groups as &[&str],
        &nodes as &[&str],
        to_sql(now) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
