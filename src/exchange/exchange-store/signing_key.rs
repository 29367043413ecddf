//! Public keys that verify the deployments of services and patterns.

use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::{Permitted, WritesKeys};

/// The owner of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHolder {
    /// A service.
    Service,
    /// A pattern.
    Pattern,
}

/// Lists the names of the keys of a service or pattern, in order: those after the given one, at most `limit`.
pub async fn list_names(
    conn: &mut PgConnection,
    holder: KeyHolder,
    org: &str,
    id: &str,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    Ok(match holder {
        KeyHolder::Service => {
            sqlx::query_scalar!(
                "-- signing_key.list_of_service
                SELECT key_id FROM service_key
                WHERE org = $1 AND service = $2 AND key_id > COALESCE($3::text, '')
                ORDER BY key_id
                LIMIT $4",
                org,
                id,
                after,
                limit,
            )
            .fetch_all(conn)
            .await?
        }
        KeyHolder::Pattern => {
            sqlx::query_scalar!(
                "-- signing_key.list_of_pattern
                SELECT key_id FROM pattern_key
                WHERE org = $1 AND pattern = $2 AND key_id > COALESCE($3::text, '')
                ORDER BY key_id
                LIMIT $4",
                org,
                id,
                after,
                limit,
            )
            .fetch_all(conn)
            .await?
        }
    })
}

/// Finds the content of a key.
pub async fn find_content(
    conn: &mut PgConnection,
    holder: KeyHolder,
    org: &str,
    id: &str,
    key: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(match holder {
        KeyHolder::Service => {
            sqlx::query_scalar!(
                "-- signing_key.find_of_service
                SELECT content FROM service_key WHERE org = $1 AND service = $2 AND key_id = $3",
                org,
                id,
                key,
            )
            .fetch_optional(conn)
            .await?
        }
        KeyHolder::Pattern => {
            sqlx::query_scalar!(
                "-- signing_key.find_of_pattern
                SELECT content FROM pattern_key WHERE org = $1 AND pattern = $2 AND key_id = $3",
                org,
                id,
                key,
            )
            .fetch_optional(conn)
            .await?
        }
    })
}

/// Counts the other keys of a holder.
pub async fn count_others(
    conn: &mut PgConnection,
    holder: KeyHolder,
    (org, id, key): (&str, &str, &str),
) -> Result<i64, StoreError> {
    Ok(match holder {
        KeyHolder::Service => {
            sqlx::query_scalar!(
                r#"-- signing_key.count_others_of_service
                SELECT count(*) AS "count!" FROM service_key WHERE org = $1 AND service = $2 AND key_id <> $3"#,
                org,
                id,
                key,
            )
            .fetch_one(conn)
            .await?
        }
        KeyHolder::Pattern => {
            sqlx::query_scalar!(
                r#"-- signing_key.count_others_of_pattern
                SELECT count(*) AS "count!" FROM pattern_key WHERE org = $1 AND pattern = $2 AND key_id <> $3"#,
                org,
                id,
                key,
            )
            .fetch_one(conn)
            .await?
        }
    })
}

/// Adds or replaces a key.
///
/// # Errors
/// [`StoreError::ParentMissing`] when there is no such service or pattern.
pub async fn upsert<R: WritesKeys>(
    tx: &mut Permitted<R>,
    holder: KeyHolder,
    (org, id, key): (&str, &str, &str),
    content: &[u8],
    at: Timestamp,
) -> Result<(), StoreError> {
    match holder {
        KeyHolder::Service => {
            sqlx::query!(
                "-- signing_key.upsert_of_service
                INSERT INTO service_key (org, service, key_id, content, updated_at) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (org, service, key_id) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at",
                org,
                id,
                key,
                content,
                to_sql(at) as _,
            )
            .execute(&mut **tx)
            .await?;
        }
        KeyHolder::Pattern => {
            sqlx::query!(
                "-- signing_key.upsert_of_pattern
                INSERT INTO pattern_key (org, pattern, key_id, content, updated_at) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (org, pattern, key_id) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at",
                org,
                id,
                key,
                content,
                to_sql(at) as _,
            )
            .execute(&mut **tx)
            .await?;
        }
    }
    Ok(())
}

/// Removes keys of a service or pattern: all, or the one with a name; returns how many.
pub async fn delete<R: WritesKeys>(
    tx: &mut Permitted<R>,
    holder: KeyHolder,
    org: &str,
    id: &str,
    key: Option<&str>,
) -> Result<u64, StoreError> {
    let done = match holder {
        KeyHolder::Service => {
            sqlx::query!(
                "-- signing_key.delete_of_service
                DELETE FROM service_key WHERE org = $1 AND service = $2 AND ($3::text IS NULL OR key_id = $3)",
                org,
                id,
                key,
            )
            .execute(&mut **tx)
            .await?
        }
        KeyHolder::Pattern => {
            sqlx::query!(
                "-- signing_key.delete_of_pattern
                DELETE FROM pattern_key WHERE org = $1 AND pattern = $2 AND ($3::text IS NULL OR key_id = $3)",
                org,
                id,
                key,
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected())
}
