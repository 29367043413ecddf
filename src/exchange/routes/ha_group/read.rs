//! Reads of HA groups.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::{Access, Caller, sees_description, sees_member};
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::ha_group::{self, HaGroupWithMembers};
use evenkeel_wire::exchange::ha_group::{HaGroupAnswer, HaGroupForm};
use evenkeel_wire::exchange::time::wire_time;
use http::StatusCode;

use crate::extract::{CurrentCaller, Path, Query};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub async fn list_ha_groups(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    Query(query): Query<HaGroupForm>,
) -> Result<Response, ApiError> {
    answer(exchange, caller, org, None, is_document(&query)).await
}

pub async fn get_ha_group(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
    Query(query): Query<HaGroupForm>,
) -> Result<Response, ApiError> {
    answer(exchange, caller, org, Some(name), is_document(&query)).await
}

pub async fn list_ha_group_documents(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
) -> Result<Response, ApiError> {
    answer(exchange, caller, org, None, true).await
}

pub async fn get_ha_group_document(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    answer(exchange, caller, org, Some(name), true).await
}

fn is_document(query: &HaGroupForm) -> bool {
    query.form.as_deref() == Some("document")
}

async fn answer(
    exchange: Exchange,
    caller: CurrentCaller,
    org: String,
    name: Option<String>,
    is_document: bool,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodesRead, FactKind::Org, &org, None).await?;
    let wanted = Arc::new((org, name));
    pages::answer(StatusCode::OK, r#"{"nodeGroups":["#, "]}", move |after: Option<String>| {
        page(exchange.clone(), caller.clone(), wanted.clone(), is_document, after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    caller: CurrentCaller,
    wanted: Arc<(String, Option<String>)>,
    is_document: bool,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let mut connection = exchange.database().acquire().await?;
    let (org, name) = &*wanted;
    let groups =
        ha_group::list_groups(&mut connection, org, name.as_deref(), after.as_deref(), PAGE_ROWS).await?;
    drop(connection);
    let shown = |group| shown(&caller, group, is_document);
    Ok(Page::array(groups, PAGE_ROWS, |last| last.group.name.clone(), shown)?)
}

/// A group as the caller may see it.
fn shown(
    caller: &Caller,
    HaGroupWithMembers { group, members }: HaGroupWithMembers,
    is_document: bool,
) -> HaGroupAnswer {
    let is_described = sees_description(caller, &group.org, group.is_admin);
    let last_updated = wire_time(group.updated_at);
    HaGroupAnswer {
        name: group.name,
        description: group.description.filter(|_| is_described).unwrap_or_default(),
        members: members
            .into_iter()
            .filter(|(_, owner)| sees_member(caller, owner))
            .map(|(node, _)| node)
            .collect(),
        admin: group.is_admin,
        updated: is_document.then(|| last_updated.clone()),
        last_updated,
    }
}
