//! API keys of accounts.

use std::collections::BTreeSet;

use evenkeel_access::right;
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::permitted::Permitted;

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
}

impl From<Row> for ApiKey {
    fn from(row: Row) -> Self {
        ApiKey {
            id: row.id,
            org: row.org,
            account: row.account,
            label: row.label,
            description: row.description,
            creator: creator(row.creator_org, row.creator),
            updated_at: from_sql(row.updated_at),
        }
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
        SELECT id, org, account, label, description, creator_org, creator, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM api_key
        WHERE org = $1 AND account = ANY ($2)
        ORDER BY account, updated_at, id"#,
        org,
        accounts,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(ApiKey::from).collect())
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
        SELECT id, org, account, label, description, creator_org, creator, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM api_key
        WHERE org = $1 AND account = $2 AND id = $3"#,
        org,
        account,
        id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(ApiKey::from))
}

/// Finds the creator of a key, if that is known; `None` when there is no such key.
pub async fn find_creator(conn: &mut PgConnection, id: Uuid) -> Result<Option<Option<UserId>>, StoreError> {
    let row = sqlx::query!(
        "-- api_key.find_creator
        SELECT creator_org, creator FROM api_key WHERE id = $1",
        id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| creator(row.creator_org, row.creator)))
}

/// Stores a key with the hash of its value.
///
/// # Errors
/// [`StoreError::ParentMissing`] with `api_key_account_fk` when the account does not exist.
pub async fn insert_api_key(
    tx: &mut Permitted<right::UserWrite>,
    key: &ApiKey,
    key_hash: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- api_key.insert_api_key
        INSERT INTO api_key (id, org, account, label, description, key_hash, updated_at, creator_org, creator)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        key.id,
        key.org,
        key.account,
        key.label,
        key.description,
        key_hash,
        to_sql(key.updated_at) as _,
        key.creator.as_ref().map(UserId::org),
        key.creator.as_ref().map(UserId::name),
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

/// Removes one key of an account; false when there is none.
pub async fn delete_api_key(
    tx: &mut Permitted<right::UserWrite>,
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
        let key = ApiKey { id, org: owner_org, account, label, description, creator, updated_at: at(0) };
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
        let found = find_by_api_key(&mut connection, &org, "scope").await.unwrap().expect("its account");
        assert_eq!((found.id.as_str(), found.api_key), ("v", Some(id)));
        assert_eq!(find_by_api_key(&mut connection, &other, "scope").await.unwrap(), None);
        let imported = list_imported_api_keys(&mut connection, &org).await.unwrap();
        assert_eq!(imported.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["u"]);
        assert!(find_api_key(&mut connection, &org, "u", id).await.unwrap().is_none());
        assert!(!org.write(async |tx| delete_api_key(tx, &org, "u", id).await).await, "of another account");
        org.write(async |tx| delete_account(tx, &org, "v").await).await;
        assert_eq!(find_by_api_key(&mut connection, &org, "scope").await.unwrap(), None);
        assert_eq!(find_creator(&mut connection, id).await.unwrap(), None);
    }
}
