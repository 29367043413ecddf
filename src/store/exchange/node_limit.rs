//! What a new node or agbot has to respect: limits, and names taken by other logins.

use sqlx::PgConnection;

use crate::StoreError;

/// The nodes that count against limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeCount {
    /// The organization's own limit; 0 when it has none.
    pub org_limit: i64,
    /// Nodes of the organization.
    pub in_org: i64,
    /// Nodes of the owner, wherever they are.
    pub of_owner: i64,
}

/// Counts nodes; `None` when the organization does not exist. The organization stays locked against other creations until the end
/// of the transaction, so that two of them cannot both take the last place.
pub async fn lock_node_count(
    tx: &mut PgConnection,
    org: &str,
    owner_org: &str,
    owner: &str,
) -> Result<Option<NodeCount>, StoreError> {
    let Some(limit) = sqlx::query!(
        r#"-- node_limit.find_org_limit
        SELECT COALESCE(CASE WHEN jsonb_typeof(limits -> 'maxNodes') = 'number' THEN (limits ->> 'maxNodes')::numeric END, 0)::bigint
               AS "limit!"
        FROM organization
        WHERE org = $1"#,
        org,
    )
    .fetch_optional(&mut *tx)
    .await?
    else {
        return Ok(None);
    };
    if limit.limit > 0 {
        sqlx::query!(
            "-- node_limit.lock_org
            SELECT org FROM organization WHERE org = $1 FOR NO KEY UPDATE",
            org
        )
        .fetch_optional(&mut *tx)
        .await?;
    }
    let row = sqlx::query!(
        r#"-- node_limit.count_nodes
        SELECT CASE WHEN $4 THEN (SELECT count(*) FROM node WHERE org = $1) ELSE 0 END AS "in_org!",
               (SELECT count(*) FROM node WHERE owner_org = $2 AND owner = $3) AS "of_owner!""#,
        org,
        owner_org,
        owner,
        limit.limit > 0,
    )
    .fetch_one(tx)
    .await?;
    Ok(Some(NodeCount { org_limit: limit.limit, in_org: row.in_org, of_owner: row.of_owner }))
}

/// Counts the agbots of an account.
pub async fn count_agbots(conn: &mut PgConnection, owner_org: &str, owner: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- node_limit.count_agbots
        SELECT count(*) AS "count!" FROM agbot WHERE owner_org = $1 AND owner = $2"#,
        owner_org,
        owner,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Whether a pattern exists that a node of `node_org` may use: one of its own organization, or a public one.
pub async fn has_usable_pattern(
    conn: &mut PgConnection,
    node_org: &str,
    pattern_org: &str,
    pattern: &str,
) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- node_limit.has_usable_pattern
        SELECT EXISTS (SELECT 1 FROM pattern WHERE org = $1 AND pattern = $2 AND (org = $3 OR is_public)) AS "is_there!""#,
        pattern_org,
        pattern,
        node_org,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_there)
}
