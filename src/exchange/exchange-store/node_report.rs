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
            monitor_state_since = CASE WHEN $3 <> monitor_state OR $3 IS NOT NULL AND monitor_state_since IS NULL THEN $5
                                       ELSE monitor_state_since END,
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
    // The rows are sorted, because several exchanges write batches with the same nodes: they lock the rows in the same
    // order and do not deadlock.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Org, at, json};

    /// Stores parts of reports of nodes: texts with the seconds of their receipt.
    async fn store(
        org: &Org,
        node: &str,
        statistics: Option<(&str, i64)>,
        engine: Option<(&str, i64)>,
        now: i64,
    ) {
        let part = |part: Option<(&str, i64)>| part.map(|(text, second)| (json(text), at(second)));
        let report = FastReport { statistics: part(statistics), engine: part(engine) };
        let batch = [(org.to_string(), node.to_owned(), report)];
        upsert_reports(&mut *org.connection().await, &batch, at(now)).await.unwrap();
    }

    fn texts(report: &FastReport) -> [Option<&str>; 2] {
        [&report.statistics, &report.engine].map(|part| part.as_ref().map(|(text, _)| text.get()))
    }

    #[tokio::test]
    async fn each_part_of_a_report_is_replaced_by_newer_ones_alone() {
        let org = Org::new("report-parts").await;
        org.add_nodes(&["n"]).await;
        store(&org, "gone", Some(("0", 1)), None, 1).await;
        for (statistics, engine, now, expected) in [
            (Some(("1", 10)), None, 10, [Some("1"), None]),
            (Some(("2", 9)), Some(("3", 9)), 10, [Some("1"), Some("3")]),
            (None, Some(("4", 11)), 11, [Some("1"), Some("4")]),
            (Some(("5", 30)), None, 30, [Some("5"), Some("4")]),
            // The clock was set back: what is stored lies in the future.
            (Some(("6", 24)), None, 24, [Some("6"), Some("4")]),
        ] {
            store(&org, "n", statistics, engine, now).await;
            let mut connection = org.connection().await;
            let found = find_report(&mut connection, &org, "n").await.unwrap().unwrap();
            assert_eq!(texts(&found.fast), expected);
        }
    }

    #[tokio::test]
    async fn page_of_statistics_has_nodes_of_which_a_part_is_recent() {
        let org = Org::new("report-pages").await;
        org.add_nodes(&["a", "b", "c", "d"]).await;
        store(&org, "a", Some(("1", 5)), None, 5).await;
        store(&org, "b", Some(("2", 4)), Some(("3", 4)), 5).await;
        store(&org, "c", Some(("4", 4)), Some(("5", 5)), 5).await;
        store(&org, "d", None, Some(("6", 9)), 9).await;
        let mut connection = org.connection().await;
        let mut page = async |after: Option<&str>| {
            let rows = list_statistics(&mut connection, &org, at(5), after, 2).await.unwrap();
            rows.into_iter().map(|(node, _)| node).collect::<Vec<_>>()
        };
        assert_eq!(page(None).await, ["a", "c"]);
        assert_eq!(page(Some("c")).await, ["d"]);
    }

    #[tokio::test]
    async fn time_of_the_monitor_state_changes_with_the_state_alone() {
        let org = Org::new("report-monitor").await;
        org.add_nodes(&["n"]).await;
        for (state, version, second, is_changed, since) in [
            (None, Some(1), 1, true, None),
            (Some("idle"), None, 2, true, Some(2)),
            (Some("idle"), Some(1), 3, false, Some(2)),
            (Some("idle"), Some(2), 4, true, Some(2)),
            (Some("upgrade"), None, 5, true, Some(5)),
        ] {
            let set = async |tx: &mut Permitted<right::NodeReport>| {
                set_monitor_state(tx, &org, "n", (state, version), at(second)).await
            };
            assert_eq!(org.write(set).await, is_changed, "{second}");
            let mut connection = org.connection().await;
            let found = find_report(&mut connection, &org, "n").await.unwrap().unwrap();
            assert_eq!(found.monitor_state_since, since.map(at), "{second}");
        }
    }
}
