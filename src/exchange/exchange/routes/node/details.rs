//! Nodes with everything that belongs to them.
//!
//! Source: exchange-api 4.4.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{Either, List, ListShape, WholeList};
use evenkeel_exchange_store::node::{JsonText, NodeFilter, count_nodes};
use evenkeel_exchange_store::node_details::{NodeDetailsRow, list_node_details};
use evenkeel_wire::exchange::node::NodeDetailsQuery;
use evenkeel_wire::exchange::search::{NodeDetails, NodeDetailsPage, NodeDetailsResponse};
use evenkeel_wire::exchange::time::wire_time;
use serde_json::Value;

use super::filtered::NodeProperties;
use super::get::{MASKED, node_type};
use super::orchestration::shown_spec;
use crate::extract::Query;
use crate::operation::row::get;
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::pattern_or_exact;
use crate::{ApiError, Exchange};

/// A page; the whole list is an array.
const SHAPE: ListShape<'_> = ListShape { open: r#"{"nodes":["#, close: "]}", key: "id", rows: PAGE_ROWS };

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/orgs/{organization}/node-details", "list_node_details", list_details)
            .doc(super::TAG, "Lists nodes with policies, statuses, errors and groups")
            .success("the nodes"),
    ]
}

async fn list_details(
    op: Op<OrgPath, (Query<NodeDetailsQuery>, Paging)>,
    _: Permission<right::NodesRead>,
) -> Result<Either<WholeList<NodeDetailsResponse>, WholeList<NodeDetailsPage>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let filter = NodeFilter {
        id: query.id,
        name: query.name,
        arch: query.arch,
        owner: query.owner.map(pattern_or_exact),
        node_type: query.node_type.as_deref().map(node_type).transpose()?,
        owned_by: caller.visible_owner(),
        ..NodeFilter::default()
    };
    let is_filtered = paging.is_filtered();
    let wanted = Arc::new((org.clone(), filter, is_filtered));
    if !paging.is_page() {
        let load = move |after| page(exchange.clone(), wanted.clone(), after, PAGE_ROWS);
        let details: List<NodeDetailsResponse> = pages::list("[", "]", load).await?;
        return details.non_empty().map(Either::First).ok_or_else(missing);
    }
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    let details: List<NodeDetailsPage> =
        pages::list_or_page((SHAPE, Some(&org)), paging, load, |most| count(counted, most)).await?;
    details.non_empty().map(Either::Second).ok_or_else(missing)
}

fn missing() -> ApiError {
    ApiError::not_found("not found")
}

/// Organization, filter, and whether the request has a filter of its own.
type Wanted = (String, NodeFilter, bool);

async fn count((exchange, wanted): (Exchange, Arc<Wanted>), most: i64) -> Result<i64, ApiError> {
    let (org, filter, _) = &*wanted;
    let count =
        exchange.database().read(async |connection| count_nodes(connection, org, filter, most).await).await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<String>,
    limit: i64,
) -> Result<Page<String>, ApiError> {
    let (org, filter, is_filtered) = &*wanted;
    let rows = exchange
        .database()
        .read(async |connection| list_node_details(connection, org, filter, after.as_deref(), limit).await);
    let rows = rows.await?;
    if !is_filtered {
        return Ok(Page::array(rows, limit, |row| row.node.clone(), |row| shape(&exchange, row))?);
    }
    let names: Vec<String> = rows.iter().map(|row| row.node.clone()).collect();
    let mut properties = NodeProperties::read(&exchange, org, &names).await?;
    let mut page = Page::after(&rows, limit, |row| row.node.clone());
    for row in rows {
        let (node, ha_group) = (row.node.clone(), row.ha_group.clone());
        let details = shape(&exchange, row);
        page.push(&details)?;
        page.set_subject(properties.subject(&node, ha_group.as_deref(), &details)?);
    }
    Ok(page)
}

fn shape(exchange: &Exchange, row: NodeDetailsRow) -> NodeDetails {
    let seen_at = exchange.heartbeats().latest_node(&row.org, &row.node, row.seen_at);
    let (properties, constraints, policy_at) = match row.policy {
        Some((properties, constraints, at)) => (value(&properties), value(&constraints), Some(wire_time(at))),
        None => (Value::Null, Value::Null, None),
    };
    let (connectivity, services, running_services, status_at) = match row.status {
        Some((connectivity, services, running, at)) => {
            (value(&connectivity), value(&services), Some(running), Some(wire_time(at)))
        }
        None => (Value::Null, Value::Null, None, None),
    };
    let (errors, errors_at) = match row.errors {
        Some((errors, at)) => (value(&errors), Some(wire_time(at))),
        None => (Value::Null, None),
    };
    NodeDetails {
        arch: unless_empty(row.arch),
        connectivity,
        constraints,
        errors,
        heartbeat_intervals: value(&row.heartbeat_intervals),
        id: format!("{}/{}", row.org, row.node),
        last_heartbeat: seen_at.map(wire_time),
        last_updated_node: wire_time(row.updated_at),
        last_updated_node_error: errors_at,
        last_updated_node_policy: policy_at,
        last_updated_node_status: status_at,
        msg_end_point: unless_empty(row.msg_end_point),
        name: unless_empty(row.name),
        node_type: if row.node_type.is_empty() { "device".to_owned() } else { row.node_type },
        owner: format!("{}/{}", row.owner_org, row.owner),
        orgid: row.org,
        pattern: unless_empty(row.pattern),
        properties,
        public_key: unless_empty(row.public_key),
        registered_services: registered_services(&row.registered_services),
        running_services,
        services,
        software_versions: value(&row.software_versions),
        token: MASKED,
        user_input: value(&row.user_input),
        ha_group: row.ha_group,
        cluster_namespace: unless_empty(row.cluster_namespace),
        is_namespace_scoped: row.is_namespace_scoped,
        orchestration: shown_spec(row.spec),
    }
}

fn unless_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn value(text: &JsonText) -> Value {
    serde_json::from_str(text.get()).unwrap_or_default()
}

/// Registered services, with `null` for a version that is not given.
fn registered_services(text: &JsonText) -> Value {
    let mut services = value(text);
    for service in services.as_array_mut().into_iter().flatten() {
        if let Some(version) = service.get_mut("version").filter(|version| *version == "") {
            *version = Value::Null;
        }
    }
    services
}
