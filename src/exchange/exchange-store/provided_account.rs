//! Accounts that are linked to an identity provider.

use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use evenkeel_access::AssignedRole;
use evenkeel_store::{StoreError, to_sql};

use super::assigned_role::{RoleColumns, read_role};

/// The identity of a user at a provider.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Issuer of the tokens.
    pub identity_provider: &'a str,
    /// Id of the user there.
    pub subject: &'a str,
}

/// An account that is linked to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedAccount {
    /// Organization.
    pub org: String,
    /// Name inside the organization.
    pub name: String,
    /// As last reported by the provider; empty when it reports none.
    pub email: String,
    /// Administrator of the organization.
    pub is_admin: bool,
    /// Administrator of the hub.
    pub is_hub_admin: bool,
    /// The role that limits it; none for ordinary users and administrators.
    pub role: Option<AssignedRole>,
}

/// Finds the account of a provider's user in an organization.
pub async fn find_by_subject(
    conn: &mut PgConnection,
    org: &str,
    who: Subject<'_>,
) -> Result<Option<ProvidedAccount>, StoreError> {
    let row = sqlx::query!(
        "-- provided_account.find_by_subject
        SELECT org, name, email, is_admin, is_hub_admin, role, role_policies
        FROM account
        WHERE org = $1 AND identity_provider = $2 AND subject = $3",
        org,
        who.identity_provider,
        who.subject,
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(ProvidedAccount {
        role: read_role("account", row.role.as_deref(), &row.role_policies)?,
        org: row.org,
        name: row.name,
        email: row.email,
        is_admin: row.is_admin,
        is_hub_admin: row.is_hub_admin,
    }))
}

/// Inserts an account without a password.
///
/// # Errors
/// [`StoreError::ParentMissing`] with `account_org_fk` when there is no such organization, [`StoreError::Conflict`] with
/// `account_org_name_key` or `account_org_identity_provider_subject_key` when another request was faster.
pub async fn insert_provided(
    tx: &mut PgConnection,
    account: &ProvidedAccount,
    id: Uuid,
    who: Subject<'_>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let role = RoleColumns::from(account.role.as_ref());
    sqlx::query!(
        "-- provided_account.insert_provided
        INSERT INTO account
            (org, name, id, email, is_admin, is_hub_admin, role, role_policies, identity_provider, subject, updated_at, updated_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $1 || '/' || $2)",
        account.org,
        account.name,
        id,
        account.email,
        account.is_admin,
        account.is_hub_admin,
        role.name,
        &role.policies,
        who.identity_provider,
        who.subject,
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Links a local account of this name with a provider's user; false when there is none, or when it is linked with another user.
pub async fn link_local(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
    who: Subject<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- provided_account.link_local
        UPDATE account SET identity_provider = $3, subject = $4
        WHERE org = $1 AND name = $2 AND identity_provider IS NULL",
        org,
        name,
        who.identity_provider,
        who.subject,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Updates what the provider decides: address and role.
pub async fn update_provided(
    tx: &mut PgConnection,
    account: &ProvidedAccount,
    at: Timestamp,
) -> Result<(), StoreError> {
    let role = RoleColumns::from(account.role.as_ref());
    sqlx::query!(
        "-- provided_account.update_provided
        UPDATE account
        SET email = $3, is_admin = $4, is_hub_admin = $5, role = $6, role_policies = $7, updated_at = $8,
            updated_by = $1 || '/' || $2
        WHERE org = $1 AND name = $2",
        account.org,
        account.name,
        account.email,
        account.is_admin,
        account.is_hub_admin,
        role.name,
        &role.policies,
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}
