//! Reads of HA groups.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Caller, Permission, right, seen_members, sees_admin_descriptions};
use evenkeel_api::{List, ListShape};
use evenkeel_exchange_store::ha_group::{self, HaGroupView};
use evenkeel_exchange_store::node_part;
use evenkeel_wire::exchange::ha_group::{
    HaGroupForm, HaGroupMemberStatus, HaGroupStatusResponse, HaGroupsResponse,
};
use evenkeel_wire::exchange::node_orchestration::Availability;

use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, PartPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub async fn list_ha_groups(
    op: Op<OrgPath, (Query<HaGroupForm>, Paging)>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    list(exchange, &caller, org, is_document(&query), paging).await
}

pub async fn get_ha_group(
    op: Op<ResourcePath, Query<HaGroupForm>>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id: name },
        parameters: Query(query),
    } = op;
    one(exchange, &caller, (org, name), is_document(&query)).await
}

pub async fn list_ha_group_documents(
    op: Op<OrgPath, Paging>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, parameters: paging } =
        op;
    list(exchange, &caller, org, true, paging).await
}

pub async fn get_ha_group_document(
    op: Op<ResourcePath>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = op;
    one(exchange, &caller, (org, name), true).await
}

fn is_document(query: &HaGroupForm) -> bool {
    query.form.as_deref() == Some("document")
}

const SHAPE: ListShape<'_> =
    ListShape { open: r#"{"nodeGroups":["#, close: "]}", key: "name", rows: PAGE_ROWS };

fn view(caller: &Caller, org: &str, is_document: bool) -> HaGroupView {
    HaGroupView {
        members_of: seen_members(caller),
        describes_admin_groups: sees_admin_descriptions(caller, org),
        is_document,
    }
}

async fn one(
    exchange: Exchange,
    caller: &Caller,
    (org, name): (String, String),
    is_document: bool,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let view = view(caller, &org, is_document);
    let wanted = Arc::new((org, Some(name), view));
    let load = move |after| page(exchange.clone(), wanted.clone(), after, PAGE_ROWS);
    pages::list(SHAPE.open, SHAPE.close, load).await
}

async fn list(
    exchange: Exchange,
    caller: &Caller,
    org: String,
    is_document: bool,
    paging: Paging,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let view = view(caller, &org, is_document);
    let wanted = Arc::new((org.clone(), None, view));
    let counted = (exchange.clone(), org.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((SHAPE, Some(&org)), paging, load, |most| count(counted, most)).await
}

async fn count((exchange, org): (Exchange, String), most: i64) -> Result<i64, ApiError> {
    let count = exchange
        .database()
        .read(async |connection| ha_group::count_groups(connection, &org, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, Option<String>, HaGroupView)>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let (org, name, view) = &*wanted;
    let list = exchange
        .database()
        .read(async |connection| {
            ha_group::list_groups(connection, org, name.as_deref(), view, after.as_deref(), rows).await
        })
        .await?;
    let Some(list) = list else { return Ok(Page::new()) };
    Ok(Page::written(list.json, (list.count == rows).then_some(list.last)))
}

pub async fn get_management_status(
    op: Op<PartPath>,
    _: Permission<right::NodeReportsRead>,
) -> Result<Json<HaGroupStatusResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. }, path: PartPath { org, id: group, part: policy }, ..
    } = op;
    let rows = exchange
        .database()
        .read(async |connection| node_part::list_member_statuses(connection, &org, &group, &policy).await)
        .await?;
    if rows.is_empty() {
        return Err(ApiError::not_found("not found"));
    }
    let status = |row: node_part::MemberStatusRow| {
        let availability = Availability::of_word(&row.availability);
        (format!("{org}/{}", row.node), HaGroupMemberStatus { availability, status: row.status })
    };
    Ok(Json(HaGroupStatusResponse { members: rows.into_iter().map(status).collect() }))
}
