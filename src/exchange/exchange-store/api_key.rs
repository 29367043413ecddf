//! API keys of accounts.

use std::collections::BTreeSet;

use evenkeel_access::{AssignedRole, right};
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::assigned_role::{RoleColumns, read_role};
use super::permitted::{Permitted, WritesAccounts};

/// An API key as stored, without its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Id of the key.
    pub id: Uuid,
    /// Organization of the account.
    pub org: String,
    /// Its account.
    pub account: String,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Account that created it; none for keys from before that was recorded and for imported ones.
    pub creator: Option<UserId>,
    /// Last change.
    pub updated_at: Timestamp,
    /// When it ends; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// The role that limits it; none if it has the rights of its account.
    pub role: Option<AssignedRole>,
    /// True if it was created by means of a session, or of a key that was.
    pub is_of_session: bool,
}

impl ApiKey {
    /// Returns the account that created it, if it is another one than its own and was recorded.
    #[must_use]
    pub fn other_creator(&self) -> Option<&UserId> {
        let is_other = |one: &&UserId| (one.org(), one.name()) != (self.org.as_str(), self.account.as_str());
        self.creator.as_ref().filter(is_other)
    }
}

struct Row {
    id: Uuid,
    org: String,
    account: String,
    label: Option<String>,
    description: Option<String>,
    creator_org: Option<String>,
    creator: Option<String>,
    updated_at: jiff_sqlx::Timestamp,
    expires_at: Option<jiff_sqlx::Timestamp>,
    role: Option<String>,
    role_policies: Vec<String>,
    of_session: bool,
}

impl TryFrom<Row> for ApiKey {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(ApiKey {
            role: read_role("api_key", row.role.as_deref(), &row.role_policies)?,
            id: row.id,
            org: row.org,
            account: row.account,
            label: row.label,
            description: row.description,
            creator: creator(row.creator_org, row.creator),
            updated_at: from_sql(row.updated_at),
            expires_at: row.expires_at.map(from_sql),
            is_of_session: row.of_session,
        })
    }
}

/// Lists the keys of some accounts of an organization by account and age.
pub async fn list_api_keys(
    conn: &mut PgConnection,
    org: &str,
    accounts: &[String],
) -> Result<Vec<ApiKey>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- api_key.list_api_keys
        SELECT id, org, account, label, description, creator_org, creator,
               updated_at AS "updated_at: jiff_sqlx::Timestamp", expires_at AS "expires_at: jiff_sqlx::Timestamp",
               role, role_policies, of_session
        FROM api_key
        WHERE org = $1 AND account = ANY ($2)
        ORDER BY account, updated_at, id"#,
        org,
        accounts,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(ApiKey::try_from).collect()
}

/// Finds one key of an account.
pub async fn find_api_key(
    conn: &mut PgConnection,
    org: &str,
    account: &str,
    id: Uuid,
) -> Result<Option<ApiKey>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- api_key.find_api_key
        SELECT id, org, account, label, description, creator_org, creator,
               updated_at AS "updated_at: jiff_sqlx::Timestamp", expires_at AS "expires_at: jiff_sqlx::Timestamp",
               role, role_policies, of_session
        FROM api_key
        WHERE org = $1 AND account = $2 AND id = $3"#,
        org,
        account,
        id,
    )
    .fetch_optional(conn)
    .await?;
    row.map(ApiKey::try_from).transpose()
}

/// Origin and end of a key, which those of the keys that it creates depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyOrigin {
    /// Account that created it, if that is known.
    pub creator: Option<UserId>,
    /// When it ends; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// True if it is a session, or was created by means of one.
    pub is_of_session: bool,
}

/// Finds origin and end of a key; `None` when there is no such key. `session_label`: the label of sessions, which expire.
pub async fn find_origin(
    conn: &mut PgConnection,
    id: Uuid,
    session_label: &str,
) -> Result<Option<KeyOrigin>, StoreError> {
    let row = sqlx::query!(
        r#"-- api_key.find_origin
        SELECT creator_org, creator, expires_at AS "expires_at: jiff_sqlx::Timestamp",
               of_session OR (label IS NOT DISTINCT FROM $2 AND expires_at IS NOT NULL) AS "of_session!"
        FROM api_key WHERE id = $1"#,
        id,
        session_label,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| KeyOrigin {
        creator: creator(row.creator_org, row.creator),
        expires_at: row.expires_at.map(from_sql),
        is_of_session: row.of_session,
    }))
}

/// Stores a key with the hash of its value.
///
/// # Errors
/// [`StoreError::ParentMissing`] with `api_key_account_fk` when the account does not exist.
pub async fn insert_api_key(
    tx: &mut Permitted<right::ApiKeyWrite>,
    key: &ApiKey,
    key_hash: &str,
) -> Result<(), StoreError> {
    let role = RoleColumns::from(key.role.as_ref());
    sqlx::query!(
        "-- api_key.insert_api_key
        INSERT INTO api_key
            (id, org, account, label, description, key_hash, updated_at, creator_org, creator, expires_at, role, role_policies,
             of_session)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        key.id,
        key.org,
        key.account,
        key.label,
        key.description,
        key_hash,
        to_sql(key.updated_at) as _,
        key.creator.as_ref().map(UserId::org),
        key.creator.as_ref().map(UserId::name),
        key.expires_at.map(to_sql) as _,
        role.name,
        &role.policies,
        key.is_of_session,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn creator(org: Option<String>, name: Option<String>) -> Option<UserId> {
    Some(UserId::new(&org?, &name?))
}

/// Counts the API keys of an account.
pub async fn count_of_account(conn: &mut PgConnection, org: &str, account: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- api_key.count_of_account
        SELECT count(*) AS "count!" FROM api_key WHERE org = $1 AND account = $2"#,
        org,
        account,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Removes keys that have expired. Returns their number.
pub async fn delete_expired(conn: &mut PgConnection, now: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- api_key.delete_expired
        DELETE FROM api_key WHERE expires_at <= $1",
        to_sql(now) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Removes the keys that an account created for other accounts. Returns those accounts, each once.
pub async fn delete_made_for_others(
    tx: &mut PgConnection,
    org: &str,
    account: &str,
) -> Result<BTreeSet<UserId>, StoreError> {
    let rows = sqlx::query!(
        "-- api_key.delete_made_for_others
        DELETE FROM api_key
        WHERE creator_org = $1 AND creator = $2 AND (org, account) <> ($1, $2)
        RETURNING org, account",
        org,
        account,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| UserId::new(&row.org, &row.account)).collect())
}

/// Removes the sessions of an account, and the keys that were created by means of them. Returns the accounts of these keys, each once.
/// `session_label`: the label of sessions, which expire.
pub async fn delete_sessions<R: WritesAccounts>(
    tx: &mut Permitted<R>,
    org: &str,
    account: &str,
    session_label: &str,
) -> Result<BTreeSet<UserId>, StoreError> {
    let rows = sqlx::query!(
        "-- api_key.delete_sessions
        DELETE FROM api_key
        WHERE (org = $1 AND account = $2 AND label = $3 AND expires_at IS NOT NULL)
           OR (creator_org = $1 AND creator = $2 AND of_session)
        RETURNING org, account",
        org,
        account,
        session_label,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| UserId::new(&row.org, &row.account)).collect())
}

/// Removes one key of an account; false when there is none.
pub async fn delete_api_key(
    tx: &mut Permitted<right::ApiKeyWrite>,
    org: &str,
    account: &str,
    id: Uuid,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- api_key.delete_api_key
        DELETE FROM api_key WHERE org = $1 AND account = $2 AND id = $3",
        org,
        account,
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::delete_account;
    use crate::identity::{find_by_api_key, list_imported_api_keys};
    use crate::tests::{Org, at, texts};

    /// Adds a key whose hash is that of the organization and a name.
    async fn add(org: &Org, account: &str, creator: Option<UserId>, hash: &str) -> Uuid {
        let id = Uuid::new_v4();
        let (label, description) = (None, None);
        let (owner_org, account) = (org.to_string(), account.to_owned());
        let (updated_at, expires_at) = (at(0), None);
        let (role, is_of_session) = (None, false);
        let key = ApiKey {
            id,
            org: owner_org,
            account,
            label,
            description,
            creator,
            updated_at,
            expires_at,
            role,
            is_of_session,
        };
        org.write(async |tx| insert_api_key(tx, &key, hash).await).await;
        id
    }

    #[tokio::test]
    async fn keys_that_an_account_made_for_others_go_without_its_own_and_those_of_namesakes() {
        let (org, other) = (Org::new("key-made").await, Org::new("key-made-other").await);
        for (org, account) in [(&org, "v"), (&org, "w"), (&other, "v")] {
            org.add_account(account).await;
        }
        let creator = Some(org.user("u"));
        for (org, account, creator, hash) in [
            (&org, "u", creator.clone(), "made 1"),
            (&org, "v", creator.clone(), "made 2"),
            (&org, "v", creator.clone(), "made 3"),
            (&other, "u", creator, "made 4"),
            (&org, "w", Some(other.user("u")), "made 5"),
            (&org, "w", None, "made 6"),
        ] {
            add(org, account, creator, hash).await;
        }
        let mut connection = org.connection().await;
        let found = delete_made_for_others(&mut connection, &org, "u").await.unwrap();
        assert_eq!(found, BTreeSet::from([org.user("v"), other.user("u")]));
        let left = list_api_keys(&mut connection, &org, &texts(&["u", "v", "w"])).await.unwrap();
        assert_eq!(left.iter().map(|key| key.account.as_str()).collect::<Vec<_>>(), ["u", "w", "w"]);
    }

    #[tokio::test]
    async fn key_is_known_only_in_its_organization_and_to_its_account() {
        let (org, other) = (Org::new("key-scope").await, Org::new("key-scope-other").await);
        org.add_account("v").await;
        let id = add(&org, "v", None, "scope").await;
        add(&org, "u", None, "$2a$imported").await;
        let mut connection = org.connection().await;
        let found =
            find_by_api_key(&mut connection, &org, "scope", at(0)).await.unwrap().expect("its account");
        assert_eq!((found.id.as_str(), found.api_key), ("v", Some(id)));
        assert_eq!(find_by_api_key(&mut connection, &other, "scope", at(0)).await.unwrap(), None);
        let imported = list_imported_api_keys(&mut connection, &org).await.unwrap();
        assert_eq!(imported.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["u"]);
        assert!(find_api_key(&mut connection, &org, "u", id).await.unwrap().is_none());
        assert!(!org.write(async |tx| delete_api_key(tx, &org, "u", id).await).await, "of another account");
        org.write(async |tx| delete_account(tx, &org, "v").await).await;
        assert_eq!(find_by_api_key(&mut connection, &org, "scope", at(0)).await.unwrap(), None);
        assert_eq!(find_origin(&mut connection, id, "session").await.unwrap(), None);
    }

    #[tokio::test]
    async fn sessions_end_with_what_was_created_by_means_of_them() {
        let org = Org::new("key-sessions").await;
        for account in ["v", "w"] {
            org.add_account(account).await;
        }
        // Owner, label, creator, whether it expires, whether it is of a session, and whether it stays.
        let all = [
            ("u", "session", "u", true, false, false),
            ("u", "session", "u", false, false, true),
            ("u", "other", "u", true, false, true),
            ("u", "made", "u", true, true, false),
            ("v", "made", "u", true, true, false),
            ("v", "session", "v", true, false, true),
            ("u", "made", "w", true, true, true),
        ];
        let mut ids = Vec::new();
        for (number, (owner, label, creator, expires, is_of_session, _)) in all.into_iter().enumerate() {
            let key = ApiKey {
                id: Uuid::new_v4(),
                org: org.to_string(),
                account: owner.to_owned(),
                label: Some(label.to_owned()),
                description: None,
                creator: Some(org.user(creator)),
                updated_at: at(0),
                expires_at: expires.then(|| at(4_000_000)),
                role: None,
                is_of_session,
            };
            let hash = format!("sessions {number}");
            org.write(async |tx| insert_api_key(tx, &key, &hash).await).await;
            ids.push((owner, key.id));
        }
        let mut connection = org.connection().await;
        let origin = async |connection: &mut PgConnection, index: usize| {
            let (_, id) = ids[index];
            find_origin(connection, id, "session").await.unwrap().expect("a key").is_of_session
        };
        let found = [0, 1, 2, 3].map(|index| (index, [true, false, false, true][index]));
        for (index, is_of_session) in found {
            assert_eq!(origin(&mut connection, index).await, is_of_session, "{:?}", all[index]);
        }
        let end =
            async |tx: &mut Permitted<right::PasswordWrite>| delete_sessions(tx, &org, "u", "session").await;
        let ended = org.write(end).await;
        assert_eq!(ended, BTreeSet::from([org.user("u"), org.user("v")]));
        for ((owner, id), (.., stays)) in ids.into_iter().zip(all) {
            let found = find_api_key(&mut connection, &org, owner, id).await.unwrap();
            assert_eq!(found.is_some(), stays, "{owner} {found:?}");
        }
    }

    #[tokio::test]
    async fn expired_key_is_no_login_and_is_removed() {
        let org = Org::new("key-expiry").await;
        let (id, other) = (Uuid::new_v4(), Uuid::new_v4());
        for (id, hash, expires_at) in [(id, "ends", Some(at(60))), (other, "stays", None)] {
            let (org_name, account) = (org.to_string(), "u".to_owned());
            let key = ApiKey {
                id,
                org: org_name,
                account,
                label: None,
                description: None,
                creator: None,
                updated_at: at(0),
                expires_at,
                role: None,
                is_of_session: false,
            };
            org.write(async |tx| insert_api_key(tx, &key, hash).await).await;
        }
        let mut connection = org.connection().await;
        let found =
            find_by_api_key(&mut connection, &org, "ends", at(59)).await.unwrap().expect("its account");
        assert_eq!(found.expires_at, Some(at(60)));
        assert_eq!(find_by_api_key(&mut connection, &org, "ends", at(60)).await.unwrap(), None);
        // Other tests share the table: their keys do not expire.
        delete_expired(&mut connection, at(59)).await.unwrap();
        assert!(find_api_key(&mut connection, &org, "u", id).await.unwrap().is_some());
        delete_expired(&mut connection, at(60)).await.unwrap();
        assert!(find_api_key(&mut connection, &org, "u", id).await.unwrap().is_none());
        assert!(find_api_key(&mut connection, &org, "u", other).await.unwrap().is_some());
    }
}
