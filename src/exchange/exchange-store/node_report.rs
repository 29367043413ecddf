//! Reports of nodes about themselves: monitor state and compatibility version, statistics, container engine.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::heartbeat::latest_plausible;
use super::node::JsonText;
use super::node_spec::NodeSpecRow;
use super::permitted::Permitted;

/// A part of a report, with the instant at which the exchange received it.
pub type Received = (JsonText, Timestamp);

/// The parts of a node's report that are written in batches.
#[derive(Debug, Clone, Default)]
pub struct FastReport {
    /// Statistics; none: as they are.
    pub statistics: Option<Received>,
    /// The container engine; none: as it is.
    pub engine: Option<Received>,
}

/// A node with all that it reported.
#[derive(Debug, Clone)]
pub struct NodeReportRow {
    /// Operator's settings for orchestration.
    pub spec: NodeSpecRow,
    /// `running` or `stopped`, as the agent reported.
    pub agent_state: String,
    /// Monitor state of the agent.
    pub monitor_state: String,
    /// When it reported that; none before its first report.
    pub monitor_state_since: Option<Timestamp>,
    /// Compatibility version, which must be the same on all nodes of a workload.
    pub compat_version: Option<i64>,
    /// Last stored heartbeat; none when never seen.
    pub seen_at: Option<Timestamp>,
    /// Statistics and container engine.
    pub fast: FastReport,
    /// The settings of its organization; none when it has set none.
    pub org_settings: Option<serde_json::Value>,
}

/// Finds a node with all that it reported.
pub async fn find_report(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<NodeReportRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- node_report.find_report
        SELECT node.availability, node.is_frozen, node.is_drain_forced, node.is_in_upgrade, node.capacities, node.fault_domain, node.upgrade_domain, node.spec_updated_by,
               node.agent_state, node.monitor_state,
               node.monitor_state_since AS "monitor_state_since: jiff_sqlx::Timestamp", node.compat_version,
               heartbeat.seen_at AS "seen_at?: jiff_sqlx::Timestamp",
               report.statistics AS "statistics?: Json<JsonText>",
               report.statistics_at AS "statistics_at?: jiff_sqlx::Timestamp",
               report.engine AS "engine?: Json<JsonText>", report.engine_at AS "engine_at?: jiff_sqlx::Timestamp",
               organization.orchestration
        FROM node
        JOIN organization ON organization.org = node.org
        LEFT JOIN node_heartbeat AS heartbeat ON heartbeat.org = node.org AND heartbeat.node = node.node
        LEFT JOIN node_report AS report ON report.org = node.org AND report.node = node.node
        WHERE node.org = $1 AND node.node = $2"#,
        org,
        node,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| NodeReportRow {
        spec: NodeSpecRow {
            availability: row.availability,
            is_frozen: row.is_frozen,
            is_drain_forced: row.is_drain_forced,
            is_in_upgrade: row.is_in_upgrade,
            capacities: row.capacities,
            fault_domain: row.fault_domain,
            upgrade_domain: row.upgrade_domain,
            updated_by: row.spec_updated_by,
        },
        agent_state: row.agent_state,
        monitor_state: row.monitor_state,
        monitor_state_since: row.monitor_state_since.map(from_sql),
        compat_version: row.compat_version,
        seen_at: row.seen_at.map(from_sql),
        org_settings: row.orchestration,
        fast: FastReport {
            statistics: row.statistics.map(|text| text.0).zip(row.statistics_at.map(from_sql)),
            engine: row.engine.map(|text| text.0).zip(row.engine_at.map(from_sql)),
        },
    }))
}

/// Stores the monitor state and the compatibility version of a node; `None` leaves one. False when they are stored already, or the node
/// does not exist.
pub async fn set_monitor_state(
    tx: &mut Permitted<right::NodeReport>,
    org: &str,
    node: &str,
    (monitor_state, compat_version): (Option<&str>, Option<i64>),
    now: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_report.set_monitor_state
        UPDATE node
        SET monitor_state = COALESCE($3::text, monitor_state),
            monitor_state_since = CASE WHEN $3 <> monitor_state OR monitor_state_since IS NULL THEN $5 ELSE monitor_state_since END,
            compat_version = COALESCE($4::bigint, compat_version)
        WHERE org = $1 AND node = $2
          AND ($3::text IS NOT NULL AND ($3 <> monitor_state OR monitor_state_since IS NULL)
               OR $4::bigint IS NOT NULL AND $4 IS DISTINCT FROM compat_version)",
        org,
        node,
        monitor_state,
        compat_version,
        to_sql(now) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores statistics and container engines, at most one report of each node; deleted nodes are skipped, older parts never overwrite newer
/// ones, unless those lie in the future.
pub async fn upsert_reports(
    conn: &mut PgConnection,
    batch: &[(String, String, FastReport)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let orgs: Vec<&str> = batch.iter().map(|(org, ..)| org.as_str()).collect();
    let nodes: Vec<&str> = batch.iter().map(|(_, node, _)| node.as_str()).collect();
    let column = |of: fn(&FastReport) -> &Option<Received>| -> (Vec<_>, Vec<_>) {
        let parts = batch.iter().map(|(.., report)| of(report).as_ref());
        parts.map(|part| (part.map(|(text, _)| text.get()), part.map(|(_, at)| to_sql(*at)))).unzip()
    };
    let (statistics, statistics_at) = column(|report| &report.statistics);
    let (engines, engines_at) = column(|report| &report.engine);
    sqlx::query!(
        "-- node_report.upsert_reports
        INSERT INTO node_report (org, node, statistics, statistics_at, engine, engine_at)
        SELECT node.org, node.node, report.statistics::json, report.statistics_at, report.engine::json, report.engine_at
        FROM UNNEST($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::timestamptz[])
            AS report (org, node, statistics, statistics_at, engine, engine_at)
        JOIN node ON node.org = report.org AND node.node = report.node
        ORDER BY 1, 2
        ON CONFLICT (org, node) DO UPDATE
        SET (statistics, statistics_at) = (
                SELECT CASE WHEN is_kept THEN node_report.statistics ELSE excluded.statistics END,
                       CASE WHEN is_kept THEN node_report.statistics_at ELSE excluded.statistics_at END
                FROM (SELECT excluded.statistics_at IS NULL
                             OR node_report.statistics_at > excluded.statistics_at AND node_report.statistics_at <= $7
                             AS is_kept) AS compared),
            (engine, engine_at) = (
                SELECT CASE WHEN is_kept THEN node_report.engine ELSE excluded.engine END,
                       CASE WHEN is_kept THEN node_report.engine_at ELSE excluded.engine_at END
                FROM (SELECT excluded.engine_at IS NULL
                             OR node_report.engine_at > excluded.engine_at AND node_report.engine_at <= $7
                             AS is_kept) AS compared)",
        &orgs as &[&str],
        &nodes as &[&str],
        &statistics as &[Option<&str>],
        &statistics_at as &[Option<jiff_sqlx::Timestamp>],
        &engines as &[Option<&str>],
        &engines_at as &[Option<jiff_sqlx::Timestamp>],
        to_sql(latest_plausible(now)) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the statistics and container engines of the nodes of an organization that were received since an instant: by id, those after the
/// given one, at most `limit`.
pub async fn list_statistics(
    conn: &mut PgConnection,
    org: &str,
    since: Timestamp,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<(String, FastReport)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_report.list_statistics
        SELECT node, statistics AS "statistics: Json<JsonText>",
               statistics_at AS "statistics_at: jiff_sqlx::Timestamp",
               engine AS "engine: Json<JsonText>", engine_at AS "engine_at: jiff_sqlx::Timestamp"
        FROM node_report
        WHERE org = $1 AND (statistics_at >= $2 OR engine_at >= $2) AND node > $3
        ORDER BY node
        LIMIT $4"#,
        org,
        to_sql(since) as _,
        after.unwrap_or_default(),
        limit,
    )
    .fetch_all(conn)
    .await?;
    let report = |text: Option<Json<JsonText>>, at: Option<jiff_sqlx::Timestamp>| {
        text.map(|text| text.0).zip(at.map(from_sql))
    };
    let found = rows.into_iter().map(|row| {
        let statistics = report(row.statistics, row.statistics_at);
        (row.node, FastReport { statistics, engine: report(row.engine, row.engine_at) })
    });
    Ok(found.collect())
}
