//! States of tasks, agreements, claims and nodes with the time that they held.
//!
//! Triggers record a state in the transaction that ends it, so no writer can forget it; the states that hold now are those of the records
//! themselves. Source: docs/adr/0029-the-history-holds-states-that-are-over.md.

use std::time::Duration;

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// A state with the time that it held.
#[derive(Debug, Clone, PartialEq)]
pub struct StateRow {
    /// Its keys: by them, and by the id, states are ordered.
    pub key: StateKey,
    /// The node, if there is one.
    pub node: Option<NodeId>,
    /// The state.
    pub state: String,
    /// Version, cause or purpose, and what followed.
    pub detail: Value,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended; none while it holds.
    pub ended_at: Option<Timestamp>,
    /// True if it held at the first of the two instants.
    pub was: bool,
    /// True if it held at the second one.
    pub is: bool,
}

/// The keys of a state among those of its kind.
///
/// # Shape
/// Task: policy, part, slot, task id. Agreement: node, policy, empty, agreement id. Claim: group, scope, empty, empty. Node: node, empty, empty,
/// condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateKey {
    /// First key.
    pub first: String,
    /// Second key.
    pub second: String,
    /// Third key.
    pub third: String,
    /// Id or condition.
    pub subject: String,
}

/// A selection of states of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateFilter<'a> {
    /// The organization.
    pub org: &'a str,
    /// `task`, `agreement`, `claim` or `node`.
    pub kind: &'a str,
    /// Only those with this first key.
    pub first: Option<&'a str>,
    /// Only those with this second key.
    pub second: Option<&'a str>,
    /// Only those about one of these nodes.
    pub nodes: Option<&'a [NodeId]>,
    /// Only those after these keys.
    pub after: StateKey,
}

/// Lists the states that held at one of two instants but not through both; at equal ones, those that held then. At most `limit` of them, and
/// the others with the keys of the last one.
pub async fn list_states(
    conn: &mut PgConnection,
    filter: &StateFilter<'_>,
    (from, to): (Timestamp, Timestamp),
    limit: i64,
) -> Result<Vec<StateRow>, StoreError> {
    // Segments that were completed before the instants hold nothing of them, apart from what a transaction of that time wrote a moment later.
    let rows = sqlx::query!(
        r#"-- history.list_states
        SELECT first_key AS "first_key!", second_key AS "second_key!", third_key AS "third_key!", subject AS "subject!",
               node AS "node: NodeId", state AS "state!", detail AS "detail!",
               began_at AS "began_at!: jiff_sqlx::Timestamp",
               NULLIF(ended_at, 'infinity') AS "ended_at: jiff_sqlx::Timestamp",
               (began_at <= $8 AND ended_at > $8) AS "was!", (began_at <= $9 AND ended_at > $9) AS "is!"
        FROM state_period
        WHERE org = $1 AND kind = $2 AND removed_at IS NULL
          AND (segment IS NULL OR segment = ANY (ARRAY(
              SELECT history_segment.segment FROM history_segment
              WHERE history_segment.completed_at IS NULL OR history_segment.completed_at > $8 - interval '1 minute')))
          AND ended_at > $8
          AND CASE WHEN $8 = $9 THEN began_at <= $8
                   ELSE (began_at <= $8) <> (began_at <= $9 AND ended_at > $9) END
          AND (first_key, second_key, third_key, subject) > ($3, $4, $5, $6)
          AND ($10::text IS NULL OR first_key = $10)
          AND ($11::text IS NULL OR second_key = $11)
          AND ($12::text[] IS NULL OR node = ANY ($12))
        ORDER BY first_key, second_key, third_key, subject
        FETCH FIRST ($7) ROWS WITH TIES"#,
        filter.org,
        filter.kind,
        filter.after.first,
        filter.after.second,
        filter.after.third,
        filter.after.subject,
        limit,
        to_sql(from) as _,
        to_sql(to) as _,
        filter.first,
        filter.second,
        filter.nodes as _,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| StateRow {
            key: StateKey {
                first: row.first_key,
                second: row.second_key,
                third: row.third_key,
                subject: row.subject,
            },
            node: row.node,
            state: row.state,
            detail: row.detail,
            began_at: from_sql(row.began_at),
            ended_at: row.ended_at.map(from_sql),
            was: row.was,
            is: row.is,
        })
        .collect())
}

/// Returns the instant since which the history is complete.
pub async fn get_complete_since(conn: &mut PgConnection) -> Result<Timestamp, StoreError> {
    let row = sqlx::query!(
        r#"-- history.get_complete_since
        SELECT complete_since AS "complete_since: jiff_sqlx::Timestamp" FROM history_retention"#
    )
    .fetch_one(conn)
    .await?;
    Ok(from_sql(row.complete_since))
}

/// Removes what is older than `kept`, and the oldest states until at most `most_bytes` are left. Returns the number of removed segments.
pub async fn delete_old(conn: &mut PgConnection, kept: Duration, most_bytes: i64) -> Result<i32, StoreError> {
    let removed = sqlx::query_scalar!(
        r#"-- history.delete_old
        SELECT rotate_history(make_interval(secs => $1), $2) AS "removed!""#,
        kept.as_secs_f64(),
        most_bytes,
    )
    .fetch_one(conn)
    .await?;
    Ok(removed)
}
