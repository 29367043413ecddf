//! Bytes of the documents that an account owns.
//!
//! Agbots hold the documents of all accounts of an organization in memory, and read lists of them as a whole. The number of documents is
//! limited; these are the bytes that documents have beyond a share that every one of them may have. Sizes are columns of the tables, and the
//! documents beyond the shares have indexes of their own: an account without any costs nothing.

use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// Bytes that the record and the policy of each node may have without being counted. A condition of indexes and queries.
pub const NODE_SHARE: usize = 4_096;
/// The same of the status and of the errors of each node.
pub const REPORT_SHARE: usize = 16_384;
/// The same of each service, service policy, pattern, deployment policy and management policy.
pub const DOCUMENT_SHARE: usize = 8_192;

/// Bytes of a text as JSON, as the columns count them.
pub(crate) fn text_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(0, |json| json.len())
}

/// A document whose bytes are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedDocument {
    /// A node with its policy, status and errors.
    Node,
    /// A service with its policy.
    Service,
    /// A pattern.
    Pattern,
    /// A deployment policy.
    DeploymentPolicy,
    /// A management policy.
    ManagementPolicy,
}

/// Bytes of a document beyond its share, and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Organization of the owner.
    pub owner_org: String,
    /// Name of the owner.
    pub owner: String,
    /// The bytes.
    pub bytes: i64,
}

/// Returns how many bytes a document has beyond its share; `None` when it does not exist.
pub async fn find(
    conn: &mut PgConnection,
    document: CountedDocument,
    org: &str,
    id: &str,
) -> Result<Option<Excess>, StoreError> {
    let query = match document {
        CountedDocument::Node => sqlx::query_as!(
            Excess,
            r#"-- document_bytes.find_node
            SELECT owner_org, owner,
                   GREATEST(record_bytes - 4096, 0)
                   + COALESCE((SELECT bytes - 4096 FROM node_policy AS part
                               WHERE part.org = node.org AND part.node = node.node AND bytes > 4096), 0)
                   + COALESCE((SELECT bytes - 16384 FROM node_status AS part
                               WHERE part.org = node.org AND part.node = node.node AND bytes > 16384), 0)
                   + COALESCE((SELECT bytes - 16384 FROM node_error AS part
                               WHERE part.org = node.org AND part.node = node.node AND bytes > 16384), 0) AS "bytes!"
            FROM node
            WHERE org = $1 AND node = $2"#,
            org,
            id,
        )
        .fetch_optional(conn)
        .await,
        CountedDocument::Service => sqlx::query_as!(
            Excess,
            r#"-- document_bytes.find_service
            SELECT owner_org, owner,
                   GREATEST(bytes - 8192, 0)
                   + COALESCE((SELECT part.bytes - 8192 FROM service_policy AS part
                               WHERE part.org = service.org AND part.service = service.service AND part.bytes > 8192), 0) AS "bytes!"
            FROM service
            WHERE org = $1 AND service = $2"#,
            org,
            id,
        )
        .fetch_optional(conn)
        .await,
        CountedDocument::Pattern => sqlx::query_as!(
            Excess,
            r#"-- document_bytes.find_pattern
            SELECT owner_org, owner, GREATEST(bytes - 8192, 0) AS "bytes!" FROM pattern WHERE org = $1 AND pattern = $2"#,
            org,
            id,
        )
        .fetch_optional(conn)
        .await,
        CountedDocument::DeploymentPolicy => sqlx::query_as!(
            Excess,
            r#"-- document_bytes.find_deployment_policy
            SELECT owner_org, owner, GREATEST(bytes - 8192, 0) AS "bytes!" FROM deployment_policy WHERE org = $1 AND policy = $2"#,
            org,
            id,
        )
        .fetch_optional(conn)
        .await,
        CountedDocument::ManagementPolicy => sqlx::query_as!(
            Excess,
            r#"-- document_bytes.find_management_policy
            SELECT owner_org, owner, GREATEST(bytes - 8192, 0) AS "bytes!" FROM management_policy WHERE org = $1 AND policy = $2"#,
            org,
            id,
        )
        .fetch_optional(conn)
        .await,
    };
    Ok(query?)
}

/// Returns the bytes beyond the shares of all documents of an account that share a limit with one kind: those of its nodes, of its services, or
/// of its patterns and policies.
pub async fn of_account(
    conn: &mut PgConnection,
    document: CountedDocument,
    owner_org: &str,
    owner: &str,
) -> Result<i64, StoreError> {
    let query = match document {
        CountedDocument::Node => sqlx::query_scalar!(
            r#"-- document_bytes.of_nodes
            SELECT COALESCE(sum(excess), 0)::bigint AS "bytes!"
            FROM (
                SELECT record_bytes - 4096 AS excess FROM node WHERE owner_org = $1 AND owner = $2 AND record_bytes > 4096
                UNION ALL
                SELECT part.bytes - 4096 FROM node_policy AS part JOIN node USING (org, node)
                WHERE owner_org = $1 AND owner = $2 AND part.bytes > 4096
                UNION ALL
                SELECT part.bytes - 16384 FROM node_status AS part JOIN node USING (org, node)
                WHERE owner_org = $1 AND owner = $2 AND part.bytes > 16384
                UNION ALL
                SELECT part.bytes - 16384 FROM node_error AS part JOIN node USING (org, node)
                WHERE owner_org = $1 AND owner = $2 AND part.bytes > 16384
            ) AS counted"#,
            owner_org,
            owner,
        )
        .fetch_one(conn)
        .await,
        CountedDocument::Service => sqlx::query_scalar!(
            r#"-- document_bytes.of_services
            SELECT COALESCE(sum(excess), 0)::bigint AS "bytes!"
            FROM (
                SELECT bytes - 8192 AS excess FROM service WHERE owner_org = $1 AND owner = $2 AND bytes > 8192
                UNION ALL
                SELECT part.bytes - 8192 FROM service_policy AS part JOIN service USING (org, service)
                WHERE owner_org = $1 AND owner = $2 AND part.bytes > 8192
            ) AS counted"#,
            owner_org,
            owner,
        )
        .fetch_one(conn)
        .await,
        CountedDocument::Pattern | CountedDocument::DeploymentPolicy | CountedDocument::ManagementPolicy => sqlx::query_scalar!(
            r#"-- document_bytes.of_policies
            SELECT COALESCE(sum(excess), 0)::bigint AS "bytes!"
            FROM (
                SELECT bytes - 8192 AS excess FROM pattern WHERE owner_org = $1 AND owner = $2 AND bytes > 8192
                UNION ALL
                SELECT bytes - 8192 FROM deployment_policy WHERE owner_org = $1 AND owner = $2 AND bytes > 8192
                UNION ALL
                SELECT bytes - 8192 FROM management_policy WHERE owner_org = $1 AND owner = $2 AND bytes > 8192
            ) AS counted"#,
            owner_org,
            owner,
        )
        .fetch_one(conn)
        .await,
    };
    Ok(query?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_part::{JsonRow, upsert_errors};
    use crate::tests::{Org, at, json};

    /// A JSON list that has so many bytes.
    fn list(bytes: usize) -> crate::node::JsonText {
        json(&format!("[\"{}\"]", "x".repeat(bytes - 4)))
    }

    #[tokio::test]
    async fn bytes_beyond_the_shares_are_counted_for_the_owner() {
        let org = Org::new("document-bytes").await;
        org.add_account("v").await;
        let mut row = org.node("large");
        row.user_input = list(10_000);
        org.insert_node(&row).await;
        org.add_nodes(&["small"]).await;
        row.node = "foreign".to_owned();
        row.owner = "v".to_owned();
        org.insert_node(&row).await;
        let mut connection = org.connection().await;
        let large = find(&mut connection, CountedDocument::Node, &org, "large").await.unwrap().unwrap();
        let beside = large.bytes - (10_000 - 4_096);
        assert!((0..300).contains(&beside), "the other fields count as well: {beside}");
        let small = find(&mut connection, CountedDocument::Node, &org, "small").await.unwrap();
        assert_eq!(small.map(|small| small.bytes), Some(0));
        assert_eq!(find(&mut connection, CountedDocument::Node, &org, "absent").await.unwrap(), None);
        assert_eq!(of_account(&mut connection, CountedDocument::Node, &org, "u").await.unwrap(), large.bytes);
        let errors = JsonRow { value: list(20_000), updated_at: at(1) };
        org.write(async |tx| upsert_errors(tx, &org, "small", &errors).await).await;
        let both = of_account(&mut connection, CountedDocument::Node, &org, "u").await.unwrap();
        assert_eq!(both, large.bytes + 20_000 - 16_384);
    }

    #[tokio::test]
    async fn characters_count_with_the_bytes_that_they_have_as_json() {
        let org = Org::new("document-bytes-json").await;
        let mut row = org.node("n");
        row.public_key = "\u{1}".repeat(1_000);
        org.insert_node(&row).await;
        let mut connection = org.connection().await;
        let found = find(&mut connection, CountedDocument::Node, &org, "n").await.unwrap().unwrap();
        assert!(found.bytes > 6_000 - 4_096, "{}", found.bytes);
        assert_eq!(found.bytes, i64::try_from(row.record_bytes() - NODE_SHARE).unwrap());
    }
}
