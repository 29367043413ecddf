//! Agreements as nodes and agbots record them.
//!
//! Recording an id again for another node, or agbot, of the same owner moves it there. Agreements of other
//! owners are not affected: naming an id cannot take an agreement away.

use evenkeel_access::{MULTI_TENANT_ORG, right};
use evenkeel_ids::{NodeId, UserId};
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::node::JsonText;
use super::permitted::Permitted;

/// An agreement of a node.
#[derive(Debug, Clone)]
pub struct NodeAgreementRow {
    /// Id.
    pub agreement: String,
    /// List of services.
    pub services: JsonText,
    /// Object with the agreed service.
    pub agreement_service: JsonText,
    /// URL of the agreed service, which searches compare.
    pub service_url: String,
    /// State; empty is not active.
    pub state: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// An agreement of an agbot.
#[derive(Debug, Clone)]
pub struct AgbotAgreementRow {
    /// Id.
    pub agreement: String,
    /// Object with the agreed service.
    pub service: JsonText,
    /// State; empty is not active.
    pub state: String,
    /// Last change.
    pub updated_at: Timestamp,
    /// The node that the agreement is with, as `org/id`; `None` when the agbot does not state it.
    pub node: Option<String>,
}

/// Lists the agreements of a node by id, those after the given one, at most `limit`; or one agreement.
pub async fn list_of_node(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    agreement: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<NodeAgreementRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agreement.list_of_node
        SELECT agreement, services AS "services: Json<JsonText>", agreement_service AS "agreement_service: Json<JsonText>",
               service_url, state, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_agreement
        WHERE org = $1 AND node = $2 AND ($3::text IS NULL OR agreement = $3) AND agreement > COALESCE($4::text, '')
        ORDER BY agreement
        LIMIT $5"#,
        org,
        node,
        agreement,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| NodeAgreementRow {
            agreement: row.agreement,
            services: row.services.0,
            agreement_service: row.agreement_service.0,
            service_url: row.service_url,
            state: row.state,
            updated_at: from_sql(row.updated_at),
        })
        .collect())
}

/// Lists the agreements of an agbot by id, those after the given one, at most `limit`; or one agreement, or those recorded with a node.
pub async fn list_of_agbot(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    agreement: Option<&str>,
    node: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AgbotAgreementRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agreement.list_of_agbot
        SELECT agreement, service AS "service: Json<JsonText>", state, updated_at AS "updated_at: jiff_sqlx::Timestamp", node
        FROM agbot_agreement
        WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR agreement = $3) AND agreement > COALESCE($4::text, '')
          AND ($6::text IS NULL OR node = $6)
        ORDER BY agreement
        LIMIT $5"#,
        org,
        agbot,
        agreement,
        after,
        limit,
        node,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AgbotAgreementRow {
            agreement: row.agreement,
            service: row.service.0,
            state: row.state,
            updated_at: from_sql(row.updated_at),
            node: row.node,
        })
        .collect())
}

/// Counts the agreements of a node, up to a number.
pub async fn count_of_node(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- agreement.count_of_node
        SELECT count(*) AS "count!"
        FROM (SELECT 1 FROM node_agreement WHERE org = $1 AND node = $2 LIMIT $3) AS selected"#,
        org,
        node,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Counts the agreements of an agbot, or those recorded with a node, up to a number.
pub async fn count_of_agbot(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    node: Option<&str>,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- agreement.count_of_agbot
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM agbot_agreement
            WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR node = $3)
            LIMIT $4
        ) AS selected"#,
        org,
        agbot,
        node,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Records an agreement of a node.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node does not exist.
pub async fn upsert_of_node(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    row: &NodeAgreementRow,
) -> Result<(), StoreError> {
    // An agreement id is recorded for one node of an owner. Records of other owners under the same id stay: it must not be possible to
    // remove them by naming their id.
    sqlx::query!(
        "-- agreement.release_of_node
        DELETE FROM node_agreement
        USING node AS holder, node AS receiver
        WHERE node_agreement.agreement = $1 AND (node_agreement.org, node_agreement.node) <> ($2, $3)
          AND holder.org = node_agreement.org AND holder.node = node_agreement.node
          AND receiver.org = $2 AND receiver.node = $3
          AND (holder.owner_org, holder.owner) = (receiver.owner_org, receiver.owner)",
        row.agreement,
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "-- agreement.upsert_of_node
        INSERT INTO node_agreement (agreement, org, node, services, agreement_service, service_url, state, updated_at)
        VALUES ($1, $2, $3, $4::text::json, $5::text::json, $6, $7, $8)
        ON CONFLICT (org, node, agreement) DO UPDATE
        SET services = excluded.services, agreement_service = excluded.agreement_service,
            service_url = excluded.service_url, state = excluded.state, updated_at = excluded.updated_at",
        row.agreement,
        org,
        node,
        row.services.get(),
        row.agreement_service.get(),
        row.service_url,
        row.state,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records an agreement of an agbot.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the agbot does not exist.
pub async fn upsert_of_agbot(
    tx: &mut Permitted<right::AgbotWrite>,
    org: &str,
    agbot: &str,
    row: &AgbotAgreementRow,
) -> Result<(), StoreError> {
    // An agreement id is recorded for one agbot of an owner. Records of other owners under the same id stay: it must not be possible to
    // remove them by naming their id.
    sqlx::query!(
        "-- agreement.release_of_agbot
        DELETE FROM agbot_agreement
        USING agbot AS holder, agbot AS receiver
        WHERE agbot_agreement.agreement = $1 AND (agbot_agreement.org, agbot_agreement.agbot) <> ($2, $3)
          AND holder.org = agbot_agreement.org AND holder.agbot = agbot_agreement.agbot
          AND receiver.org = $2 AND receiver.agbot = $3
          AND (holder.owner_org, holder.owner) = (receiver.owner_org, receiver.owner)",
        row.agreement,
        org,
        agbot,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "-- agreement.upsert_of_agbot
        INSERT INTO agbot_agreement (agreement, org, agbot, service, state, updated_at, node)
        VALUES ($1, $2, $3, $4::text::json, $5, $6, $7)
        ON CONFLICT (org, agbot, agreement) DO UPDATE
        SET service = excluded.service, state = excluded.state, updated_at = excluded.updated_at,
            node = COALESCE(excluded.node, agbot_agreement.node)",
        row.agreement,
        org,
        agbot,
        row.service.get(),
        row.state,
        to_sql(row.updated_at) as _,
        row.node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes one agreement of a node, or all; returns how many there were.
pub async fn delete_of_node(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    agreement: Option<&str>,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- agreement.delete_of_node
        DELETE FROM node_agreement WHERE org = $1 AND node = $2 AND ($3::text IS NULL OR agreement = $3)",
        org,
        node,
        agreement,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Removes one agreement of an agbot, or all; returns how many there were.
pub async fn delete_of_agbot(
    tx: &mut Permitted<right::AgbotWrite>,
    org: &str,
    agbot: &str,
    agreement: Option<&str>,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- agreement.delete_of_agbot
        DELETE FROM agbot_agreement WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR agreement = $3)",
        org,
        agbot,
        agreement,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Counts the agreements of a node other than the given one.
pub async fn count_others_of_node(
    tx: &mut PgConnection,
    org: &str,
    node: &str,
    agreement: &str,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- agreement.count_others_of_node
        SELECT count(*) AS "count!" FROM node_agreement WHERE org = $1 AND node = $2 AND agreement <> $3"#,
        org,
        node,
        agreement,
    )
    .fetch_one(tx)
    .await?;
    Ok(row.count)
}

/// Counts the agreements of an agbot other than the given one.
pub async fn count_others_of_agbot(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
    agreement: &str,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- agreement.count_others_of_agbot
        SELECT count(*) AS "count!" FROM agbot_agreement WHERE org = $1 AND agbot = $2 AND agreement <> $3"#,
        org,
        agbot,
        agreement,
    )
    .fetch_one(tx)
    .await?;
    Ok(row.count)
}

/// Returns whether an active agreement belongs to the given agbot, or to any agbot of the given owner.
pub async fn is_active(
    conn: &mut PgConnection,
    agreement: &str,
    agbot: Option<(&str, &str)>,
    owner: &UserId,
) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- agreement.is_active
        SELECT EXISTS (
            SELECT 1
            FROM agbot_agreement
            JOIN agbot ON agbot.org = agbot_agreement.org AND agbot.agbot = agbot_agreement.agbot
            WHERE agbot_agreement.agreement = $1 AND agbot_agreement.state <> ''
              AND ((agbot.org = $2 AND agbot.agbot = $3) OR (agbot.owner_org = $4 AND agbot.owner = $5))
        ) AS "is_active!""#,
        agreement,
        agbot.map(|agbot| agbot.0),
        agbot.map(|agbot| agbot.1),
        owner.org(),
        owner.name(),
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_active)
}

/// Returns whether an agbot recorded an agreement, with this node or without saying with which.
pub async fn is_of_agbot(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    agreement: &str,
    node: &NodeId,
) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- agreement.is_of_agbot
        SELECT EXISTS (
            SELECT FROM agbot_agreement
            WHERE org = $1 AND agbot = $2 AND agreement = $3 AND (node IS NULL OR node = $4)
        ) AS "is_there!""#,
        org,
        agbot,
        agreement,
        node.to_string(),
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// Returns whether a node may read what a service needs to run, such as its registry credentials: its owner may, or the service is of
/// the node's organization and the node has an agreement about it, or about one that requires it, of an approved agbot of that
/// organization or the shared one.
///
/// Agbots of other organizations do not count, because their own administrators approved them. An agreement about a private service of
/// another organization does not either: any user can publish a policy, or a service that requires it, which names the service.
///
/// An agreement counts when the agbot recorded it with this node. Third-party agbots do not state the node:
/// then the node must be the only one that records the id.
pub async fn is_deployed(
    conn: &mut PgConnection,
    node: &NodeId,
    (service_org, service): (&str, &str),
) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- agreement.is_deployed
        WITH RECURSIVE deployed AS (
            SELECT agreed.service ->> 'orgid' AS org, agreed.service ->> 'url' AS url
            FROM node_agreement AS held
            JOIN agbot_agreement AS agreed USING (agreement)
            JOIN agbot ON agbot.org = agreed.org AND agbot.agbot = agreed.agbot AND agbot.approved_by IS NOT NULL
            WHERE held.org = $1 AND held.node = $2 AND agreed.org IN ($1, $5)
              AND (agreed.node = $1 || '/' || $2 OR (agreed.node IS NULL AND NOT EXISTS (
                      SELECT FROM node_agreement AS other
                      WHERE other.agreement = held.agreement AND (other.org, other.node) <> ($1, $2))))
            UNION
            SELECT required ->> 'org', required ->> 'url'
            FROM deployed
            JOIN service ON service.org = deployed.org AND service.url = deployed.url
            CROSS JOIN LATERAL json_array_elements(
                CASE json_typeof(service.required_services) WHEN 'array' THEN service.required_services ELSE '[]' END) AS required
        )
        SELECT EXISTS (
            SELECT FROM service
            WHERE service.org = $3 AND service.service = $4 AND (
                (service.org = $1 AND (service.org, service.url) IN (SELECT org, url FROM deployed))
                OR EXISTS (
                    SELECT FROM node
                    JOIN account ON account.org = node.owner_org AND account.name = node.owner
                    WHERE node.org = $1 AND node.node = $2 AND account.is_admin
                      AND (account.org = service.org OR account.is_hub_admin))
                OR EXISTS (
                    SELECT FROM node
                    WHERE node.org = $1 AND node.node = $2
                      AND (node.owner_org, node.owner) = (service.owner_org, service.owner)))
        ) AS "is_deployed!""#,
        node.org(),
        node.name(),
        service_org,
        service,
        MULTI_TENANT_ORG,
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeRow;
    use crate::tests::Org;

    async fn is_held(org: &Org, node: &str, agreement: &str) -> bool {
        let mut connection = org.connection().await;
        let found = list_of_node(&mut connection, org, node, Some(agreement), None, 10).await.unwrap();
        !found.is_empty()
    }

    #[tokio::test]
    async fn agreement_recorded_again_moves_between_nodes_of_one_owner_alone() {
        let org = Org::new("agreement-node").await;
        org.add_account("v").await;
        org.add_nodes(&["n", "m"]).await;
        org.insert_node(&NodeRow { owner: "v".to_owned(), ..org.node("foreign") }).await;
        for node in ["n", "foreign", "m"] {
            org.add_node_agreement(node, "moved", "", "made").await;
        }
        let held = [is_held(&org, "n", "moved").await, is_held(&org, "m", "moved").await];
        assert_eq!(held, [false, true]);
        assert!(is_held(&org, "foreign", "moved").await, "naming an id takes nothing away");
    }

    #[tokio::test]
    async fn agreement_of_an_agbot_is_active_for_its_owner_and_itself() {
        let org = Org::new("agreement-agbot").await;
        org.add_account("v").await;
        for (agbot, owner) in [("a", "u"), ("b", "u"), ("foreign", "v")] {
            org.add_agbot(agbot, owner).await;
        }
        for (agbot, state) in [("a", "made"), ("foreign", "made"), ("b", "made")] {
            org.add_agbot_agreement(agbot, "agbot-moved", state, None).await;
        }
        org.add_agbot_agreement("a", "agbot-ended", "", None).await;
        let mut connection = org.connection().await;
        let moved =
            list_of_agbot(&mut connection, (&org, "a"), Some("agbot-moved"), None, None, 10).await.unwrap();
        assert!(moved.is_empty());
        let (owner, nobody) = (org.user("u"), org.user("w"));
        for (agreement, agbot, owner, expected) in [
            ("agbot-moved", None, &owner, true),
            ("agbot-moved", Some("b"), &nobody, true),
            ("agbot-moved", Some("foreign"), &nobody, true),
            ("agbot-moved", Some("a"), &nobody, false),
            ("agbot-moved", None, &nobody, false),
            ("agbot-ended", None, &owner, false),
            ("absent", None, &owner, false),
        ] {
            let agbot = agbot.map(|agbot| (&*org, agbot));
            let found = is_active(&mut connection, agreement, agbot, owner).await.unwrap();
            assert_eq!(found, expected, "{agreement} {agbot:?}");
        }
    }

    #[tokio::test]
    async fn agbot_that_named_the_node_of_an_agreement_keeps_to_it() {
        let org = Org::new("agreement-named").await;
        org.add_agbot("a", "u").await;
        let [n, m] = ["n", "m"].map(|node| NodeId::new(&org, node));
        org.add_agbot_agreement("a", "unnamed", "made", None).await;
        for node in [Some(n.as_str()), None] {
            org.add_agbot_agreement("a", "named", "made", node).await;
        }
        let mut connection = org.connection().await;
        for (agbot, agreement, node, expected) in [
            ("a", "named", &n, true),
            ("a", "named", &m, false),
            ("a", "unnamed", &m, true),
            ("b", "unnamed", &m, false),
        ] {
            let found = is_of_agbot(&mut connection, (&org, agbot), agreement, node).await.unwrap();
            assert_eq!(found, expected, "{agbot} {agreement} {node}");
        }
    }

    #[tokio::test]
    async fn pages_of_agreements_follow_their_ids() {
        let org = Org::new("agreement-pages").await;
        org.add_nodes(&["n", "m"]).await;
        for (node, agreement) in [("n", "c"), ("n", "a"), ("m", "b"), ("n", "d")] {
            org.add_node_agreement(node, &format!("page-{agreement}"), "", "made").await;
        }
        let mut connection = org.connection().await;
        let mut page = async |after: Option<&str>| {
            let found = list_of_node(&mut connection, &org, "n", None, after, 2).await.unwrap();
            found.into_iter().map(|row| row.agreement).collect::<Vec<_>>()
        };
        assert_eq!(page(None).await, ["page-a", "page-c"]);
        assert_eq!(page(Some("page-c")).await, ["page-d"]);
    }
}
