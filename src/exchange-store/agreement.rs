//! Agreements as nodes and agbots record them.
//!
//! An id is unique over all nodes, and over all agbots: recording it again for another one moves it there.

use evenkeel_access::right;
use evenkeel_ids::UserId;
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

/// Lists the agreements of an agbot by id, those after the given one, at most `limit`; or one agreement.
pub async fn list_of_agbot(
    conn: &mut PgConnection,
    org: &str,
    agbot: &str,
    agreement: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AgbotAgreementRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agreement.list_of_agbot
        SELECT agreement, service AS "service: Json<JsonText>", state, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM agbot_agreement
        WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR agreement = $3) AND agreement > COALESCE($4::text, '')
        ORDER BY agreement
        LIMIT $5"#,
        org,
        agbot,
        agreement,
        after,
        limit,
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
        })
        .collect())
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
    sqlx::query!(
        "-- agreement.upsert_of_node
        INSERT INTO node_agreement (agreement, org, node, services, agreement_service, service_url, state, updated_at)
        VALUES ($1, $2, $3, $4::text::json, $5::text::json, $6, $7, $8)
        ON CONFLICT (agreement) DO UPDATE
        SET org = excluded.org, node = excluded.node, services = excluded.services,
            agreement_service = excluded.agreement_service, service_url = excluded.service_url, state = excluded.state,
            updated_at = excluded.updated_at",
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
    sqlx::query!(
        "-- agreement.upsert_of_agbot
        INSERT INTO agbot_agreement (agreement, org, agbot, service, state, updated_at)
        VALUES ($1, $2, $3, $4::text::json, $5, $6)
        ON CONFLICT (agreement) DO UPDATE
        SET org = excluded.org, agbot = excluded.agbot, service = excluded.service, state = excluded.state,
            updated_at = excluded.updated_at",
        row.agreement,
        org,
        agbot,
        row.service.get(),
        row.state,
        to_sql(row.updated_at) as _,
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
