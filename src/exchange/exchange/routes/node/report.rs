//! Reports of a node about itself: monitor state, statistics, container engine.
//!
//! Source: orchestration 1.7, A10.

use evenkeel_access::{Permission, right};
use evenkeel_api::WholeList;
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node;
use evenkeel_exchange_store::node_report::{self, FastReport, NodeReportRow, Received};
use evenkeel_wire::exchange::node::AgentState;
use evenkeel_wire::exchange::node_report::{
    NodeEngine, NodeMonitorState, NodeReportResponse, NodeState, NodeStatistics, NodeStatisticsQuery,
    NodesStatisticsResponse, PutNodeReport, ReportedMachine,
};
use evenkeel_wire::exchange::time::millisecond_time;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;

use super::{json, missing_node};
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::feed::visibility::NODE_REPORT;
use crate::operation::row::{get, put};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, ResourcePath};
use crate::org_settings::stored_settings;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

const TAG: &str = "node orchestration";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        put("/orgs/{organization}/nodes/{node}/orchestration/status", "report_node", report_node)
            .doc(TAG, "Reports the activity and the load of a node; members that are left out keep their values")
            .audit(Subject::NodeOrchestration)
            .success("recorded"),
        get("/orgs/{organization}/orchestration/statistics", "list_node_statistics", list_statistics)
            .doc(TAG, "Lists the last statistics and container engines of the nodes of an organization that report some")
            .success("the statistics"),
    ]
}

async fn report_node(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeReport>,
    Body(report): Body<PutNodeReport>,
) -> Result<Created, ApiError> {
    record(&op, &permission, report).await?;
    // Unlike a heartbeat it is acknowledged only when it is stored.
    op.exchange.flush_heartbeats().await?;
    Ok(created("node status updated"))
}

/// Records a report. Statistics and engine are kept with the heartbeats, and written with them; the rest is written if it changes anything.
pub(super) async fn record(
    op: &Op<ResourcePath>,
    permission: &Permission<right::NodeReport>,
    report: PutNodeReport,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let now = exchange.now();
    let PutNodeReport { monitor_state, compat_version, stats, engine } = report;
    let received = |text| Ok::<Received, ApiError>((text?, now));
    let fast = FastReport {
        statistics: stats.map(|stats| received(json(&stats))).transpose()?,
        engine: engine.map(|engine| received(json(&engine))).transpose()?,
    };
    let values = (monitor_state.map(NodeMonitorState::word), compat_version);
    if values != (None, None) {
        op.write(permission, "node_report.replace", async |mut tx| {
            let is_changed = node_report::set_monitor_state(&mut tx, org, id, values, now).await?;
            if !is_changed && !node::has_node(&mut tx, org, id).await? {
                return Err(missing_node(org, id));
            }
            tx.finish(is_changed.then(|| node_change(org, id, NODE_REPORT, "modified")))
        })
        .await?;
    }
    exchange.heartbeats().note_report(org, id, fast);
    Ok(())
}

/// The last report of a node, and whether it is alive.
pub(super) fn shown_report(
    exchange: &Exchange,
    org: &str,
    id: &str,
    row: NodeReportRow,
) -> Result<NodeReportResponse, ApiError> {
    let seen_at = exchange.heartbeats().latest_node(org, id, row.seen_at);
    let is_stopped = AgentState::of_word(&row.agent_state) == AgentState::Stopped;
    let settings = stored_settings(org, row.org_settings)?;
    let down_after = settings.node_down_after_secs().unwrap_or(exchange.settings().node_down_after_secs);
    let is_silent = |seen_at| {
        exchange.now().duration_since(seen_at) > SignedDuration::from_secs(down_after.cast_signed())
    };
    let FastReport { statistics, engine } = row.fast;
    Ok(NodeReportResponse {
        state: match seen_at {
            None => NodeState::Unknown,
            Some(_) if is_excused(&row.monitor_state, row.monitor_state_since, &settings, exchange.now()) => {
                NodeState::Ready
            }
            Some(seen_at) if is_stopped || is_silent(seen_at) => NodeState::Down,
            Some(_) => NodeState::Ready,
        },
        monitor_state: NodeMonitorState::of_word(&row.monitor_state),
        monitor_state_since: row.monitor_state_since.map(millisecond_time),
        compat_version: row.compat_version,
        stats: statistics.and_then(shown_statistics),
        engine: engine.and_then(shown_engine),
        last_heartbeat: seen_at.map(millisecond_time),
    })
}

/// Returns whether the agent announced that it is away, and its grace period is not over.
fn is_excused(monitor_state: &str, since: Option<Timestamp>, settings: &OrgSettings, now: Timestamp) -> bool {
    let grace_secs = match NodeMonitorState::of_word(monitor_state) {
        NodeMonitorState::Maintenance => settings.maintenance_grace_secs(),
        NodeMonitorState::Upgrade => settings.agent_upgrade_grace_secs(),
        NodeMonitorState::Idle | NodeMonitorState::Init | NodeMonitorState::Shutting => return false,
    };
    let grace = SignedDuration::from_secs(grace_secs.cast_signed());
    since.is_some_and(|since| now.duration_since(since) < grace)
}

fn shown_statistics((text, at): Received) -> Option<NodeStatistics> {
    Some(NodeStatistics { at: Some(millisecond_time(at)), ..read(&text)? })
}

fn shown_engine((text, at): Received) -> Option<NodeEngine> {
    Some(NodeEngine { at: Some(millisecond_time(at)), ..read(&text)? })
}

fn shown_machine(fast: FastReport) -> ReportedMachine {
    ReportedMachine {
        statistics: fast.statistics.and_then(shown_statistics).unwrap_or_default(),
        engine: fast.engine.and_then(shown_engine),
    }
}

/// Reads a stored report. An unreadable one is not shown, and the next report replaces it.
fn read<T: DeserializeOwned>(text: &serde_json::value::RawValue) -> Option<T> {
    serde_json::from_str(text.get())
        .inspect_err(|error| tracing::warn!(%error, "a stored report of a node cannot be read"))
        .ok()
}

async fn list_statistics(
    op: Op<OrgPath, Query<NodeStatisticsQuery>>,
    _: Permission<right::NodeReportsRead>,
) -> Result<WholeList<NodesStatisticsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, parameters: Query(query) } =
        op;
    let since = match query.since {
        None => Timestamp::UNIX_EPOCH,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::invalid_input("since must be an ISO 8601 date and time with its zone"))?,
    };
    exchange.flush_heartbeats().await?;
    pages::list(r#"{"nodes":{"#, "}}", move |after| page(exchange.clone(), org.clone(), since, after)).await
}

async fn page(
    exchange: Exchange,
    org: String,
    since: Timestamp,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let rows = exchange
        .database()
        .read(async |connection| {
            node_report::list_statistics(connection, &org, since, after.as_deref(), PAGE_ROWS).await
        })
        .await?;
    Ok(Page::object(
        rows,
        PAGE_ROWS,
        |(node, _)| node.clone(),
        |(node, fast)| (format!("{org}/{node}"), shown_machine(fast)),
    )?)
}
