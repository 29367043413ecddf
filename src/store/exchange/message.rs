//! Mailboxes of nodes and agbots.

use jiff::Timestamp;
use sqlx::PgConnection;

use crate::{StoreError, to_sql};

/// Removes messages whose time is over from all mailboxes.
pub async fn delete_expired(conn: &mut PgConnection, now: Timestamp) -> Result<u64, StoreError> {
    let of_nodes = sqlx::query!(
        "-- message.delete_expired_of_nodes
        DELETE FROM node_message WHERE expires_at < $1",
        to_sql(now) as _,
    )
    .execute(&mut *conn)
    .await?;
    let of_agbots = sqlx::query!(
        "-- message.delete_expired_of_agbots
        DELETE FROM agbot_message WHERE expires_at < $1",
        to_sql(now) as _,
    )
    .execute(conn)
    .await?;
    Ok(of_nodes.rows_affected() + of_agbots.rows_affected())
}
