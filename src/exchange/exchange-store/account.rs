//! Accounts of users.

use evenkeel_access::{AccountRows, AssignedRole, right};
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::assigned_role::{RoleColumns, read_role};
use super::permitted::{CreatesAccounts, Permitted, WritesAccounts};
use super::resource_key::ResourceKey;

/// An account as stored.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// Organization.
    pub org: String,
    /// Name inside the organization.
    pub name: String,
    /// Immutable id.
    pub id: Uuid,
    /// Hash of the password; none disables the login.
    pub password_hash: Option<String>,
    /// As given.
    pub email: String,
    /// Administrator of the organization.
    pub is_admin: bool,
    /// Administrator of the hub.
    pub is_hub_admin: bool,
    /// The role that limits it; none for ordinary users and administrators.
    pub role: Option<AssignedRole>,
    /// Last change.
    pub updated_at: Timestamp,
    /// The author of the last change, `org/name`.
    pub updated_by: String,
}

struct Row {
    org: String,
    name: String,
    id: Uuid,
    password_hash: Option<String>,
    email: String,
    is_admin: bool,
    is_hub_admin: bool,
    role: Option<String>,
    role_policies: Vec<String>,
    updated_at: jiff_sqlx::Timestamp,
    updated_by: String,
}

impl TryFrom<Row> for AccountRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(AccountRow {
            role: read_role("account", row.role.as_deref(), &row.role_policies)?,
            org: row.org,
            name: row.name,
            id: row.id,
            password_hash: row.password_hash,
            email: row.email,
            is_admin: row.is_admin,
            is_hub_admin: row.is_hub_admin,
            updated_at: from_sql(row.updated_at),
            updated_by: row.updated_by,
        })
    }
}

/// Lists accounts of an organization by name, at most `limit` after the name `after`; `name` limits the list to one. `updated_by` is empty when that account is gone.
pub async fn list_accounts(
    conn: &mut PgConnection,
    (org, rows): (&str, AccountRows),
    name: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AccountRow>, StoreError> {
    let found = sqlx::query_as!(
        Row,
        r#"-- account.list_accounts
        SELECT org, name, id, password_hash, email, is_admin, is_hub_admin, role, role_policies,
               updated_at AS "updated_at: jiff_sqlx::Timestamp",
               CASE WHEN EXISTS (
                   SELECT 1 FROM account AS author WHERE author.org = account.author_org AND author.name = account.author
               ) THEN updated_by ELSE '' END AS "updated_by!"
        FROM account
        WHERE org = $1 AND ($2::text IS NULL OR name = $2) AND name > COALESCE($3::text, '')
          AND (NOT $5::boolean OR is_admin OR is_hub_admin)
          AND NOT ($6::boolean AND is_hub_admin)
          AND ($7::text IS NULL OR name <> $7)
        ORDER BY name
        LIMIT $4"#,
        org,
        name,
        after,
        limit,
        rows.only_administrators,
        rows.hides_hub_admins,
        rows.hidden_name(org),
    )
    .fetch_all(conn)
    .await?;
    found.into_iter().map(AccountRow::try_from).collect()
}

/// Counts the accounts of an organization, up to a number.
pub async fn count_accounts(
    conn: &mut PgConnection,
    (org, rows): (&str, AccountRows),
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- account.count_accounts
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM account
            WHERE org = $1
              AND (NOT $2::boolean OR is_admin OR is_hub_admin)
              AND NOT ($3::boolean AND is_hub_admin)
              AND ($4::text IS NULL OR name <> $4)
            LIMIT $5
        ) AS selected"#,
        org,
        rows.only_administrators,
        rows.hides_hub_admins,
        rows.hidden_name(org),
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Finds the hash of an account's password; none when its login is disabled, or when there is no such account.
pub async fn find_password_hash(
    conn: &mut PgConnection,
    org: &str,
    name: &str,
) -> Result<Option<String>, StoreError> {
    let found = sqlx::query_scalar!(
        "-- account.find_password_hash
        SELECT password_hash FROM account WHERE org = $1 AND name = $2",
        org,
        name,
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.flatten())
}

/// Finds an account and locks its row until the end of the transaction.
pub async fn lock_account(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
) -> Result<Option<AccountRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- account.lock_account
        SELECT org, name, id, password_hash, email, is_admin, is_hub_admin, role, role_policies,
               updated_at AS "updated_at: jiff_sqlx::Timestamp", updated_by
        FROM account
        WHERE org = $1 AND name = $2
        FOR NO KEY UPDATE"#,
        org,
        name,
    )
    .fetch_optional(tx)
    .await?;
    row.map(AccountRow::try_from).transpose()
}

/// Finds the login that wrote an account last, `org/name`; `None` when there is no such account.
pub async fn find_author(
    conn: &mut PgConnection,
    org: &str,
    name: &str,
) -> Result<Option<String>, StoreError> {
    let author = sqlx::query_scalar!(
        "-- account.find_author
        SELECT updated_by FROM account WHERE org = $1 AND name = $2",
        org,
        name,
    )
    .fetch_optional(conn)
    .await?;
    Ok(author)
}

/// Inserts an account.
///
/// # Errors
/// [`StoreError::Conflict`] with `account_org_name_key` when it exists, [`StoreError::ParentMissing`] with `account_org_fk` when the
/// organization does not.
pub async fn insert_account<R: CreatesAccounts>(
    tx: &mut Permitted<R>,
    account: &AccountRow,
) -> Result<(), StoreError> {
    let role = RoleColumns::from(account.role.as_ref());
    sqlx::query!(
        "-- account.insert_account
        INSERT INTO account
            (org, name, id, password_hash, email, is_admin, is_hub_admin, role, role_policies, updated_at, updated_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        account.org,
        account.name,
        account.id,
        account.password_hash,
        account.email,
        account.is_admin,
        account.is_hub_admin,
        role.name,
        &role.policies,
        to_sql(account.updated_at) as _,
        account.updated_by,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces the mutable columns of an account.
pub async fn update_account<R: WritesAccounts>(
    tx: &mut Permitted<R>,
    account: &AccountRow,
) -> Result<(), StoreError> {
    let role = RoleColumns::from(account.role.as_ref());
    sqlx::query!(
        "-- account.update_account
        UPDATE account
        SET password_hash = $3, email = $4, is_admin = $5, is_hub_admin = $6, role = $7, role_policies = $8,
            updated_at = $9, updated_by = $10
        WHERE org = $1 AND name = $2",
        account.org,
        account.name,
        account.password_hash,
        account.email,
        account.is_admin,
        account.is_hub_admin,
        role.name,
        &role.policies,
        to_sql(account.updated_at) as _,
        account.updated_by,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The logins that an account owns.
#[derive(Debug, Default)]
pub struct OwnedLogins {
    /// Its nodes.
    pub nodes: Vec<ResourceKey>,
    /// Its agbots.
    pub agbots: Vec<ResourceKey>,
}

/// Lists the nodes and agbots that an account owns.
pub async fn list_owned_logins(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
) -> Result<OwnedLogins, StoreError> {
    let rows = sqlx::query!(
        r#"-- account.list_owned_logins
        SELECT org AS "org!", node AS "id!", true AS "is_node!" FROM node WHERE owner_org = $1 AND owner = $2
        UNION ALL
        SELECT org, agbot, false FROM agbot WHERE owner_org = $1 AND owner = $2"#,
        org,
        name,
    )
    .fetch_all(tx)
    .await?;
    let mut owned = OwnedLogins::default();
    for row in rows {
        let of_kind = if row.is_node { &mut owned.nodes } else { &mut owned.agbots };
        of_kind.push(ResourceKey { org: row.org, id: row.id });
    }
    Ok(owned)
}

/// Removes an account with everything it owns.
pub async fn delete_account(
    tx: &mut Permitted<right::UserWrite>,
    org: &str,
    name: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- account.delete_account
        DELETE FROM account WHERE org = $1 AND name = $2",
        org,
        name,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
