//! Contents of an organization: its groups, its workloads, and their health.

use std::collections::BTreeMap;

use evenkeel_client::HealthSubject;
use evenkeel_wire::agbot::health::{HealthEvaluation, HealthQuery};
use evenkeel_wire::agbot::orchestration::WorkloadStatus;
use evenkeel_wire::agbot::upgrade::UpgradesResponse;
use evenkeel_wire::exchange::ha_group::HaGroupResponse;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::node_report::{NodeMonitorState, NodeStatistics, ReportedMachine};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::lines::{self, Line};
use crate::context::{Context, Exchange};
use crate::exchange::node_state::{DownAfter, NodeHealth, NodeState};
use crate::exchange::orch::status;
use crate::exit::{Exit, Outcome};
use crate::output::{Table, View};
use crate::resource::kinds::POLICIES;
use crate::resource::members_of;

/// Entities whose health is asked for at once.
const MOST_CHILDREN: u16 = 10_000;

/// A node as a line shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Its state.
    pub state: String,
    /// Reason why it is missing; none while it is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absence: Option<String>,
    /// True if nothing starts, stops or moves on it by itself.
    pub is_frozen: bool,
    /// Its load, the memory in use, and its agent.
    pub machine: String,
}

/// Contents of an organization.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The HA groups, each with its claims; none where the agbot does not show them to the caller.
    pub groups: Vec<(HaGroupResponse, Option<UpgradesResponse>)>,
    /// The workloads, as sent and as read.
    pub workloads: Vec<(Value, WorkloadStatus)>,
    /// Health of entities that are not Ok, by kind and id.
    pub health: BTreeMap<(String, String), String>,
    /// The nodes that can be read, by `org/node`.
    pub nodes: BTreeMap<String, NodeSummary>,
    /// The organization.
    pub org: String,
}

impl Overview {
    /// Returns the lines of the tree.
    pub fn lines(&self) -> Vec<Line> {
        lines::of(self)
    }

    /// Returns the tree as one result.
    pub fn view(&self) -> View {
        let rows = self.lines().into_iter().map(|line| line.cells.into()).collect();
        let table = Table { rows, ..Table::new(&lines::HEADER).keeping(&["avail", "state", "message"]) };
        let groups =
            self.groups.iter().map(|(group, upgrades)| json!({"group": group, "upgrades": upgrades}));
        let workloads = self.workloads.iter().map(|(document, _)| document.clone());
        let unhealthy = self
            .health
            .iter()
            .map(|((entity, id), state)| json!({"entity": entity, "id": id, "state": state}));
        let document = json!({
            "groups": groups.collect::<Vec<_>>(),
            "workloads": workloads.collect::<Vec<_>>(),
            "nodes": self.nodes,
            "unhealthy": unhealthy.collect::<Vec<_>>(),
        });
        View::new(document, table)
    }
}

/// Reads the fleet.
///
/// # Errors
/// With status 5 when exchange or agbot do not respond.
pub async fn read(context: &Context, exchange: &Exchange) -> Outcome<Overview> {
    let agbot = context.agbot(exchange)?;
    let org = exchange.org.clone();
    let mut overview = Overview { org: org.clone(), ..Overview::default() };
    let doing = "reading the HA groups";
    let groups = exchange.server.client.list_ha_groups(&org).await;
    for group in groups.map_err(|error| exchange.server.failed(doing, &error))? {
        let upgrades = match agbot.client.upgrades(&org, &group.name).await {
            Ok(upgrades) => Some(upgrades),
            // Claims are shown to those who may read the group; it may have been deleted meanwhile.
            Err(error) if error.status() == Some(403) || error.is_not_found() => None,
            Err(error) => return Err(agbot.failed(&format!("reading the claims of {}", group.name), &error)),
        };
        overview.groups.push((group, upgrades));
    }
    for policy in members_of(POLICIES.read(exchange, None).await?).keys() {
        match status::read_status(context, exchange, policy, None).await {
            Ok(status) => overview.workloads.push(status),
            // It was deleted meanwhile.
            Err(error) if error.exit == Exit::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    overview.nodes = nodes(context, exchange).await?;
    let (subject, doing) = (HealthSubject::Org { org }, "reading the health of the organization");
    let query = HealthQuery { limit: Some(MOST_CHILDREN), ..HealthQuery::default() };
    if let Some(found) = agbot.call(doing, agbot.client.health_record(&subject, &query)).await? {
        let typed: HealthEvaluation = agbot.read(doing, &found)?;
        let unhealthy =
            typed.child_health_states.into_iter().filter(|child| child.aggregated_health_state != "Ok");
        overview.health =
            unhealthy.map(|child| ((child.entity, child.id), child.aggregated_health_state)).collect();
    }
    Ok(overview)
}

async fn nodes(context: &Context, exchange: &Exchange) -> Outcome<BTreeMap<String, NodeSummary>> {
    let Exchange { server, org, .. } = exchange;
    let nodes = server.call("reading the nodes", server.client.list_nodes(org)).await?;
    let down_after = DownAfter::read(context, exchange, org).await?;
    let machines = match server.client.list_node_statistics(org, None).await {
        // Other hubs have none.
        Ok(found) => found.unwrap_or_default(),
        // A caller who may read nodes may not be permitted to read these.
        Err(error) if error.status() == Some(403) => BTreeMap::new(),
        Err(error) => return Err(server.failed("reading the statistics of the nodes", &error)),
    };
    let now = Timestamp::now();
    let summaries = nodes.into_iter().map(|(id, node)| {
        let health = NodeHealth::of(&node, now, down_after);
        (id.to_string(), summary(&node, health, machines.get(&id)))
    });
    Ok(summaries.collect())
}

fn summary(node: &NodeResponse, health: NodeHealth, machine: Option<&ReportedMachine>) -> NodeSummary {
    let absence = absence(node, health);
    let announced = node.orchestration_status.as_ref().map(|status| status.monitor_state);
    let announced = announced.filter(|state| *state != NodeMonitorState::Idle);
    let paused = node.orchestration.as_ref().filter(|asked| asked.availability == Availability::Pause);
    let state = match (health.state, announced, paused) {
        (NodeState::Up, Some(state), _) => state.word().to_owned(),
        (NodeState::Up, None, Some(_)) => "paused".to_owned(),
        (state, ..) => state.word().to_lowercase(),
    };
    NodeSummary {
        state,
        is_frozen: node.orchestration.as_ref().is_some_and(|asked| asked.frozen),
        machine: machine_text(node, machine.filter(|_| absence.is_none()).map(|machine| &machine.statistics)),
        absence,
    }
}

/// Returns the load average over 15 minutes, the share of the memory in use, and the version of the agent with its compatibility version.
fn machine_text(node: &NodeResponse, statistics: Option<&NodeStatistics>) -> String {
    let load = statistics.and_then(|one| one.load15).map(|load| format!("load {load:.2}"));
    let memory = statistics.and_then(|one| Some((one.mem_total_mb?, one.mem_avail_mb?)));
    let memory = memory.filter(|(total, _)| *total > 0).map(|(total, available)| {
        let used = total.saturating_sub(available);
        format!("mem {}%", used.saturating_mul(100) / total)
    });
    let versions = node.software_versions().unwrap_or_default();
    let compat = node.orchestration_status.as_ref().and_then(|status| status.compat_version);
    let compat = compat.map(|version| format!(" ({version})")).unwrap_or_default();
    let agent = versions.get("horizon").map(|version| format!("{version}{compat}"));
    load.into_iter().chain(memory).chain(agent).collect::<Vec<String>>().join(", ")
}

/// Returns why a node is unavailable: it is down, has stopped, or is intentionally away for a while.
fn absence(node: &NodeResponse, health: NodeHealth) -> Option<String> {
    let monitor_state = node.orchestration_status.as_ref().map(|status| status.monitor_state);
    let word = match (monitor_state, health.state) {
        (_, NodeState::Stopped) => "stopped",
        (Some(NodeMonitorState::Maintenance), _) => "away for maintenance",
        (Some(NodeMonitorState::Upgrade), _) => "away for an upgrade",
        (_, NodeState::Down) => "down",
        (_, NodeState::New | NodeState::Up | NodeState::Draining) => return None,
    };
    let text = health.text();
    let age = text.split_once(", ").map_or("", |(_, age)| age);
    Some(format!("node {word}, {age}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_shows_state_load_memory_and_agent() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let document = json!({
            "lastHeartbeat": "2026-03-01T11:59:50Z[UTC]", "softwareVersions": {"horizon": "1.2.0"},
            "orchestrationStatus": {"monitorState": "idle", "compatVersion": 5},
        });
        let machine: ReportedMachine =
            serde_json::from_value(json!({"load15": 0.425, "memTotalMb": 4000, "memAvailMb": 1000})).unwrap();
        let found = |document: Value, secs| {
            let node: NodeResponse = serde_json::from_value(document).unwrap();
            summary(&node, NodeHealth::of(&node, now, DownAfter::of_secs(secs)), Some(&machine))
        };
        let up = found(document.clone(), 60);
        assert_eq!((up.state.as_str(), up.machine.as_str()), ("up", "load 0.42, mem 75%, 1.2.0 (5)"));
        // The last report of a node without heartbeats is outdated.
        let down = found(document.clone(), 5);
        assert_eq!((down.state.as_str(), down.machine.as_str()), ("down", "1.2.0 (5)"));
        let mut paused = document;
        paused["orchestration"] = json!({"availability": "pause", "frozen": true});
        let paused = found(paused, 60);
        assert_eq!((paused.state.as_str(), paused.is_frozen), ("paused", true));
    }

    #[test]
    fn node_that_is_down_or_away_is_absent() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let found = |node: Value| {
            let node: NodeResponse = serde_json::from_value(node).unwrap();
            absence(&node, NodeHealth::of(&node, now, DownAfter::of_secs(60)))
        };
        let (fresh, old) = ("2026-03-01T11:59:50Z[UTC]", "2026-03-01T11:55:00Z[UTC]");
        assert_eq!(found(json!({"lastHeartbeat": fresh})), None);
        assert_eq!(found(json!({})), None);
        assert_eq!(found(json!({"lastHeartbeat": old})).as_deref(), Some("node down, last heartbeat 5m ago"));
        let away = json!({"lastHeartbeat": fresh, "orchestrationStatus": {"monitorState": "maintenance"}});
        assert_eq!(found(away).as_deref(), Some("node away for maintenance, last heartbeat 10s ago"));
        // An agent announces a maintenance before it stops.
        let stopped = json!({"lastHeartbeat": fresh, "agentState": "stopped", "orchestrationStatus": {"monitorState": "maintenance"}});
        assert_eq!(found(stopped).as_deref(), Some("node stopped, last heartbeat 10s ago"));
    }
}
