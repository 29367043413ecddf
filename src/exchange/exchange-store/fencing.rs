//! Fencing numbers: each is given once, to one agbot, for its leases.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// Numbers of an agbot that are remembered, the newest. A lease is renewed under its number, so that many are taken only by a crowd of agbots.
const REMEMBERED: i64 = 10_000;

/// Assigns an agbot a number greater than all others and than `above`; `None` when `above` is further ahead than `leap`.
pub async fn give(
    tx: &mut Permitted<right::AgbotWrite>,
    (org, agbot): (&str, &str),
    above: i64,
    leap: i64,
    at: Timestamp,
) -> Result<Option<i64>, StoreError> {
    let given = sqlx::query_scalar!(
        "-- fencing.give
        UPDATE fencing_number SET last = GREATEST(last, $1) + 1 WHERE $1 - last <= $2 RETURNING last",
        above,
        leap,
    )
    .fetch_optional(&mut **tx)
    .await?;
    let Some(given) = given else { return Ok(None) };
    sqlx::query!(
        "-- fencing.insert
        INSERT INTO agbot_fencing (org, agbot, fencing, given_at) VALUES ($1, $2, $3, $4)",
        org,
        agbot,
        given,
        to_sql(at) as _,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "-- fencing.delete_old
        DELETE FROM agbot_fencing
        WHERE org = $1 AND agbot = $2 AND fencing <= (
            SELECT fencing FROM agbot_fencing WHERE org = $1 AND agbot = $2 ORDER BY fencing DESC OFFSET $3 LIMIT 1)",
        org,
        agbot,
        REMEMBERED,
    )
    .execute(&mut **tx)
    .await?;
    Ok(Some(given))
}

/// Returns whether a number was given to an agbot.
pub async fn is_given(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    fencing: i64,
) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- fencing.is_given
        SELECT EXISTS (SELECT FROM agbot_fencing WHERE org = $1 AND agbot = $2 AND fencing = $3) AS "is_given!""#,
        org,
        agbot,
        fencing,
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}
