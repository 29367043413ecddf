//! Agbots and the policies and patterns they serve.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// An agbot as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgbotRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub agbot: String,
    /// Display name.
    pub name: String,
    /// Organization of the owner.
    pub owner_org: String,
    /// Account of the owner.
    pub owner: String,
    /// Endpoint of the agbot.
    pub msg_end_point: String,
    /// Key for messages to the agbot.
    pub public_key: String,
    /// Last stored heartbeat.
    pub seen_at: Timestamp,
}

struct Raw {
    org: String,
    agbot: String,
    name: String,
    owner_org: String,
    owner: String,
    msg_end_point: String,
    public_key: String,
    seen_at: jiff_sqlx::Timestamp,
}

impl From<Raw> for AgbotRow {
    fn from(raw: Raw) -> AgbotRow {
        AgbotRow {
            org: raw.org,
            agbot: raw.agbot,
            name: raw.name,
            owner_org: raw.owner_org,
            owner: raw.owner,
            msg_end_point: raw.msg_end_point,
            public_key: raw.public_key,
            seen_at: from_sql(raw.seen_at),
        }
    }
}

macro_rules! select_agbots {
    ($name:literal, $tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            Raw,
            "-- " + $name + r#"
            SELECT org, agbot, name, owner_org, owner, msg_end_point, public_key, seen_at AS "seen_at: jiff_sqlx::Timestamp"
            FROM agbot
            "# + $tail,
            $($argument),*
        )
    };
}

/// Counts agbots, as [`select_agbots`] selects them.
macro_rules! count_selected_agbots {
    ($name:literal, $tail:literal, $($argument:expr),*) => {
        sqlx::query_scalar!(
            "-- " + $name + r#"
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM agbot
                "# + $tail + "
            ) AS selected",
            $($argument),*
        )
    };
}

/// Selects agbots of an organization by a filter, by id, those after the given one, at most `limit`.
macro_rules! select_filtered {
    ($select:ident, $name:literal, ($org:ident, $filter:ident, $after:ident, $limit:ident)) => {
        $select!(
            $name,
            "WHERE org = $1
           AND ($2::text IS NULL OR org || '/' || agbot LIKE $2)
           AND ($3::text IS NULL OR name LIKE $3)
           AND ($4::text IS NULL OR owner_org || '/' || owner LIKE $4)
           AND agbot > COALESCE($5::text, '')
         ORDER BY agbot
         LIMIT $6",
            $org,
            $filter.id.as_deref(),
            $filter.name.as_deref(),
            $filter.owner.as_deref(),
            $after,
            $limit
        )
    };
}

/// Finds one agbot.
pub async fn find_agbot(
    conn: &mut PgConnection,
    org: &str,
    agbot: &str,
) -> Result<Option<AgbotRow>, StoreError> {
    let row = select_agbots!("agbot.find_agbot", "WHERE org = $1 AND agbot = $2", org, agbot)
        .fetch_optional(conn)
        .await?;
    Ok(row.map(AgbotRow::from))
}

/// Finds one agbot and locks its row until the end of the transaction.
pub async fn lock_agbot(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
) -> Result<Option<AgbotRow>, StoreError> {
    let row =
        select_agbots!("agbot.lock_agbot", "WHERE org = $1 AND agbot = $2 FOR NO KEY UPDATE", org, agbot)
            .fetch_optional(tx)
            .await?;
    Ok(row.map(AgbotRow::from))
}

/// The filter of a list of agbots of an organization: patterns with `%` and `_`.
#[derive(Debug, Clone, Default)]
pub struct AgbotFilter {
    /// Pattern of `org/agbot`.
    pub id: Option<String>,
    /// Pattern of the name.
    pub name: Option<String>,
    /// Pattern of `org/user` of the owner.
    pub owner: Option<String>,
}

/// Lists agbots of an organization: by id, those after the given one, at most `limit`.
pub async fn list_agbots(
    conn: &mut PgConnection,
    org: &str,
    filter: &AgbotFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AgbotRow>, StoreError> {
    let rows = select_filtered!(select_agbots, "agbot.list_agbots", (org, filter, after, limit))
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(AgbotRow::from).collect())
}

/// Counts the agbots of an organization that [`list_agbots`] lists, up to a number.
pub async fn count_agbots(
    conn: &mut PgConnection,
    org: &str,
    filter: &AgbotFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let after: Option<&str> = None;
    let counted = select_filtered!(count_selected_agbots, "agbot.count_agbots", (org, filter, after, most));
    Ok(counted.fetch_one(conn).await?)
}

/// Inserts an agbot.
///
/// # Errors
/// [`StoreError::ParentMissing`] `agbot_org_fk` when the organization does not exist; [`StoreError::Conflict`] when the agbot does.
pub async fn insert_agbot(
    tx: &mut Permitted<right::AgbotWrite>,
    row: &AgbotRow,
    token_hash: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agbot.insert_agbot
        INSERT INTO agbot (org, agbot, name, owner_org, owner, token_hash, msg_end_point, public_key, seen_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
        row.org,
        row.agbot,
        row.name,
        row.owner_org,
        row.owner,
        token_hash,
        row.msg_end_point,
        row.public_key,
        to_sql(row.seen_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Updates every attribute of an existing agbot, including the owner; the token only when one is given.
pub async fn update_agbot(
    tx: &mut Permitted<right::AgbotWrite>,
    row: &AgbotRow,
    token_hash: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agbot.update_agbot
        UPDATE agbot
        SET name = $3, owner_org = $4, owner = $5, token_hash = COALESCE($6, token_hash), msg_end_point = $7,
            public_key = $8, seen_at = $9, updated_at = $9
        WHERE org = $1 AND agbot = $2",
        row.org,
        row.agbot,
        row.name,
        row.owner_org,
        row.owner,
        token_hash,
        row.msg_end_point,
        row.public_key,
        to_sql(row.seen_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Returns whether the agbot exists.
pub async fn has_agbot(conn: &mut PgConnection, org: &str, agbot: &str) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- agbot.has_agbot
        SELECT EXISTS (SELECT 1 FROM agbot WHERE org = $1 AND agbot = $2) AS "is_there!""#,
        org,
        agbot,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_there)
}

/// Finds the message key of an agbot; `None` when the agbot does not exist.
pub async fn find_public_key(
    conn: &mut PgConnection,
    org: &str,
    agbot: &str,
) -> Result<Option<String>, StoreError> {
    let row = sqlx::query!(
        "-- agbot.find_public_key
        SELECT public_key FROM agbot WHERE org = $1 AND agbot = $2",
        org,
        agbot,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.public_key))
}

/// Removes an agbot with everything that belongs to it; false when it does not exist.
pub async fn delete_agbot(
    tx: &mut Permitted<right::AgbotWrite>,
    org: &str,
    agbot: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- agbot.delete_agbot
        DELETE FROM agbot WHERE org = $1 AND agbot = $2",
        org,
        agbot,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}
