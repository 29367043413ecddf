//! Organizations.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::permitted::{CreatesOrganizations, Permitted};

/// An organization as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Organization {
    /// Its id.
    pub org: String,
    /// Kind.
    pub org_type: String,
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// Texts by name; none when never set.
    pub tags: Option<Value>,
    /// Limits; none when never set.
    pub limits: Option<Value>,
    /// Heartbeat intervals; none when never set.
    pub heartbeat_intervals: Option<Value>,
    /// Last change.
    pub updated_at: Timestamp,
}

struct Row {
    org: String,
    org_type: String,
    label: String,
    description: String,
    tags: Option<Value>,
    limits: Option<Value>,
    heartbeat_intervals: Option<Value>,
    updated_at: jiff_sqlx::Timestamp,
}

impl From<Row> for Organization {
    fn from(row: Row) -> Self {
        Organization {
            org: row.org,
            org_type: row.org_type,
            label: row.label,
            description: row.description,
            tags: row.tags,
            limits: row.limits,
            heartbeat_intervals: row.heartbeat_intervals,
            updated_at: from_sql(row.updated_at),
        }
    }
}

/// The filter of a list of organizations; texts are LIKE patterns.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only these; none: all.
    pub only: Option<Vec<String>>,
    /// Exact type.
    pub org_type: Option<String>,
    /// Pattern of the id.
    pub org: Option<String>,
    /// Pattern of the label.
    pub label: Option<String>,
    /// Pattern of the description.
    pub description: Option<String>,
}

/// Finds one organization.
pub async fn find_organization(
    conn: &mut PgConnection,
    org: &str,
) -> Result<Option<Organization>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- organization.find_organization
        SELECT org, org_type, label, description, tags, limits, heartbeat_intervals,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM organization
        WHERE org = $1"#,
        org,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(Organization::from))
}

/// Finds one organization and locks its row until the end of the transaction.
pub async fn lock_organization(tx: &mut PgConnection, org: &str) -> Result<Option<Organization>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- organization.lock_organization
        SELECT org, org_type, label, description, tags, limits, heartbeat_intervals,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM organization
        WHERE org = $1
        FOR NO KEY UPDATE"#,
        org,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(Organization::from))
}

/// Lists organizations by id, at most `limit` after the id `after`.
pub async fn list_organizations(
    conn: &mut PgConnection,
    filter: &Filter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<Organization>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- organization.list_organizations
        SELECT org, org_type, label, description, tags, limits, heartbeat_intervals,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM organization
        WHERE ($1::text[] IS NULL OR org = ANY ($1))
          AND ($2::text IS NULL OR org_type = $2)
          AND ($3::text IS NULL OR org LIKE $3)
          AND ($4::text IS NULL OR label LIKE $4)
          AND ($5::text IS NULL OR description LIKE $5)
          AND org > COALESCE($6::text, '')
        ORDER BY org
        LIMIT $7"#,
        filter.only.as_deref(),
        filter.org_type.as_deref(),
        filter.org.as_deref(),
        filter.label.as_deref(),
        filter.description.as_deref(),
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Organization::from).collect())
}

/// Counts the organizations that [`list_organizations`] lists, up to a number.
pub async fn count_organizations(
    conn: &mut PgConnection,
    filter: &Filter,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- organization.count_organizations
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM organization
            WHERE ($1::text[] IS NULL OR org = ANY ($1))
              AND ($2::text IS NULL OR org_type = $2)
              AND ($3::text IS NULL OR org LIKE $3)
              AND ($4::text IS NULL OR label LIKE $4)
              AND ($5::text IS NULL OR description LIKE $5)
            LIMIT $6
        ) AS selected"#,
        filter.only.as_deref(),
        filter.org_type.as_deref(),
        filter.org.as_deref(),
        filter.label.as_deref(),
        filter.description.as_deref(),
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Lists the organizations whose tag `ibmcloud_id` or `group` is one of the accounts, at most `limit` after the id `after`.
pub async fn list_organizations_of_accounts(
    conn: &mut PgConnection,
    accounts: &[String],
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<Organization>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- organization.list_organizations_of_accounts
        SELECT org, org_type, label, description, tags, limits, heartbeat_intervals,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM organization
        WHERE (tags ->> 'ibmcloud_id' = ANY ($1) OR tags ->> 'group' = ANY ($1))
          AND org > COALESCE($2::text, '')
        ORDER BY org
        LIMIT $3"#,
        accounts,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Organization::from).collect())
}

/// Inserts an organization.
///
/// # Errors
/// [`StoreError::Conflict`] with `organization_org_key` when it exists.
pub async fn insert_organization<R: CreatesOrganizations>(
    tx: &mut Permitted<R>,
    organization: &Organization,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- organization.insert_organization
        INSERT INTO organization (org, org_type, label, description, tags, limits, heartbeat_intervals, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        organization.org,
        organization.org_type,
        organization.label,
        organization.description,
        organization.tags,
        organization.limits,
        organization.heartbeat_intervals,
        to_sql(organization.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces everything of an organization; false when there is none.
pub async fn update_organization(
    tx: &mut Permitted<right::OrgChange>,
    organization: &Organization,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- organization.update_organization
        UPDATE organization
        SET org_type = $2, label = $3, description = $4, tags = $5, limits = $6, heartbeat_intervals = $7, updated_at = $8
        WHERE org = $1",
        organization.org,
        organization.org_type,
        organization.label,
        organization.description,
        organization.tags,
        organization.limits,
        organization.heartbeat_intervals,
        to_sql(organization.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Finds the settings of an organization for its workloads; none inside when it has set none.
pub async fn find_settings(conn: &mut PgConnection, org: &str) -> Result<Option<Option<Value>>, StoreError> {
    let row = sqlx::query!(
        "-- organization.find_settings
        SELECT orchestration FROM organization WHERE org = $1",
        org,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.orchestration))
}

/// As [`find_settings`], and locks the row of the organization until the end of the transaction.
pub async fn lock_settings(tx: &mut PgConnection, org: &str) -> Result<Option<Option<Value>>, StoreError> {
    let row = sqlx::query!(
        "-- organization.lock_settings
        SELECT orchestration FROM organization WHERE org = $1 FOR NO KEY UPDATE",
        org,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.orchestration))
}

/// Replaces the settings of an organization for its workloads.
pub async fn set_settings(
    tx: &mut Permitted<right::OrgChange>,
    org: &str,
    settings: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- organization.set_settings
        UPDATE organization SET orchestration = $2 WHERE org = $1",
        org,
        settings,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes an organization with everything in it; false when there is none.
pub async fn delete_organization(
    tx: &mut Permitted<right::OrgDelete>,
    org: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- organization.delete_organization
        DELETE FROM organization WHERE org = $1",
        org,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;
    use sqlx::{AssertSqlSafe, Executor};

    use super::*;
    use crate::tests::{Org, ROLES};

    /// Counts the rows of an organization in each table that has a column for it.
    async fn counts(connection: &mut PgConnection, org: &str) -> Vec<(String, i64)> {
        let tables = "SELECT table_name::text FROM information_schema.columns
                      WHERE table_schema = 'public' AND column_name = 'org' ORDER BY table_name";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *connection).await.unwrap();
        let mut counts = Vec::new();
        for table in tables {
            let count = format!("SELECT count(*) FROM {table} WHERE org = $1");
            let count = sqlx::query_scalar(AssertSqlSafe(count)).bind(org);
            counts.push((table, count.fetch_one(&mut *connection).await.unwrap()));
        }
        counts.retain(|(_, count)| *count > 0);
        counts
    }

    #[tokio::test]
    async fn deleted_organization_leaves_no_rows() {
        let database = TestDatabase::new(ROLES).await;
        let other = Org::in_database(&database, "p").await;
        let mut connection = database.connection().await;
        connection.execute(include_str!("audit_state/rows.sql")).await.unwrap();
        let before = counts(&mut connection, "o").await;
        assert!(before.len() > 20, "{before:?}");
        let kept = counts(&mut connection, &other).await;
        assert!(other.write(async |tx| delete_organization(tx, "o").await).await);
        let left = counts(&mut connection, "o").await;
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(counts(&mut connection, &other).await, kept);
    }
}
