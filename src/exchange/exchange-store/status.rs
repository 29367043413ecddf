//! Counts for status pages.

use evenkeel_ids::UserId;
use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// The scope of the counts; none counts everything.
#[derive(Debug, Clone, Default)]
pub struct Scope<'a> {
    /// Nodes of this organization.
    pub node_org: Option<&'a str>,
    /// Nodes of this owner.
    pub node_owner: Option<&'a UserId>,
    /// This node.
    pub node: Option<&'a str>,
    /// Agbots of these organizations.
    pub agbot_orgs: Option<&'a [String]>,
    /// These organizations.
    pub orgs: Option<&'a [String]>,
    /// Accounts of this organization.
    pub account_org: Option<&'a str>,
    /// Only accounts of administrators.
    pub only_admins: bool,
}

/// The counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Agreements of agbots.
    pub agbot_agreements: i64,
    /// Messages waiting for agbots.
    pub agbot_messages: i64,
    /// Agbots.
    pub agbots: i64,
    /// Agreements of nodes.
    pub node_agreements: i64,
    /// Messages waiting for nodes.
    pub node_messages: i64,
    /// Nodes.
    pub nodes: i64,
    /// Nodes with a pattern or a public key.
    pub registered_nodes: i64,
    /// Organizations.
    pub organizations: i64,
    /// Accounts.
    pub accounts: i64,
}

/// Counts everything as of one instant.
pub async fn count(conn: &mut PgConnection, scope: &Scope<'_>) -> Result<Counts, StoreError> {
    let counts = sqlx::query_as!(
        Counts,
        r#"-- status.count
        WITH counted_node AS (
            SELECT org, node, pattern <> '' OR public_key <> '' AS is_registered
            FROM node
            WHERE ($1::text IS NULL OR org = $1)
              AND ($2::text IS NULL OR (owner_org = $2 AND owner = $3))
              AND ($4::text IS NULL OR node = $4)
        ), counted_agbot AS (
            SELECT org, agbot FROM agbot WHERE ($5::text[] IS NULL OR org = ANY ($5))
        )
        SELECT
            (SELECT count(*) FROM agbot_agreement JOIN counted_agbot USING (org, agbot)) AS "agbot_agreements!",
            (SELECT count(*) FROM agbot_message JOIN counted_agbot USING (org, agbot)) AS "agbot_messages!",
            (SELECT count(*) FROM counted_agbot) AS "agbots!",
            (SELECT count(*) FROM node_agreement JOIN counted_node USING (org, node)) AS "node_agreements!",
            (SELECT count(*) FROM node_message JOIN counted_node USING (org, node)) AS "node_messages!",
            (SELECT count(*) FROM counted_node) AS "nodes!",
            (SELECT count(*) FROM counted_node WHERE is_registered) AS "registered_nodes!",
            (SELECT count(*) FROM organization WHERE ($6::text[] IS NULL OR org = ANY ($6))) AS "organizations!",
            (SELECT count(*) FROM account
             WHERE ($7::text IS NULL OR org = $7) AND (NOT $8 OR is_admin OR is_hub_admin)) AS "accounts!""#,
        scope.node_org,
        scope.node_owner.map(UserId::org),
        scope.node_owner.map(UserId::name),
        scope.node,
        scope.agbot_orgs,
        scope.orgs,
        scope.account_org,
        scope.only_admins,
    )
    .fetch_one(conn)
    .await?;
    Ok(counts)
}

/// Counts the nodes of each organization: by name, those after the given one, at most `limit`; `only` limits the organizations.
pub async fn count_nodes_by_org(
    conn: &mut PgConnection,
    only: Option<&[String]>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<(String, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- status.count_nodes_by_org
        SELECT organization.org, (SELECT count(*) FROM node WHERE node.org = organization.org) AS "nodes!"
        FROM organization
        WHERE ($1::text[] IS NULL OR organization.org = ANY ($1)) AND organization.org > COALESCE($2::text, '')
        ORDER BY organization.org
        LIMIT $3"#,
        only,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, row.nodes)).collect())
}
