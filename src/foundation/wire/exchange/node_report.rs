//! Reports of a node about itself for placement and maintenance: its monitor state, its statistics, and its
//! container engine.
//!
//! Source: orchestration 1.7, A10.

use core::net::IpAddr;
use std::collections::BTreeMap;

use evenkeel_domain::object::{Members, MembersError, Object};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::agent_run::NodeAgent;

const REPORT: Members = Members { known: PutNodeReport::MEMBERS, unsupported: &[] };
const STATISTICS: Members = Members {
    known: &[
        "load1",
        "load5",
        "load15",
        "memTotalMb",
        "memAvailMb",
        "swapTotalMb",
        "swapAvailMb",
        "address",
        "addresses",
        "at",
    ],
    unsupported: &[],
};
const ENGINE: Members = Members { known: &["state", "status", "at"], unsupported: &[] };
/// Maximum load average and size that are accepted as measurements.
const GREATEST_LOAD: f64 = 1_000_000.0;
const GREATEST_SIZE: u64 = 1 << 40;
/// Longest IP address, in bytes.
const LONGEST_ADDRESS: usize = 45;
/// Maximum number of addresses of a node, and maximum length of the name of an interface in bytes.
const MOST_ADDRESSES: usize = 32;
const LONGEST_INTERFACE: usize = 64;
/// Maximum compatibility version, which every JSON parser represents exactly.
const GREATEST_VERSION: u64 = (1 << 53) - 1;

/// Activity of a node's agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", from = "Value")]
pub enum NodeMonitorState {
    /// Nothing that others have to wait for.
    #[default]
    Idle,
    /// It has started, and has not yet reported its services.
    Init,
    /// It was stopped intentionally, and is expected back soon.
    Maintenance,
    /// It was stopped for an upgrade of its agent.
    Upgrade,
    /// It is stopping.
    Shutting,
}

impl NodeMonitorState {
    /// Every state, in the order of the specification.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Init, Self::Maintenance, Self::Upgrade, Self::Shutting];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Init => "init",
            Self::Maintenance => "maintenance",
            Self::Upgrade => "upgrade",
            Self::Shutting => "shutting",
        }
    }

    /// Returns the activity for a word; a word of another version counts as `idle`, the default.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|one| one.word() == word).unwrap_or_default()
    }
}

impl From<Value> for NodeMonitorState {
    fn from(value: Value) -> Self {
        value.as_str().map(Self::of_word).unwrap_or_default()
    }
}

/// Statistics of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatistics {
    /// Load average over one minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load1: Option<f64>,
    /// Load average over 5 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load5: Option<f64>,
    /// Load average over 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load15: Option<f64>,
    /// Memory, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_total_mb: Option<u64>,
    /// Memory that services could get, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_avail_mb: Option<u64>,
    /// Swap space, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total_mb: Option<u64>,
    /// Free swap space, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_avail_mb: Option<u64>,
    /// The address by which other nodes reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Every address of it, with its interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// When the exchange received them. The node's own time is checked, but not used, because clocks of nodes differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// An address of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAddress {
    /// Name of its network interface.
    #[schema(required = true)]
    pub interface: String,
    /// The IP address.
    #[schema(required = true)]
    pub address: String,
}

/// State of a node's container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// It responds.
    Up,
    /// It does not respond.
    Down,
}

/// Intended use of a node's container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineStatus {
    /// It is.
    Enabled,
    /// It is not.
    Disabled,
}

/// The container engine of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEngine {
    /// State of the engine.
    pub state: EngineState,
    /// Intended use of the engine.
    pub status: EngineStatus,
    /// When the exchange received it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Report of a node about itself; members that are left out keep their values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "Value", deny_unknown_fields)]
pub struct PutNodeReport {
    /// Activity of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor_state: Option<NodeMonitorState>,
    /// Compatibility version, which must be the same on all nodes of a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compat_version: Option<i64>,
    /// Its statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<NodeStatistics>,
    /// Its container engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<NodeEngine>,
}

impl PutNodeReport {
    /// Names of the members.
    pub const MEMBERS: &'static [&'static str] = &["monitorState", "compatVersion", "stats", "engine"];

    /// A report of the monitor state alone.
    #[must_use]
    pub fn monitor_state(state: NodeMonitorState) -> Self {
        Self { monitor_state: Some(state), ..Self::default() }
    }
}

impl TryFrom<Value> for PutNodeReport {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let mut report = Object::open(String::new(), value, &REPORT)?;
        let words = NodeMonitorState::ALL.map(|one| (one.word(), Some(one)));
        let read = Self {
            monitor_state: report.word("monitorState", &words)?,
            compat_version: report.number("compatVersion", 0..=GREATEST_VERSION)?,
            stats: report.object("stats", &STATISTICS)?.map(statistics).transpose()?,
            engine: report.object("engine", &ENGINE)?.map(engine).transpose()?,
        };
        if read == Self::default() {
            return Err(report.broken("monitorState", "compatVersion, stats or engine must be given"));
        }
        Ok(read)
    }
}

fn statistics(mut given: Object) -> Result<NodeStatistics, MembersError> {
    instant(&mut given)?;
    Ok(NodeStatistics {
        load1: given.quantity("load1", GREATEST_LOAD)?,
        load5: given.quantity("load5", GREATEST_LOAD)?,
        load15: given.quantity("load15", GREATEST_LOAD)?,
        mem_total_mb: given.number("memTotalMb", 0..=GREATEST_SIZE)?,
        mem_avail_mb: given.number("memAvailMb", 0..=GREATEST_SIZE)?,
        swap_total_mb: given.number("swapTotalMb", 0..=GREATEST_SIZE)?,
        swap_avail_mb: given.number("swapAvailMb", 0..=GREATEST_SIZE)?,
        address: address(&mut given)?,
        addresses: addresses(&mut given)?,
        at: None,
    })
}

fn address(given: &mut Object) -> Result<Option<String>, MembersError> {
    let text = given.text("address", LONGEST_ADDRESS)?;
    match text.as_deref().map(str::parse::<IpAddr>) {
        Some(Err(_)) => Err(given.broken("address", "must be an IP address")),
        _ => Ok(text),
    }
}

fn addresses(given: &mut Object) -> Result<Vec<NodeAddress>, MembersError> {
    let Some(value) = given.take("addresses") else { return Ok(Vec::new()) };
    let rule = format!(
        "must be a list of at most {MOST_ADDRESSES} objects with interface and address, an IP address"
    );
    let found: Option<Vec<NodeAddress>> = serde_json::from_value(value).ok();
    let is_good = |one: &NodeAddress| {
        (1..=LONGEST_INTERFACE).contains(&one.interface.len()) && one.address.parse::<IpAddr>().is_ok()
    };
    found
        .filter(|found| found.len() <= MOST_ADDRESSES && found.iter().all(is_good))
        .ok_or_else(|| given.broken("addresses", &rule))
}

fn engine(mut given: Object) -> Result<NodeEngine, MembersError> {
    instant(&mut given)?;
    let state = given.word("state", &[("up", Some(EngineState::Up)), ("down", Some(EngineState::Down))])?;
    let words = [("enabled", Some(EngineStatus::Enabled)), ("disabled", Some(EngineStatus::Disabled))];
    let status = given.word("status", &words)?;
    Ok(NodeEngine {
        state: state.ok_or_else(|| given.broken("state", "must be given: up or down"))?,
        status: status.unwrap_or(EngineStatus::Enabled),
        at: None,
    })
}

/// Checks the time of a measurement.
fn instant(given: &mut Object) -> Result<(), MembersError> {
    let Some(at) = given.take("at") else { return Ok(()) };
    let parsed = at.as_str().and_then(|at| at.parse::<Timestamp>().ok());
    parsed.map(drop).ok_or_else(|| given.broken("at", "must be an ISO 8601 date and time with its zone"))
}

/// Liveness of a node, as the exchange sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Its heartbeats arrive, or it is intentionally away for a while.
    Ready,
    /// Its heartbeats stopped.
    Down,
    /// No heartbeat was seen since it was created.
    #[default]
    Unknown,
}

/// The last report of a node, and whether it is alive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeReportResponse {
    /// Liveness of the node.
    #[schema(required = true)]
    pub state: NodeState,
    /// Activity of the agent.
    #[schema(required = true)]
    pub monitor_state: NodeMonitorState,
    /// Since when; none before its first report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor_state_since: Option<String>,
    /// Compatibility version, which must be the same on all nodes of a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compat_version: Option<i64>,
    /// Its last statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<NodeStatistics>,
    /// Its container engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<NodeEngine>,
    /// Its last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<String>,
}

/// Activity and identity of a node's agent, as they are shown with the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeOrchestrationStatus {
    /// Activity of the agent.
    #[schema(required = true)]
    pub monitor_state: NodeMonitorState,
    /// Since when; none before its first report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor_state_since: Option<String>,
    /// Compatibility version, which must be the same on all nodes of a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compat_version: Option<i64>,
    /// The agent itself; none for agents that do not name themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<NodeAgent>,
}

/// Selection of statistics of nodes.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct NodeStatisticsQuery {
    /// Only reports that the exchange received since this time.
    pub since: Option<String>,
}

/// The statistics and the container engines of the nodes of an organization.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodesStatisticsResponse {
    /// By `org/node`.
    #[schema(required = true)]
    pub nodes: BTreeMap<String, ReportedMachine>,
}

/// The last statistics and the container engine of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedMachine {
    /// Its statistics.
    #[serde(flatten)]
    pub statistics: NodeStatistics,
    /// Its container engine; none when it never reported one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<NodeEngine>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusal_names_the_member_and_the_rule() {
        for (value, expected) in [
            (json!([]), "the body must be an object"),
            (json!({}), "monitorState compatVersion, stats or engine must be given"),
            (
                json!({"monitorState": "away"}),
                "monitorState must be idle, init, maintenance, upgrade or shutting",
            ),
            (json!({"compatVersion": -1}), "compatVersion must be an integer from 0 to 9007199254740991"),
            (json!({"compatVersion": 1.5}), "compatVersion must be an integer from 0 to 9007199254740991"),
            (json!({"stats": 5}), "stats must be an object"),
            (json!({"stats": {"load15": -0.1}}), "stats.load15 must be a number from 0 to 1000000"),
            (json!({"stats": {"load15": "1"}}), "stats.load15 must be a number from 0 to 1000000"),
            (
                json!({"stats": {"memTotalMb": 1.5}}),
                "stats.memTotalMb must be an integer from 0 to 1099511627776",
            ),
            (json!({"stats": {"at": "now"}}), "stats.at must be an ISO 8601 date and time with its zone"),
            (json!({"stats": {"load2": 1}}), "stats.load2 is not known; load1 was probably meant"),
            (json!({"stats": {"address": "edge.example"}}), "stats.address must be an IP address"),
            (json!({"engine": {"status": "enabled"}}), "engine.state must be given: up or down"),
            (json!({"engine": {"state": "off"}}), "engine.state must be up or down"),
            (json!({"monitorstate": "idle"}), "monitorstate is not known; monitorState was probably meant"),
        ] {
            let refused = PutNodeReport::try_from(value.clone()).unwrap_err();
            assert_eq!(refused.to_string(), expected, "{value}");
        }
    }

    #[test]
    fn report_is_read_as_it_is_written() {
        let report = PutNodeReport {
            monitor_state: Some(NodeMonitorState::Maintenance),
            compat_version: Some(12),
            stats: Some(NodeStatistics {
                load15: Some(0.3),
                mem_total_mb: Some(4000),
                ..NodeStatistics::default()
            }),
            engine: Some(NodeEngine { state: EngineState::Up, status: EngineStatus::Enabled, at: None }),
        };
        let written = serde_json::to_value(&report).unwrap();
        assert_eq!(PutNodeReport::try_from(written).unwrap(), report);
        for state in NodeMonitorState::ALL {
            assert_eq!(NodeMonitorState::of_word(state.word()), state);
        }
    }
}
