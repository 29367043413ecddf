//! One node: its state, what runs on it, its statistics, its state against every deployment policy, and what happened on it.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_client::ClientError;
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::event::EventsQuery;
use evenkeel_wire::agbot::fleet::{FleetNode, FleetNodesQuery};
use evenkeel_wire::agbot::history::{HistoryChange, HistoryDiffQuery};
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_orchestration::NodeOrchestrationResponse;
use jiff::{SignedDuration, Timestamp};

use super::events::EventRow;
use super::moment::Moment;
use super::node_parts::{NodeFigures, NodeInstance, figures, instances, timeline};
use crate::action::Control;
use crate::address::{address_of, with_fields};
use crate::document::{Revisable, RevisableKind};
use crate::failure::Failure;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Events that are read.
const EVENTS: i64 = 30;

/// Rows of the timeline.
const TIMELINE: usize = 40;

/// States of the last day that are read.
const STATES: u16 = 60;

/// State of the node against one policy.
struct PolicyRow {
    name: String,
    href: String,
    why: String,
    state: &'static str,
    version: String,
    text: String,
}

#[derive(Template)]
#[template(path = "node.html")]
struct Page {
    name: String,
    record: NodeResponse,
    fleet: FleetNode,
    seen: Option<Moment>,
    group_href: String,
    policies: Vec<PolicyRow>,
    instances: Vec<NodeInstance>,
    figures: NodeFigures,
    /// Fault domain, upgrade domain and capacities, as far as the operator set them.
    placement: Vec<(&'static str, String)>,
    events: Vec<EventRow>,
    history_href: String,
    controls: Vec<Control>,
    /// Addresses of the revisions of its policy and of its settings.
    documents: [String; 2],
    /// Confirms that a node that is down is dead.
    fence: Option<Control>,
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let (node, now) = (NodeId::new(&org, &name), Timestamp::now());
    let events = EventsQuery { node: Some(name.clone()), limit: Some(EVENTS), ..EventsQuery::default() };
    let (record, fleet, reasons, events, account) = tokio::try_join!(
        async { Ok(reader.client.node(&node).await?) },
        of_fleet(&reader, &node),
        reads::reasons(&reader, &node),
        reads::events(&reader, &org, &events),
        reads::account(&reader),
    )?;
    let (status, tasks, settings, changes) = tokio::try_join!(
        async { Ok::<_, Failure>(reader.client.node_status(&node).await?) },
        async { Ok(reader.client.list_node_tasks(&node).await?.unwrap_or_default()) },
        settings_of(&reader, &node),
        changes_of(&reader, &node, now),
    )?;
    let record = record.ok_or_else(|| Failure::Missing(format!("the node {node} does not exist")))?;
    let objection = account.objection(&org, Some(&record.owner));
    let policies = reasons.into_iter().map(|reason| {
        let policy = bare_name(&org, reason.policy.as_str()).to_owned();
        let placement = reason.placement();
        let href = address_of(&org, &["policies", &policy]);
        let why = with_fields(&format!("{href}/why"), [("node", name.as_str())]);
        let is_foreign = policy.contains('/');
        PolicyRow {
            why: if is_foreign { String::new() } else { why },
            href: if is_foreign { String::new() } else { href },
            state: match (placement.placement.as_str(), placement.is_running) {
                ("placed", true) => "up",
                ("placed", false) => "warn",
                ("not-placed", _) => "none",
                _ => "wait",
            },
            version: placement.version,
            text: reason.text,
            name: policy,
        }
    });
    let page = Page {
        seen: Moment::known(fleet.last_heartbeat.as_deref(), now),
        group_href: fleet
            .group
            .as_deref()
            .map(|group| address_of(&org, &["groups", group]))
            .unwrap_or_default(),
        policies: policies.collect(),
        instances: instances(&org, status.as_ref(), &tasks),
        figures: figures(&settings.status, now),
        placement: placement_of(&settings),
        events: timeline(&org, events, &changes, TIMELINE, now),
        history_href: with_fields(&address_of(&org, &["history"]), [("node", name.as_str())]),
        controls: Control::of_node(&org, &name, &fleet, &objection),
        documents: [RevisableKind::NodePolicy, RevisableKind::NodeSettings]
            .map(|kind| Revisable::new(kind, &org, &name).href()),
        fence: (fleet.state == "down")
            .then(|| Control::of_fence(&org, &name, &account.objection(&org, None))),
        name: name.clone(),
        record,
        fleet,
    };
    Ok(layout::show(&reader, &org, Tab::Nodes, &name, &page))
}

/// Returns the node as the agbot sees it; one that it has not read yet was never heard of.
async fn of_fleet(reader: &Reader, node: &NodeId) -> Result<FleetNode, Failure> {
    let query = FleetNodesQuery { node: Some(node.name().to_owned()), ..FleetNodesQuery::default() };
    let found = reads::nodes(reader, node.org(), &query).await?.nodes.pop();
    Ok(found.unwrap_or_else(|| FleetNode { state: "never-heard".to_owned(), ..FleetNode::default() }))
}

async fn settings_of(reader: &Reader, node: &NodeId) -> Result<NodeOrchestrationResponse, Failure> {
    let record = reader.client.node_orchestration_record(node).await?;
    let settings = record.map(|record| record.read().map_err(ClientError::from)).transpose()?;
    Ok(settings.unwrap_or_default())
}

/// Returns the states of the node that began or ended during the last day.
async fn changes_of(reader: &Reader, node: &NodeId, now: Timestamp) -> Result<Vec<HistoryChange>, Failure> {
    let query = |from: Option<Timestamp>| HistoryDiffQuery {
        from: from.map(|from| from.to_string()),
        node: Some(node.name().to_owned()),
        limit: Some(STATES),
        ..HistoryDiffQuery::default()
    };
    let day_ago = query(Some(now - SignedDuration::from_hours(24)));
    let found = match reads::history_changes(reader, node.org(), &day_ago).await {
        // The history began later; without an instant it begins with what it has.
        Err(failure) if failure.is_input() => {
            reads::history_changes(reader, node.org(), &query(None)).await?
        }
        found => found?,
    };
    Ok(found.changes)
}

fn placement_of(settings: &NodeOrchestrationResponse) -> Vec<(&'static str, String)> {
    let spec = &settings.spec;
    let capacities: Vec<String> =
        spec.capacities.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
    let rows = [
        ("Fault domain", spec.fault_domain.clone().unwrap_or_default()),
        ("Upgrade domain", spec.upgrade_domain.clone().unwrap_or_default()),
        ("Capacities", capacities.join(", ")),
    ];
    rows.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    #[test]
    fn page_escapes_what_nodes_and_users_wrote() {
        let record: NodeResponse = serde_json::from_value(json!({
            "token": "********", "name": HOSTILE, "owner": HOSTILE, "nodeType": "device", "pattern": HOSTILE, "registeredServices": [],
            "userInput": [], "msgEndPoint": "", "softwareVersions": {}, "lastHeartbeat": null, "publicKey": "", "arch": HOSTILE,
            "heartbeatIntervals": {}, "ha_group": null, "lastUpdated": "t", "clusterNamespace": "", "isNamespaceScoped": false,
        }))
        .expect("a node");
        let instance = NodeInstance {
            name: HOSTILE.into(),
            state: HOSTILE.into(),
            containers: vec![HOSTILE.into()],
            exit: HOSTILE.into(),
            output: HOSTILE.into(),
            log: HOSTILE.into(),
            ..NodeInstance::default()
        };
        let fleet =
            FleetNode { agent_version: HOSTILE.into(), group: Some(HOSTILE.into()), ..FleetNode::default() };
        let page = Page {
            documents: [String::new(), String::new()],
            name: HOSTILE.into(),
            record,
            seen: None,
            group_href: String::new(),
            policies: Vec::new(),
            instances: vec![instance],
            figures: NodeFigures { rows: vec![("Address", HOSTILE.into())], ..NodeFigures::default() },
            placement: vec![("Fault domain", HOSTILE.into())],
            events: Vec::new(),
            history_href: String::new(),
            controls: Vec::new(),
            fence: Some(Control::of_fence("o", HOSTILE, "only administrators of o may do this")),
            fleet,
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img"), "{text}");
        for part in ["Timeline", "Last output", "disabled title=\"only administrators of o may do this\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
