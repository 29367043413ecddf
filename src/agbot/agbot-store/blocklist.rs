//! The node blocklist: failures of service versions on nodes.

use evenkeel_ids::{NodeId, ServiceKey};
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// A row, by node, service and version.
#[derive(Debug, Clone, PartialEq)]
pub struct BlocklistRow {
    /// The node.
    pub node: NodeId,
    /// The service.
    pub service: ServiceKey,
    /// Its version.
    pub version: String,
    /// The row.
    pub record: Value,
}

/// Reads a row.
pub async fn find_entry(
    tx: &mut PgConnection,
    node: &NodeId,
    service: &ServiceKey,
    version: &str,
) -> Result<Option<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- blocklist.find_entry
        SELECT record FROM blocklist WHERE node = $1 AND service = $2 AND version = $3",
        node.as_str(),
        service.as_str(),
        version,
    )
    .fetch_optional(tx)
    .await?)
}

/// Stores a row.
pub async fn upsert_entry(tx: &mut PgConnection, row: &BlocklistRow) -> Result<(), StoreError> {
    sqlx::query!(
        "-- blocklist.upsert_entry
        INSERT INTO blocklist (node, service, version, record) VALUES ($1, $2, $3, $4)
        ON CONFLICT (node, service, version) DO UPDATE SET record = excluded.record",
        row.node.as_str(),
        row.service.as_str(),
        row.version,
        row.record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes the rows of some nodes, or those of one service on them, and returns them.
pub async fn delete_entries(
    tx: &mut PgConnection,
    nodes: &[&NodeId],
    service: Option<&ServiceKey>,
    version: Option<&str>,
) -> Result<Vec<BlocklistRow>, StoreError> {
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    Ok(sqlx::query_as!(
        BlocklistRow,
        r#"-- blocklist.delete_entries
        DELETE FROM blocklist
        WHERE node = ANY ($1) AND ($2::text IS NULL OR service = $2) AND ($3::text IS NULL OR version = $3)
        RETURNING node AS "node: NodeId", service AS "service: ServiceKey", version, record"#,
        &names as &[&str],
        service.map(ServiceKey::as_str),
        version,
    )
    .fetch_all(tx)
    .await?)
}

/// Lists all rows.
pub async fn list_blocklist(conn: &mut PgConnection) -> Result<Vec<BlocklistRow>, StoreError> {
    Ok(sqlx::query_as!(
        BlocklistRow,
        r#"-- blocklist.list_blocklist
        SELECT node AS "node: NodeId", service AS "service: ServiceKey", version, record
        FROM blocklist
        ORDER BY node, service, version"#
    )
    .fetch_all(conn)
    .await?)
}

/// Reads some rows; each key is a node, a service and a version.
pub async fn read_blocklist(
    conn: &mut PgConnection,
    keys: &[(&NodeId, &ServiceKey, &str)],
) -> Result<Vec<BlocklistRow>, StoreError> {
    let nodes: Vec<&str> = keys.iter().map(|(node, ..)| node.as_str()).collect();
    let services: Vec<&str> = keys.iter().map(|(_, service, _)| service.as_str()).collect();
    let versions: Vec<&str> = keys.iter().map(|(.., version)| *version).collect();
    Ok(sqlx::query_as!(
        BlocklistRow,
        r#"-- blocklist.read_blocklist
        SELECT node AS "node: NodeId", service AS "service: ServiceKey", version, record
        FROM blocklist
        JOIN UNNEST($1::text[], $2::text[], $3::text[]) AS key (node, service, version)
            USING (node, service, version)"#,
        &nodes as &[&str],
        &services as &[&str],
        &versions as &[&str],
    )
    .fetch_all(conn)
    .await?)
}
