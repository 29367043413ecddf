//! Executed SQL statements: the server itself logs each one, so that none can be missed.
//!
//! Every statement of the store begins with a comment that names it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_runtime::Failure;
use sqlx::PgConnection;

use super::stage::{Stage, broken, refused};

/// Sessions read their changed settings, and write their last lines, within this time.
const SETTLE: Duration = Duration::from_millis(1_500);

/// Runs of each statement in some time, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Statements {
    counts: BTreeMap<String, u64>,
}

impl Statements {
    /// All runs of all statements.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Runs of the statement that ran most often.
    pub fn most(&self) -> u64 {
        self.counts.values().copied().max().unwrap_or_default()
    }

    /// Names and counts, human-readable.
    pub fn list(&self) -> String {
        let list: Vec<String> = self.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if list.is_empty() { "none".to_owned() } else { list.join(", ") }
    }

    fn of_log(text: &str) -> Statements {
        let mut statements = Statements::default();
        for line in text.lines() {
            // `… LOG:  execute sqlx_s_1: -- name` and `… LOG:  statement: BEGIN`
            let statement =
                line.split_once("LOG:  execute ").and_then(|(_, rest)| Some(rest.split_once(": ")?.1));
            let statement = statement.or_else(|| Some(line.split_once("LOG:  statement: ")?.1));
            if let Some(text) = statement {
                *statements.counts.entry(name(text)).or_default() += 1;
            }
        }
        statements
    }
}

fn name(statement: &str) -> String {
    match statement.trim().strip_prefix("-- ") {
        Some(name) => name.to_owned(),
        None => statement.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
    }
}

/// The server's own record of statements.
pub struct Recorder {
    log: PathBuf,
    observer: PgConnection,
}

impl Recorder {
    /// A recorder of the stage's server.
    pub async fn new(stage: &Stage) -> Result<Recorder, Failure> {
        Ok(Recorder { log: stage.server_log(), observer: stage.observer().await? })
    }

    /// Records what runs while `work` continues.
    pub async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<(T, Statements), Failure> {
        self.set("ALTER SYSTEM SET log_statement = 'all'").await?;
        let start = std::fs::metadata(&self.log).map_err(|error| broken(&error))?.len();
        let outcome = work.await;
        let end = std::fs::metadata(&self.log).map_err(|error| broken(&error))?.len();
        self.set("ALTER SYSTEM RESET log_statement").await?;
        let mut file = File::open(&self.log).map_err(|error| broken(&error))?;
        file.seek(SeekFrom::Start(start)).map_err(|error| broken(&error))?;
        let mut text = Vec::new();
        file.take(end.saturating_sub(start)).read_to_end(&mut text).map_err(|error| broken(&error))?;
        Ok((outcome?, Statements::of_log(&String::from_utf8_lossy(&text))))
    }

    async fn set(&mut self, statement: &'static str) -> Result<(), Failure> {
        for statement in [statement, "SELECT pg_reload_conf()"] {
            sqlx::raw_sql(statement).execute(&mut self.observer).await.map_err(|error| refused(&error))?;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_counted_by_their_names() {
        let log = "2026-01-01 [7] LOG:  execute sqlx_s_1: -- feed.last\n\tSELECT last\n\
                   2026-01-01 [7] LOG:  execute sqlx_s_1: -- feed.last\n\tSELECT last\n\
                   2026-01-01 [8] DETAIL:  parameters: $1 = 'LOG'\n\
                   2026-01-01 [8] LOG:  statement: BEGIN\n\
                   2026-01-01 [8] LOG:  checkpoint starting\n";
        let found = Statements::of_log(log);
        assert_eq!((found.total(), found.most()), (3, 2));
        assert_eq!(found.list(), "BEGIN 1, feed.last 2");
    }
}
