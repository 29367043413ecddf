//! Plans of the statements that read lists, compared with golden files.
//!
//! The plans are generic ones on empty tables, without the ways to read or join whole tables: they show what the indexes allow and
//! do not depend on statistics. A `Seq Scan` in a golden file means that no index helps.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::TestDatabase;

/// Leaves one shape of plan for a set of indexes.
const SETTINGS: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_hashagg = off;
    SET enable_material = off;
    SET enable_memoize = off;
    SET max_parallel_workers_per_gather = 0;
    SET jit = off";

/// First words of the functions whose statements read one row or write.
const NO_LISTS: [&str; 13] = [
    "count", "delete", "find", "get", "has", "insert", "is", "lock", "notify", "orders", "sequence", "take",
    "upsert",
];

/// A checked statement, as the metadata in `.sqlx` describes it.
#[derive(Deserialize)]
struct Query {
    query: String,
    describe: Describe,
}

#[derive(Deserialize)]
struct Describe {
    parameters: Parameters,
}

#[derive(Deserialize)]
enum Parameters {
    Left(Vec<serde_json::Value>),
}

impl Query {
    /// Returns `module.function`, which the first line of a statement names.
    fn name(&self) -> &str {
        self.query.lines().next().unwrap_or_default().trim_start_matches("-- ").trim()
    }

    fn reads_list(&self) -> bool {
        let statement = self.query.lines().nth(1).unwrap_or_default().trim_start();
        let function = self.name().rsplit('.').next().unwrap_or_default();
        let first_word = function.split('_').next().unwrap_or_default();
        (statement.starts_with("SELECT") || statement.starts_with("WITH")) && !NO_LISTS.contains(&first_word)
    }
}

/// Compares the plans of all statements that read lists from the tables of a database with a file of `tests/golden`, which
/// `WRITE_GOLDEN=1` renews.
///
/// # Panics
/// When they differ, or a statement does not fit the schema.
pub async fn assert_plans(database: &TestDatabase, golden: &str) {
    let mut connection = database.connection().await;
    sqlx::raw_sql(SETTINGS).execute(&mut connection).await.expect("settings");
    let mut found = String::new();
    for query in queries() {
        if let Some(plan) = plan(&mut connection, &query).await {
            let _ = writeln!(found, "{}\n{plan}", query.name());
        }
    }
    let path = root().join("tests/golden").join(golden);
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &found).expect("the golden file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "plans differ from {golden} ({differs:?}): see the difference after WRITE_GOLDEN=1"
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns the statements that read lists, by name and text.
fn queries() -> Vec<Query> {
    let files = std::fs::read_dir(root().join(".sqlx")).expect("metadata of the checked queries");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read(file.expect("a file").path()).expect("metadata of a query");
        serde_json::from_slice::<Query>(&text).expect("metadata of a query")
    };
    let mut queries: Vec<Query> = files.map(read).filter(Query::reads_list).collect();
    queries.sort_by(|left, right| (left.name(), &left.query).cmp(&(right.name(), &right.query)));
    queries
}

/// Returns the nodes of the plan, indented; `None` when the statement is about tables of another role.
async fn plan(connection: &mut PgConnection, query: &Query) -> Option<String> {
    let Parameters::Left(parameters) = &query.describe.parameters;
    let prepare = format!("DEALLOCATE ALL; PREPARE list AS {}", query.query);
    if let Err(error) = sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await {
        let code = error.as_database_error().and_then(DatabaseError::code);
        assert!(matches!(code.as_deref(), Some("42P01" | "42703" | "42883")), "{}: {error}", query.name());
        return None;
    }
    let values = vec!["NULL"; parameters.len()].join(", ");
    let arguments = if values.is_empty() { String::new() } else { format!("({values})") };
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE list{arguments}");
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{}: {error}", query.name()));
    Some(nodes(&rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()))
}

/// Returns the nodes among the lines of a plan, without their conditions, indented by their depth.
fn nodes(lines: &[String]) -> String {
    let mut nodes = String::new();
    let mut above: Vec<usize> = Vec::new();
    for line in lines {
        let text = line.trim_start();
        let is_part = ["CTE ", "InitPlan ", "SubPlan "].iter().any(|part| text.starts_with(part));
        let is_node = above.is_empty() || is_part || text.starts_with("->  ");
        if !is_node {
            continue;
        }
        let indent = line.len() - text.len();
        above.truncate(above.partition_point(|other| *other < indent));
        // Versions of the server differ in what follows the name of a part.
        let name = text.trim_start_matches("->  ").split(" (").next().unwrap_or_default();
        let _ = writeln!(nodes, "{}{name}", "  ".repeat(above.len() + 1));
        above.push(indent);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_left_out_of_the_nodes() {
        let plan = "Limit\n  CTE held\n    ->  Seq Scan on a\n          Filter: (b)\n  ->  Sort\n        Sort Key: b\n        ->  CTE Scan on held";
        let lines: Vec<String> = plan.lines().map(str::to_owned).collect();
        let expected = "  Limit\n    CTE held\n      Seq Scan on a\n    Sort\n      CTE Scan on held\n";
        assert_eq!(nodes(&lines), expected);
    }
}
