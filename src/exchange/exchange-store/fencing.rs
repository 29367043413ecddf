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

#[cfg(test)]
mod tests {
    use evenkeel_test_database::{TestDatabase, backend};

    use super::*;
    use crate::tests::{Org, ROLES, at, commit};

    #[tokio::test]
    async fn numbers_grow_for_all_agbots_and_do_not_leap() {
        let database = TestDatabase::new(ROLES).await;
        let org = Org::in_database(&database, "o").await;
        org.add_agbot("a", "u").await;
        org.add_agbot("b", "u").await;
        let give = async |agbot: &str, above: i64| {
            org.write(async |tx| give(tx, (&org, agbot), above, 10, at(0)).await).await
        };
        assert_eq!(give("a", 0).await, Some(1));
        assert_eq!(give("b", 0).await, Some(2), "though it knows of none");
        assert_eq!(give("a", 12).await, Some(13));
        assert_eq!(give("a", 24).await, None, "too far ahead");
        let mut connection = org.connection().await;
        for (agbot, fencing, expected) in [("a", 1, true), ("b", 1, false), ("b", 2, true), ("a", 24, false)]
        {
            let found = is_given(&mut connection, (&org, agbot), fencing).await.unwrap();
            assert_eq!(found, expected, "{agbot} {fencing}");
        }
    }

    #[tokio::test]
    async fn number_is_given_once_to_agbots_that_ask_at_once() {
        let database = TestDatabase::new(ROLES).await;
        let org = Org::in_database(&database, "o").await;
        org.add_agbot("a", "u").await;
        let (mut first, mut second) = (org.begin().await, org.begin().await);
        assert_eq!(give(&mut first, (&org, "a"), 0, 10, at(0)).await.unwrap(), Some(1));
        let process = backend(&mut second).await;
        let waiter = give(&mut second, (&org, "a"), 0, 10, at(0));
        let found = database.release_when_awaited(process, waiter, commit(first)).await;
        assert_eq!(found.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn newest_numbers_of_an_agbot_are_remembered() {
        let database = TestDatabase::new(ROLES).await;
        let org = Org::in_database(&database, "o").await;
        org.add_agbot("a", "u").await;
        org.add_agbot("b", "u").await;
        let mut connection = org.connection().await;
        let numbers = "INSERT INTO agbot_fencing (org, agbot, fencing, given_at)
                       SELECT 'o', agbot, number, now() FROM UNNEST('{a,b}'::text[]) AS agbot, generate_series(1, $1) AS number";
        sqlx::query(numbers).bind(REMEMBERED).execute(&mut *connection).await.unwrap();
        org.write(async |tx| give(tx, (&org, "a"), REMEMBERED, REMEMBERED, at(0)).await).await;
        for (agbot, fencing, expected) in
            [("a", 1, false), ("a", 2, true), ("a", REMEMBERED + 1, true), ("b", 1, true)]
        {
            let found = is_given(&mut connection, (&org, agbot), fencing).await.unwrap();
            assert_eq!(found, expected, "{agbot} {fencing}");
        }
    }
}
