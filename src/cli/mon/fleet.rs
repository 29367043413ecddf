//! Contents of an organization: its groups, its workloads, and their health.

use std::collections::BTreeMap;

use evenkeel_client::HealthSubject;
use evenkeel_wire::agbot::health::{HealthEvaluation, HealthQuery};
use evenkeel_wire::agbot::orchestration::WorkloadStatus;
use evenkeel_wire::agbot::upgrade::UpgradesResponse;
use evenkeel_wire::exchange::ha_group::HaGroupResponse;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::lines::{self, Line};
use crate::context::{Context, Exchange};
use crate::exchange::deployment::POLICIES;
use crate::exchange::node_state::{DownAfter, NodeHealth, NodeState};
use crate::exchange::orch::status;
use crate::exchange::resource::members_of;
use crate::exit::{Exit, Outcome};
use crate::output::{Table, View};

/// Entities whose health is asked for at once.
const MOST_CHILDREN: u16 = 10_000;

/// Contents of an organization.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The HA groups, each with its claims; none where the agbot does not show them to the caller.
    pub groups: Vec<(HaGroupResponse, Option<UpgradesResponse>)>,
    /// The workloads, as sent and as read.
    pub workloads: Vec<(Value, WorkloadStatus)>,
    /// Health of entities that are not Ok, by kind and id.
    pub health: BTreeMap<(String, String), String>,
    /// Reason why nodes that can be read are not there, by `org/node`.
    pub absences: BTreeMap<String, String>,
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
        let table =
            Table { rows, ..Table::new(&lines::HEADER).keeping(&["avail", "state", "status detail"]) };
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
            "unhealthy": unhealthy.collect::<Vec<_>>(),
        });
        View::new(document, table)
    }
}

/// Reads what there is.
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
    overview.absences = absences(context, exchange).await?;
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

async fn absences(context: &Context, exchange: &Exchange) -> Outcome<BTreeMap<String, String>> {
    let nodes = exchange.server.call("reading the nodes", exchange.server.client.list_nodes(&exchange.org));
    let down_after = DownAfter::read(context, exchange, &exchange.org).await?;
    let now = Timestamp::now();
    let absent = nodes.await?.into_iter().filter_map(|(id, node)| {
        let why = absence(&node, NodeHealth::of(&node, now, down_after))?;
        Some((id.to_string(), why))
    });
    Ok(absent.collect())
}

/// Returns why a node is not there: it is down, has stopped, or is away for a while on purpose.
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
