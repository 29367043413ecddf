//! Registry credentials of a service.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_api::{List, ListOf, NoContent};
use evenkeel_exchange_store::service::lock_visibility;
use evenkeel_exchange_store::service_part::{self, DockAuthRow};
use evenkeel_wire::exchange::service::{DockAuthResponse, PutDockAuth};
use evenkeel_wire::exchange::time::wire_time;
use jiff::Timestamp;
use serde_json::json;

use super::change;
use super::get::absent;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, PartPath, ResourcePath};
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::shape::{MAX_PART, MAX_TEXT, require_length, require_parts_below};
use crate::{ApiError, Exchange};

/// Maximum number of credentials of one service.
const MAX_DOCKAUTHS: i64 = 1_000;

/// Name to log in with when none is given.
const DEFAULT_USERNAME: &str = "token";

pub(super) async fn list_dockauths(
    op: Op<ResourcePath>,
    _: Permission<right::ServiceSecretsRead>,
) -> Result<List<ListOf<DockAuthResponse>>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path, .. } = op;
    let wanted = Arc::new(path);
    pages::list("[", "]", move |after: Option<i32>| page(exchange.clone(), wanted.clone(), after)).await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<ResourcePath>,
    after: Option<i32>,
) -> Result<Page<i32>, ApiError> {
    let ResourcePath { org, id } = &*wanted;
    let rows = exchange
        .database()
        .read(async |connection| {
            service_part::list_dockauths(connection, org, id, after, LARGE_PAGE_ROWS).await
        })
        .await?;
    Ok(Page::array(rows, LARGE_PAGE_ROWS, |row| row.id, response)?)
}

pub(super) async fn get_dockauth(
    op: Op<PartPath>,
    _: Permission<right::ServiceSecretsRead>,
) -> Result<Json<DockAuthResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: number }, .. } = op;
    let number = parse_number(&number)?;
    match exchange
        .database()
        .read(async |connection| service_part::find_dockauth(connection, &org, &id, number).await)
        .await?
    {
        Some(row) => Ok(Json(response(row))),
        None => Err(ApiError::empty(json!([]))),
    }
}

pub(super) async fn create_dockauth(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
    Body(request): Body<PutDockAuth>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    let row = row(0, request, exchange.now());
    check_lengths(&row)?;
    let added = op
        .write(&permission, "dockauth.create", async |mut tx| {
            let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
            let added = match service_part::touch_dockauth(&mut tx, org, id, &row).await? {
                Some(_) => None,
                None => {
                    let count = service_part::count_dockauths(&mut tx, org, id).await?;
                    require_parts_below("credentials of the service", count, MAX_DOCKAUTHS)?;
                    Some(service_part::insert_dockauth(&mut tx, org, id, &row).await?)
                }
            };
            tx.finish_with([change(org, id, "servicedockauths", "created", is_public)], added)
        })
        .await?;
    Ok(created(match added {
        Some(number) => format!("dockauth {number} added"),
        None => "dockauth resource updated".to_owned(),
    }))
}

pub(super) async fn replace_dockauth(
    op: Op<PartPath>,
    permission: Permission<right::ServiceWrite>,
    Body(request): Body<PutDockAuth>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: number }, .. } = &op;
    let row = row(parse_number(number)?, request, exchange.now());
    check_lengths(&row)?;
    op.write(&permission, "dockauth.replace", async |mut tx| {
        let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        if !service_part::update_dockauth(&mut tx, org, id, &row).await? {
            return Err(absent_dockauth(number, org, id));
        }
        tx.finish([change(org, id, "servicedockauths", "created/modified", is_public)])
    })
    .await?;
    Ok(created(format!("dockauth {number} updated")))
}

pub(super) async fn delete_dockauths(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    delete(&op, &permission, (org, id), None).await
}

pub(super) async fn delete_dockauth(
    op: Op<PartPath>,
    permission: Permission<right::ServiceWrite>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id, part: number } = &op.path;
    delete(&op, &permission, (org, id), Some(parse_number(number)?)).await
}

async fn delete<P>(
    op: &Op<P>,
    permission: &Permission<right::ServiceWrite>,
    (org, id): (&str, &str),
    number: Option<i32>,
) -> Result<NoContent, ApiError> {
    op.write(permission, "dockauth.delete", async |mut tx| {
        let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        if service_part::delete_dockauths(&mut tx, org, id, number).await? == 0 {
            let which = number.map_or_else(|| "any".to_owned(), |number| number.to_string());
            return Err(absent_dockauth(&which, org, id));
        }
        tx.finish([change(org, id, "servicedockauths", "deleted", is_public)])
    })
    .await?;
    Ok(NoContent)
}

fn parse_number(text: &str) -> Result<i32, ApiError> {
    text.parse().map_err(|_| ApiError::invalid_input(format!("'{text}' is not the number of a dockauth")))
}

fn absent_dockauth(number: &str, org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("dockauth '{number}' of service '{org}/{id}' not found"))
}

fn row(id: i32, request: PutDockAuth, now: Timestamp) -> DockAuthRow {
    DockAuthRow {
        id,
        registry: request.registry,
        username: request.username.unwrap_or_else(|| DEFAULT_USERNAME.to_owned()),
        token: request.token,
        updated_at: now,
    }
}

fn check_lengths(row: &DockAuthRow) -> Result<(), ApiError> {
    require_length("registry", row.registry.len(), MAX_TEXT)?;
    require_length("username", row.username.len(), MAX_TEXT)?;
    require_length("token", row.token.len(), MAX_PART)
}

fn response(row: DockAuthRow) -> DockAuthResponse {
    DockAuthResponse {
        dock_auth_id: row.id,
        registry: row.registry,
        username: row.username,
        token: row.token,
        last_updated: wire_time(row.updated_at),
    }
}
