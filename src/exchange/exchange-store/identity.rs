//! Finds the owner of a login.

use evenkeel_access::AssignedRole;
use evenkeel_ids::UserId;
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use evenkeel_store::{StoreError, from_sql, to_sql};

use super::assigned_role::read_role;

/// Kind of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityKind {
    /// An edge node.
    Node,
    /// An agbot.
    Agbot,
    /// A person.
    Account,
}

/// A login as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Kind of the login.
    pub kind: IdentityKind,
    /// Name of the account (for an API key: the account it belongs to).
    pub id: String,
    /// Owner of a node or agbot.
    pub owner: Option<UserId>,
    /// An agbot that an administrator approved.
    pub is_approved: bool,
    /// Hash of the secret; `None` when the login is disabled.
    pub secret_hash: Option<String>,
    /// Administrator of the organization.
    pub is_admin: bool,
    /// Administrator of the hub.
    pub is_hub_admin: bool,
    /// The role that limits the account.
    pub role: Option<AssignedRole>,
    /// The API key that the login used.
    pub api_key: Option<Uuid>,
    /// The role that limits that key.
    pub key_role: Option<AssignedRole>,
    /// When that key ends; none if it does not.
    pub expires_at: Option<Timestamp>,
}

/// Prevents others from creating a login, a service, a pattern or a deployment policy of this name until the end of the transaction. Call it
/// before checking whether the name is free: what was created meanwhile is visible afterwards.
pub async fn lock_name(tx: &mut PgConnection, org: &str, id: &str) -> Result<(), StoreError> {
    // An advisory lock, because a name that is free has no row to lock, and rows of several tables may take it.
    sqlx::query!(
        r#"-- identity.lock_name
        SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))::text AS "nothing?""#,
        org,
        id,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Finds the login `org/id`: a node first, then an agbot, then an account.
///
/// # Source
/// Exchange-api 2.1.
pub async fn find_identity(
    conn: &mut PgConnection,
    org: &str,
    id: &str,
) -> Result<Option<Identity>, StoreError> {
    let row = sqlx::query!(
        r#"-- identity.find_identity
        SELECT 1 AS "kind!", owner_org AS "owner_org", owner AS "owner", token_hash AS "secret_hash?",
               false AS "is_approved!", false AS "is_admin!", false AS "is_hub_admin!",
               NULL::text AS "role?", '{}'::text[] AS "role_policies!"
        FROM node WHERE org = $1 AND node = $2
        UNION ALL
        SELECT 2, owner_org, owner, token_hash, approved_by IS NOT NULL, false, false, NULL, '{}'
        FROM agbot WHERE org = $1 AND agbot = $2
        UNION ALL
        SELECT 3, NULL, NULL, password_hash, false, is_admin, is_hub_admin, role, role_policies
        FROM account WHERE org = $1 AND name = $2
        ORDER BY 1
        LIMIT 1"#,
        org,
        id,
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Identity {
        role: read_role("account", row.role.as_deref(), &row.role_policies)?,
        kind: match row.kind {
            1 => IdentityKind::Node,
            2 => IdentityKind::Agbot,
            _ => IdentityKind::Account,
        },
        id: id.to_owned(),
        owner: row.owner_org.zip(row.owner).map(|(org, name)| UserId::new(&org, &name)),
        is_approved: row.is_approved,
        secret_hash: row.secret_hash,
        is_admin: row.is_admin,
        is_hub_admin: row.is_hub_admin,
        api_key: None,
        key_role: None,
        expires_at: None,
    }))
}

/// Finds the account of a generated API key by the keyed hash of its value, unless the key has expired.
pub async fn find_by_api_key(
    conn: &mut PgConnection,
    org: &str,
    key_hash: &str,
    now: Timestamp,
) -> Result<Option<Identity>, StoreError> {
    let row = sqlx::query!(
        r#"-- identity.find_by_api_key
        SELECT api_key.id, api_key.expires_at AS "expires_at: jiff_sqlx::Timestamp",
               account.name, account.is_admin, account.is_hub_admin, account.role, account.role_policies,
               api_key.role AS key_role, api_key.role_policies AS key_role_policies
        FROM api_key
        JOIN account ON account.org = api_key.org AND account.name = api_key.account
        WHERE api_key.org = $1 AND api_key.key_hash = $2
          AND (api_key.expires_at IS NULL OR api_key.expires_at > $3)"#,
        org,
        key_hash,
        to_sql(now) as _,
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Identity {
        role: read_role("account", row.role.as_deref(), &row.role_policies)?,
        key_role: read_role("api_key", row.key_role.as_deref(), &row.key_role_policies)?,
        kind: IdentityKind::Account,
        id: row.name,
        owner: None,
        is_approved: false,
        secret_hash: Some(key_hash.to_owned()),
        is_admin: row.is_admin,
        is_hub_admin: row.is_hub_admin,
        api_key: Some(row.id),
        expires_at: row.expires_at.map(from_sql),
    }))
}

/// Lists the API keys of an organization that were imported with a password hash: account and hash.
pub async fn list_imported_api_keys(conn: &mut PgConnection, org: &str) -> Result<Vec<Identity>, StoreError> {
    let rows = sqlx::query!(
        "-- identity.list_imported_api_keys
        SELECT api_key.id, account.name, account.is_admin, account.is_hub_admin, account.role, account.role_policies,
               api_key.key_hash
        FROM api_key
        JOIN account ON account.org = api_key.org AND account.name = api_key.account
        WHERE api_key.org = $1 AND api_key.key_hash LIKE '$%'
        ORDER BY api_key.id
        LIMIT 1000",
        org,
    )
    .fetch_all(conn)
    .await?;
    let identities = rows.into_iter().map(|row| {
        Ok(Identity {
            role: read_role("account", row.role.as_deref(), &row.role_policies)?,
            // Imported keys have none.
            key_role: None,
            kind: IdentityKind::Account,
            id: row.name,
            owner: None,
            is_approved: false,
            secret_hash: Some(row.key_hash),
            is_admin: row.is_admin,
            is_hub_admin: row.is_hub_admin,
            api_key: Some(row.id),
            expires_at: None,
        })
    });
    identities.collect()
}

/// Returns whether logins were imported from another exchange.
pub async fn has_imported(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- identity.has_imported
        SELECT EXISTS (SELECT FROM import_run) AS "has_imported!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// Replaces the password hash of an account, unless it has changed.
pub async fn update_password_hash(
    conn: &mut PgConnection,
    org: &str,
    name: &str,
    old: &str,
    new: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- identity.update_password_hash
        UPDATE account SET password_hash = $4 WHERE org = $1 AND name = $2 AND password_hash = $3",
        org,
        name,
        old,
        new,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use evenkeel_access::right;
    use evenkeel_test_database::backend;

    use super::*;
    use crate::tests::{Org, commit, shared};

    #[tokio::test]
    async fn login_is_the_node_before_the_agbot_before_the_account_of_its_name() {
        let org = Org::new("identity-kinds").await;
        let mut connection = org.connection().await;
        let mut kinds = Vec::new();
        for step in 0..3 {
            match step {
                0 => {}
                1 => org.add_agbot("u", "u").await,
                _ => org.add_nodes(&["u"]).await,
            }
            let found = find_identity(&mut connection, &org, "u").await.unwrap().expect("a login");
            kinds.push((found.kind, found.owner.is_some()));
        }
        assert_eq!(
            kinds,
            [(IdentityKind::Account, false), (IdentityKind::Agbot, true), (IdentityKind::Node, true)]
        );
    }

    #[tokio::test]
    async fn second_creation_of_a_name_sees_the_first() {
        let org = Org::new("identity-lock").await;
        let (mut first, mut second) =
            (org.begin::<right::NodeWrite>().await, org.begin::<right::NodeWrite>().await);
        lock_name(&mut first, &org, "n").await.unwrap();
        lock_name(&mut second, &org, "m").await.unwrap();
        crate::node::insert_node(&mut first, &org.node("n"), "token").await.unwrap();
        let process = backend(&mut second).await;
        let waiter = lock_name(&mut second, &org, "n");
        shared().await.release_when_awaited(process, waiter, commit(first)).await.unwrap();
        assert!(find_identity(&mut second, &org, "n").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn password_that_was_changed_meanwhile_stays() {
        let org = Org::new("identity-password").await;
        let mut connection = org.connection().await;
        let set = "UPDATE account SET password_hash = 'new' WHERE org = 'identity-password'";
        sqlx::query(set).execute(&mut *connection).await.unwrap();
        for (old, expected) in [("old", "new"), ("new", "rehashed")] {
            update_password_hash(&mut connection, &org, "u", old, "rehashed").await.unwrap();
            let found = find_identity(&mut connection, &org, "u").await.unwrap().expect("the account");
            assert_eq!(found.secret_hash.as_deref(), Some(expected));
        }
    }
}
