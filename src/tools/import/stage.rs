//! Streams one table into a temporary one, and removes the rows that break a rule.

use futures_util::TryStreamExt;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

use super::row::{Unfit, carry};
use super::source::{Source, unreadable};
use super::table::Table;
use super::{ImportError, Observer, Refusal, TableCount};

/// Bytes buffered before they are sent.
const CHUNK: usize = 256 * 1024;

/// Returns the name of the temporary table.
pub(super) fn staged(table: &Table) -> String {
    format!("import_{}", table.target)
}

/// Reads the table into a temporary one; rows with invalid values are refused.
pub(super) async fn stage(
    source: &mut Source,
    tx: &mut PgConnection,
    table: &Table,
    observer: &mut dyn Observer,
) -> Result<TableCount, ImportError> {
    create(tx, table).await?;
    let expected = format!("SELECT count(*) FROM ({}) AS rows", table.source);
    let expected = sqlx::query_scalar::<_, i64>(AssertSqlSafe(expected));
    let expected = expected.fetch_one(source.connection()).await.map_err(unreadable)?;
    observer.begin(table.name, u64::try_from(expected).unwrap_or(0));
    let mut count = TableCount { table: table.name, ..TableCount::default() };
    transfer(source, tx, table, observer, &mut count).await?;
    tx.execute(AssertSqlSafe(format!("ANALYZE {}", staged(table)))).await?;
    Ok(count)
}

async fn create(tx: &mut PgConnection, table: &Table) -> Result<(), ImportError> {
    let columns: Vec<String> =
        table.columns.iter().map(|(name, check)| format!("{name} {}", check.sql_type())).collect();
    let statement = format!(
        "CREATE TEMPORARY TABLE {} (source_key text, {}) ON COMMIT DROP",
        staged(table),
        columns.join(", ")
    );
    tx.execute(AssertSqlSafe(statement)).await?;
    Ok(())
}

async fn transfer(
    source: &mut Source,
    tx: &mut PgConnection,
    table: &Table,
    observer: &mut dyn Observer,
    count: &mut TableCount,
) -> Result<(), ImportError> {
    let mut input = source
        .connection()
        .copy_out_raw(&format!("COPY ({}) TO STDOUT", table.source))
        .await
        .map_err(unreadable)?;
    let mut output = tx.copy_in_raw(&format!("COPY {} FROM STDIN", staged(table))).await?;
    let mut rest: Vec<u8> = Vec::new();
    let mut checked: Vec<u8> = Vec::with_capacity(CHUNK * 2);
    let mut reported = 0;
    while let Some(bytes) = input.try_next().await.map_err(unreadable)? {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for piece in &mut lines {
            let Some(end) = piece.strip_suffix(b"\n") else {
                rest.extend_from_slice(piece);
                continue;
            };
            rest.extend_from_slice(end);
            count.read += 1;
            if let Err(Unfit { key, reason }) = carry(&rest, table.columns, &mut checked) {
                count.refused += 1;
                observer.refuse(&Refusal { table: table.name, key, reason });
            }
            rest.clear();
        }
        if checked.len() >= CHUNK {
            output.send(checked.as_slice()).await?;
            checked.clear();
            observer.advance(count.read - reported);
            reported = count.read;
        }
    }
    output.send(checked.as_slice()).await?;
    output.finish().await?;
    observer.advance(count.read - reported);
    Ok(())
}

/// Removes the rows that break a rule.
pub(super) async fn apply_rules(
    tx: &mut PgConnection,
    table: &Table,
    count: &mut TableCount,
    observer: &mut dyn Observer,
) -> Result<(), ImportError> {
    for (condition, reason) in table.rules {
        let statement =
            format!("DELETE FROM {} AS s WHERE {condition} RETURNING s.source_key", staged(table));
        let removed = sqlx::query_scalar::<_, String>(AssertSqlSafe(statement));
        let mut removed = removed.fetch(&mut *tx);
        while let Some(key) = removed.try_next().await? {
            count.refused += 1;
            observer.refuse(&Refusal { table: table.name, key, reason: (*reason).to_owned() });
        }
    }
    Ok(())
}
