//! Merges temporary tables into their targets, and continues the sequence of the source's change feed.

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use super::source::Source;
use super::stage::{stage, staged};
use super::table::Check::{Flag, Id, Text, Time, Whole};
use super::table::{Table, instant};
use super::{ImportError, Observer, TableCount};

/// The source's changes, with their sequence numbers.
const CHANGE: Table = Table {
    name: "resourcechanges",
    source: concat!(
        "SELECT changeid, changeid, orgid, id, category, resource, operation, public, ",
        instant!("lastupdated"),
        " FROM public.resourcechanges"
    ),
    target: "change",
    columns: &[
        ("change_id", Whole),
        ("org", Id),
        ("id", Text),
        ("category", Text),
        ("resource", Text),
        ("operation", Text),
        ("is_public", Flag),
        ("changed_at", Time),
    ],
    key: &["change_id"],
    fixed: &[],
    newer_by: None,
    rules: &[],
    feed: None,
};

/// Prepares the transaction: one import at a time.
pub(super) async fn begin(tx: &mut PgConnection) -> Result<(), ImportError> {
    tx.execute("LOCK TABLE import_run IN EXCLUSIVE MODE").await?;
    tx.execute("SET LOCAL work_mem = '64MB'").await?;
    tx.execute(
        "CREATE TEMPORARY TABLE import_feed
            (org text, id text, category text, resource text, operation text, is_public boolean) ON COMMIT DROP",
    )
    .await?;
    Ok(())
}

/// The effect of the import on the change feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// The feed here has only sequence numbers of the source, the last one `after`: it continues with the source's own changes.
    Continued { after: i64 },
    /// The feed here has diverged: each row that is written gets an entry.
    Own,
}

impl Feed {
    /// Determines the mode before anything is written.
    pub(super) async fn find(tx: &mut PgConnection, source_last: i64) -> Result<Feed, ImportError> {
        let row = sqlx::query(
            "-- merge.find_feed
            SELECT change_sequence.last_id, import_run.last_change_id
            FROM change_sequence LEFT JOIN import_run ON true",
        )
        .fetch_one(tx)
        .await?;
        let last: i64 = row.try_get(0)?;
        let brought: Option<i64> = row.try_get(1)?;
        let is_continued = brought.map_or(last <= source_last, |brought| brought == last);
        Ok(if is_continued { Feed::Continued { after: last } } else { Feed::Own })
    }

    /// Imports the source's changes that are newer than those here.
    pub(super) async fn carry(
        self,
        source: &mut Source,
        tx: &mut PgConnection,
        observer: &mut dyn Observer,
    ) -> Result<TableCount, ImportError> {
        let Feed::Continued { after } = self else {
            return Ok(TableCount { table: CHANGE.name, ..TableCount::default() });
        };
        let mut count = stage(source, tx, &CHANGE, observer).await?;
        let older = format!("DELETE FROM {} WHERE change_id <= {after}", staged(&CHANGE));
        tx.execute(AssertSqlSafe(older)).await?;
        merge(tx, &CHANGE, &self, &mut count).await?;
        Ok(count)
    }

    /// Moves the sequence past the source's, inserts the entries, and signals the end of the import.
    pub(super) async fn finish(
        self,
        tx: &mut PgConnection,
        counts: &[TableCount],
        source_last: i64,
    ) -> Result<(), ImportError> {
        if counts.iter().any(|count| count.inserted + count.updated + count.removed > 0) {
            tx.execute(
                "INSERT INTO change_outbox (org, id, category, resource, operation, is_public, changed_at)
                 SELECT org, id, category, resource, operation, bool_or(is_public), clock_timestamp()
                 FROM import_feed
                 GROUP BY org, id, category, resource, operation
                 ORDER BY category <> 'org', org, id",
            )
            .await?;
            // Logins cached by running exchanges may be stale now.
            tx.execute(
                "INSERT INTO change_outbox (org, id, category, resource, operation, is_public, changed_at)
                 VALUES ('*', '*', 'internal', 'credential', 'deleted', false, clock_timestamp())",
            )
            .await?;
        }
        sqlx::query(
            "-- merge.finish
            WITH moved AS (
                UPDATE change_sequence SET last_id = GREATEST(last_id, $1) RETURNING last_id
            )
            INSERT INTO import_run (last_change_id, finished_at)
            SELECT CASE WHEN $2 THEN last_id ELSE -1 END, clock_timestamp() FROM moved
            ON CONFLICT (only_row) DO UPDATE
            SET last_change_id = excluded.last_change_id, finished_at = excluded.finished_at",
        )
        .bind(source_last)
        .bind(matches!(self, Feed::Continued { .. }))
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// Merges a temporary table into its target: inserts what is new, updates what is older here.
pub(super) async fn merge(
    tx: &mut PgConnection,
    table: &Table,
    feed: &Feed,
    count: &mut TableCount,
) -> Result<(), ImportError> {
    let row = sqlx::query(AssertSqlSafe(merge_statement(table, *feed))).fetch_one(&mut *tx).await?;
    count.inserted = u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0);
    count.updated = u64::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0);
    if let Some(newer_by) = table.newer_by
        && count.unchanged() > 0
    {
        let statement = format!(
            "SELECT count(*) FROM {} AS s JOIN {} AS t USING ({}) WHERE t.{newer_by} > s.{newer_by}",
            staged(table),
            table.target,
            table.key.join(", ")
        );
        let newer = sqlx::query_scalar::<_, i64>(AssertSqlSafe(statement)).fetch_one(tx).await?;
        count.newer_here = u64::try_from(newer).unwrap_or(0);
    }
    Ok(())
}

fn merge_statement(table: &Table, feed: Feed) -> String {
    let columns: Vec<&str> =
        table.columns.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("staged_")).collect();
    let list = columns.join(", ");
    let (recorded, note) = match (&table.feed, feed) {
        (Some(name), Feed::Own) => (
            format!(", t.org, t.{} AS id, {} AS is_public", name.id, public_of(name.is_public)),
            format!(
                ", recorded AS (
                    INSERT INTO import_feed (org, id, category, resource, operation, is_public)
                    SELECT org, id, '{}', '{}', CASE WHEN is_new THEN 'created' ELSE 'modified' END, is_public FROM done
                )",
                name.category, name.resource
            ),
        ),
        _ => (String::new(), String::new()),
    };
    format!(
        "WITH done AS (
            INSERT INTO {target} AS t ({list})
            SELECT {list} FROM {staged}
            ON CONFLICT ({key}) DO {conflict}
            RETURNING (t.xmax = 0) AS is_new{recorded}
        ){note}
        SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new) FROM done",
        target = table.target,
        staged = staged(table),
        key = table.key.join(", "),
        conflict = on_conflict(table, &columns),
    )
}

/// Returns a column of the written row, or a constant.
fn public_of(expression: &str) -> String {
    if expression == "is_public" { "t.is_public".to_owned() } else { expression.to_owned() }
}

/// Returns the conflict clause: rows that differ are updated, unless they are newer here.
fn on_conflict(table: &Table, columns: &[&str]) -> String {
    let Some(newer_by) = table.newer_by else { return "NOTHING".to_owned() };
    let changing: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|name| !table.key.contains(name) && !table.fixed.contains(name))
        .collect();
    let assignments: Vec<String> =
        changing.iter().map(|name| format!("{name} = {}", new_value(table, name))).collect();
    let differences: Vec<String> = changing
        .iter()
        .map(|name| format!("t.{name}::text IS DISTINCT FROM ({})::text", new_value(table, name)))
        .collect();
    format!(
        "UPDATE SET {} WHERE t.{newer_by} <= excluded.{newer_by} AND ({})",
        assignments.join(", "),
        differences.join(" OR ")
    )
}

/// Returns the value of an updated column; root keeps the password that this hub sets at each start.
fn new_value(table: &Table, column: &str) -> String {
    if table.target == "account" && column == "password_hash" {
        return "CASE WHEN t.org = 'root' AND t.name = 'root' THEN t.password_hash ELSE excluded.password_hash END"
            .to_owned();
    }
    // A link that was created here stays, unless the source has another.
    if table.target == "account" && matches!(column, "identity_provider" | "subject") {
        return format!("COALESCE(excluded.{column}, t.{column})");
    }
    format!("excluded.{column}")
}

/// Removes rows that the source does not have from the organizations that it has; returns their number.
pub(super) async fn remove_absent(
    tx: &mut PgConnection,
    table: &Table,
    feed: &Feed,
) -> Result<u64, ImportError> {
    // Organizations that the source does not have stay, and root must stay.
    if table.target == "organization" {
        return Ok(0);
    }
    let same: Vec<String> = table.key.iter().map(|name| format!("s.{name} = t.{name}")).collect();
    let note = match (&table.feed, feed) {
        (Some(name), Feed::Own) => format!(
            ", recorded AS (
                INSERT INTO import_feed (org, id, category, resource, operation, is_public)
                SELECT org, {}, '{}', '{}', 'deleted', {} FROM gone
            )",
            name.id, name.category, name.resource, name.is_public
        ),
        _ => String::new(),
    };
    let statement = format!(
        "WITH gone AS (
            DELETE FROM {target} AS t
            WHERE t.org IN (SELECT org FROM import_organization)
              AND NOT EXISTS (SELECT FROM {staged} AS s WHERE {same})
              {but_root}
            RETURNING t.*
        ){note}
        SELECT count(*) FROM gone",
        target = table.target,
        staged = staged(table),
        same = same.join(" AND "),
        but_root =
            if table.target == "account" { "AND NOT (t.org = 'root' AND t.name = 'root')" } else { "" },
    );
    let removed = sqlx::query_scalar::<_, i64>(AssertSqlSafe(statement)).fetch_one(tx).await?;
    Ok(u64::try_from(removed).unwrap_or(0))
}

/// Approves the imported agbots of administrators, and confirms what they serve: there they had these rights. Those of plain users wait for an
/// administrator.
pub(super) async fn approve_agbots(tx: &mut PgConnection) -> Result<(), ImportError> {
    tx.execute(
        "UPDATE agbot SET approved_by = account.org || '/' || account.name, approved_at = agbot.updated_at
         FROM account
         WHERE account.org = agbot.owner_org AND account.name = agbot.owner AND agbot.approved_by IS NULL
           AND agbot.org IN (SELECT org FROM import_organization)
           AND (account.is_hub_admin OR (account.is_admin AND account.org = agbot.org))",
    )
    .await?;
    for table in ["agbot_pattern", "agbot_policy"] {
        let statement = format!(
            "UPDATE {table} AS entry SET confirmed_by = agbot.approved_by, confirmed_at = entry.updated_at
             FROM agbot JOIN account ON account.org || '/' || account.name = agbot.approved_by
             WHERE agbot.org = entry.org AND agbot.agbot = entry.agbot AND entry.confirmed_by IS NULL
               AND agbot.org IN (SELECT org FROM import_organization)
               AND (account.is_hub_admin OR account.org = entry.node_org)"
        );
        tx.execute(AssertSqlSafe(statement)).await?;
    }
    Ok(())
}

/// Moves this hub's sequences past the imported numbers. Sequences are not rolled back with a transaction.
pub(super) async fn move_sequences(tx: &mut PgConnection) -> Result<(), ImportError> {
    for statement in [
        "SELECT setval('message_id', GREATEST(
             (SELECT max(message_id) FROM node_message), (SELECT max(message_id) FROM agbot_message),
             (SELECT last_value FROM message_id)))",
        "SELECT setval(pg_get_serial_sequence('service_dockauth', 'dockauth_id'), highest)
         FROM (SELECT max(dockauth_id) AS highest FROM service_dockauth) AS dockauth
         WHERE highest IS NOT NULL",
    ] {
        tx.execute(statement).await?;
    }
    Ok(())
}
