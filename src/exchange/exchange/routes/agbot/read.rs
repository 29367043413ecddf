//! Reading agbots, and their heartbeats.
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::agbot::{self, AgbotFilter, AgbotRow};
use evenkeel_wire::exchange::agbot::{AgbotResponse, AgbotsQuery, AgbotsResponse};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::AttributeResponse;
use serde_json::Value;

use crate::error::{Created, created};
use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::node::MASKED;
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{attribute, pattern_or_exact};
use crate::{ApiError, Exchange};

pub(super) async fn list_agbots(
    op: Op<OrgPath, (Query<AgbotsQuery>, Paging)>,
    _: Permission<right::AgbotRead>,
) -> Result<List<AgbotsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let filter = AgbotFilter {
        id: query.idfilter.map(pattern_or_exact),
        name: query.name.map(pattern_or_exact),
        owner: query.owner.map(pattern_or_exact),
    };
    // A hub admin manages the shared agbots; those of other organizations it may only read one by one.
    let is_hidden = caller.role == Role::HubAdmin && org != MULTI_TENANT_ORG && org != caller.org;
    let shape = pages::object(r#"{"agbots":{"#, PAGE_ROWS);
    let wanted = Arc::new((org.clone(), filter, is_hidden));
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, Some(&org)), paging, load, |most| count(counted, most)).await
}

async fn count(
    (exchange, wanted): (Exchange, Arc<(String, AgbotFilter, bool)>),
    most: i64,
) -> Result<i64, ApiError> {
    let (org, filter, is_hidden) = &*wanted;
    if *is_hidden {
        return Ok(0);
    }
    let count = exchange
        .database()
        .read(async |connection| agbot::count_agbots(connection, org, filter, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, AgbotFilter, bool)>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let (org, filter, is_hidden) = &*wanted;
    if *is_hidden {
        return Ok(Page::new());
    }
    let found = exchange
        .database()
        .read(async |connection| agbot::list_agbots(connection, org, filter, after.as_deref(), rows).await)
        .await?;
    let keyed_response = |row| {
        let agbot = response(&exchange, row);
        (agbot.id.clone(), agbot)
    };
    Ok(Page::object(found, rows, |row| row.agbot.clone(), keyed_response)?)
}

pub(super) async fn get_agbot(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    _: Permission<right::AgbotRead>,
) -> Result<Either<Json<AgbotsResponse>, Json<AttributeResponse>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = op;
    let row = exchange
        .database()
        .read(async |connection| agbot::find_agbot(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    let response = response(&exchange, row);
    if let Some(name) = &query.attribute
        && let Some(value) = attribute_value(name, &response)?
    {
        return Ok(Either::Second(attribute(name, &value)));
    }
    Ok(Either::First(Json(AgbotsResponse {
        agbots: BTreeMap::from([(response.id.clone(), response)]),
        ..Default::default()
    })))
}

fn response(exchange: &Exchange, row: AgbotRow) -> AgbotResponse {
    let seen_at =
        exchange.heartbeats().latest_agbot(&row.org, &row.agbot, Some(row.seen_at)).unwrap_or(row.seen_at);
    AgbotResponse {
        id: format!("{}/{}", row.org, row.agbot),
        last_heartbeat: wire_time(seen_at),
        msg_end_point: row.msg_end_point,
        name: row.name,
        orgid: row.org,
        owner: format!("{}/{}", row.owner_org, row.owner),
        public_key: row.public_key,
        token: MASKED,
    }
}

/// Returns the value of an attribute, named in any case; `None` for names that select the whole agbot.
fn attribute_value(name: &str, agbot: &AgbotResponse) -> Result<Option<Value>, ApiError> {
    let value = match name.to_ascii_lowercase().as_str() {
        "lastheartbeat" => &agbot.last_heartbeat,
        "msgendpoint" => &agbot.msg_end_point,
        "name" => &agbot.name,
        "owner" => &agbot.owner,
        "publickey" => &agbot.public_key,
        "orgid" => return Err(ApiError::invalid_input("'orgid' is not an attribute that can be read alone")),
        _ => return Ok(None),
    };
    Ok(Some(value.clone().into()))
}

/// Records a heartbeat.
pub(super) async fn heartbeat_agbot(
    op: Op<ResourcePath>,
    _: Permission<right::AgbotWrite>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = op;
    let is_itself = caller.role.is_agbot();
    if !is_itself
        && !exchange.database().read(async |connection| agbot::has_agbot(connection, &org, &id).await).await?
    {
        return Err(ApiError::not_found(format!("agbot '{org}/{id}' not found")));
    }
    exchange.heartbeats().touch_agbot(&org, &id, exchange.now());
    Ok(created("agbot updated"))
}
