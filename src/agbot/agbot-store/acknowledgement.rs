//! Acknowledgements of problems of the overview.

use jiff::Timestamp;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// An acknowledgement.
#[derive(Debug, Clone, PartialEq)]
pub struct AcknowledgementRow {
    /// The organization.
    pub org: String,
    /// Digest of the problem and of its cause.
    pub matter: String,
    /// The account, `org/user`.
    pub actor: String,
    /// Its reason.
    pub reason: String,
    /// Time of the acknowledgement.
    pub acknowledged_at: Timestamp,
    /// Time at which it ends at the latest.
    pub expires_at: Timestamp,
}

/// Lists the acknowledgements of an organization that have not expired; at most 2000.
pub async fn list_acknowledgements(
    conn: &mut PgConnection,
    org: &str,
    now: Timestamp,
) -> Result<Vec<AcknowledgementRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- acknowledgement.list_acknowledgements
        SELECT org, matter, actor, reason, acknowledged_at AS "acknowledged_at: jiff_sqlx::Timestamp",
               expires_at AS "expires_at: jiff_sqlx::Timestamp"
        FROM acknowledgement
        WHERE org = $1 AND expires_at > $2
        ORDER BY matter
        LIMIT 2000"#,
        org,
        to_sql(now) as _,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| AcknowledgementRow {
        org: row.org,
        matter: row.matter,
        actor: row.actor,
        reason: row.reason,
        acknowledged_at: from_sql(row.acknowledged_at),
        expires_at: from_sql(row.expires_at),
    });
    Ok(rows.collect())
}

/// Lists the organizations with acknowledgements.
pub async fn list_orgs(conn: &mut PgConnection) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query_scalar!(
        "-- acknowledgement.list_orgs
        SELECT DISTINCT org
        FROM acknowledgement
        ORDER BY org"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Stores an acknowledgement, in the place of an earlier one of the same problem.
pub async fn upsert_acknowledgement(
    tx: &mut PgConnection,
    row: &AcknowledgementRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- acknowledgement.upsert_acknowledgement
        INSERT INTO acknowledgement (org, matter, actor, reason, acknowledged_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (org, matter) DO UPDATE
        SET actor = excluded.actor, reason = excluded.reason, acknowledged_at = excluded.acknowledged_at,
            expires_at = excluded.expires_at",
        row.org,
        row.matter,
        row.actor,
        row.reason,
        to_sql(row.acknowledged_at) as _,
        to_sql(row.expires_at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes the acknowledgements of these problems, unless they were made after an instant; returns how many.
pub async fn delete_acknowledgements(
    tx: &mut PgConnection,
    org: &str,
    matters: &[&str],
    until: Timestamp,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- acknowledgement.delete_acknowledgements
        DELETE FROM acknowledgement WHERE org = $1 AND matter = ANY ($2) AND acknowledged_at <= $3",
        org,
        matters as &[&str],
        to_sql(until) as _,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes the acknowledgements of an organization that was deleted: another one may get its name.
pub async fn delete_acknowledgements_of(tx: &mut PgConnection, org: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- acknowledgement.delete_acknowledgements_of
        DELETE FROM acknowledgement WHERE org = $1",
        org,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes the acknowledgements that have expired.
pub async fn delete_expired(conn: &mut PgConnection, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query!(
        "-- acknowledgement.delete_expired
        DELETE FROM acknowledgement WHERE expires_at <= $1",
        to_sql(now) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{at, shared};

    fn row(matter: &str, reason: &str, second: i64) -> AcknowledgementRow {
        let [org, matter, actor, reason] = ["acks", matter, "acks/u", reason].map(str::to_owned);
        AcknowledgementRow {
            org,
            matter,
            actor,
            reason,
            acknowledged_at: at(second),
            expires_at: at(second + 10),
        }
    }

    #[tokio::test]
    async fn acknowledgement_is_replaced_expires_and_is_deleted_unless_it_is_newer() {
        let mut tx = shared().await.connection().await;
        for one in [row("a", "first", 0), row("a", "second", 1), row("b", "other", 5)] {
            upsert_acknowledgement(&mut tx, &one).await.unwrap();
        }
        let all = [row("a", "second", 1), row("b", "other", 5)];
        assert_eq!(list_acknowledgements(&mut tx, "acks", at(6)).await.unwrap(), all);
        assert_eq!(list_acknowledgements(&mut tx, "acks", at(11)).await.unwrap(), all[1..]);
        assert!(list_acknowledgements(&mut tx, "other", at(6)).await.unwrap().is_empty());
        assert!(list_orgs(&mut tx).await.unwrap().contains(&"acks".to_owned()));
        let matters = ["a", "b", "c"];
        assert_eq!(delete_acknowledgements(&mut tx, "acks", &matters, at(4)).await.unwrap(), 1);
        delete_expired(&mut tx, at(14)).await.unwrap();
        assert_eq!(list_acknowledgements(&mut tx, "acks", at(6)).await.unwrap(), all[1..]);
        delete_expired(&mut tx, at(15)).await.unwrap();
        assert!(list_acknowledgements(&mut tx, "acks", at(6)).await.unwrap().is_empty());
        delete_acknowledgements_of(&mut tx, "acks").await.unwrap();
        assert!(!list_orgs(&mut tx).await.unwrap().contains(&"acks".to_owned()));
    }
}
