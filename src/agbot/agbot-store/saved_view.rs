//! Saved views: selections of nodes under a name.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// A saved view.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedViewRow {
    /// Its organization.
    pub org: String,
    /// Its name.
    pub name: String,
    /// The account that saved it first, `org/user`.
    pub owner: String,
    /// The selection.
    pub selection: Value,
    /// The last change.
    pub updated_at: Timestamp,
}

/// Lists the views of an organization, by name; at most 1000.
pub async fn list_views(conn: &mut PgConnection, org: &str) -> Result<Vec<SavedViewRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- saved_view.list_views
        SELECT org, name, owner, selection, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM saved_view
        WHERE org = $1
        ORDER BY name
        LIMIT 1000"#,
        org,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| SavedViewRow {
        org: row.org,
        name: row.name,
        owner: row.owner,
        selection: row.selection,
        updated_at: from_sql(row.updated_at),
    });
    Ok(rows.collect())
}

/// Stores a view; one that exists keeps its owner. Returns false when it belongs to another owner, unless that does not matter.
pub async fn upsert_view(
    tx: &mut PgConnection,
    row: &SavedViewRow,
    is_of_any_owner: bool,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- saved_view.upsert_view
        INSERT INTO saved_view (org, name, owner, selection, updated_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org, name) DO UPDATE SET selection = excluded.selection, updated_at = excluded.updated_at
        WHERE $6 OR saved_view.owner = excluded.owner",
        row.org,
        row.name,
        row.owner,
        row.selection,
        to_sql(row.updated_at) as _,
        is_of_any_owner,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Deletes a view, if it is that of the owner or no owner is given; returns whether there was one.
pub async fn delete_view(
    tx: &mut PgConnection,
    (org, name): (&str, &str),
    owner: Option<&str>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- saved_view.delete_view
        DELETE FROM saved_view WHERE org = $1 AND name = $2 AND ($3::text IS NULL OR owner = $3)",
        org,
        name,
        owner,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Deletes the views of an organization that was deleted: another one may get its name.
pub async fn delete_views_of(tx: &mut PgConnection, org: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- saved_view.delete_views_of
        DELETE FROM saved_view WHERE org = $1",
        org,
    )
    .execute(tx)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{at, shared};

    fn row(name: &str, owner: &str, state: &str) -> SavedViewRow {
        let selection = json!({"state": state});
        let (org, name, owner) = ("views".to_owned(), name.to_owned(), owner.to_owned());
        SavedViewRow { org, name, owner, selection, updated_at: at(1) }
    }

    #[tokio::test]
    async fn view_keeps_its_owner_and_is_changed_and_deleted_by_it_or_by_those_who_may_all() {
        let mut tx = shared().await.connection().await;
        assert!(upsert_view(&mut tx, &row("a", "views/u", "down"), false).await.unwrap());
        assert!(!upsert_view(&mut tx, &row("a", "views/v", "up"), false).await.unwrap());
        assert_eq!(list_views(&mut tx, "views").await.unwrap(), [row("a", "views/u", "down")]);
        assert!(upsert_view(&mut tx, &row("a", "views/v", "up"), true).await.unwrap());
        assert_eq!(list_views(&mut tx, "views").await.unwrap(), [row("a", "views/u", "up")]);
        assert!(!delete_view(&mut tx, ("views", "a"), Some("views/v")).await.unwrap());
        assert!(delete_view(&mut tx, ("views", "a"), Some("views/u")).await.unwrap());
        assert!(upsert_view(&mut tx, &row("b", "views/u", "up"), false).await.unwrap());
        delete_views_of(&mut tx, "views").await.unwrap();
        assert!(list_views(&mut tx, "views").await.unwrap().is_empty());
    }
}
