//! Limits on new resources: of the owner, the organization and the parent.
//!
//! A writer locks the row that a limit belongs to before counting, so that two writes cannot both use the last free slot.
//! Order of the locks: organization, account, node or agbot.

use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// The nodes that count against limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeCount {
    /// The organization's own limit; 0 when it has none, a negative one allows no nodes.
    pub org_limit: i64,
    /// Number of nodes in the organization.
    pub in_org: i64,
    /// Number of nodes of the owner, in all organizations.
    pub of_owner: i64,
}

/// Locks an account against concurrent creations of resources it owns, until the end of the transaction. References to the account by
/// other writes do not wait. A missing account locks nothing: the creation then fails at its foreign key.
pub async fn lock_owner(tx: &mut PgConnection, owner_org: &str, owner: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_limit.lock_owner
        SELECT name FROM account WHERE org = $1 AND name = $2 FOR NO KEY UPDATE",
        owner_org,
        owner,
    )
    .fetch_optional(tx)
    .await?;
    Ok(())
}

/// Locks a node against concurrent writes that count its parts; false when it does not exist.
pub async fn lock_node_parts(tx: &mut PgConnection, org: &str, node: &str) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        "-- node_limit.lock_node_parts
        SELECT node FROM node WHERE org = $1 AND node = $2 FOR NO KEY UPDATE",
        org,
        node,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.is_some())
}

/// Locks an agbot against concurrent writes that count its parts; false when it does not exist.
pub async fn lock_agbot_parts(tx: &mut PgConnection, org: &str, agbot: &str) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        "-- node_limit.lock_agbot_parts
        SELECT agbot FROM agbot WHERE org = $1 AND agbot = $2 FOR NO KEY UPDATE",
        org,
        agbot,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.is_some())
}

/// Counts nodes; `None` when the organization does not exist. The owner, and the organization when it has its own limit, stay locked
/// against concurrent creations until the end of the transaction.
pub async fn lock_node_count(
    tx: &mut PgConnection,
    org: &str,
    owner_org: &str,
    owner: &str,
) -> Result<Option<NodeCount>, StoreError> {
    let Some(mut org_limit) = find_org_limit(tx, org).await? else { return Ok(None) };
    if org_limit != 0 {
        sqlx::query!(
            "-- node_limit.lock_org
            SELECT org FROM organization WHERE org = $1 FOR NO KEY UPDATE",
            org
        )
        .fetch_optional(&mut *tx)
        .await?;
        // The limit may have changed while this write waited.
        org_limit = find_org_limit(tx, org).await?.unwrap_or(0);
    }
    lock_owner(tx, owner_org, owner).await?;
    let row = sqlx::query!(
        r#"-- node_limit.count_nodes
        SELECT CASE WHEN $4 THEN (SELECT count(*) FROM node WHERE org = $1) ELSE 0 END AS "in_org!",
               (SELECT count(*) FROM node WHERE owner_org = $2 AND owner = $3) AS "of_owner!""#,
        org,
        owner_org,
        owner,
        org_limit != 0,
    )
    .fetch_one(tx)
    .await?;
    Ok(Some(NodeCount { org_limit, in_org: row.in_org, of_owner: row.of_owner }))
}

async fn find_org_limit(tx: &mut PgConnection, org: &str) -> Result<Option<i64>, StoreError> {
    let row = sqlx::query!(
        r#"-- node_limit.find_org_limit
        SELECT COALESCE(CASE WHEN jsonb_typeof(limits -> 'maxNodes') = 'number' THEN (limits ->> 'maxNodes')::numeric END, 0)::bigint
               AS "limit!"
        FROM organization
        WHERE org = $1"#,
        org,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.limit))
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

/// Returns whether a pattern exists that a node of `node_org` may use: one of its own organization, or a public one.
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

#[cfg(test)]
mod tests {
    use evenkeel_access::right;
    use evenkeel_test_database::backend;
    use serde_json::json;

    use super::*;
    use crate::node::insert_node;
    use crate::organization::{find_organization, update_organization};
    use crate::tests::{Org, commit, shared};

    #[tokio::test]
    async fn creation_of_a_node_counts_one_that_began_before() {
        let (org, other) = (Org::new("limit").await, Org::new("limit-other").await);
        let (mut first, mut second) =
            (org.begin::<right::NodeWrite>().await, org.begin::<right::NodeWrite>().await);
        let empty = lock_node_count(&mut first, &org, &org, "u").await.unwrap();
        assert_eq!(empty, Some(NodeCount { org_limit: 0, in_org: 0, of_owner: 0 }));
        insert_node(&mut first, &org.node("n"), "token").await.unwrap();
        let process = backend(&mut second).await;
        let waiter = lock_node_count(&mut second, &other, &org, "u");
        let found = shared().await.release_when_awaited(process, waiter, commit(first)).await.unwrap();
        assert_eq!(found.map(|count| count.of_owner), Some(1), "in all organizations");
        assert_eq!(lock_node_count(&mut second, "absent", &org, "u").await.unwrap(), None);
    }

    #[tokio::test]
    async fn limit_of_an_organization_is_read_again_after_waiting_for_its_change() {
        let org = Org::new("limit-org").await;
        let mut row = find_organization(&mut *org.connection().await, &org).await.unwrap().unwrap();
        row.limits = Some(json!({"maxNodes": 5}));
        org.write(async |tx| update_organization(tx, &row).await).await;
        org.add_nodes(&["n"]).await;
        let (mut first, mut second) = (org.begin().await, org.begin::<right::NodeWrite>().await);
        row.limits = Some(json!({"maxNodes": 1}));
        update_organization(&mut first, &row).await.unwrap();
        let process = backend(&mut second).await;
        let waiter = lock_node_count(&mut second, &org, &org, "u");
        let found = shared().await.release_when_awaited(process, waiter, commit(first)).await.unwrap();
        assert_eq!(found, Some(NodeCount { org_limit: 1, in_org: 1, of_owner: 1 }));
    }
}
