//! Nodes that the scopes of deployment policies name, and their number.

use sqlx::PgConnection;

use evenkeel_access::MULTI_TENANT_ORG;
use evenkeel_store::StoreError;

/// Lists the deployment policies, `org/policy`, whose scope names an HA group: those of its organization and of the shared one.
pub async fn list_policies_of_group(
    conn: &mut PgConnection,
    org: &str,
    group: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- scope.list_policies_of_group
        SELECT org, policy
        FROM deployment_policy
        WHERE org IN ($1, $3) AND orchestration -> 'scope' -> 'haGroups' IS NOT NULL
          AND ((orchestration -> 'scope' -> 'haGroups')::jsonb ? ($1 || '/' || $2)
               OR org = $1 AND (orchestration -> 'scope' -> 'haGroups')::jsonb ? $2)
        ORDER BY org, policy"#,
        org,
        group,
        MULTI_TENANT_ORG,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, row.policy)).collect())
}

/// Returns the number of members of each of some HA groups, given by their organizations and names; those that do not exist are left out.
pub async fn count_members(
    conn: &mut PgConnection,
    orgs: &[&str],
    groups: &[&str],
) -> Result<Vec<(String, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- scope.count_members
        SELECT ha_group.org || '/' || ha_group.name AS "group!",
               (SELECT count(*) FROM ha_group_member AS member
                WHERE member.org = ha_group.org AND member.ha_group = ha_group.name) AS "count!"
        FROM UNNEST($1::text[], $2::text[]) AS named (org, name)
        JOIN ha_group ON ha_group.org = named.org AND ha_group.name = named.name"#,
        orgs as &[&str],
        groups as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.group, row.count)).collect())
}

/// Counts the nodes to which a deployment policy is served, up to a number: those of its own organization, and of others that an agbot
/// names for it.
pub async fn count_nodes(
    conn: &mut PgConnection,
    (org, policy): (&str, &str),
    most: i64,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- scope.count_nodes
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM node
            WHERE org = $1 OR org IN (SELECT node_org FROM agbot_policy WHERE policy_org = $1 AND policy IN ($2, '*'))
            LIMIT $3
        ) AS served"#,
        org,
        policy,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}
