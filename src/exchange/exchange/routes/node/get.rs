//! Reading nodes.
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Caller, Decision, Facts, Permission, Role, Target, right};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::node::{self, NodeFilter, NodeRow};
use evenkeel_exchange_store::organization;
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::agent_run::NodeAgent;
use evenkeel_wire::exchange::node::{
    AgentState, AttributeQuery, NoMembers, NodeIdsResponse, NodeResponse, NodesQuery, NodesResponse,
};
use evenkeel_wire::exchange::node_report::{NodeMonitorState, NodeOrchestrationStatus};
use evenkeel_wire::exchange::time::{millisecond_time, wire_time};
use evenkeel_wire::exchange::utility::AttributeResponse;
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::filtered::NodeProperties;
use super::orchestration::shown_spec;
use super::parts::PartsOfNodes;
use super::validate::json;
use crate::agent_run::shown_agent;
use crate::conversation::shortened;
use crate::extract::Query;
use crate::operation::authorize::AskedLater;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::attribute;
use crate::{ApiError, Exchange};

/// The text that precedes the nodes of a list.
const OPEN: &str = r#"{"nodes":{"#;

/// Secrets read back as this.
pub(in crate::routes) const MASKED: &str = "***************";

pub(super) async fn list_nodes(
    op: Op<OrgPath, (Query<NodesQuery>, Paging)>,
    _: Permission<right::NodesRead>,
) -> Result<Either<List<NodesResponse>, List<NodeIdsResponse>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let is_of_ids = query.ids_only == Some(true);
    let filter = NodeFilter {
        id: query.idfilter,
        name: query.name,
        arch: query.arch,
        cluster_namespace: query.clusternamespace,
        owner: query.owner.filter(|_| caller.role != Role::Root && caller.visible_owner().is_none()),
        node_type: query.nodetype.as_deref().map(node_type).transpose()?,
        is_namespace_scoped: query.is_namespace_scoped,
        owned_by: caller.visible_owner(),
        range: None,
    };
    let filter = if exchange.database().orders_by_bytes() { filter.limit_range(&org) } else { filter };
    let list = (pages::object(OPEN, PAGE_ROWS), Some(org.as_str()));
    let wanted =
        Arc::new(Wanted { org: org.clone(), filter, has_parts: query.parts == Some(true) && !is_of_ids });
    let counted = (exchange.clone(), wanted.clone());
    let count = |most| count(counted, most);
    if paging.is_filtered() {
        let load = move |after, rows| {
            page_to_filter((exchange.clone(), caller.clone()), wanted.clone(), is_of_ids, after, rows)
        };
        return pages::list_or_page(list, paging, load, count).await.map(Either::First);
    }
    if is_of_ids {
        let load = move |after, rows| page_of_ids(exchange.clone(), wanted.clone(), after, rows);
        return pages::list_or_page(list, paging, load, count).await.map(Either::Second);
    }
    let load = move |after, rows| page(exchange.clone(), caller.clone(), wanted.clone(), after, rows);
    pages::list_or_page(list, paging, load, count).await.map(Either::First)
}

/// The nodes of a list.
struct Wanted {
    org: String,
    filter: NodeFilter,
    /// With policies and statuses.
    has_parts: bool,
}

async fn count((exchange, wanted): (Exchange, Arc<Wanted>), most: i64) -> Result<i64, ApiError> {
    let Wanted { org, filter, .. } = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| node::count_nodes(connection, org, filter, most).await)
        .await?;
    Ok(count)
}

async fn page_of_ids(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let Wanted { org, filter, .. } = &*wanted;
    let ids = exchange
        .database()
        .read(async |connection| node::list_node_ids(connection, org, filter, after.as_deref(), rows).await)
        .await?;
    Ok(Page::object(ids, rows, String::clone, |id| (format!("{org}/{id}"), NoMembers {}))?)
}

async fn read(
    exchange: &Exchange,
    Wanted { org, filter, .. }: &Wanted,
    after: Option<String>,
    rows: i64,
) -> Result<Vec<NodeRow>, ApiError> {
    let found = exchange
        .database()
        .read(async |connection| node::list_nodes(connection, org, filter, after.as_deref(), rows).await)
        .await?;
    Ok(found)
}

async fn page(
    exchange: Exchange,
    caller: Arc<Caller>,
    wanted: Arc<Wanted>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let found = read(&exchange, &wanted, after, rows).await?;
    let mut parts = parts(&exchange, &wanted, &found).await?;
    let keyed_response = |row: NodeRow| {
        let parts = parts.as_mut().map(|parts| parts.take(&row.node));
        (format!("{}/{}", row.org, row.node), NodeResponse { parts, ..response(&exchange, &caller, row) })
    };
    Ok(Page::object(found, rows, |row| row.node.clone(), keyed_response)?)
}

/// Policies and statuses of the nodes of a page, if they were requested.
async fn parts(
    exchange: &Exchange,
    wanted: &Wanted,
    found: &[NodeRow],
) -> Result<Option<PartsOfNodes>, ApiError> {
    if !wanted.has_parts {
        return Ok(None);
    }
    let names: Vec<String> = found.iter().map(|row| row.node.clone()).collect();
    PartsOfNodes::read(exchange, &wanted.org, &names).await.map(Some)
}

/// Nodes, or only their ids, with what filters read of them: the record, and the properties of the policy.
async fn page_to_filter(
    (exchange, caller): (Exchange, Arc<Caller>),
    wanted: Arc<Wanted>,
    is_of_ids: bool,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let found = read(&exchange, &wanted, after, rows).await?;
    let names: Vec<String> = found.iter().map(|row| row.node.clone()).collect();
    let mut properties = NodeProperties::read(&exchange, &wanted.org, &names).await?;
    let mut parts = parts(&exchange, &wanted, &found).await?;
    let mut page = Page::after(&found, rows, |row| row.node.clone());
    for row in found {
        let (key, node) = (format!("{}/{}", row.org, row.node), row.node.clone());
        let response = response(&exchange, &caller, row);
        let subject = properties.subject(&node, response.ha_group.as_deref(), &response)?;
        let parts = parts.as_mut().map(|parts| parts.take(&node));
        let response = NodeResponse { parts, ..response };
        if is_of_ids {
            page.insert(&key, &NoMembers {})?;
        } else {
            page.insert(&key, &response)?;
        }
        page.set_subject(subject);
    }
    Ok(page)
}

/// The kind of node a filter names, in any case.
pub(in crate::routes) fn node_type(text: &str) -> Result<String, ApiError> {
    let kind = text.to_ascii_lowercase();
    match kind.as_str() {
        "device" | "cluster" => Ok(kind),
        _ => Err(ApiError::invalid_input(format!("'{text}' is not a type of node: device or cluster"))),
    }
}

/// Reads a node with one statement: the row itself determines whether the caller may read it.
pub(super) async fn get_node(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    right: AskedLater<right::NodeRead>,
) -> Result<Either<Json<NodesResponse>, Json<AttributeResponse>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = &op;
    let row = exchange.database().read(async |connection| node::find_node(connection, org, id).await).await?;
    let _: Permission<right::NodeRead> = match may_read(caller, org, id, row.as_ref()) {
        Ok(permission) => permission,
        // Asked again only for the words of the refusal.
        Err(_) => right.authorize(&op).await?,
    };
    let row = row.ok_or_else(|| ApiError::not_found("not found"))?;
    let mut response = response(exchange, caller, row);
    let is_itself = caller.role == Role::Node && caller.org == *org && caller.id == *id;
    if is_itself && exchange.conversations().is_active(org, id, exchange.now()) {
        Box::pin(shorten_intervals(exchange, org, &mut response)).await?;
    }
    if let Some(name) = &query.attribute
        && let Some(value) = attribute_value(name, org, id, &response)
    {
        return Ok(Either::Second(attribute(name, &value)));
    }
    Ok(Either::First(Json(NodesResponse {
        nodes: BTreeMap::from([(format!("{org}/{id}"), response)]),
        ..Default::default()
    })))
}

/// Names a short interval to a node that an agbot is talking to.
async fn shorten_intervals(
    exchange: &Exchange,
    org: &str,
    response: &mut NodeResponse,
) -> Result<(), ApiError> {
    let organization = exchange
        .database()
        .read(async |connection| organization::find_organization(connection, org).await)
        .await?;
    let of_org = organization.and_then(|organization| organization.heartbeat_intervals);
    let of_org = of_org.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    let of_node = serde_json::from_str(response.heartbeat_intervals.get()).unwrap_or_default();
    if let Some(shortened) = shortened(of_node, of_org) {
        response.heartbeat_intervals = json(&shortened)?;
    }
    Ok(())
}

/// Asks the permission table with the row itself, so that reading a node takes one statement.
fn may_read(
    caller: &Caller,
    org: &str,
    id: &str,
    row: Option<&NodeRow>,
) -> Result<Permission<right::NodeRead>, Decision> {
    let facts = row.map(|row| Facts {
        owner: Some(UserId::new(&row.owner_org, &row.owner)),
        is_public: false,
        is_deployed: false,
    });
    let target = Target { org, id: Some(id) };
    Permission::decide_with_facts(caller, target, facts.as_ref())
}

fn response(exchange: &Exchange, caller: &Caller, row: NodeRow) -> NodeResponse {
    let seen_at = exchange.heartbeats().latest_node(&row.org, &row.node, row.seen_at);
    NodeResponse {
        token: MASKED,
        name: row.name,
        owner: format!("{}/{}", row.owner_org, row.owner),
        node_type: row.node_type,
        pattern: row.pattern,
        registered_services: row.registered_services,
        user_input: row.user_input,
        msg_end_point: row.msg_end_point,
        software_versions: row.software_versions,
        last_heartbeat: seen_at.map(wire_time),
        public_key: row.public_key,
        arch: row.arch,
        heartbeat_intervals: row.heartbeat_intervals,
        ha_group: row.ha_group,
        last_updated: wire_time(row.updated_at),
        cluster_namespace: row.cluster_namespace,
        is_namespace_scoped: row.is_namespace_scoped,
        orchestration_updated_by: row
            .spec
            .updated_by
            .as_ref()
            .filter(|_| caller.role == Role::Agbot)
            .cloned(),
        orchestration: shown_spec(row.spec),
        agent_state: AgentState::of_word(&row.agent_state).unless_running(),
        orchestration_status: shown_status(
            (&row.monitor_state, row.monitor_state_since),
            row.compat_version,
            shown_agent(row.agent_runs),
        ),
        parts: None,
    }
}

/// Returns the reported status of the agent, unless it equals the default of a node without a report.
fn shown_status(
    (monitor_state, since): (&str, Option<Timestamp>),
    compat_version: Option<i64>,
    agent: Option<NodeAgent>,
) -> Option<NodeOrchestrationStatus> {
    let monitor_state = NodeMonitorState::of_word(monitor_state);
    let is_unusual =
        monitor_state != NodeMonitorState::default() || compat_version.is_some() || agent.is_some();
    is_unusual.then(|| NodeOrchestrationStatus {
        monitor_state,
        monitor_state_since: since.map(millisecond_time),
        compat_version,
        agent,
    })
}

/// The value of an attribute named in any case; `None` for names that are no attribute.
fn attribute_value(name: &str, org: &str, id: &str, node: &NodeResponse) -> Option<Value> {
    let value = match name.to_ascii_lowercase().as_str() {
        "arch" => node.arch.clone().into(),
        "clusternamespace" => node.cluster_namespace.clone().into(),
        "ha_group" => node.ha_group.clone().into(),
        "heartbeatintervals" => json_text(&node.heartbeat_intervals),
        "id" => format!("{org}/{id}").into(),
        "lastheartbeat" => node.last_heartbeat.clone().into(),
        "lastupdated" => node.last_updated.clone().into(),
        "msgendpoint" => node.msg_end_point.clone().into(),
        "name" => node.name.clone().into(),
        "nodetype" => node.node_type.clone().into(),
        "owner" => node.owner.clone().into(),
        "pattern" => node.pattern.clone().into(),
        "publickey" => node.public_key.clone().into(),
        "registeredservices" => {
            without_absent(&node.registered_services, |name, value| name == "version" && value == "")
        }
        "softwareversions" => json_text(&node.software_versions),
        "token" => node.token.into(),
        "userinput" => without_absent(&node.user_input, |_, value| value.is_null()),
        _ => return None,
    };
    Some(value)
}

fn json_text(raw: &RawValue) -> Value {
    Value::String(raw.get().to_owned())
}

/// The text of a list of objects without those members that count as absent.
fn without_absent(raw: &RawValue, is_absent: impl Fn(&str, &Value) -> bool) -> Value {
    let mut list: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    for element in list.as_array_mut().into_iter().flatten() {
        if let Value::Object(members) = element {
            members.retain(|name, value| !is_absent(name, value));
        }
    }
    Value::String(list.to_string())
}
