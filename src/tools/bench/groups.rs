//! `evenkeel bench groups`: durable creation and deletion of HA groups, beside pgbench with the same statements.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{ExitStatus, Failure};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;

use super::fleet::{Nodes, ORG, OWNER, Scribe};
use super::load::{Load, request};
use super::memory::median;
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, broken, refused};

const CLIENTS: usize = 16;
const SHARE: f64 = 0.6;
/// Length of one run.
const TURN: Duration = Duration::from_secs(2);
/// Number of checks, and the pause between them, until the exchange holds no transaction.
const OBSERVATION_COUNT: u32 = 200;
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(20);

/// The statements of a creation and a deletion, as the exchange sends them; `:c` is the number of the client.
const SCRIPT: &str = include_str!("groups.sql");

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let turns = if options.short { 1 } else { 5 };
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", 4 * CLIENTS).await?;
    let mut other = Other::new(stage)?;
    let (exchange, address) = stage.start_exchange().await?;
    let load = Load { address, connections: CLIENTS, requests: Arc::new(requests(&nodes)) };
    load.once().await?;
    let mut pairs = Vec::new();
    let mut other_pairs = Vec::new();
    let mut slow = Vec::new();
    for _ in 0..turns {
        stand_still(&exchange, stage).await?;
        other_pairs.push(other.pairs_per_second(TURN).await?);
        clear_outbox(stage).await?;
        exchange.pause(false);
        load.once().await?;
        let mut outcome = load.closed(TURN).await?;
        pairs.push(outcome.rate() / 2.0);
        slow.push(outcome.quantile_millis(0.99));
    }

    let mut report = Report::new("groups");
    report.push(
        Row::new(format!("HA group create + delete, {CLIENTS} clients"), median(pairs), "pairs/s")
            .beside(other.name(), median(other_pairs))
            .target(Target::RatioAtLeast(SHARE)),
    );
    report.push(Row::new("p99 of one create or delete", median(slow), "ms"));
    report.add_note(format!(
        "{} runs without sequencing the changes and sealing the audit records. Each value is the median of several runs that take turns, so that \
         a disk that changes its speed favours none of them; {}.",
        other.name(),
        stage.version().await?
    ));
    if matches!(other, Other::Loop { .. }) {
        report.add_note(
            "pgbench was not found next to the PostgreSQL binaries: an internal loop ran the statements.",
        );
    }
    Ok(report)
}

/// Creation and deletion in turn; each connection gets one group with two nodes of its own.
fn requests(nodes: &Nodes) -> Vec<Vec<u8>> {
    let path = |client| format!("/v1/orgs/{ORG}/hagroups/q{client}");
    let create = |client: usize| {
        let members = [nodes.id(2 * (CLIENTS + client)), nodes.id(2 * (CLIENTS + client) + 1)];
        let body = serde_json::json!({"members": members}).to_string();
        request("POST", &path(client), OWNER, Some(&body))
    };
    let delete = |client: usize| request("DELETE", &path(client), OWNER, None);
    (0..CLIENTS).map(create).chain((0..CLIENTS).map(delete)).collect()
}

/// Pauses the exchange where it holds no transaction open: the locks of one would block all other clients.
async fn stand_still(exchange: &Process, stage: &Stage) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(stage.url()).await.map_err(|error| refused(&error))?;
    for _ in 0..OBSERVATION_COUNT {
        exchange.pause(true);
        // The server works off what was sent before.
        tokio::time::sleep(OBSERVATION_INTERVAL).await;
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut connection)
        .await
        .map_err(|error| refused(&error))?;
        if open == 0 {
            return connection.close().await.map_err(|error| refused(&error));
        }
        exchange.pause(false);
        tokio::time::sleep(OBSERVATION_INTERVAL).await;
    }
    Err(Failure::new(ExitStatus::Failure, "the exchange is never idle outside of a transaction"))
}

async fn clear_outbox(stage: &Stage) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(stage.url()).await.map_err(|error| refused(&error))?;
    let statements = [
        "DELETE FROM change_outbox",
        "DELETE FROM audit_outbox",
        "DELETE FROM ha_group WHERE name LIKE 'p%'",
    ];
    for statement in statements {
        sqlx::query(statement).execute(&mut connection).await.map_err(|error| refused(&error))?;
    }
    connection.close().await.map_err(|error| refused(&error))
}

/// Baseline that runs the same statements without an exchange.
enum Other {
    Pgbench {
        program: std::path::PathBuf,
        script: std::path::PathBuf,
        environment: BTreeMap<&'static str, String>,
    },
    Loop {
        url: String,
    },
}

impl Other {
    fn new(stage: &Stage) -> Result<Other, Failure> {
        let beside = stage.programs().join("pgbench");
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            [beside].into_iter().chain(std::env::split_paths(&on_path).map(|path| path.join("pgbench")));
        let url = stage.url().to_owned();
        let (Some(program), Some(environment)) =
            (found.into_iter().find(|path| path.is_file()), environment(&url))
        else {
            return Ok(Other::Loop { url });
        };
        let script = stage.directory().join("groups.sql");
        std::fs::write(&script, format!("\\set c :client_id\n{SCRIPT}")).map_err(|error| broken(&error))?;
        Ok(Other::Pgbench { program, script, environment })
    }

    fn name(&self) -> &'static str {
        match self {
            Other::Pgbench { .. } => "pgbench",
            Other::Loop { .. } => "a plain loop",
        }
    }

    async fn pairs_per_second(&mut self, length: Duration) -> Result<f64, Failure> {
        match self {
            Other::Pgbench { program, script, environment } => {
                let seconds = length.as_secs().max(1).to_string();
                let output = tokio::process::Command::new(program)
                    .args([
                        "-n",
                        "-M",
                        "prepared",
                        "-c",
                        &CLIENTS.to_string(),
                        "-j",
                        "2",
                        "-T",
                        &seconds,
                        "-f",
                    ])
                    .arg(script)
                    .envs(environment.iter())
                    .output()
                    .await
                    .map_err(|error| broken(&error))?;
                let text = String::from_utf8_lossy(&output.stdout);
                parse_tps(&text).ok_or_else(|| {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    Failure::new(ExitStatus::Failure, format!("pgbench failed: {}", errors.trim()))
                })
            }
            Other::Loop { url } => loop_pairs(url, length).await,
        }
    }
}

/// The number in `tps = 123.4 (without initial connection time)`.
fn parse_tps(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

/// Connection parameters with which libpq finds the embedded server.
fn environment(url: &str) -> Option<BTreeMap<&'static str, String>> {
    let rest = url.strip_prefix("postgres://")?;
    let (login, rest) = rest.split_once('@')?;
    let (user, password) = login.split_once(':')?;
    let host = rest.split_once("host=")?.1.split('&').next()?.replace("%2F", "/");
    let pairs = [("PGUSER", user), ("PGPASSWORD", password), ("PGDATABASE", user), ("PGHOST", &host)];
    Some(pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect())
}

async fn loop_pairs(url: &str, length: Duration) -> Result<f64, Failure> {
    let begin = std::time::Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let url = url.to_owned();
        tasks.spawn(async move {
            let mut connection = PgConnection::connect(&url).await?;
            let script = SCRIPT.replace(":c", &client.to_string());
            let statements: Vec<&str> = script.lines().collect();
            let mut pairs = 0_u64;
            while begin.elapsed() < length {
                for statement in &statements {
                    sqlx::query(sqlx::AssertSqlSafe(*statement)).execute(&mut connection).await?;
                }
                pairs += 1;
            }
            Ok::<u64, sqlx::Error>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| Failure::new(ExitStatus::Failure, error.to_string()))?;
        pairs += ended.map_err(|error| refused(&error))?;
    }
    Ok(pairs as f64 / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_pgbench_and_address_of_the_server_are_parsed() {
        assert_eq!(parse_tps("latency = 1\ntps = 812.5 (without initial connection time)\n"), Some(812.5));
        let found =
            environment("postgres://evenkeel:pw@localhost/evenkeel?host=/tmp/x&sslmode=disable").unwrap();
        assert_eq!((found["PGHOST"].as_str(), found["PGPASSWORD"].as_str()), ("/tmp/x", "pw"));
    }
}
