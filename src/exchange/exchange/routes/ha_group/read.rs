//! Reads of HA groups.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Caller, Permission, right, seen_members, sees_admin_descriptions};
use evenkeel_api::List;
use evenkeel_exchange_store::ha_group::{self, HaGroupView};
use evenkeel_exchange_store::node_part;
use evenkeel_wire::exchange::ha_group::{
    HaGroupForm, HaGroupMemberStatus, HaGroupStatusResponse, HaGroupsResponse,
};
use evenkeel_wire::exchange::node_orchestration::Availability;

use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, PartPath, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub async fn list_ha_groups(
    op: Op<OrgPath, Query<HaGroupForm>>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: Query(query),
    } = op;
    response(exchange, caller, org, None, is_document(&query)).await
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
    response(exchange, caller, org, Some(name), is_document(&query)).await
}

pub async fn list_ha_group_documents(
    op: Op<OrgPath>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    response(exchange, caller, org, None, true).await
}

pub async fn get_ha_group_document(
    op: Op<ResourcePath>,
    _: Permission<right::NodesRead>,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = op;
    response(exchange, caller, org, Some(name), true).await
}

fn is_document(query: &HaGroupForm) -> bool {
    query.form.as_deref() == Some("document")
}

async fn response(
    exchange: Exchange,
    caller: Arc<Caller>,
    org: String,
    name: Option<String>,
    is_document: bool,
) -> Result<List<HaGroupsResponse>, ApiError> {
    let view = HaGroupView {
        members_of: seen_members(&caller),
        describes_admin_groups: sees_admin_descriptions(&caller, &org),
        is_document,
    };
    let wanted = Arc::new((org, name, view));
    pages::list(r#"{"nodeGroups":["#, "]}", move |after: Option<String>| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, Option<String>, HaGroupView)>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (org, name, view) = &*wanted;
    let list = exchange
        .database()
        .read(async |connection| {
            ha_group::list_groups(connection, org, name.as_deref(), view, after.as_deref(), PAGE_ROWS).await
        })
        .await?;
    let Some(list) = list else { return Ok(Page::new()) };
    Ok(Page::written(list.json, (list.count == PAGE_ROWS).then_some(list.last)))
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
