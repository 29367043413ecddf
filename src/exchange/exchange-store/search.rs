//! Node searches of agbots, with the positions of paged searches.

use evenkeel_access::right;
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::permitted::Permitted;
use super::resource_key::ResourceKey;

/// A node that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNodeRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub node: String,
    /// Kind of node.
    pub node_type: String,
    /// Key for messages to the node.
    pub public_key: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The filter of a policy search.
#[derive(Debug, Clone, Copy)]
pub struct PolicySearch<'s> {
    /// Organizations of the nodes, each once.
    pub orgs: &'s [String],
    /// Only nodes of this owner; `None` is any.
    pub owner: Option<&'s UserId>,
    /// Exact architecture; `None` is any.
    pub arch: Option<&'s str>,
    /// Without an active agreement about this `org/service`.
    pub service_url: &'s str,
    /// Changed at or after this instant.
    pub since: Option<Timestamp>,
    /// Changed at or before this instant.
    pub until: Option<Timestamp>,
    /// After this node in the order of the list: last change, organization, id.
    pub after: Option<(Timestamp, &'s str, &'s str)>,
    /// Maximum number of nodes.
    pub limit: Option<i64>,
}

/// Lists the nodes that use policies, have a key, were seen, and do not have the service: by last change, then id.
///
/// Each organization is read in the order of an index, so that the cost of a page is proportional to its rows.
pub async fn list_for_policy(
    conn: &mut PgConnection,
    search: PolicySearch<'_>,
) -> Result<Vec<FoundNodeRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- search.list_for_policy
        SELECT found.org AS "org!", found.node AS "node!", found.node_type AS "node_type!", found.public_key AS "public_key!",
               found.updated_at AS "updated_at!: jiff_sqlx::Timestamp"
        FROM UNNEST($1::text[]) AS wanted (org)
        CROSS JOIN LATERAL (
            SELECT node.org, node.node, node.node_type, node.public_key, node.updated_at
            FROM node
            WHERE node.org = wanted.org AND node.pattern = '' AND node.public_key <> ''
              AND ($2::text IS NULL OR node.arch = $2)
              AND ($10::text IS NULL OR (node.owner_org = $10 AND node.owner = $11))
              AND ($3::timestamptz IS NULL OR node.updated_at >= $3)
              AND ($6::timestamptz IS NULL OR node.updated_at <= $6)
              AND ($7::timestamptz IS NULL OR (node.updated_at, node.org, node.node) > ($7, $8, $9))
              AND EXISTS (
                  SELECT 1 FROM node_heartbeat WHERE node_heartbeat.org = node.org AND node_heartbeat.node = node.node
              )
              AND NOT EXISTS (
                  SELECT 1 FROM node_agreement
                  WHERE node_agreement.org = node.org AND node_agreement.node = node.node
                    AND node_agreement.service_url = $4 AND node_agreement.state <> ''
              )
            ORDER BY node.updated_at, node.node
            LIMIT $5
        ) AS found
        ORDER BY found.updated_at, found.org, found.node
        LIMIT $5"#,
        search.orgs,
        search.arch,
        search.since.max(search.after.map(|after| after.0)).map(to_sql) as _,
        search.service_url,
        search.limit,
        search.until.map(to_sql) as _,
        search.after.map(|after| to_sql(after.0)) as _,
        search.after.map(|after| after.1),
        search.after.map(|after| after.2),
        search.owner.map(UserId::org),
        search.owner.map(UserId::name),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| FoundNodeRow {
            org: row.org,
            node: row.node,
            node_type: row.node_type,
            public_key: row.public_key,
            updated_at: from_sql(row.updated_at),
        })
        .collect())
}

/// The filter of a pattern search.
#[derive(Debug, Clone, Copy)]
pub struct PatternSearch<'s> {
    /// Organizations of the nodes.
    pub orgs: &'s [String],
    /// Only nodes of this owner; `None` is any.
    pub owner: Option<&'s UserId>,
    /// `org/pattern`.
    pub pattern: &'s str,
    /// Exact architecture; `None` is any.
    pub arch: Option<&'s str>,
    /// Without an active agreement about this service, as the caller writes it.
    pub service_url: &'s str,
    /// Seen after this instant.
    pub seen_after: Option<Timestamp>,
}

/// Lists the nodes of a pattern that have a key, were seen, and do not have the service: by id, those after the given organization
/// and node, at most `limit`.
pub async fn list_for_pattern(
    conn: &mut PgConnection,
    search: PatternSearch<'_>,
    after: Option<&ResourceKey>,
    limit: i64,
) -> Result<Vec<FoundNodeRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- search.list_for_pattern
        SELECT node.org, node.node, node.node_type, node.public_key, node.updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node
        JOIN node_heartbeat ON node_heartbeat.org = node.org AND node_heartbeat.node = node.node
        WHERE node.org = ANY ($1) AND node.pattern = $2 AND node.public_key <> ''
          AND ($3::text IS NULL OR node.arch = $3)
          AND ($9::text IS NULL OR (node.owner_org = $9 AND node.owner = $10))
          AND ($4::timestamptz IS NULL OR node_heartbeat.seen_at > $4)
          AND NOT EXISTS (
              SELECT 1 FROM node_agreement
              WHERE node_agreement.org = node.org AND node_agreement.node = node.node
                AND node_agreement.service_url = $5 AND node_agreement.state <> ''
          )
          AND (node.org, node.node) > ($6, $7)
        ORDER BY node.org, node.node
        LIMIT $8"#,
        search.orgs,
        search.pattern,
        search.arch,
        search.seen_after.map(to_sql) as _,
        search.service_url,
        after.map_or("", |after| &after.org),
        after.map_or("", |after| &after.id),
        limit,
        search.owner.map(UserId::org),
        search.owner.map(UserId::name),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| FoundNodeRow {
            org: row.org,
            node: row.node,
            node_type: row.node_type,
            public_key: row.public_key,
            updated_at: from_sql(row.updated_at),
        })
        .collect())
}

/// Finds the service part of a deployment policy.
pub async fn find_policy_service(
    conn: &mut PgConnection,
    org: &str,
    policy: &str,
) -> Result<Option<Box<RawValue>>, StoreError> {
    let row = sqlx::query!(
        r#"-- search.find_policy_service
        SELECT service AS "service: Json<Box<RawValue>>" FROM deployment_policy WHERE org = $1 AND policy = $2"#,
        org,
        policy,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.service.0))
}

/// Finds the services of a pattern.
pub async fn find_pattern_services(
    conn: &mut PgConnection,
    org: &str,
    pattern: &str,
) -> Result<Option<Box<RawValue>>, StoreError> {
    let row = sqlx::query!(
        r#"-- search.find_pattern_services
        SELECT services AS "services: Json<Box<RawValue>>" FROM pattern WHERE org = $1 AND pattern = $2"#,
        org,
        pattern,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.services.0))
}

/// The key of a search session: agbot and policy.
#[derive(Debug, Clone, Copy)]
pub struct SessionKey<'s> {
    /// Organization of the policy.
    pub org: &'s str,
    /// Bare id of the policy.
    pub policy: &'s str,
    /// Organization of the agbot.
    pub agbot_org: &'s str,
    /// Bare id of the agbot.
    pub agbot: &'s str,
}

/// The position of a series of paged searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Last change of the last returned node.
    pub since: Option<Timestamp>,
    /// Name of the series.
    pub session: Option<String>,
}

/// Finds the position of a series and locks it until the end of the transaction.
pub async fn lock_session(
    tx: &mut PgConnection,
    key: SessionKey<'_>,
) -> Result<Option<SessionRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- search.lock_session
        SELECT since AS "since: jiff_sqlx::Timestamp", session
        FROM search_session
        WHERE org = $1 AND policy = $2 AND agbot_org = $3 AND agbot = $4
        FOR UPDATE"#,
        key.org,
        key.policy,
        key.agbot_org,
        key.agbot,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| SessionRow { since: row.since.map(from_sql), session: row.session }))
}

/// Stores the position of a series.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the policy or the agbot does not exist.
pub async fn upsert_session(
    tx: &mut Permitted<right::NodesSearch>,
    key: SessionKey<'_>,
    row: &SessionRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- search.upsert_session
        INSERT INTO search_session (org, policy, agbot_org, agbot, since, session)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (org, policy, agbot_org, agbot) DO UPDATE SET since = excluded.since, session = excluded.session",
        key.org,
        key.policy,
        key.agbot_org,
        key.agbot,
        row.since.map(to_sql) as _,
        row.session,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends a series.
pub async fn delete_session(
    tx: &mut Permitted<right::NodesSearch>,
    key: SessionKey<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- search.delete_session
        DELETE FROM search_session WHERE org = $1 AND policy = $2 AND agbot_org = $3 AND agbot = $4",
        key.org,
        key.policy,
        key.agbot_org,
        key.agbot,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::{Heartbeat, upsert_nodes};
    use crate::node::NodeRow;
    use crate::tests::{Org, at, texts};

    const URL: &str = "o/service";

    async fn see(org: &Org, nodes: &[&str], second: i64) {
        let heartbeat =
            |node: &&str| Heartbeat { org: org.to_string(), id: (*node).to_owned(), seen_at: at(second) };
        let batch: Vec<Heartbeat> = nodes.iter().map(heartbeat).collect();
        upsert_nodes(&mut *org.connection().await, &batch, at(second)).await.unwrap();
    }

    fn names(rows: &[FoundNodeRow]) -> Vec<&str> {
        rows.iter().map(|row| row.node.as_str()).collect()
    }

    fn policy_search(orgs: &[String]) -> PolicySearch<'_> {
        PolicySearch {
            orgs,
            owner: None,
            arch: None,
            service_url: URL,
            since: None,
            until: None,
            after: None,
            limit: Some(10),
        }
    }

    #[tokio::test]
    async fn pages_of_a_policy_search_over_organizations_show_each_node_once_in_the_order_of_changes() {
        let (one, two) = (Org::new("search-pages-1").await, Org::new("search-pages-2").await);
        for (org, node, second) in
            [(&one, "c", 1), (&one, "a", 2), (&one, "d", 2), (&two, "b", 2), (&two, "a", 3), (&one, "e", 4)]
        {
            org.insert_node(&NodeRow { updated_at: at(second), ..org.node(node) }).await;
            see(org, &[node], 0).await;
        }
        let orgs = texts(&[&one, &two]);
        let mut connection = one.connection().await;
        let mut found: Vec<FoundNodeRow> = Vec::new();
        loop {
            let last = found.last().cloned();
            let after = last.as_ref().map(|row| (row.updated_at, row.org.as_str(), row.node.as_str()));
            let search = PolicySearch { after, until: Some(at(3)), limit: Some(2), ..policy_search(&orgs) };
            let page = list_for_policy(&mut connection, search).await.unwrap();
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(names(&found), ["c", "a", "d", "b", "a"]);
        let search = PolicySearch { since: Some(at(3)), ..policy_search(&orgs) };
        assert_eq!(names(&list_for_policy(&mut connection, search).await.unwrap()), ["a", "e"]);
    }

    #[tokio::test]
    async fn policy_search_finds_nodes_that_were_seen_and_lack_the_service() {
        let org = Org::new("search-policy").await;
        org.add_account("v").await;
        for row in [
            org.node("found"),
            NodeRow { owner: "v".to_owned(), ..org.node("of-other") },
            NodeRow { arch: "arm".to_owned(), ..org.node("other-arch") },
            NodeRow { pattern: "o/p".to_owned(), ..org.node("with-pattern") },
            NodeRow { public_key: String::new(), ..org.node("without-key") },
            org.node("inactive"),
            org.node("other-service"),
            org.node("agreed"),
            org.node("unseen"),
        ] {
            org.insert_node(&row).await;
            if row.node != "unseen" {
                see(&org, &[&row.node], 0).await;
            }
        }
        org.add_node_agreement("inactive", "1", URL, "").await;
        org.add_node_agreement("other-service", "2", "o/other", "made").await;
        org.add_node_agreement("agreed", "3", URL, "made").await;
        let orgs = texts(&[&org]);
        let mut connection = org.connection().await;
        let all = list_for_policy(&mut connection, policy_search(&orgs)).await.unwrap();
        assert_eq!(names(&all), ["found", "inactive", "of-other", "other-arch", "other-service"]);
        let owner = org.user("u");
        let search = PolicySearch { owner: Some(&owner), arch: Some("amd64"), ..policy_search(&orgs) };
        let owned = list_for_policy(&mut connection, search).await.unwrap();
        assert_eq!(names(&owned), ["found", "inactive", "other-service"]);
    }

    #[tokio::test]
    async fn pattern_search_finds_nodes_of_the_owner_that_were_seen_lately() {
        let org = Org::new("search-pattern").await;
        org.add_account("v").await;
        let pattern = "o/p".to_owned();
        for (node, owner) in [("a", "u"), ("agreed", "u"), ("b", "v"), ("c", "u"), ("late", "u")] {
            let row = NodeRow { pattern: pattern.clone(), owner: owner.to_owned(), ..org.node(node) };
            org.insert_node(&row).await;
        }
        org.add_nodes(&["without"]).await;
        see(&org, &["a", "agreed", "b", "c", "without"], 10).await;
        see(&org, &["late"], 5).await;
        org.add_node_agreement("agreed", "4", URL, "made").await;
        let (orgs, owner) = (texts(&[&org]), org.user("u"));
        let mut connection = org.connection().await;
        let mut page = async |owner: Option<&UserId>, after: Option<&str>, limit: i64| {
            let seen_after = Some(at(5));
            let search = PatternSearch {
                orgs: &orgs,
                owner,
                pattern: "o/p",
                arch: None,
                service_url: URL,
                seen_after,
            };
            let after = after.map(|id| ResourceKey { org: org.to_string(), id: id.to_owned() });
            let found = list_for_pattern(&mut connection, search, after.as_ref(), limit).await.unwrap();
            found.into_iter().map(|row| row.node).collect::<Vec<_>>()
        };
        assert_eq!(page(None, None, 2).await, ["a", "b"]);
        assert_eq!(page(None, Some("b"), 2).await, ["c"]);
        assert_eq!(page(Some(&owner), None, 9).await, ["a", "c"]);
    }
}
