//! Locks on nodes: what is decided from rows that may not exist yet cannot be protected by locking those rows.

use evenkeel_ids::NodeId;
use evenkeel_store::{PgConnection, StoreError};

/// A decision about a node that is made under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeLock {
    /// Tasks that it has room for, and those that may run side by side.
    Placement,
    /// Service versions that keep failing on it.
    Blocklist,
}

impl NodeLock {
    fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Blocklist => "blocklist",
        }
    }
}

/// Waits until no other transaction decides the same about these nodes, and keeps it so until the transaction ends.
///
/// The nodes are locked in their order, so that two transactions never wait for each other.
pub async fn lock_nodes(tx: &mut PgConnection, lock: NodeLock, nodes: &[&NodeId]) -> Result<(), StoreError> {
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    sqlx::query!(
        r#"-- node_lock.lock_nodes
        SELECT pg_advisory_xact_lock(hashtextextended($2 || ' ' || node, 0))::text AS "nothing?"
        FROM (SELECT node FROM UNNEST($1::text[]) AS key (node) ORDER BY node) AS ordered"#,
        &names as &[&str],
        lock.name(),
    )
    .fetch_all(tx)
    .await?;
    Ok(())
}
