//! Writes of HA groups.

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::{Access, Caller};
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_wire::exchange::ha_group::{HaGroupDocument, PutHaGroup};

use super::change_group::{add_node, create, delete, remove_node, update};
use super::form::{WantedGroup, check_name};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::shape::no_content;
use crate::{ApiError, Exchange};

async fn authorize(exchange: &Exchange, caller: &Caller, org: &str) -> Result<(), ApiError> {
    exchange.authorize(caller, Access::HaGroupWrite, FactKind::Org, org, None).await
}

pub async fn create_ha_group(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
    request: Body<PutHaGroup>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    let request = request.read()?;
    let wanted = WantedGroup::new(&caller, org, name, request.description, request.members)?;
    create(&exchange, &caller, &wanted).await?;
    Ok(created_group(&wanted))
}

pub async fn create_ha_group_document(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    document: Body<HaGroupDocument>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    let document = document.read()?;
    let wanted = wanted(&caller, org, document)?;
    create(&exchange, &caller, &wanted).await?;
    Ok(created_group(&wanted))
}

pub async fn update_ha_group(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
    request: Body<PutHaGroup>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    let request = request.read()?;
    let wanted = WantedGroup::new(&caller, org, name, request.description, request.members)?;
    update(&exchange, &caller, &wanted).await?;
    Ok(updated_group(&wanted))
}

pub async fn replace_ha_group_document(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    document: Body<HaGroupDocument>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    let document = document.read()?;
    let wanted = wanted(&caller, org, document)?;
    update(&exchange, &caller, &wanted).await?;
    Ok(updated_group(&wanted))
}

pub async fn delete_ha_group(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    delete(&exchange, &caller, &org, &name).await?;
    Ok(no_content())
}

pub async fn add_ha_group_node(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name, node)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    add_node(&exchange, &caller, &org, &name, &node).await?;
    Ok(created(""))
}

pub async fn remove_ha_group_node(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name, node)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    authorize(&exchange, &caller, &org).await?;
    remove_node(&exchange, &caller, &org, &name, &node).await?;
    Ok(no_content())
}

fn wanted(caller: &Caller, org: String, document: HaGroupDocument) -> Result<WantedGroup, ApiError> {
    check_name(&document.name)?;
    let wanted = WantedGroup::new(caller, org, document.name, document.description, Some(document.members))?;
    Ok(WantedGroup { allows_clusters: false, ..wanted })
}

fn created_group(wanted: &WantedGroup) -> Response {
    created(format!("high availability node group '{}/{}' created", wanted.org, wanted.name))
}

fn updated_group(wanted: &WantedGroup) -> Response {
    created(format!(
        "high availability node group '{}' in org '{}' updated successfully",
        wanted.name, wanted.org
    ))
}
