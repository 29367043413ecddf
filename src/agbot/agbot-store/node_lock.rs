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
    // Sorted in the subquery, because the order in which a select list is computed is that of its input. Hashes that
    // collide only make transactions wait.
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

#[cfg(test)]
mod tests {
    use evenkeel_test_database::backend;
    use sqlx::Connection;

    use super::*;
    use crate::tests::shared;

    #[tokio::test]
    async fn decisions_of_one_kind_about_a_node_wait_for_each_other() {
        let (mut first, mut second) = (shared().await.connection().await, shared().await.connection().await);
        let [a, b, c] = ["a", "b", "c"].map(|name| NodeId::new("node-lock", name));
        let mut tx = first.begin().await.unwrap();
        lock_nodes(&mut tx, NodeLock::Placement, &[&a, &b]).await.unwrap();
        let mut other = second.begin().await.unwrap();
        lock_nodes(&mut other, NodeLock::Blocklist, &[&a, &b]).await.unwrap();
        let process = backend(&mut other).await;
        let nodes = [&c, &b];
        let waiter = lock_nodes(&mut other, NodeLock::Placement, &nodes);
        shared().await.release_when_awaited(process, waiter, tx.commit()).await.unwrap();
    }
}
