//! Heartbeats of nodes and of their agreements; nodes with errors; nodes that run a service.

use evenkeel_ids::UserId;
use jiff::Timestamp;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql};

use super::resource_key::ResourceKey;

/// A node with one of its agreements, or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub node: String,
    /// Last heartbeat.
    pub seen_at: Timestamp,
    /// Id and last change of an agreement.
    pub agreement: Option<(String, Timestamp)>,
}

/// Lists nodes of organizations, of one owner or any, that were seen, of one pattern or (empty) of none, one row for each agreement: by id, those after the
/// given organization and node, at most `limit` nodes.
pub async fn list_health(
    conn: &mut PgConnection,
    (orgs, owner): (&[String], Option<&UserId>),
    pattern: &str,
    after: Option<&ResourceKey>,
    limit: i64,
) -> Result<Vec<HealthRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_health.list_health
        SELECT seen.org, seen.node, seen.seen_at AS "seen_at: jiff_sqlx::Timestamp",
               node_agreement.agreement AS "agreement?", node_agreement.updated_at AS "updated_at?: jiff_sqlx::Timestamp"
        FROM (
            SELECT node.org, node.node, node_heartbeat.seen_at
            FROM node
            JOIN node_heartbeat ON node_heartbeat.org = node.org AND node_heartbeat.node = node.node
            WHERE node.org = ANY ($1) AND node.pattern = $2 AND (node.org, node.node) > ($3, $4)
              AND ($6::text IS NULL OR (node.owner_org = $6 AND node.owner = $7))
            ORDER BY node.org, node.node
            LIMIT $5
        ) AS seen
        LEFT JOIN node_agreement ON node_agreement.org = seen.org AND node_agreement.node = seen.node
        ORDER BY seen.org, seen.node, node_agreement.agreement"#,
        orgs,
        pattern,
        after.map_or("", |after| &after.org),
        after.map_or("", |after| &after.id),
        limit,
        owner.map(UserId::org),
        owner.map(UserId::name),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| HealthRow {
            org: row.org,
            node: row.node,
            seen_at: from_sql(row.seen_at),
            agreement: row.agreement.zip(row.updated_at.map(from_sql)),
        })
        .collect())
}

/// A node with the text of its errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorsRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub node: String,
    /// List of errors as JSON text.
    pub errors: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Lists nodes of an organization that report errors, of one owner when given: by id, those after the given
/// one, at most `limit`.
pub async fn list_with_errors(
    conn: &mut PgConnection,
    org: &str,
    owned_by: Option<&UserId>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ErrorsRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_health.list_with_errors
        SELECT node.org, node.node, node_error.errors::text AS "errors!", node_error.updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_error
        JOIN node ON node.org = node_error.org AND node.node = node_error.node
        WHERE node_error.org = $1 AND node_error.errors::text <> '[]'
          AND ($2::text IS NULL OR (node.owner_org = $2 AND node.owner = $3))
          AND node.node > $4
        ORDER BY node.node
        LIMIT $5"#,
        org,
        owned_by.map(UserId::org),
        owned_by.map(UserId::name),
        after.unwrap_or_default(),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ErrorsRow {
            org: row.org,
            node: row.node,
            errors: row.errors,
            updated_at: from_sql(row.updated_at),
        })
        .collect())
}

/// Lists nodes of an organization whose status fits a pattern (`%|org/url_version_arch|%`) with their stored heartbeat: by id, those
/// after the given one, at most `limit`.
pub async fn list_running(
    conn: &mut PgConnection,
    org: &str,
    pattern: &str,
    owned_by: Option<&UserId>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<(String, Option<Timestamp>)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_health.list_running
        SELECT node.node, node_heartbeat.seen_at AS "seen_at?: jiff_sqlx::Timestamp"
        FROM node_status
        JOIN node ON node.org = node_status.org AND node.node = node_status.node
        LEFT JOIN node_heartbeat ON node_heartbeat.org = node.org AND node_heartbeat.node = node.node
        WHERE node_status.org = $1 AND node_status.running_services LIKE $2
          AND ($3::text IS NULL OR (node.owner_org = $3 AND node.owner = $4))
          AND node.node > $5
        ORDER BY node.node
        LIMIT $6"#,
        org,
        pattern,
        owned_by.map(UserId::org),
        owned_by.map(UserId::name),
        after.unwrap_or_default(),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, row.seen_at.map(from_sql))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::{Heartbeat, upsert_nodes};
    use crate::node::NodeRow;
    use crate::tests::{Org, at, texts};

    #[tokio::test]
    async fn page_of_health_has_so_many_nodes_with_all_of_their_agreements() {
        let org = Org::new("health-pages").await;
        org.add_account("v").await;
        org.add_nodes(&["a", "b", "unseen"]).await;
        org.insert_node(&NodeRow { owner: "v".to_owned(), ..org.node("c") }).await;
        let seen =
            ["a", "b", "c"].map(|id| Heartbeat { org: org.to_string(), id: id.to_owned(), seen_at: at(1) });
        let mut connection = org.connection().await;
        upsert_nodes(&mut connection, &seen, at(1)).await.unwrap();
        for agreement in ["health-2", "health-1"] {
            org.add_node_agreement("a", agreement, "", "made").await;
        }
        let (orgs, owner) = (texts(&[&org]), org.user("u"));
        let mut page = async |owner: Option<&UserId>, after: Option<&str>| {
            let after = after.map(|id| ResourceKey { org: org.to_string(), id: id.to_owned() });
            let rows = list_health(&mut connection, (&orgs, owner), "", after.as_ref(), 2).await.unwrap();
            let agreement = |row: HealthRow| row.agreement.map_or(row.node, |(agreement, _)| agreement);
            rows.into_iter().map(agreement).collect::<Vec<_>>()
        };
        assert_eq!(page(None, None).await, ["health-1", "health-2", "b"]);
        assert_eq!(page(None, Some("b")).await, ["c"]);
        assert_eq!(page(Some(&owner), Some("a")).await, ["b"]);
    }
}
